"""From a session with secrets to a statement without them, and one of them disclosed to an auditor."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.conftest import ISS, Run
from transparency.cli.exits import Exit
from transparency.cli.redaction_files import redacted_path, side_file_path, write_side_file
from transparency.cli.redaction_options import Redaction, chosen, redaction_options
from transparency.cose import labels
from transparency.cose.keys import PrivateKey
from transparency.records.detect import detect
from transparency.records.redaction_rules import BUILTIN
from transparency.statements.statement import Statement, sign_statement

CARD = "4111111111111111"
SESSION = "0192f0aa-1111-4222-8333-444455556666"
LINES = [
    {"type": "user", "sessionId": SESSION, "message": {"content": f"pay with {CARD} now"}},
    {"type": "user", "sessionId": SESSION, "message": {"content": "mail jane@example.com"}},
]


@pytest.fixture
def session(folder: Path, good: Run) -> Path:
    """``session.jsonl`` redacted and signed, as a command that signs does it; key and side file beside it."""
    good("keygen", "--out", "issuer.pem")
    file = folder / "session.jsonl"
    file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in LINES))
    sign(file, Redaction(BUILTIN))
    return file


def sign(file: Path, redaction: Redaction) -> bytes:
    data = file.read_bytes()
    redacted = redaction.apply(data, detect(data).format, str(file))
    assert redacted is not None
    write_side_file(file, redacted)
    key = PrivateKey.from_pem(Path("issuer.pem").read_bytes())
    statement = sign_statement(
        redacted.data, key, iss=ISS, sub=SESSION, content_type="application/jsonl",
        headers={labels.REDACTIONS: redacted.header},
    )  # fmt: skip
    file.with_suffix(".cose").write_bytes(statement)
    return statement


VERIFY = ("verify", "session.cose", "--issuer-key", "issuer.pub.pem", "--statement-only")


def test_one_item_is_disclosed_and_verified_and_shown_in_its_place(session: Path, run: Run, good: Run) -> None:
    good("disclose", "session.redactions.json", "--item", "1", "--out", "d.json")

    result = good(*VERIFY, "--disclosure", "d.json")

    assert f"disclosed-1 = {CARD}" in result.output
    assert f"pay with {CARD} now" in result.output
    assert "jane@example.com" not in result.output
    assert "jane@example.com" not in Path("d.json").read_text()
    assert "[REDACTED" not in good(*VERIFY).output


def test_a_wrong_disclosure_fails(session: Path, run: Run, good: Run) -> None:
    good("disclose", "session.redactions.json", "--item", "1", "--out", "d.json")
    body = json.loads(Path("d.json").read_text())
    Path("d.json").write_text(json.dumps(body | {"original": "5555555555554444"}))

    result = run(*VERIFY, "--disclosure", "d.json")

    assert result.exit_code == Exit.NEGATIVE
    assert "not what the statement commits to" in result.output
    assert "5555555555554444" not in result.output


def test_side_file_and_disclosure_are_the_owners(session: Path, good: Run) -> None:
    good("disclose", "session.redactions.json", "--item", "2", "--out", "d.json")

    for name in ("session.redactions.json", "d.json"):
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600


def test_without_an_item_the_redactions_are_listed_without_what_they_hide(session: Path, good: Run) -> None:
    listed = good("disclose", "session.redactions.json").output
    as_json = json.loads(good("disclose", "session.redactions.json", "--json").output)

    assert "card-number" in listed
    assert "1:9:/message/content" in listed
    assert CARD not in listed
    assert as_json["items"][1] == {"item": 2, "rule": "email", "location": "2:5:/message/content"}


def test_what_cannot_be_disclosed_is_said(session: Path, run: Run) -> None:
    Path("other.json").write_text("{}")

    for words, code in (
        (("session.redactions.json", "--item", "3", "--out", "d.json"), Exit.BAD_INPUT),
        (("session.redactions.json", "--item", "0", "--out", "d.json"), Exit.USAGE),
        (("session.redactions.json", "--item", "1"), Exit.USAGE),
        (("session.redactions.json", "--item", "1", "--out", "session.cose"), Exit.CANNOT_WRITE),
        (("other.json", "--item", "1", "--out", "d.json"), Exit.BAD_INPUT),
        (("missing.json",), Exit.NO_INPUT),
    ):
        assert run("disclose", *words).exit_code == code
    assert run(*VERIFY, "--disclosure", "other.json").exit_code == Exit.BAD_INPUT
    assert run(*VERIFY, "session.cose", "--disclosure", "other.json").exit_code == Exit.USAGE


def test_the_same_session_redacted_again_is_the_same_statement(session: Path) -> None:
    before = session.with_suffix(".cose").read_bytes()

    assert sign(session, Redaction(BUILTIN)) == before


def test_other_rules_and_other_bytes_get_fresh_salts_and_the_old_side_file_is_kept(session: Path) -> None:
    side = side_file_path(session)
    before = {item["salt"] for item in json.loads(side.read_text())["items"]}

    sign(session, Redaction(tuple(rule for rule in BUILTIN if rule.name == "email")))
    session.write_bytes(session.read_bytes() + json.dumps(LINES[0]).encode() + b"\n")
    sign(session, Redaction(BUILTIN))

    after = {item["salt"] for item in json.loads(side.read_text())["items"]}
    assert len(after) == 3
    assert not before & after
    assert len(list(session.parent.glob("session.*.redactions.json"))) == 2


def test_the_redacted_record_beside_the_original_is_the_one_that_is_verified(session: Path, good: Run) -> None:
    redacted = Redaction(BUILTIN).apply(session.read_bytes(), detect(session.read_bytes()).format, str(session))
    assert redacted is not None
    redacted_path(session).write_bytes(redacted.data)
    key = PrivateKey.from_pem(Path("issuer.pem").read_bytes())
    Path("session.cose").write_bytes(
        sign_statement(redacted.data, key, iss=ISS, sub=SESSION, content_type="application/jsonl", detached=True)
    )

    assert "session.redacted.jsonl" in good(*VERIFY).output


def test_an_earlier_statement_beside_it_is_found(session: Path, good: Run) -> None:
    key = PrivateKey.from_pem(Path("issuer.pem").read_bytes())
    whole = session.read_bytes()
    half = whole[: whole.index(b"\n") + 1]
    first = sign_statement(half, key, iss=ISS, sub=SESSION, content_type="application/jsonl")
    links: dict[int | str, Any] = {
        labels.SUPERSEDES: bytes(Statement.from_bytes(first).entry),
        labels.SESSION_CHECKPOINT: 2,
    }
    Path("session.1.cose").write_bytes(first)
    Path("session.cose").write_bytes(
        sign_statement(whole, key, iss=ISS, sub=SESSION, content_type="application/jsonl", headers=links)
    )

    beside = good(*VERIFY).output
    Path("session.1.cose").rename("elsewhere")
    alone = good(*VERIFY).output
    given = good(*VERIFY, "--earlier", "elsewhere").output

    assert f"the earlier record is the first {len(half)} of {len(whole)} bytes" in beside
    assert "which was not given" in alone
    assert "the earlier record is the first" in given


# --- the options -----------------------------------------------------------------------------------------------------


@click.command()
@redaction_options()
def command(redaction: Redaction) -> None:
    click.echo(f"{len(redaction.rules)} {sorted(redaction.omit)} {len(redaction.key or b'')} {redaction.wanted}")


def test_a_command_gets_what_the_flags_mean(folder: Path) -> None:
    from click.testing import CliRunner

    Path("rules.toml").write_text('builtin = ["jwt"]\n')
    flags = ["--redact-rules", "rules.toml", "--omit", "reasoning,tool-result", "--pseudonymous", "key.bin"]

    nothing = CliRunner().invoke(command, [])
    some = CliRunner().invoke(command, flags)
    again = CliRunner().invoke(command, ["--redact", "--pseudonymous", "key.bin"])

    assert nothing.stdout == "0 [] 0 False\n"
    assert some.stdout == "1 ['reasoning', 'tool-result'] 32 True\n"
    assert again.stdout == f"{len(BUILTIN)} [] 32 True\n"
    assert stat.S_IMODE(Path("key.bin").stat().st_mode) == 0o600


def test_flags_that_make_no_sense_are_refused(folder: Path) -> None:
    Path("rules.toml").write_text("x = 1")
    Path("key.bin").write_bytes(b"short")

    for arguments, match in (
        ((False, "rules.toml", None, None), "is not one of"),
        ((False, "missing.toml", None, None), "No such file"),
        ((False, None, "thoughts", None), "cannot be left out"),
        ((False, None, None, "key.bin"), "at least 16 bytes"),
    ):
        with pytest.raises(Exception, match=match):
            chosen(*arguments)
