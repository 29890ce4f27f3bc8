"""The record behind a statement: hash envelopes, both copies of trace-metadata, the subject."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.verifier.world import ISS, ISSUER, RECORDS, Log, bare, failed, outcomes, statement, trust, with_unprotected
from transparency.cose import labels
from transparency.cose.cbor import encode
from transparency.cose.sign1 import Sign1, sign1
from transparency.records.convert import Outline, outline
from transparency.records.trace_metadata import describe
from transparency.statements.statement import sign_envelope
from transparency.verifier import Options, render_text, verify
from transparency.verifier.record_checks import _NAMES

SESSION = (RECORDS / "session.vac.json").read_bytes()
TIMELESS = (RECORDS / "timeless.vac.json").read_bytes()
SESSION_ID = "7d1f3a52-2f0b-4a6e-8a55-9c1c0b7e4d10"
DIGEST = hashlib.sha256(SESSION).digest()
VAC = "application/agent-conversation"


def metadata(**members: object) -> dict[str, Any]:
    described = describe(SESSION)
    assert described is not None
    stated = described.to_map() | {name.replace("_", "-"): value for name, value in members.items()}
    return {name: value for name, value in stated.items() if value is not None}


def registered(
    signed: object = None, unsigned: object = None, *, sub: str = SESSION_ID, record: bytes = SESSION
) -> bytes:
    headers = {} if signed is None else {labels.TRACE_METADATA_SIGNED: signed}
    unprotected = {} if unsigned is None else {labels.TRACE_METADATA: unsigned}
    return Log().register(statement(record, sub=sub, content_type=VAC, headers=headers, unprotected=unprotected))


def test_both_copies_of_trace_metadata_that_agree_with_the_record_are_verified() -> None:
    report = verify(registered(metadata(), metadata()), trust())

    assert report.verdict == "verified"
    assert report.not_checked == ()
    assert outcomes(report)["trace-metadata-copies"] == "passed"


def test_the_claims_about_a_session_are_those_of_the_payload() -> None:
    report = verify(registered(unsigned=metadata(agent_vendor="openai")), trust())

    claims = {claim.name: claim.value for claim in report.claims}

    assert report.verdict == "warnings"
    assert claims["agent-vendor"] == "anysphere"
    assert claims["session-id"] == SESSION_ID
    assert claims["record-sha-256"] == DIGEST.hex()


@pytest.mark.parametrize("place", ["signed", "unsigned"])
@pytest.mark.parametrize(
    ("members", "verdict"),
    [
        ({"extra": 1}, "failed"),
        ({"trace_format": "claude-jsonl"}, "failed"),
        ({"content_hash": None}, "verified"),
        ({"content_hash": DIGEST.hex().upper()}, "verified"),
        ({"content_hash": "00" * 32}, "failed"),
        ({"content_hash_alg": "blake3"}, "cannot-tell"),
        ({"timestamp_start": 1772355600.5}, "failed"),
        ({"timestamp_start": "2026-03-01T09:00:01Z"}, "failed"),
        ({"session_id": "someone-else"}, "failed"),
        ({"agent_vendor": "openai"}, "warnings"),
    ],
)
def test_each_lie_of_a_header_is_found_in_either_copy(place: str, members: dict[str, object], verdict: str) -> None:
    stated = metadata(**members)
    data = registered(signed=stated) if place == "signed" else registered(unsigned=stated)

    report = verify(data, trust())

    assert report.verdict == verdict


def test_two_copies_that_differ_contradict_each_other() -> None:
    report = verify(registered(metadata(), metadata(agent_vendor="example-provider")), trust())

    assert (report.verdict, failed(report)) == ("failed", ["trace-metadata-copies"])


def test_a_forged_label_100_beside_the_signed_copy_is_named() -> None:
    report = verify(registered(metadata(), metadata(session_id="someone-else")), trust())

    assert failed(report) == ["trace-metadata/session-id", "trace-metadata-copies"]
    assert "someone-else" not in report.summary


def test_times_the_record_does_not_have_are_listed_as_not_checked() -> None:
    stated = metadata(content_hash=hashlib.sha256(TIMELESS).hexdigest(), agent_vendor="unknown", timestamp_end=None)

    report = verify(registered(unsigned=stated, record=TIMELESS), trust())

    assert report.verdict == "verified"
    assert report.to_json()["not-checked"] == ["trace-metadata/timestamp-start"]


def test_a_statement_without_trace_metadata_is_verified_and_says_so() -> None:
    report = verify(registered(), trust())

    assert report.verdict == "verified"
    assert report.to_json()["not-checked"] == ["trace-metadata"]


def test_a_subject_that_is_not_the_session_is_a_warning() -> None:
    report = verify(registered(sub="urn:example:another"), trust())

    assert report.verdict == "warnings"
    assert outcomes(report)["subject"] == "warned"


def test_a_record_with_a_key_twice_cannot_pass_for_the_one_its_header_describes() -> None:
    doubled = b'{"id": "EVIL", ' + SESSION.lstrip(b"{")
    stated = metadata(content_hash=hashlib.sha256(doubled).hexdigest())

    report = verify(registered(unsigned=stated, record=doubled), trust())

    assert (report.verdict, failed(report)) == ("failed", ["trace-metadata/trace-format"])


# --- hash envelopes ------------------------------------------------------------------------------------------------


def envelope(**more: Any) -> bytes:
    digest = more.pop("digest", DIGEST)
    return sign_envelope(digest, ISSUER, iss=ISS, sub=SESSION_ID, preimage_content_type=VAC, **more)


def test_an_envelope_with_its_record_is_verified() -> None:
    report = verify(Log().register(envelope()), trust(), payload=SESSION)

    assert report.verdict == "verified"
    assert outcomes(report)["envelope"] == "passed"
    assert outcomes(report)["subject"] == "passed"


def test_an_envelope_without_its_record_passes_signature_and_inclusion_and_leaves_the_rest_open() -> None:
    data = Log().register(envelope())

    report, receipt_only = verify(data, trust()), verify(data, trust(), options=Options(receipt_only=True))

    assert report.verdict == "cannot-tell"
    assert outcomes(report)["issuer-signature"] == outcomes(report)["registered"] == "passed"
    assert outcomes(report)["envelope"] == "not_checked"
    assert report.summary == "Cannot tell: the statement holds a digest, and the record was not given."
    assert receipt_only.verdict == "verified"


def test_another_record_than_the_one_that_was_hashed_fails() -> None:
    report = verify(Log().register(envelope()), trust(), payload=SESSION + b"\n")

    assert (report.verdict, failed(report)) == ("failed", ["envelope"])


def test_he4_each_hash_algorithm_of_an_envelope_is_recomputed() -> None:
    """HE-4: the payload is the raw digest."""
    for alg, digest in ((-43, hashlib.sha384(SESSION).digest()), (-44, hashlib.sha512(SESSION).digest())):
        data = Log().register(envelope(digest=digest, hash_alg=alg))

        assert verify(data, trust(), payload=SESSION).verdict == "verified"
        assert failed(verify(data, trust(), payload=b"")) == ["envelope"]


def test_a_detached_envelope_is_completed_from_its_record() -> None:
    attached = Log().register(envelope())

    detached = Sign1.from_bytes(attached).with_payload(None).to_bytes()

    assert verify(detached, trust()).verdict == "cannot-tell"
    assert verify(detached, trust(), payload=SESSION).verdict == "verified"
    assert verify(detached, trust(), payload=b"other").verdict == "failed"


@pytest.mark.parametrize(
    ("headers", "unprotected", "payload"),
    [
        ({}, {labels.PAYLOAD_HASH_ALG: -16}, DIGEST),
        ({labels.PAYLOAD_HASH_ALG: -16}, {labels.PREIMAGE_CONTENT_TYPE: VAC}, DIGEST),
        ({labels.PAYLOAD_HASH_ALG: -16}, {labels.PAYLOAD_LOCATION: "https://x"}, DIGEST),
        ({labels.PAYLOAD_HASH_ALG: -16, labels.CONTENT_TYPE: VAC}, {}, DIGEST),
        ({labels.PAYLOAD_HASH_ALG: -16}, {labels.CONTENT_TYPE: VAC}, DIGEST),
        ({labels.PAYLOAD_HASH_ALG: -16}, {}, DIGEST[1:]),
        ({labels.PAYLOAD_HASH_ALG: "sha-256"}, {}, DIGEST),
        ({labels.PAYLOAD_HASH_ALG: -15}, {}, DIGEST),
    ],
)
def test_he1_to_he4_an_envelope_with_a_label_out_of_place_fails(
    headers: dict[int, object], unprotected: dict[int, object], payload: bytes
) -> None:
    """HE-1, HE-2, HE-3, HE-4."""
    claims = {labels.CWT_CLAIMS: {1: ISS, 2: SESSION_ID}, labels.KID: ISSUER.public.kid}
    data = sign1(claims | headers, payload, ISSUER, unprotected=unprotected).to_bytes()

    for options in (Options(statement_only=True), Options(receipt_only=True)):
        report = verify(data, bare(), payload=SESSION, options=options)
        assert report.verdict == "failed"
        assert "envelope" in failed(report)


def test_he5_a_location_is_neither_fetched_nor_believed() -> None:
    """HE-5: with a location and without the record, the record stays unchecked."""
    data = Log().register(envelope(location="file:///etc/passwd"))

    assert verify(data, trust()).verdict == "cannot-tell"


def test_trace_metadata_of_an_envelope_must_have_the_signed_digest_even_without_the_record() -> None:
    good = Log().register(envelope(headers={labels.TRACE_METADATA_SIGNED: metadata()}))
    lying = Log().register(envelope(headers={labels.TRACE_METADATA_SIGNED: metadata(content_hash="00" * 32)}))

    assert outcomes(verify(good, trust()))["signed-trace-metadata/content-hash"] == "passed"
    assert failed(verify(lying, trust())) == ["signed-trace-metadata/content-hash"]
    assert verify(good, trust(), payload=SESSION).verdict == "verified"


def test_the_same_record_in_other_white_space_is_another_record() -> None:
    reindented = json.dumps(json.loads(SESSION), indent=4).encode()
    data = Log().register(statement(SESSION, sub=SESSION_ID, content_type=VAC, detached=True), SESSION)

    assert "issuer-signature" in failed(verify(data, trust(), payload=reindented))


def test_label_100_of_a_stranger_is_compared_too() -> None:
    data = with_unprotected(statement(), {labels.TRACE_METADATA: "not a map"})

    assert failed(verify(data, trust(), options=Options(statement_only=True))) == ["trace-metadata/shape"]


# --- records of every format ---------------------------------------------------------------------------------------

NATIVE = [
    ("claude/session.jsonl", "application/jsonl"),
    ("codex/session.jsonl", "application/jsonl"),
    ("codex/legacy.jsonl", "application/jsonl"),
    ("gemini/session.json", "application/json"),
    ("gemini/session.jsonl", "application/jsonl"),
    ("opencode/export.json", "application/json"),
    ("agentlog/every-event.agentlog.json", "application/agentlog+json"),
    ("agent-trace/record.json", "application/vnd.agent-trace.record+json"),
    ("a2a/proto.json", "application/json"),
    ("vac/published.json", VAC),
    ("vac/published.json", "application/json"),
]


def native(name: str) -> tuple[bytes, Outline]:
    data = (RECORDS / name).read_bytes()
    return data, outline(data)


@pytest.mark.parametrize(("name", "content_type"), NATIVE)
def test_the_subject_and_the_claims_of_any_format_are_those_of_the_record(name: str, content_type: str) -> None:
    data, said = native(name)
    (session_id,) = said.session_ids
    data_of = Log().register(statement(data, sub=str(session_id), content_type=content_type))

    report = verify(data_of, trust())

    claims = {claim.name: claim.value for claim in report.claims}
    assert report.verdict == "verified"
    assert outcomes(report)["subject"] == "passed"
    assert claims["session-id"] == session_id
    assert claims.get("agent-vendor") == said.vendor
    assert claims.get("session-start") == said.start
    another = Log().register(statement(data, sub="urn:example:another", content_type=content_type))
    assert outcomes(verify(another, trust()))["subject"] == "warned"


@pytest.mark.parametrize(("name", "content_type"), NATIVE)
@pytest.mark.parametrize("place", ["signed", "unsigned"])
def test_a_header_that_lies_about_a_record_of_any_format_contradicts_it(
    name: str, content_type: str, place: str
) -> None:
    data, said = native(name)
    described = describe(data)
    if described is None:
        pytest.skip("the record does not give what trace-metadata needs")
    true = described.to_map()
    lies = {"session-id": "someone-else", "timestamp-start": "1999-01-01T00:00:00Z", "content-hash": "00" * 32}
    lies["trace-format"] = "cursor-jsonl"
    for member, lie in lies.items():
        stated = true | {member: lie}
        headers = {labels.TRACE_METADATA_SIGNED: stated} if place == "signed" else {}
        unprotected = {labels.TRACE_METADATA: stated} if place == "unsigned" else {}
        signed = statement(
            data, sub=str(said.session_ids[0]), content_type=content_type, headers=headers, unprotected=unprotected
        )

        report = verify(Log().register(signed), trust())

        assert (report.verdict, len(failed(report))) == ("failed", 1)
        assert failed(report)[0].endswith(member)
        assert report.summary.startswith("Not verified: header contradicts signed payload: label ")
        assert "someone-else" not in render_text(report)


def test_several_sessions_in_one_file_are_counted_and_any_of_them_may_be_the_subject() -> None:
    data, said = native("opencode/sessions.concat.json")
    assert len(said.session_ids) == 2

    for session_id in said.session_ids:
        signed = statement(data, sub=str(session_id), content_type="application/json")
        report = verify(Log().register(signed), trust())
        claims = {claim.name: claim.value for claim in report.claims}
        assert outcomes(report)["subject"] == "passed"
        assert (claims["sessions"], "session-id" in claims) == (2, False)


def test_a_session_id_of_bytes_is_compared_as_bytes() -> None:
    value = {"version": "3.0.0-draft", "id": "r"}
    meta = {"model-id": "m", "model-provider": "p"}
    session = {"session-id": b"raw-id", "agent-meta": meta, "entries": []}
    data = encode(value | {"session": session})

    report = verify(Log().register(statement(data, sub="raw-id", content_type=VAC)), trust())

    assert outcomes(report)["subject"] == "passed"


def test_an_envelope_with_a_native_record_is_checked_as_an_attached_one() -> None:
    data, said = native("claude/session.jsonl")
    described = describe(data)
    assert described is not None
    signed = sign_envelope(
        hashlib.sha256(data).digest(), ISSUER, iss=ISS, sub=str(said.session_ids[0]),
        preimage_content_type="application/jsonl", headers={labels.TRACE_METADATA_SIGNED: described.to_map()},
    )  # fmt: skip

    report = verify(Log().register(signed), trust(), payload=data)

    assert report.verdict == "verified"
    assert outcomes(report)["subject"] == outcomes(report)["signed-trace-metadata/session-id"] == "passed"
    assert {claim.name: claim.value for claim in report.claims}["record-format"] == "Claude Code session"


def test_of_a_record_that_is_not_the_hashed_one_nothing_is_claimed() -> None:
    data, said = native("claude/session.jsonl")
    signed = sign_envelope(
        bytes(32), ISSUER, iss=ISS, sub=str(said.session_ids[0]), preimage_content_type="application/jsonl"
    )

    report = verify(Log().register(signed), trust(), payload=data)

    assert failed(report) == ["envelope"]
    assert report.claims == ()


@pytest.mark.parametrize("path", sorted(RECORDS.rglob("*.json")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_json_record_is_passed_over_because_of_its_members_names(path: Path) -> None:
    """Plain JSON is parsed only if it has a name that records have, or an escape that could hide one."""
    assert _NAMES.search(path.read_bytes()) is not None or path.name == "least-february.json"
