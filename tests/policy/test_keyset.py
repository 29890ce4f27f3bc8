"""The service's keys over time: announced, rotated, compromised, and never forgotten (KEY-8, KEY-10)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey, PublicKey
from transparency.errors import MalformedError, RefusedError
from transparency.policy.keyset import CHECKPOINTS, OPERATIONS, POLICY, RECEIPTS, ServiceKey, ServiceKeys


def key(name: str = "Ed25519") -> PublicKey:
    return PrivateKey.generate(algorithm(name).id).public


FIRST, SECOND, THIRD = key("ES256"), key("ES256"), key("ES256")
ED, ML = key(), key("ML-DSA-44")
POOL = [key() for _ in range(8)]


def key_set() -> ServiceKeys:
    keys = (
        ServiceKey(RECEIPTS, FIRST, 5),
        ServiceKey(CHECKPOINTS, ED, 5),
        ServiceKey(CHECKPOINTS, ML, 5),
        ServiceKey(POLICY, key(), 5),
        ServiceKey(OPERATIONS, key(), 5),
    )
    return ServiceKeys("log.example", "https://log.example", 1, "", keys)


def test_a_key_that_is_announced_is_known_now_and_used_from_its_time_on() -> None:
    announced = key_set().rotated(RECEIPTS, SECOND, previous="one", now=10, since=20)

    assert ServiceKeys.from_toml(announced.to_toml()) == announced
    assert set(announced.ever(RECEIPTS)) == {FIRST, SECOND}
    assert [announced.at(RECEIPTS, time) for time in (5, 19, 20, 99)] == [(FIRST,), (FIRST,), (SECOND,), (SECOND,)]
    assert announced.from_then_on(RECEIPTS, 10) == (FIRST, SECOND)
    assert announced.from_then_on(RECEIPTS, 20) == (SECOND,)


def test_a_rotation_in_haste_takes_the_place_of_one_that_was_announced() -> None:
    announced = key_set().rotated(RECEIPTS, SECOND, previous="one", now=10, since=20)
    hasty = announced.rotated(RECEIPTS, THIRD, previous="two", now=15)

    hasty.check_follows(announced)
    assert [hasty.at(RECEIPTS, time) for time in (14, 15, 25)] == [(FIRST,), (THIRD,), (THIRD,)]
    assert hasty.from_then_on(RECEIPTS, 0) == (FIRST, THIRD)
    assert SECOND in hasty.ever(RECEIPTS), "resolvable for ever, though it never signed"


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=7))
def test_at_any_time_exactly_one_receipts_key_is_in_use_whatever_was_rotated(steps: list[tuple[int, int]]) -> None:
    """However rotations and announcements cross: head times never go back, so neither does *now*."""
    keys, now = key_set(), 5
    for public, (later, overlap) in zip(POOL, steps, strict=False):
        now += later
        following = keys.rotated(RECEIPTS, public, previous="x", now=now, since=now + overlap)
        following.check_follows(keys)
        keys = following

        assert all(len(keys.at(RECEIPTS, time)) == 1 for time in range(5, now + 50))
        assert ServiceKeys.from_toml(keys.to_toml()) == keys


def test_the_checkpoint_keys_are_rotated_together() -> None:
    """AMB-14: each algorithm is one line of a checkpoint; one key alone would leave it with one line."""
    new = (key("ML-DSA-44"), key())
    rotated = key_set().rotated(CHECKPOINTS, *new, previous="one", now=9)

    assert rotated.current(CHECKPOINTS) == new
    assert [item.until for item in rotated.keys if item.key in (ED, ML)] == [9, 9]
    for wrong in ((key(),), (key(), key()), (key("ES256"), key("ML-DSA-44")), ()):
        with pytest.raises(MalformedError, match="together"):
            key_set().rotated(CHECKPOINTS, *wrong, previous="one", now=9)


def test_other_roles_have_one_key_at_a_time() -> None:
    with pytest.raises(MalformedError, match="one operations key"):
        key_set().rotated(OPERATIONS, key(), key(), previous="one", now=9)


def test_a_compromised_key_is_replaced_in_the_same_generation() -> None:
    keys = key_set()
    told = keys.compromised(keys.keys[0], SECOND, since=7, previous="one", now=10)

    assert ServiceKeys.from_toml(told.to_toml()) == told
    assert (told.generation, told.at(RECEIPTS, 10)) == (2, (SECOND,))
    assert (told.keys[0].until, told.keys[0].compromised_since) == (10, 7)


def test_a_compromised_key_never_stays_in_use() -> None:
    keys = key_set()

    with pytest.raises(MalformedError, match="still in use"):
        keys.compromised(keys.keys[0], since=7, previous="one", now=10)


def test_a_retired_key_is_called_compromised_and_that_is_not_taken_back() -> None:
    rotated = key_set().rotated(RECEIPTS, SECOND, previous="one", now=9)
    told = rotated.compromised(rotated.keys[0], since=8, previous="two", now=10)

    told.check_follows(rotated)
    earlier = told.compromised(told.keys[0], since=6, previous="three", now=11)
    earlier.check_follows(told)
    with pytest.raises(RefusedError, match="says so already"):
        told.compromised(told.keys[0], since=9, previous="three", now=11)
    for since in (None, 9):
        back = replace(told, keys=(replace(told.keys[0], compromised_since=since), *told.keys[1:]))
        with pytest.raises(RefusedError, match="takes back"):
            back.check_follows(told)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"since": 4}, "first use"), ({"until": None}, "to use again"), ({"until": 10}, "to use again")],
)
def test_a_key_set_does_not_rewrite_what_its_predecessor_said(change: dict[str, int | None], why: str) -> None:
    old = key_set().rotated(OPERATIONS, key(), previous="one", now=9)
    index = next(at for at, item in enumerate(old.keys) if item.role == OPERATIONS)
    changed = replace(old.keys[index], **change)  # type: ignore[arg-type]

    with pytest.raises(RefusedError, match=why):
        replace(old, keys=(*old.keys[:index], changed, *old.keys[index + 1 :])).check_follows(old)


@pytest.mark.parametrize("times", [((5, 9), (10, None)), ((5, 11), (10, None)), ((5, 9), (9, 12))])
def test_receipts_keys_with_a_gap_an_overlap_or_an_end_are_refused(times: tuple[tuple[int, int | None], ...]) -> None:
    keys = tuple(
        ServiceKey(RECEIPTS, public, since, until)
        for public, (since, until) in zip((FIRST, SECOND), times, strict=True)
    )

    with pytest.raises(MalformedError):
        replace(key_set(), keys=keys).check()
