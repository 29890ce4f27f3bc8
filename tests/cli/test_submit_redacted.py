"""``submit --redact``: what must not leave stays with its owner, and the statement commits to it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served
from tests.cli.submitting import Submit, Verify, statement_of
from transparency.cli.sessions import expand
from transparency.cose import labels

CARD = "4111111111111111"
LINES: tuple[dict[str, object], ...] = (
    {"role": "user", "content": f"my card is {CARD}, mail jane@example.com"},
    {"role": "assistant", "id": "m1", "model": "claude-x", "content": [{"type": "text", "text": "noted"}]},
)


def session(folder: Path) -> Path:
    path = folder / "red.jsonl"
    rows = [
        {
            "type": message["role"], "uuid": f"u{n}", "parentUuid": None, "sessionId": "s-77", "cwd": "/w",
            "version": "1", "timestamp": f"2026-01-01T00:00:0{n}.000Z", "message": message,
        }
        for n, message in enumerate(LINES)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_secrets_stay_with_their_owner_and_the_statement_commits_to_them(
    folder: Path, submit: Submit, verify: Verify
) -> None:
    file = session(folder)

    answer = submit(file.name, "--redact")

    assert answer["file"] == "red.redacted.jsonl.cose"
    statement = statement_of("red.redacted.jsonl.cose")
    assert CARD.encode() not in statement.normalised
    assert b"jane@example.com" not in statement.normalised
    assert len(statement.message.headers[labels.REDACTIONS]) == 2
    side = folder / "red.redactions.json"
    assert stat.S_IMODE(side.stat().st_mode) == 0o600
    assert CARD in side.read_text()
    assert verify("red.redacted.jsonl.cose") == 0


def test_one_item_is_disclosed_and_verifies_and_a_changed_one_does_not(
    folder: Path, submit: Submit, good: Run, verify: Verify
) -> None:
    submit(session(folder).name, "--redact")
    good("disclose", "red.redactions.json", "--item", "1", "--out", "d.json")

    assert verify("red.redacted.jsonl.cose", "--disclosure", "d.json") == 0
    forged = (folder / "d.json").read_text().replace(CARD, "5500005555555559")
    (folder / "forged.json").write_text(forged)
    assert verify("red.redacted.jsonl.cose", "--disclosure", "forged.json") == 1


def test_the_same_session_redacted_again_is_the_same_entry(folder: Path, submit: Submit) -> None:
    file = session(folder)

    assert submit(file.name, "--redact")["entry-id"] == submit(file.name, "--redact")["entry-id"]


def test_redaction_cannot_be_said_of_a_signed_statement(folder: Path, run: Run, submit: Submit) -> None:
    submit(session(folder).name)

    refused = run("submit", "red.jsonl.cose", "--redact", "--log", "http://127.0.0.1:1", "--key", "k", "--iss", ISS)

    assert refused.exit_code == 64
    assert "--redact" in refused.stderr


def test_a_folder_is_submitted_without_what_redaction_wrote_there(folder: Path, submit: Submit, good: Run) -> None:
    inner = folder / "sessions"
    inner.mkdir()
    session(inner)
    submit("sessions/red.jsonl", "--redact")

    again = submit("sessions/red.jsonl", "--redact")
    names = {path.name for path in inner.iterdir()}

    assert again["file"] == "sessions/red.redacted.jsonl.cose"
    assert names == {"red.jsonl", "red.redacted.jsonl", "red.redacted.jsonl.cose", "red.redactions.json"}
    assert [source.name for source in expand([str(inner)])] == [str(inner / "red.jsonl")]


def test_a_session_that_grows_into_a_secret_continues_its_chain(folder: Path, submit: Submit, verify: Verify) -> None:
    """The name of the statement does not depend on whether a rule matched."""
    file = session(folder)
    whole = file.read_text().splitlines(keepends=True)
    file.write_text(whole[1])
    first = submit(file.name, "--redact")
    file.write_text(whole[1] + whole[0])

    second = submit(file.name, "--redact")

    assert first["file"] == second["file"] == "red.redacted.jsonl.cose"
    statement = statement_of("red.redacted.jsonl.cose")
    assert labels.SUPERSEDES in statement.message.headers
    assert CARD.encode() not in statement.normalised
    assert verify("red.redacted.jsonl.cose") == 0


def test_force_never_destroys_a_receipt(folder: Path, submit: Submit, run: Run, verify: Verify) -> None:
    """Neither when the log refuses the new statement nor when it cannot be reached."""
    file = session(folder)
    submit(file.name)
    before = (folder / "red.jsonl.cose").read_bytes()

    refused = run("submit", file.name, "--private", "--force", "--iss", "https://nobody.example")
    assert refused.exit_code != 0
    assert (folder / "red.jsonl.cose").read_bytes() == before
    unreachable = run("submit", file.name, "--private", "--force", "--log", "http://127.0.0.1:1")
    assert unreachable.exit_code != 0
    kept = [path.read_bytes() for path in folder.glob("*.cose")]
    assert before in kept


def submit_words(served: Served, *more: str) -> tuple[str | Path, ...]:
    return ("submit", "red.jsonl", *more, "--key", served.key, "--iss", ISS, "--log", served.url)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("--redact",), ("--redact", "--omit", "assistant")),
        (("--redact", "--private"), ("--omit", "user", "--private")),
        (("--redact", "--detached"), ("--omit", "user", "--detached")),
        (("--redact-rules", "nothing.toml"), ("--redact",)),
        (("--redact",), ("--redact-rules", "nothing.toml")),
    ],
    ids=str,
)
def test_the_same_session_with_other_redactions_is_left_alone_and_that_is_said(
    folder: Path, submit: Submit, run: Run, served: Served, first: tuple[str, ...], then: tuple[str, ...]
) -> None:
    session(folder)
    (folder / "nothing.toml").write_text('builtin = []\n[[rule]]\nname = "none"\nwords = ["not to be found"]\n')
    submit("red.jsonl", *first)
    before = files(folder)

    result = run(*submit_words(served, *then))

    assert result.exit_code == 73
    assert files(folder) == before


def test_another_pseudonym_leaves_everything_as_it_was(folder: Path, submit: Submit, run: Run, served: Served) -> None:
    session(folder)
    submit("red.jsonl", "--pseudonymous", "a.bin")
    (folder / "b.bin").write_bytes(bytes(32))
    before = files(folder)

    assert run(*submit_words(served, "--pseudonymous", "b.bin")).exit_code == 73
    assert files(folder) == before


def test_forced_to_other_redactions_the_only_copy_of_what_was_signed_is_kept(
    folder: Path, submit: Submit, verify: Verify
) -> None:
    session(folder)
    submit("red.jsonl", "--redact", "--private")
    signed = (folder / "red.redacted.jsonl").read_bytes()

    answer = submit("red.jsonl", "--redact", "--omit", "assistant", "--private", "--force")

    assert answer["supersedes"] is None
    assert (folder / "red.redacted.jsonl").read_bytes() != signed
    assert signed in files(folder).values()
    assert verify("red.redacted.jsonl.cose") == 0
    assert [source.name for source in expand(["."]) if "red" in source.name] == [str(folder / "red.jsonl")]


def test_rules_that_hold_no_rule_are_refused_and_nothing_is_sent(folder: Path, run: Run, served: Served) -> None:
    session(folder)
    (folder / "rules.toml").write_text("builtin = []\n")
    before = files(folder)

    result = run(*submit_words(served, "--redact-rules", "rules.toml"))

    assert result.exit_code == 65
    assert "nothing would be redacted" in result.stderr
    assert files(folder) == before
