"""What people state about records, byte by byte: one form each, and nothing else is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.compliance.attestation import Attestation
from transparency.compliance.review import Review
from transparency.cose import cbor
from transparency.errors import MalformedError

ENTRY = "A" * 43
REVIEW = Review(ENTRY, "concern", "It wrote outside its folder.\nAsk the team.", "Ada Lovelace", 1_800_000_000)
ATTESTATION = Attestation(
    "clock-sync", ("R2.2", "L2"), "All hosts follow NTP.", "Ada Lovelace", 1_900_000_000, "https://a.example", 1, 2
)


def test_a_review_prints_back_the_same() -> None:
    assert Review.from_bytes(REVIEW.to_bytes()) == REVIEW


def test_an_attestation_prints_back_the_same_with_and_without_a_scope() -> None:
    everything = replace(ATTESTATION, iss="", since=None, until=None)

    for each in (ATTESTATION, everything):
        assert Attestation.from_bytes(each.to_bytes()) == each
    assert (ATTESTATION.covers_all, everything.covers_all) == (False, True)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("entry", "not an entry"), ("entry", b"x"), ("verdict", "compliant"), ("verdict", 1), ("note", ""),
        ("note", "x" * 4_001), ("note", "a\x1b[2Jb"), ("note", 7), ("reviewer", "a\nb"), ("reviewer", ""),
        ("time", -1), ("time", True), ("time", "1"), ("more", 1),
    ],
)  # fmt: skip
def test_what_is_no_review_is_refused(member: str, value: Any) -> None:
    said = cbor.decode(REVIEW.to_bytes()) | {member: value}

    with pytest.raises(MalformedError):
        Review.from_bytes(cbor.encode(said))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("subject", "Clock Sync"), ("subject", "-"), ("subject", "x" * 65), ("checks", "R3.2"), ("checks", ["R12.1"]),
        ("checks", ["R3.2", "R3.2"]), ("checks", ["L2"] * 65), ("checks", [1]), ("scope", []),
        ("scope", {"agent": "x"}),
        ("scope", {"from": 2, "to": 2}), ("scope", {"from": -1}), ("scope", {"iss": ""}), ("statement", ""),
        ("statement", "x" * 8_001), ("statement", "\u202eevil"), ("by", ""), ("expires", None), ("expires", 1.5),
        ("more", 1),
    ],
)  # fmt: skip
def test_what_is_no_attestation_is_refused(member: str, value: Any) -> None:
    said = cbor.decode(ATTESTATION.to_bytes()) | {member: value}

    with pytest.raises(MalformedError):
        Attestation.from_bytes(cbor.encode(said))


@pytest.mark.parametrize("reader", [Review, Attestation])
def test_another_order_of_members_is_another_form(reader: type[Review | Attestation]) -> None:
    data = (REVIEW if reader is Review else ATTESTATION).to_bytes()
    members = [cbor.encode(name) + cbor.encode(value) for name, value in cbor.decode(data).items()]

    with pytest.raises(MalformedError):
        reader.from_bytes(data[:1] + b"".join(reversed(members)))


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for reader in (Review, Attestation):
        with pytest.raises(MalformedError):
            reader.from_bytes(data)


def test_an_attestation_covers_its_issuer_and_its_times_until_it_expires() -> None:
    scoped = replace(ATTESTATION, since=10, until=20, expires=100)

    assert [scoped.covers("https://a.example", time) for time in (9, 10, 19, 20)] == [False, True, True, False]
    assert not scoped.covers("https://b.example", 10)
    assert (scoped.stands(99), scoped.stands(100)) == (True, False)
