"""The period that a compliance witness attests: one form, strictly read, bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from transparency.compliance.period import MAX_BYTES, MAX_LISTED, Failed, Misbehaviour, Period
from transparency.compliance.stated import PERIOD, read_stated
from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.statements.statement import Entry, entry_id

ENTRY = entry_id(Entry(bytes(32)))
WHOLE = Period(
    log="log.example/agents",
    witness="control.example/c1",
    number=2,
    previous=ENTRY,
    first=3,
    end=9,
    checkpoint=b"a note",
    cosigned=True,
    time=1_800_000_000,
    software="agent-transparency 0.1.0",
    policies=(1, 2),
    entries={"statement": 5, "operation": 1},
    outcomes={"reproduced": 6},
    not_available={"hash-only": 1},
    checks={"R1.1": {"pass": 4, "n-a": 1}, "R9.3": {"fail": 1, "pass": 4}},
    failing=1,
    failed=(Failed(7, ENTRY, ("R9.3",)),),
    misbehaviours=2,
    misbehaviour=(Misbehaviour("gone", 4, ENTRY, "it is gone"), Misbehaviour("tree", -1, "", "another root")),
)


def changed(**members: object) -> bytes:
    value: Any = cbor.decode(WHOLE.to_bytes(), max_depth=8)
    value |= {name.replace("_", "-"): each for name, each in members.items()}
    return cbor.encode(value)


def test_what_is_written_is_read_back_and_is_what_a_log_report_sees() -> None:
    assert Period.from_bytes(WHOLE.to_bytes()) == WHOLE
    assert read_stated(PERIOD, WHOLE.to_bytes()) == WHOLE


@pytest.mark.parametrize(
    "members",
    [
        {"first": 10},
        {"first": -1},
        {"number": True},
        {"cosigned": 1},
        {"previous": "no entry id"},
        {"checkpoint": "text"},
        {"checkpoint": bytes(100_000)},
        {"log": ""},
        {"log": "two\nlines"},
        {"policies": [1]},
        {"checks": {"R1.1": {"compliant": 1}}},
        {"checks": {"R1.1": {"pass": -1}}},
        {"checks": []},
        {"not_available": {"read": 1}},
        {"entries": {"statement": "5"}},
        {"failed": [{"index": 1, "entry": ENTRY}]},
        {"failed": [{"index": 1, "entry": ENTRY, "checks": []}] * (MAX_LISTED + 1)},
        {"misbehaviour": [{"code": "gone", "index": -2, "entry": "", "what": "x"}]},
        {"more": 1},
    ],
)
def test_anything_else_is_refused(members: dict[str, object]) -> None:
    with pytest.raises(MalformedError):
        Period.from_bytes(changed(**members))
    assert read_stated(PERIOD, changed(**members)) is None


def test_another_spelling_and_more_bytes_than_allowed_are_refused() -> None:
    data = WHOLE.to_bytes()

    with pytest.raises(MalformedError):
        Period.from_bytes(data + b"\x00")
    with pytest.raises(MalformedError):
        Period.from_bytes(bytes(MAX_BYTES + 1))


def test_a_period_without_new_entries_is_one_that_names_what_the_log_did() -> None:
    quiet = replace(WHOLE, first=9, entries={}, outcomes={}, not_available={}, checks={}, failing=0, failed=())

    assert Period.from_bytes(quiet.to_bytes()) == quiet
