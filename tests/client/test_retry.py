"""When a client asks again, and how long it waits (SCRAPI-11 §5.1, client duties in spec.md section 8)."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.client.retry import Backoff, is_temporary, parse_http_date, parse_retry_after

NOW = 1_800_000_000.0


@pytest.mark.parametrize(("value", "seconds"), [("0", 0.0), ("5", 5.0), (" 7\t", 7.0), ("120", 120.0)])
def test_retry_after_in_seconds(value: str, seconds: float) -> None:
    assert parse_retry_after(value, NOW) == seconds


def test_retry_after_as_a_date_is_relative_to_our_clock() -> None:
    assert parse_retry_after(formatdate(NOW + 30, usegmt=True), NOW) == 30.0


def test_a_date_in_the_past_means_now() -> None:
    assert parse_retry_after(formatdate(NOW - 30, usegmt=True), NOW) == 0.0


def test_the_obsolete_date_forms_are_read_too() -> None:
    assert parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT") == 784111777.0
    assert parse_http_date("Sun Nov  6 08:49:37 1994") == 784111777.0


@pytest.mark.parametrize(
    "value", [None, "", "soon", "-1", "+5", "1_0", "5.5", "\u0665", "1e3", "99999999999", "Sun, 99 Foo"]
)
def test_what_says_neither_is_no_minimum(value: str | None) -> None:
    assert parse_retry_after(value, NOW) is None


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    seconds = parse_retry_after(text, NOW)

    assert seconds is None or seconds >= 0


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_pause_is_never_above_the_cap(attempt: int, chance: float) -> None:
    assert 0 <= Backoff(cap=20).delay(attempt, chance) <= 20


@given(st.integers(0, 100), st.floats(0, 1, exclude_max=True), st.floats(0, 3600))
def test_a_pause_is_never_below_what_the_service_asked_for(attempt: int, chance: float, minimum: float) -> None:
    assert Backoff().delay(attempt, chance, minimum) >= minimum


def test_pauses_grow_twofold() -> None:
    backoff = Backoff(base=0.25, cap=20)

    assert [backoff.delay(attempt, 0.5) for attempt in range(4)] == [0.125, 0.25, 0.5, 1.0]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_tried_again_also_codes_nobody_knows(status: int) -> None:
    assert is_temporary(status)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 418, 499, 501])
def test_what_will_not_change_is_not(status: int) -> None:
    assert not is_temporary(status)
