"""The short way says what the long way says, of whatever it is given; and it is the way that bulk goes."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verifier.world import (
    ISS,
    ISSUER,
    LOG_ISS,
    LOG_KEY,
    ORIGIN,
    OTHER_ISSUER,
    RECORDS,
    Log,
    bare,
    failed,
    statement,
    trust,
    with_unprotected,
)
from transparency.cose import labels
from transparency.cose.cbor import encode
from transparency.cose.sign1 import Sign1
from transparency.merkle.proofs import inclusion_path
from transparency.statements.receipt import inclusion_receipt, sign_head
from transparency.statements.statement import Statement, sign_envelope
from transparency.statements.transparent import attach_receipts, receipts_of
from transparency.verifier import IssuerTrust, LogTrust, Options, Report, TrustedKey, TrustStore, Verifier
from transparency.verifier import express as express_module
from transparency.verifier.templates import MAX_TEMPLATES

SESSION = (RECORDS / "session.vac.json").read_bytes()
JSON = "application/json"
STATEMENTS = [
    statement(b"%d" % number, sub=f"urn:example:{number}", content_type=JSON, iat=1_772_000_000 + number)
    for number in range(40)
]
RETIRED = TrustStore(
    (LogTrust((TrustedKey(LOG_KEY.public),), LOG_ISS, ORIGIN),),
    (IssuerTrust((ISSUER.public,), ISS, ended=(TrustedKey(ISSUER.public, not_after=1),)),),
)


def batch(statements: list[bytes]) -> list[bytes]:
    """As one commit of a log gives them back: all under one head."""
    log = Log()
    places = [log.add(Statement.from_bytes(data).entry) for data in statements]
    head = log.head()
    paths = [inclusion_path(place, head.size, log.read) for place in places]
    return [
        attach_receipts(data, [inclusion_receipt(head, place, path)])
        for data, place, path in zip(statements, places, paths, strict=True)
    ]


FILES = batch(STATEMENTS)
KINDS = [
    (trust(), Options()),
    (bare(), Options()),
    (bare(), Options(strict=True)),
    (trust(), Options(receipt_only=True)),
    (TrustStore.from_keys([LOG_KEY.public]), Options(receipt_only=True)),
]


def warmed(kind: tuple[TrustStore, Options]) -> Verifier:
    """A verifier that has the head of FILES settled."""
    verifier = Verifier(*kind)
    verifier.verify(FILES[0])
    return verifier


WARM = [warmed(kind) for kind in KINDS]


def went_short(verifier: Verifier, data: bytes) -> bool:
    express = verifier._express
    ready = None if express is None else express.begin(data)
    return express is not None and ready is not None and express.end(ready) is not None


def long_way(store: TrustStore, options: Options, data: bytes) -> Report:
    """A verifier that has seen nothing before has no short way."""
    fresh = Verifier(store, options)
    assert not went_short(fresh, data)
    return fresh.verify(data)


def assert_same(data: bytes) -> None:
    for kind, warm in zip(KINDS, WARM, strict=True):
        expected, found = long_way(*kind, data), warm.verify(data)
        (in_batch,) = warm.verify_batch([(data, None)])
        for report in (found, in_batch):
            assert report.verdict == expected.verdict
            assert failed(report) == failed(expected)
            assert report.to_json() == expected.to_json()


def test_the_statements_of_a_batch_go_the_short_way_and_are_said_the_same_of() -> None:
    for data in FILES:
        assert [went_short(verifier, data) for verifier in WARM] == [True] * len(WARM)
        assert_same(data)
        assert WARM[0].verify(data).verdict == "verified"


def test_no_flipped_bit_is_verified_and_each_is_refused_for_the_same_reasons() -> None:
    """Exhaustive over the bits of one file, in verifiers that have its head settled."""
    data = FILES[7]
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert not any(went_short(verifier, bytes(changed)) for verifier in WARM), bit
        if bit % 8 == bit // 8 % 8:
            assert_same(bytes(changed))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(FILES), st.sampled_from(FILES), st.data())
def test_any_splice_of_two_files_is_judged_as_the_long_way_judges_it(
    one: bytes, other: bytes, draw: st.DataObject
) -> None:
    at, then = draw.draw(st.integers(0, len(one))), draw.draw(st.integers(0, len(other)))
    spliced = one[:at] + draw.draw(st.binary(max_size=4)) + other[then:]

    assert_same(spliced)
    assert (WARM[0].verify(spliced).verdict == "verified") == (spliced in FILES)


def test_a_receipt_of_another_statement_does_not_help() -> None:
    for other in (FILES[8], FILES[9]):
        swapped = attach_receipts(STATEMENTS[7], list(receipts_of(Sign1.from_bytes(other))))
        assert WARM[0].verify(swapped).verdict == "failed"
        assert_same(swapped)


def test_what_a_check_has_more_to_say_of_goes_the_long_way() -> None:
    envelope = sign_envelope(hashlib.sha256(SESSION).digest(), ISSUER, iss=ISS, sub="s")
    unusual = [
        statement(SESSION, content_type=JSON),
        statement(b'{"\\u0073ession":{}}', content_type=JSON),
        statement(b"1", headers={labels.TRACE_METADATA_SIGNED: {"session-id": "s"}}),
        statement(b"1", headers={labels.SUPERSEDES: bytes(32)}),
        statement(b"1", headers={labels.REDACTIONS: [1]}),
        statement(b"1", signer=OTHER_ISSUER),
        statement(b"1", iss="https://somebody.example/?a=b"),
        envelope,
    ]
    files = batch([*STATEMENTS[:3], *unusual])
    for kind, warm in zip(KINDS, WARM, strict=True):
        verifier = Verifier(*kind)
        assert verifier.verify(files[0]).verdict == verifier.verify(files[1]).verdict == "verified"
        assert went_short(verifier, files[2])
        assert warm.verify(files[2]).verdict == "verified"
    for data in files:
        assert_same(data)
    for data in files[3:8]:
        assert not went_short(WARM[0], data)
    two_receipts = attach_receipts(STATEMENTS[0], [*receipts_of(Sign1.from_bytes(files[0]))] * 2)
    more_beside = with_unprotected(FILES[3], {labels.TRACE_METADATA: {}})
    detached = Sign1.from_bytes(FILES[3]).with_payload(None).to_bytes()
    for data in (two_receipts, more_beside, detached):
        assert not any(went_short(verifier, data) for verifier in WARM)
        assert_same(data)


def test_a_retired_issuers_key_and_a_payload_given_beside_go_the_long_way() -> None:
    verifier = Verifier(RETIRED)
    for data in FILES[:4]:
        assert verifier.verify(data).to_json() == Verifier(RETIRED).verify(data).to_json()
        assert not went_short(verifier, data)
    for data in FILES[:4]:
        assert failed(WARM[0].verify(data, b"another payload")) == ["payload"]


def test_a_head_signed_anew_over_another_root_is_verified_and_not_taken_for_the_settled_one() -> None:
    """The same protected bytes over two roots: what a log must not do, and a thief of its key could."""
    log = Log()
    place = log.add(Statement.from_bytes(STATEMENTS[0]).entry)
    other = Log(entries=[bytes([n]) * 32 for n in range(60, 65)])
    other.add(Statement.from_bytes(STATEMENTS[0]).entry)
    verifier = Verifier(trust())
    first = attach_receipts(STATEMENTS[0], [log.receipt(place)])
    assert verifier.verify(first).verdict == verifier.verify(first).verdict == "verified"

    forged = replace(other.head(), signature=log.head().signature)
    path = inclusion_path(place, forged.size, other.read)
    stolen = attach_receipts(STATEMENTS[0], [inclusion_receipt(forged, place, path)])
    genuine = attach_receipts(STATEMENTS[0], [other.receipt(place)])

    assert failed(verifier.verify(stolen)) == ["head-signature"]
    assert verifier.verify(genuine).verdict == "verified"
    assert verifier.verify(first).verdict == "verified"


def test_memories_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(express_module, "MAX_SETTLED", 2)
    verifier, log = Verifier(bare()), Log()
    for number in range(12):
        data = statement(b"1", iss=f"https://{number}.example")
        place = log.add(Statement.from_bytes(data).entry)
        root = log.root(len(log.entries))
        head = sign_head(LOG_KEY, iss="l", origin="l", size=len(log.entries), root=root, time=number)
        path = inclusion_path(place, head.size, log.read)
        registered = attach_receipts(data, [inclusion_receipt(head, place, path)])
        assert verifier.verify(registered).verdict == "verified"
        assert went_short(verifier, registered)

    assert verifier._express is not None
    assert len(verifier._express._settled) == 2
    assert len(verifier._express._templates._known) == MAX_TEMPLATES


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_a_header_known_but_for_subject_and_time_means_what_decoding_it_gives(draw: st.DataObject) -> None:
    known = Sign1.from_bytes(FILES[7]).protected
    subject, time = b"\x02\x6durn:example:7", (1_772_000_007).to_bytes(4, "big")
    assert known.count(subject) == known.count(b"\x06\x1a" + time) == 1
    letters = draw.draw(st.text("abcXYZ019:/.-~_ \u00e9\x00", max_size=40)).encode()
    head = draw.draw(st.sampled_from([b"", encode(letters.decode())[: -len(letters) or None], b"\x78", b"\x60"]))
    other_time = draw.draw(
        st.sampled_from([time, bytes(4), b"\x00\x00\xff\xff", b"\x00\x01\x00\x00", b"\xff" * 4, b""])
    )
    changed = known.replace(subject, b"\x02" + head + letters).replace(time, other_time)
    for verifier in map(warmed, KINDS):
        express = verifier._express
        assert express is not None
        assert express._templates.find(known) is not None

        found = express._templates.find(changed)

        if found is not None:
            assert found == express._read_header(changed)


def test_a_header_with_another_subject_and_time_needs_no_decoding() -> None:
    protected = Sign1.from_bytes(FILES[39]).protected

    for verifier in map(warmed, KINDS):
        assert verifier._express is not None
        assert verifier._express._templates.find(protected) is not None
        assert len(verifier._express._templates._known) == 1
