"""Redactions that a statement declares, and originals that their owner discloses."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from tests.verifier.world import ISS, ISSUER, Log, failed, outcomes, statement, trust
from transparency.cose import labels
from transparency.records.detect import detect
from transparency.records.disclosure import Disclosure
from transparency.records.redact import Redacted, redact
from transparency.records.redaction_rules import BUILTIN
from transparency.statements.statement import sign_envelope
from transparency.verifier import Options, render_text, verify

SESSION = "0192f0aa-1111-4222-8333-444455556666"


def redacted(*texts: str) -> Redacted:
    lines = [
        {"type": "user", "sessionId": SESSION, "timestamp": "2026-03-01T09:00:00.000Z", "message": {"content": text}}
        for text in texts
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    numbers = iter(range(1, 100))
    return redact(data, detect(data).format, BUILTIN, lambda: bytes([next(numbers)]) * 32)


RECORD = redacted("hello", "write to jane@example.com, card 4111111111111111 please")
ITEMS = [Disclosure.from_item(item) for item in RECORD.side_file["items"]]


def registered(record: bytes = RECORD.data, header: object = RECORD.header) -> bytes:
    headers = {} if header is None else {labels.REDACTIONS: header}
    return Log().register(statement(record, sub=SESSION, content_type="application/jsonl", headers=headers))


def test_a_record_whose_marks_stand_where_the_statement_says_is_verified() -> None:
    report = verify(registered(), trust())

    check = next(check for check in report.checks if check.id == "redactions")
    assert report.verdict == "verified"
    assert (check.outcome, check.detail) == ("passed", "1 card-number, 1 email")


def test_a_disclosed_original_is_shown_in_its_place() -> None:
    report = verify(registered(), trust(), disclosures=[ITEMS[1]])

    claims = {claim.name: claim.value for claim in report.claims}
    assert report.verdict == "verified"
    assert outcomes(report)["disclosure/2"] == "passed"
    assert claims["disclosed-2"] == "4111111111111111"
    assert claims["disclosed-2-in-place"] == "write to [REDACTED:email:1], card 4111111111111111 please"
    assert "disclosed-1" not in claims
    assert "jane@example.com" not in render_text(report)


def test_a_wrong_original_fails_and_is_not_shown() -> None:
    wrong = replace(ITEMS[1], original="5555555555554444")

    report = verify(registered(), trust(), disclosures=[wrong])

    assert (report.verdict, failed(report)) == ("failed", ["disclosure/2"])
    assert "5555555555554444" not in render_text(report)


def test_a_disclosure_of_another_item_statement_or_place_fails() -> None:
    data = registered()

    for wrong in (
        replace(ITEMS[0], number=2),
        replace(ITEMS[0], number=3),
        replace(ITEMS[0], location="2:0:/message/content"),
        replace(ITEMS[0], rule="jwt"),
        replace(ITEMS[0], salt=bytes(32)),
    ):
        assert verify(data, trust(), disclosures=[wrong]).verdict == "failed"
    assert failed(verify(registered(header=None), trust(), disclosures=[ITEMS[0]])) == ["disclosure/1"]


def test_a_mark_that_is_not_where_the_header_says_contradicts_the_payload() -> None:
    moved = [[RECORD.header[0][0], "1:0:/message/content", RECORD.header[0][2]]]

    report = verify(registered(header=moved), trust())

    assert failed(report) == ["redactions"]
    assert report.summary.startswith("Not verified: header contradicts signed payload: redaction 1")


def test_a_header_of_another_shape_fails() -> None:
    digest = bytes(32)
    for header in (
        [],
        "x",
        [["email", "1:0:/x"]],
        [["email", "1:0:/x", b"short"]],
        [["E MAIL", "1:0:/x", digest]],
        [["email", "01:0:/x", digest]],
        [["email", 1, digest]],
        [["email", "1:0:/x", digest]] * 3501,
    ):
        assert failed(verify(registered(header=header), trust())) == ["redactions"]


def test_without_the_record_the_commitment_is_checked_and_the_mark_is_not() -> None:
    data = sign_envelope(
        hashlib.sha256(RECORD.data).digest(), ISSUER, iss=ISS, sub=SESSION,
        preimage_content_type="application/jsonl", headers={labels.REDACTIONS: RECORD.header},
    )  # fmt: skip
    data = Log().register(data)

    alone = verify(data, trust(), disclosures=[ITEMS[0]])
    both = verify(data, trust(), payload=RECORD.data, disclosures=[ITEMS[0]])

    assert (alone.verdict, outcomes(alone)["redactions"], outcomes(alone)["disclosure/1"]) == (
        "cannot-tell", "not_checked", "passed",
    )  # fmt: skip
    assert both.verdict == "verified"


def test_receipt_only_does_not_look_at_redactions() -> None:
    report = verify(registered(header="x"), trust(), options=Options(receipt_only=True))

    assert "redactions" not in outcomes(report)


def test_a_hostile_original_is_shown_in_escapes() -> None:
    record = redacted("see https://u:\x1b[2J\u202epw@host.example/")
    (item,) = [Disclosure.from_item(item) for item in record.side_file["items"]]

    report = verify(registered(record.data, record.header), trust(), disclosures=[item])

    assert report.verdict == "verified"
    assert "\x1b" not in render_text(report)
    assert "\u202e" not in render_text(report)
