"""The checker against the oracle: the same verdict on thousands of mutants, and the oracle against the drafts' text."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.records import cddl_oracle
from tests.records.vac_mutants import mutants
from transparency.records.vac_check import (
    FEBRUARY,
    PROFILES,
    PUBLISHED,
    Profile,
    check_trace_metadata,
    check_vac,
    is_valid,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "records" / "vac"
ORIGINALS = [json.loads(path.read_bytes()) for path in sorted(FIXTURES.glob("*.json"))]
SEEDS = Path(__file__).parents[2].parent / "shared" / "seeds"
METADATA: list[dict[str, Any]] = [
    {
        "session-id": "s",
        "agent-vendor": "v",
        "trace-format": "ietf-vac-v3.0",
        "timestamp-start": "2026-04-02T10:00:00Z",
        "timestamp-end": 1775124002250,
        "content-hash": "ab",
        "content-hash-alg": "sha-256",
    }
]
METADATA += [{**METADATA[0], "session-id": b"\x01"}, {**METADATA[0], "timestamp-end": 1.5}]


@pytest.mark.parametrize("seed", range(8))
def test_the_checker_and_the_oracle_give_every_mutant_the_same_verdict(seed: int) -> None:
    outcomes: Counter[tuple[bool, ...]] = Counter()
    for mutant in mutants(ORIGINALS, 1000, seed):
        expected = tuple(cddl_oracle.valid(mutant, profile) for profile in PROFILES)
        verdict = check_vac(mutant)

        assert tuple(verdict.is_valid(profile) for profile in PROFILES) == expected, mutant
        assert tuple(is_valid(mutant, profile) for profile in PROFILES) == expected, mutant
        outcomes[expected] += 1

    # All four outcomes occur often, or the comparison would say little.
    assert len(outcomes) == 4
    assert min(outcomes.values()) >= 25, outcomes


def test_the_checker_and_the_oracle_agree_on_trace_metadata() -> None:
    outcomes: Counter[tuple[bool, ...]] = Counter()
    for mutant in mutants(METADATA, 3000, seed=1):
        expected = tuple(cddl_oracle.valid(mutant, profile, "trace-metadata") for profile in PROFILES)
        verdict = check_trace_metadata(mutant)

        assert tuple(verdict.is_valid(profile) for profile in PROFILES) == expected, mutant
        outcomes[expected] += 1

    assert min(outcomes.values()) >= 10, outcomes
    assert len(outcomes) == 4


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
def test_each_fixture_is_valid_by_the_profile_it_is_named_for(path: Path) -> None:
    profile: Profile = PUBLISHED if "published" in path.stem else FEBRUARY

    assert cddl_oracle.valid(json.loads(path.read_bytes()), profile)
    assert check_vac(json.loads(path.read_bytes())).is_valid(profile)


# --- the oracle's data against the text of the drafts -------------------------------------------------------------


def _rules(text: str) -> dict[str, str]:
    """The rules of a CDDL text, comments and spacing removed."""
    text = text[text.index("start = verifiable") :].partition("Figure 1: CDDL")[0]
    text = re.sub(r"(?m)(?:^|\s);.*$", "", text)
    found = re.finditer(r"(?ms)^([A-Za-z][A-Za-z0-9_-]*) = (.*?)(?=^[A-Za-z][A-Za-z0-9_-]* = |\Z)", text)
    return {match[1]: " ".join(match[2].split()) for match in found}


def _written(type_: Any) -> str:
    """A type of the oracle in the notation of CDDL."""
    if isinstance(type_, str):
        return type_
    operator, *operands = type_
    if operator == "=":
        return f'"{operands[0]}"'
    if operator == "/":
        return " / ".join(_written(operand) for operand in operands)
    if operator == "~":
        return "tstr .regexp " + ("date-time-regexp" if type_ == cddl_oracle.DATE_TIME else "uri-regexp")
    if operator == "*":
        return f"[* {_written(operands[0])}]"
    members = (
        "* tstr => any" if not isinstance(key, str) else f"{'? ' if occurrence == '?' else ''}{key}: {_written(inner)}"
        for occurrence, key, inner in operands
    )
    return "{ " + " ".join(sorted(members)) + " }"


def _sorted(rule: str) -> str:
    """A map rule with its members in one order, for the order of members means nothing."""
    rule = rule.replace("[ *", "[*").replace(" ]", "]")
    if not rule.startswith("{") or "}" not in rule:
        return rule
    body = rule[1 : rule.rindex("}")].strip()
    hidden = re.sub(r"\{[^{}]*\}", lambda match: match[0].replace("*", "\x00").replace(" ", "\x01"), body)
    parts = re.split(r"\s(?=\?|[a-z][a-z_-]*:|\* tstr)", hidden)
    joined: list[str] = []
    for part in parts:  # "?" and the name after it are one member
        if joined and joined[-1] == "?":
            joined[-1] = f"? {part}"
        else:
            joined.append(part)
    return "{ " + " ".join(sorted(part.replace("\x00", "*").replace("\x01", " ") for part in joined)) + " }"


@pytest.mark.parametrize(("profile", "seed"), [("19 Feb", "002_*.txt"), ("-00", "003_*.txt")])
def test_the_oracle_says_what_the_draft_says_rule_by_rule(profile: str, seed: str) -> None:
    found = sorted(SEEDS.glob(seed))
    if not found:
        pytest.skip("the drafts are not beside this checkout (../shared/seeds)")
    rules = _rules(found[0].read_text())

    for name, type_ in cddl_oracle.SCHEMAS[profile].items():
        assert _sorted(rules[name]) == _written(type_), name

    # The patterns, in which CDDL text doubles the backslash.
    assert rules["date-time-regexp"] == f'"{cddl_oracle.DATE_TIME[1]}"'
    assert rules["uri-regexp"].replace("\\\\", "\\") == f'"{cddl_oracle.URI[1]}"'
    # Nothing that a record reaches is left out.
    reached, waiting = set(), ["verifiable-agent-record", "trace-metadata"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        words = set(re.findall(r"[a-z][a-z-]*", re.sub(r'"[^"]*"|[a-z_-]+:', "", rules[name])))
        waiting.extend(words & rules.keys() - reached)
    assert reached - {"date-time-regexp", "uri-regexp"} == cddl_oracle.SCHEMAS[profile].keys()
