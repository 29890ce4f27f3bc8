"""The admission manifest, both ways: what is written is read, and what is read is the one way to write it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.policy.manifest import MAX_ENTRIES, Admission, Manifest

_NUMBERS = st.integers(min_value=0, max_value=2**53)
_ADMISSIONS = st.builds(
    Admission, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.none() | st.binary(min_size=32, max_size=32)
)


@given(st.text(), _NUMBERS, st.text(), st.lists(_ADMISSIONS, min_size=1, max_size=30))
def test_a_manifest_is_read_as_it_was_written(log: str, first: int, previous: str, rows: list[Admission]) -> None:
    first = min(first, 2**53 - len(rows))
    manifest = Manifest.of(log, first, previous, rows)

    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    assert list(manifest.admissions()) == list(enumerate(rows, first))
    assert manifest.end == first + len(rows)


def test_entries_that_share_kind_generation_and_time_are_one_run() -> None:
    rows = [Admission(0, 1, 7), Admission(0, 1, 7), Admission(0, 2, 7), Admission(0, 2, 8), Admission(3, 2, 8)]

    assert Manifest.of("log", 5, "", rows).runs == ((2, 0, 1, 7), (1, 0, 2, 7), (1, 0, 2, 8), (1, 3, 2, 8))


def test_a_full_manifest_of_the_worst_kind_can_be_read() -> None:
    rows = [Admission(n % 4, n, n, bytes(32)) for n in range(MAX_ENTRIES)]

    assert Manifest.from_bytes(Manifest.of("log", 0, "", rows).to_bytes()).count == MAX_ENTRIES


def _members(**changes: Any) -> bytes:
    members: dict[str, Any] = {
        "log": "log",
        "first": 2,
        "count": 3,
        "previous": "",
        "runs": [[2, 0, 1, 7], [1, 0, 1, 8]],
        "collateral": {3: bytes(32)},
    }
    return cbor.encode({**members, **changes})


def test_the_example_is_a_manifest() -> None:
    assert Manifest.from_bytes(_members()).count == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"log": 1},
        {"first": -1},
        {"first": True},
        {"first": 2**53 + 1},
        {"count": 2},
        {"count": 3.0},
        {"previous": None},
        {"runs": []},
        {"runs": [[3, 1, 7]]},
        {"runs": [[0, 0, 1, 7], [3, 0, 1, 8]]},
        {"runs": [[2, 0, 1, 7], [1, 0, 1, 7]]},
        {"runs": [[MAX_ENTRIES, 0, 1, 7], [1, 0, 1, 8]], "count": MAX_ENTRIES + 1},
        {"runs": [[3, 4, 1, 7]]},
        {"runs": 3},
        {"runs": [[3, 0, "1", 7]]},
        {"collateral": {5: bytes(32)}},
        {"collateral": {1: bytes(32)}},
        {"collateral": {3: bytes(31)}},
        {"collateral": {"3": bytes(32)}},
        {"collateral": []},
        {"more": 1},
    ],
    ids=repr,
)
def test_anything_else_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedError):
        Manifest.from_bytes(_members(**changes))


@pytest.mark.parametrize("data", [b"", b"\xa0", b"\x80", _members() + b"\x00", b"\xbf\xff"])
def test_what_is_no_map_of_its_members_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        Manifest.from_bytes(data)
