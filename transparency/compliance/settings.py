"""The thresholds and words of the record checks: each with its default and why it is that. TOML, table ``[checks]``.

Whole numbers, percentages too, so that a report says exactly what it was made with. A pattern of the user's is no
regular expression but words that stand in a command in their order: it can be explained, and no record can stall it.

    [checks]
    lag-hours = 24
    ignored-mail = ["git@", "build@acme.example"]
    risks-off = ["network"]

    [[checks.risk]]
    name = "production"
    words = ["kubectl", "--context=prod"]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Final

from transparency.compliance.commands import BUILTIN, Risk
from transparency.errors import MalformedError
from transparency.policy.toml import load

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_MOST_NUMBER: Final = 10**9
_MOST_TEXTS: Final = 256
_MOST_RISKS: Final = 64
_LONGEST: Final = 256


@dataclass(frozen=True, slots=True)
class Settings:
    """What the checks compare with."""

    # R2.1: entries with a time of their own or of the entry they stand in; all pass, from this share on a warning.
    timed_percent: int = 95
    # R2.2, R2.4, R2.5: how far two clocks may be apart before one is called wrong (laptops without NTP).
    clock_skew_seconds: int = 300
    # R2.2: no agent of this kind ran before; older times are wrong clocks or seconds read as milliseconds.
    earliest_year: int = 2020
    # R2.3: more inversions than this share of all steps are no longer parallel work but a wrong order.
    inverted_percent: int = 5
    # R2.3: pauses longer than this are listed (a lunch is not, a night is).
    gap_hours: int = 8
    # R2.5: the shortest clocks of reporting are 24 h (NIS2 Art. 23, CRA Art. 14).
    lag_hours: int = 24
    # R3.3, R4.1, R5.2, R11.1: up to this share of wrong ones is a warning, more is a failure.
    tolerated_percent: int = 5
    # R6.1: the draft's "SHOULD be at least 12 months", and the least that any of the frameworks names (EU AI Act).
    retention_months: int = 12
    least_retention_months: int = 6
    # R7.1: signature algorithms that evidence may rest on (design section 4); names as COSE has them.
    algorithms: tuple[str, ...] = (
        "ES256", "ES384", "ES512", "ESP256", "ESP384", "ESP512", "EdDSA", "Ed25519", "PS256", "PS384", "PS512",
        "ML-DSA-44", "ML-DSA-65", "ML-DSA-87",
    )  # fmt: skip
    # R7.3: cosigners that must have seen the log, where its policy names any.
    least_witnesses: int = 1
    # R9.1: a share of failed calls above this is worth a look, where there are enough calls to speak of a share.
    failed_percent: int = 25
    failed_least: int = 8
    # R9.1: one call, again and again with the same input and nothing between: an agent in a loop.
    repeated: int = 5
    # R9.1: this many denied calls in one session.
    denied: int = 3
    # R9.2: built-in patterns that are not looked for, and the user's own.
    risks_off: tuple[str, ...] = ()
    risks: tuple[Risk, ...] = ()
    # R9.3: addresses that name no person: begin (git@) or end (@example.com) like one of these.
    ignored_mail: tuple[str, ...] = (
        "git@", "noreply@", "no-reply@", "@example.com", "@example.org", "@example.net", "@users.noreply.github.com",
    )  # fmt: skip
    # R9.3: numbers that look like card numbers and are not (issue numbers, test cards), digits only.
    known_numbers: tuple[str, ...] = ()
    # R9.4: fewer earlier sessions say nothing about what is usual; deviations in hundredths.
    least_history: int = 10
    unusual_hundredths: int = 300

    @property
    def commands(self) -> tuple[Risk, ...]:
        """What is looked for in commands: the built-in patterns that are not switched off, and the user's."""
        return (*(risk for risk in BUILTIN if risk.name not in self.risks_off), *self.risks)

    @classmethod
    def from_toml(cls, data: bytes, name: str = "settings") -> Settings:
        """The table ``[checks]`` of *data*; what it does not name keeps its default."""
        return cls.from_map(load(data, "settings", name).get("checks", {}))

    @classmethod
    def from_map(cls, table: object) -> Settings:
        if not isinstance(table, dict):
            raise MalformedError("settings: checks is a table, [checks]")
        values: dict[str, Any] = {}
        names = {each.name.replace("_", "-"): each for each in fields(cls) if each.name != "risks"}
        for name, value in table.items():
            if name == "risk":
                values["risks"] = _risks(value)
            elif name not in names:
                known = ", ".join(sorted((*names, "risk")))
                raise MalformedError(f"settings: checks.{name:.80} is not known; known are {known}")
            elif names[name].type == "int":
                values[names[name].name] = _number(name, value)
            else:
                values[names[name].name] = _texts(f"checks.{name}", value)
        unknown = sorted(set(values.get("risks_off", ())) - {risk.name for risk in BUILTIN})
        if unknown:
            known = ", ".join(risk.name for risk in BUILTIN)
            raise MalformedError(f"settings: checks.risks-off: {unknown[0]:.80} is not one of {known}")
        return cls(**values)


def _number(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_NUMBER:
        raise MalformedError(f"settings: checks.{name} is a whole number from 0 to {_MOST_NUMBER}")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    if (
        not isinstance(value, list)
        or len(value) > _MOST_TEXTS
        or not all(isinstance(text, str) and 0 < len(text) <= _LONGEST for text in value)
    ):
        raise MalformedError(f"settings: {name} is a list of at most {_MOST_TEXTS} texts of 1 to {_LONGEST} characters")
    return tuple(value)


def _risks(tables: object) -> tuple[Risk, ...]:
    if not isinstance(tables, list) or len(tables) > _MOST_RISKS:
        raise MalformedError(f"settings: checks.risk is written [[checks.risk]], at most {_MOST_RISKS} times")
    found: dict[str, Risk] = {}
    for table in tables:
        if not isinstance(table, dict) or set(table) != {"name", "words"}:
            raise MalformedError("settings: a [[checks.risk]] has name and words, and nothing else")
        name = table["name"]
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in {risk.name for risk in BUILTIN}:
            raise MalformedError(
                "settings: the name of a [[checks.risk]] is 1 to 32 lower-case letters, digits and hyphens, and not"
                " that of a built-in one"
            )
        if name in found:
            raise MalformedError(f"settings: two of [[checks.risk]] are named {name}")
        found[name] = Risk.of_words(name, _texts(f"checks.risk {name}: words", table["words"]))
    return tuple(found.values())


DEFAULT: Final = Settings()
