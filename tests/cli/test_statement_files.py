"""Statements given where a record is wanted: whole, without a record, with another's, or broken."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served
from tests.cli.submitting import CLAUDE
from tests.client.scripted import ISSUER_KEY, LOG_KEY, STATEMENT, receipt_for
from transparency.client.signing import sign_record
from transparency.statements.statement import sign_envelope, sign_statement

RECORD = CLAUDE.read_bytes()
READING = pytest.mark.parametrize("command", ["show", "attribution"])


@READING
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (sign_statement(b"", ISSUER_KEY, iss=ISS, sub="s", content_type="application/jsonl"), "the payload is empty"),
        (b"\xd2\x84\x40", "is not a readable statement"),
        (b"\xd2", "is not a readable statement"),
        (receipt_for(STATEMENT, LOG_KEY), "is a receipt"),
    ],
    ids=["empty", "cut", "tag", "receipt"],
)
def test_a_statement_without_a_record_that_can_be_read_is_65(
    run: Run, folder: Path, command: str, data: bytes, words: str
) -> None:
    (folder / "x.cose").write_bytes(data)

    result = run(command, "x.cose")

    assert result.exit_code == 65
    assert words in result.stderr


@READING
@pytest.mark.parametrize("form", ["envelope", "detached"])
def test_the_record_beside_a_statement_is_the_one_it_is_about(run: Run, folder: Path, command: str, form: str) -> None:
    statement = (
        sign_envelope(hashlib.sha256(RECORD).digest(), ISSUER_KEY, iss=ISS, sub="s")
        if form == "envelope"
        else sign_record(RECORD, ISSUER_KEY, iss=ISS, detached=True).statement
    )
    (folder / "x.cose").write_bytes(statement)

    missing = run(command, "x.cose")
    (folder / "x").write_bytes(RECORD)
    right = run(command, "x.cose")
    (folder / "x").write_bytes(RECORD.replace(b"assistant", b"Assistant"))
    wrong = run(command, "x.cose")

    assert (missing.exit_code, right.exit_code, wrong.exit_code) == (66, 0, 65)
    assert "not the record" in wrong.stderr


def test_an_empty_record_goes_with_its_detached_statement(good: Run, folder: Path, served: Served) -> None:
    (folder / "empty").write_bytes(b"")
    good("sign", "empty", "--key", served.key, "--iss", ISS, "--sub", "nothing", "--detached", "--out", "empty.cose")

    good("submit", "empty.cose", "--payload", "empty", "--log", served.url)

    assert (folder / "empty.t.cose").exists()
