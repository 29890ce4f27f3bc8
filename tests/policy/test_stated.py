"""Erasures, holds and audits as they stand on a log: canonical both ways, bounded, and nothing besides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.policy.audited import Audited
from transparency.policy.erasure import ARTIFACT, PAYLOAD, Erasure, Item
from transparency.policy.hold import Hold, Release, read_hold

ENTRY = "A" * 43
ITEM = Item(3, ENTRY, ARTIFACT, "retention class short, policy generation 2", "policy generation 2", 1_700_000_000)
ERASURE = Erasure("log.example", (ITEM, replace(ITEM, index=5, what=PAYLOAD)))
HOLD = Hold("log.example", "session", "s-17", "A. Counsel", "case 17", 1_700_000_000)
RELEASE = Release("log.example", ENTRY, "A. Counsel", "closed", 1_700_000_001)
AUDITED = Audited("log.example", 9, b"\x01" * 32, 8, 1, 1_700_000_000)


def test_each_is_read_back_as_it_was_written() -> None:
    assert Erasure.from_bytes(ERASURE.to_bytes()) == ERASURE
    assert Audited.from_bytes(AUDITED.to_bytes()) == AUDITED
    assert read_hold(HOLD.to_bytes()) == HOLD
    assert read_hold(RELEASE.to_bytes()) == RELEASE


def test_an_erasure_has_no_member_for_a_digest() -> None:
    """REG-20: erasure statements name index, entry id, rule and authoriser, never a payload digest."""
    said = cbor.decode(ERASURE.to_bytes())
    assert {*said} == {"log", "items"}
    assert {*said["items"][0]} == {"index", "entry", "what", "rule", "authoriser", "time"}
    with pytest.raises(MalformedError):
        Erasure.from_bytes(cbor.encode({**said, "digest": b"\x00" * 32}))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("index", True), ("index", -1), ("index", 2**60), ("index", "3"), ("entry", "A"), ("entry", "A" * 42 + "="),
        ("what", "tree"), ("rule", ""), ("rule", "x" * 1001), ("rule", "two\nlines"), ("authoriser", ""),
        ("authoriser", b"x"), ("time", 1.5),
    ],
)  # fmt: skip
def test_an_item_that_says_something_else_is_refused(member: str, value: Any) -> None:
    said = cbor.decode(ERASURE.to_bytes())
    said["items"][0] = {**said["items"][0], member: value}
    with pytest.raises(MalformedError):
        Erasure.from_bytes(cbor.encode(said))


@pytest.mark.parametrize("items", [(), (ITEM, ITEM), (replace(ITEM, index=7), ITEM)])
def test_items_stand_in_order_and_each_entry_once(items: tuple[Item, ...]) -> None:
    with pytest.raises(MalformedError):
        Erasure.from_bytes(replace(ERASURE, items=items).to_bytes())


@pytest.mark.parametrize(
    "said",
    [
        replace(HOLD, scope="tree"), replace(HOLD, value=""), replace(HOLD, scope="entry"), replace(HOLD, reason=""),
        replace(RELEASE, hold="x"), replace(RELEASE, authoriser="\x1b[2J"),
    ],
)  # fmt: skip
def test_a_hold_that_says_something_else_is_refused(said: Hold | Release) -> None:
    with pytest.raises(MalformedError):
        read_hold(said.to_bytes())


@pytest.mark.parametrize("said", [replace(AUDITED, root=b""), replace(AUDITED, erased=2)])
def test_an_audit_that_does_not_add_up_is_refused(said: Audited) -> None:
    with pytest.raises(MalformedError):
        Audited.from_bytes(said.to_bytes())


@given(st.binary(max_size=200))
def test_whatever_the_bytes_they_are_read_or_refused(data: bytes) -> None:
    for read in (Erasure.from_bytes, read_hold, Audited.from_bytes):
        try:
            assert read(data).to_bytes() == data
        except MalformedError:
            continue


@given(st.data())
def test_a_flipped_byte_is_noticed_or_says_something_else(data: st.DataObject) -> None:
    for said, read in ((ERASURE, Erasure.from_bytes), (HOLD, read_hold), (AUDITED, Audited.from_bytes)):
        written = bytearray(said.to_bytes())
        at = data.draw(st.integers(0, len(written) - 1))
        written[at] ^= data.draw(st.integers(1, 255))
        try:
            found = read(bytes(written))
        except MalformedError:
            continue
        assert found != said
        assert found.to_bytes() == bytes(written)
