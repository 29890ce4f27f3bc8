"""Retention classes: how long what an issuer registered is kept, and where (formats.md 10.1, REQ-6).

Terms are in months or days. A month is as long as months get, so that nothing goes before its calendar term is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from transparency.policy.toml import Table, quote

DEFAULT: Final = "default"
MOST_MONTHS: Final = 12 * 100
MOST_DAYS: Final = 366 * 100
_DAY: Final = 24 * 3600
_LENGTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31) * 2
# The longest run of n months: 0, 31, 62, 92, ...
_LONGEST: Final = tuple(max(sum(_LENGTHS[start : start + n]) for start in range(12)) for n in range(12))
_LEAP_YEAR: Final = 366


@dataclass(frozen=True, slots=True)
class Term:
    """A length of time as a policy says it: months or days, one of them 0."""

    months: int = 0
    days: int = 0

    @property
    def seconds(self) -> int:
        years, months = divmod(self.months, 12)
        return (years * _LEAP_YEAR + _LONGEST[months] + self.days) * _DAY

    def __add__(self, other: Term) -> Term:
        return Term(self.months + other.months, self.days + other.days)


@dataclass(frozen=True, slots=True)
class Tier:
    """One stretch of the time for which something is kept, and the name of where it lies meanwhile."""

    name: str
    term: Term


@dataclass(frozen=True, slots=True)
class RetentionClass:
    """A class by its name: one term, or tiers one after another."""

    name: str
    term: Term
    tiers: tuple[Tier, ...] = ()

    @property
    def keep(self) -> int:
        """Seconds from registration until it may be erased."""
        return self.term.seconds

    def tier_at(self, age: int) -> str:
        """The tier of something registered *age* seconds ago; "" where the class has none, or the last is over."""
        passed = Term()
        for tier in self.tiers:
            passed = passed + tier.term
            if age < passed.seconds:
                return tier.name
        return ""


def tiered(name: str, *tiers: Tier) -> RetentionClass:
    term = Term()
    for tier in tiers:
        term = term + tier.term
    return RetentionClass(name, term, tiers)


BUILT_IN: Final = {
    each.name: each
    for each in (
        RetentionClass(DEFAULT, Term(months=12)),
        RetentionClass("eu-ai-act", Term(months=6)),
        tiered("pci-dss", Tier("immediate", Term(months=3)), Tier("archive", Term(months=9))),
        tiered("fedramp", Tier("active", Term(months=12)), Tier("cold", Term(months=18))),
    )
}


def read_class(table: Table) -> RetentionClass:
    """One ``[[retention]]``: its name, and months, days or tiers."""
    name = table.text("name")
    if "tiers" not in table:
        made = RetentionClass(name, _term(table))
    else:
        tiers = []
        for tier in table.tables("tiers"):
            tiers.append(Tier(tier.text("name"), _term(tier)))
            tier.done()
        if not tiers:
            raise table.fault(None, "has an empty list of tiers")
        made = tiered(name, *tiers)
    table.done()
    return made


def class_lines(each: RetentionClass) -> list[str]:
    lines = ["", "[[retention]]", f"name = {quote(each.name)}"]
    if not each.tiers:
        return [*lines, _written(each.term)]
    tiers = (f"{{ name = {quote(tier.name)}, {_written(tier.term)} }}" for tier in each.tiers)
    return [*lines, f"tiers = [{', '.join(tiers)}]"]


def _term(table: Table) -> Term:
    if ("months" in table) == ("days" in table):
        raise table.fault(None, "says its length in months or in days: exactly one of them")
    for name, most in (("months", MOST_MONTHS), ("days", MOST_DAYS)):
        if name in table:
            value = table.number(name)
            if not 1 <= value <= most:
                raise table.fault(name, f"is 1 to {most}")
            return Term(**{name: value})
    raise AssertionError


def _written(term: Term) -> str:
    return f"months = {term.months}" if term.months else f"days = {term.days}"
