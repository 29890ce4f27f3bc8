"""A session submitted as it grows: each statement names the one before, and verify follows them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.verifier.world import ISS, ISSUER, OTHER_ISSUER, Log, failed, statement, trust
from transparency.cose import labels
from transparency.records.trace_metadata import describe
from transparency.statements.statement import Statement, sign_envelope, sign_statement
from transparency.verifier import Options, Report, verify

SESSION = "0192f0aa-1111-4222-8333-444455556666"
STATEMENT_ONLY = Options(statement_only=True)


def session(lines: int) -> bytes:
    made = []
    for number in range(lines):
        time = f"2026-03-01T09:00:{number:02}.000Z"
        made.append({"type": "user", "sessionId": SESSION, "timestamp": time, "message": {"content": f"{number}"}})
    return b"".join(json.dumps(line).encode() + b"\n" for line in made)


def link(earlier: bytes | None, number: int, payload: bytes | None = None) -> dict[int | str, Any]:
    if earlier is None:
        return {labels.SESSION_CHECKPOINT: number}
    return {
        labels.SUPERSEDES: bytes(Statement.from_bytes(earlier, payload).entry),
        labels.SESSION_CHECKPOINT: number,
    }


def attached(record: bytes, earlier: bytes | None, number: int, **more: Any) -> bytes:
    return statement(record, sub=SESSION, content_type="application/jsonl", headers=link(earlier, number), **more)


def envelope(record: bytes, earlier: bytes | None, number: int) -> bytes:
    digest = hashlib.sha256(record).digest()
    return sign_envelope(
        digest, ISSUER, iss=ISS, sub=SESSION, preimage_content_type="application/jsonl", headers=link(earlier, number)
    )


def links(report: Report) -> list[tuple[str, str]]:
    return [(check.outcome, check.detail) for check in report.checks if check.id.startswith("supersedes")]


@pytest.mark.parametrize("make", [attached, envelope])
def test_a_chain_of_three_lengths_is_followed_to_its_beginning(make: Any) -> None:
    records = [session(2), session(5), session(9)]
    first = make(records[0], None, 1)
    second = make(records[1], first, 2)
    third = make(records[2], second, 3)
    payload = records[2] if make is envelope else None

    report = verify(
        Log().register(third), trust(), payload=payload, earlier=[b"junk", statement(b"another"), first, second]
    )

    assert report.verdict == "verified"
    assert links(report) == [
        ("passed", f"the earlier record is the first {len(records[1])} of {len(records[2])} bytes"),
        ("passed", f"the earlier record is the first {len(records[0])} of {len(records[1])} bytes"),
    ]
    claims = {claim.name: claim.value for claim in report.claims}
    assert (claims["checkpoint"], claims["supersedes"]) == (3, Statement.from_bytes(second).entry_id)


def test_a_detached_earlier_statement_is_completed_from_the_beginning_of_the_record() -> None:
    described = describe(session(2))
    assert described is not None
    first = sign_statement(
        session(2), ISSUER, iss=ISS, sub=SESSION, content_type="application/jsonl", detached=True,
        headers={labels.TRACE_METADATA_SIGNED: described.to_map()},
    )  # fmt: skip
    headers = link(first, 2, session(2))
    second = statement(session(5), sub=SESSION, content_type="application/jsonl", headers=headers)

    report = verify(second, trust(), options=STATEMENT_ONLY, earlier=[first])

    assert [outcome for outcome, _ in links(report)] == ["passed"]


def test_without_the_earlier_statement_the_link_is_named_and_not_checked() -> None:
    second = attached(session(5), attached(session(2), None, 1), 2)

    report = verify(second, trust(), options=STATEMENT_ONLY, earlier=[attached(session(3), None, 1)])

    assert report.verdict == "verified"
    assert links(report) == [("not_checked", "it continues an earlier statement, which was not given")]


def test_a_first_checkpoint_says_that_the_session_was_not_finished() -> None:
    report = verify(attached(session(2), None, 1), trust(), options=STATEMENT_ONLY)

    ((outcome, detail),) = links(report)
    assert (outcome, detail.startswith("checkpoint 1 of a session that was not finished")) == ("passed", True)


@pytest.mark.parametrize("make", [attached, envelope])
def test_a_session_that_was_written_anew_is_a_warning(make: Any) -> None:
    first = make(session(2).replace(b'"0"', b'"something else"'), None, 1)
    second = make(session(5), first, 2)

    report = verify(
        second, trust(), payload=session(5) if make is envelope else None, options=STATEMENT_ONLY, earlier=[first]
    )

    assert report.verdict == "warnings"
    assert links(report)[0][0] == "warned"


def test_of_a_document_that_is_always_written_anew_it_is_said_and_changes_no_verdict() -> None:
    def gemini(messages: int) -> bytes:
        made = [
            {"id": str(number), "type": "user", "timestamp": "2026-03-01T09:00:00Z", "content": "x"}
            for number in range(messages)
        ]
        document = {"sessionId": SESSION, "projectHash": "p", "startTime": "2026-03-01T09:00:00Z", "messages": made}
        return json.dumps(document).encode()

    first = statement(gemini(1), sub=SESSION, content_type="application/json", headers=link(None, 1))
    second = statement(gemini(2), sub=SESSION, content_type="application/json", headers=link(first, 2))

    report = verify(second, trust(), options=STATEMENT_ONLY, earlier=[first])

    assert (report.verdict, links(report)[0][0]) == ("verified", "warned")


def test_numbers_that_do_not_grow_and_labels_of_another_form_fail() -> None:
    first = attached(session(2), None, 2)

    assert failed(verify(attached(session(5), first, 2), trust(), options=STATEMENT_ONLY, earlier=[first])) == [
        "supersedes"
    ]
    for headers in (
        {labels.SUPERSEDES: "text"},
        {labels.SUPERSEDES: b"short"},
        {labels.SESSION_CHECKPOINT: 0},
        {labels.SESSION_CHECKPOINT: True},
        {labels.SESSION_CHECKPOINT: "1"},
    ):
        wrong = statement(session(2), sub=SESSION, content_type="application/jsonl", headers=headers)
        assert failed(verify(wrong, trust(), options=STATEMENT_ONLY)) == ["supersedes"]


def test_a_statement_by_another_issuer_is_not_taken_for_an_earlier_one_without_a_warning() -> None:
    first = attached(session(2), None, 1, signer=OTHER_ISSUER, iss="https://other.example")
    second = attached(session(5), first, 2)

    report = verify(second, trust(), options=STATEMENT_ONLY, earlier=[first])

    assert links(report) == [("warned", "the earlier statement is by another issuer")]
