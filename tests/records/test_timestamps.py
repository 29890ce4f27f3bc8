"""Times in records: the draft's pattern, compared as instants in milliseconds."""

from __future__ import annotations

import pytest

from transparency.records.timestamps import instant, is_timestamp


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00.5+01:00", 500),
        ("1969-12-31T19:00:00.0019-05:00", 1),
        ("2026-03-01T09:00:00.123456Z", 1772355600123),
        ("2016-12-31T23:59:60Z", 1483228800000),
        (1772355600123, 1772355600123),
    ],
)
def test_an_instant_is_the_same_in_every_spelling(value: object, milliseconds: int) -> None:
    assert is_timestamp(value)
    assert instant(value) == milliseconds


@pytest.mark.parametrize(
    "value",
    [1.5, True, -1, 2**64, None, b"1970-01-01T00:00:00Z", "1970-01-01t00:00:00Z", "1970-01-01T00:00:00",
     "1970-01-01T00:00Z", " 1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z\n", "1970-13-01T00:00:00Z",
     "١٩٧٠-01-01T00:00:00Z", "1970-01-01T00:00:00." + "0" * 100 + "Z"],
)  # fmt: skip
def test_what_the_draft_does_not_allow_is_no_time(value: object) -> None:
    assert not is_timestamp(value)
    assert instant(value) is None


@pytest.mark.parametrize("value", ["2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z"])
def test_a_day_that_never_was_has_the_shape_but_is_no_instant(value: str) -> None:
    assert is_timestamp(value)
    assert instant(value) is None
