"""``submit SESSION`` again: the same statement is reused, a session that grew is continued, nothing is lost by it."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served
from tests.cli.submitting import CLAUDE, RECORDS, Submit, Verify, large, statement_of
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.statements.statement import entry_id
from transparency.statements.transparent import receipts_of


def test_the_same_session_again_is_the_same_entry_and_nothing_is_sent(folder: Path, submit: Submit) -> None:
    shutil.copy(CLAUDE, folder / "again.jsonl")

    first = submit("again.jsonl")
    before = Path("again.jsonl.cose").read_bytes()
    second = submit("again.jsonl")

    assert (first["known"], second["known"]) == (False, True)
    assert first["index"] == second["index"]
    assert Path("again.jsonl.cose").read_bytes() == before


def test_a_statement_signed_and_never_sent_is_sent_as_it_is(folder: Path, submit: Submit, good: Run) -> None:
    """The kill between signing and registering; with ML-DSA or RSA a second signature would be a second entry."""
    shutil.copy(CLAUDE, folder / "s.jsonl")
    submit("s.jsonl")
    registered = Sign1.from_bytes(Path("s.jsonl.cose").read_bytes())
    without = {label: value for label, value in registered.unprotected.items() if label != labels.RECEIPTS}
    Path("s.jsonl.cose").write_bytes(registered.with_unprotected(without).to_bytes())

    answer = submit("s.jsonl")

    assert answer["known"] is False
    assert answer["entry-id"] == statement_of("s.jsonl.cose").entry_id
    assert len(receipts_of(Sign1.from_bytes(Path("s.jsonl.cose").read_bytes()))) == 1


def test_a_statement_kept_beside_it_is_not_replaced_by_one_with_other_options(
    run: Run, folder: Path, submit: Submit, served: Served
) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")
    submit("s.jsonl")
    before = Path("s.jsonl.cose").read_bytes()
    words = ("--key", served.key, "--iss", ISS, "--log", served.url)

    result = run("submit", "s.jsonl", "--private", *words)

    assert result.exit_code == 73
    assert "other options" in result.stderr
    assert Path("s.jsonl.cose").read_bytes() == before
    assert submit("s.jsonl", "--private", "--force")["form"] == "private"


@pytest.mark.parametrize("content", [b"not a statement", b"\xd2\x84"], ids=["text", "half"])
def test_a_file_that_is_no_statement_of_ours_is_left_alone(
    run: Run, folder: Path, served: Served, content: bytes
) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")
    (folder / "s.jsonl.cose").write_bytes(content)

    result = run("submit", "s.jsonl", "--key", served.key, "--iss", ISS, "--log", served.url)

    assert result.exit_code == 73
    assert (folder / "s.jsonl.cose").read_bytes() == content


def test_another_session_under_the_same_name_does_not_supersede(
    run: Run, folder: Path, submit: Submit, served: Served
) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")
    submit("s.jsonl")
    shutil.copy(RECORDS / "codex" / "session.jsonl", folder / "s.jsonl")

    result = run("submit", "s.jsonl", "--key", served.key, "--iss", ISS, "--log", served.url)

    assert result.exit_code == 73
    assert "another session" in result.stderr


@pytest.mark.parametrize("flags", [(), ("--private",), ("--detached",)], ids=str)
def test_a_session_at_three_lengths_is_a_chain_of_three(folder: Path, submit: Submit, flags: tuple[str, ...]) -> None:
    lines = large(40).splitlines(keepends=True)
    answers, entries = [], []
    for length in (len(lines) - 20, len(lines) - 10, len(lines)):
        (folder / "s.jsonl").write_bytes(b"".join(lines[:length]))
        answers.append(submit("s.jsonl", *flags))
        entries.append(answers[-1]["entry-id"])

    assert len(set(entries)) == 3
    assert [answer["supersedes"] for answer in answers] == [None, entries[0], entries[1]]
    assert [answer["checkpoint"] for answer in answers] == [None, 2, 3]
    assert [answer["earlier-is-prefix"] for answer in answers] == [None, True, True]
    newest = Sign1.from_bytes(Path("s.jsonl.cose").read_bytes())
    middle = Sign1.from_bytes(Path("s.jsonl.2.cose").read_bytes())
    assert entry_id(newest.headers[labels.SUPERSEDES]) == entries[1]
    assert entry_id(middle.headers[labels.SUPERSEDES]) == entries[0]
    assert labels.SUPERSEDES not in Sign1.from_bytes(Path("s.jsonl.1.cose").read_bytes()).headers
    assert all(receipts_of(message) for message in (newest, middle))
    again = submit("s.jsonl", *flags)
    assert (again["known"], again["entry-id"]) == (True, entries[2])


def test_a_session_without_an_id_of_its_own_is_known_by_how_it_begins(folder: Path, submit: Submit) -> None:
    """Cursor's transcripts name no session: the id is made from their bytes and changes as they grow."""
    lines = (RECORDS / "cursor" / "tool-use.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "c.jsonl").write_bytes(b"".join(lines[:-1]))
    first = submit("c.jsonl")
    (folder / "c.jsonl").write_bytes(b"".join(lines))

    assert submit("c.jsonl")["supersedes"] == first["entry-id"]


def test_a_session_that_was_rewritten_supersedes_and_that_is_said(folder: Path, good: Run, served: Served) -> None:
    record = (RECORDS / "gemini" / "session.json").read_bytes()
    words = ("submit", "g.json", "--key", served.key, "--iss", ISS, "--log", served.url)
    (folder / "g.json").write_bytes(record)
    good(*words)
    (folder / "g.json").write_bytes(record.replace("Grüß Gott".encode(), b"Good day"))

    told = good(*words).stderr

    assert "supersedes checkpoint 1" in told
    assert "NOT how it begins" in told


def test_a_statement_that_was_never_registered_is_not_superseded(
    folder: Path, submit: Submit, good: Run, served: Served
) -> None:
    lines = CLAUDE.read_bytes().splitlines(keepends=True)
    (folder / "s.jsonl").write_bytes(b"".join(lines[:-1]) + b'{"type":"summary","summary":"never","leafUuid":"q"}\n')
    good("sign", "s.jsonl", "--key", served.key, "--iss", ISS, "--out", "s.jsonl.cose")
    (folder / "s.jsonl").write_bytes(b"".join(lines))

    answer = submit("s.jsonl")

    assert answer["supersedes"] is None
    assert not Path("s.jsonl.1.cose").exists()


def test_an_unfinished_session_is_a_checkpoint_with_a_notice(
    folder: Path, submit: Submit, good: Run, served: Served
) -> None:
    lines = CLAUDE.read_bytes().splitlines(keepends=True)
    cut = next(n for n, line in enumerate(lines, 1) if b'"toolu_1"' in line)
    (folder / "s.jsonl").write_bytes(b"".join(lines[:cut]))

    told = good("submit", "s.jsonl", "--key", served.key, "--iss", ISS, "--log", served.url).stderr
    (folder / "s.jsonl").write_bytes(b"".join(lines))
    done = submit("s.jsonl")

    assert "not finished: this is checkpoint 1" in told
    assert statement_of("s.jsonl.1.cose").message.headers[labels.SESSION_CHECKPOINT] == 1
    assert (done["checkpoint"], done["finished"]) == (2, True)


def test_convert_registers_the_canonical_record_linked_by_hash(folder: Path, submit: Submit, verify: Verify) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")

    answer = submit("s.jsonl", "--convert")
    again = submit("s.jsonl", "--convert")

    (canonical,) = answer["canonical"]
    record = json.loads(Path("s.jsonl.vac.json").read_bytes())
    assert record["source"]["raw-hash"] == hashlib.sha256(CLAUDE.read_bytes()).hexdigest()
    assert statement_of("s.jsonl.vac.json.cose").payload == Path("s.jsonl.vac.json").read_bytes()
    assert canonical["format"] == "ietf-vac-v3.0"
    assert canonical["entry-id"] != answer["entry-id"]
    assert (again["canonical"][0]["known"], again["canonical"][0]["entry-id"]) == (True, canonical["entry-id"])
    assert verify("s.jsonl.vac.json.cose") == 0


def test_convert_of_several_sessions_registers_one_record_each(folder: Path, submit: Submit) -> None:
    shutil.copy(RECORDS / "opencode" / "sessions.concat.json", folder / "o.json")

    answer = submit("o.json", "--convert")

    assert [Path(each["file"]).name for each in answer["canonical"]] == [
        "o.json.vac-1.json.cose",
        "o.json.vac-2.json.cose",
    ]
    assert any("2 sessions" in note for note in answer["notes"])


def test_convert_of_a_canonical_record_has_nothing_to_add(folder: Path, submit: Submit) -> None:
    shutil.copy(RECORDS / "session.vac.json", folder / "v.json")

    answer = submit("v.json", "--convert")

    assert "canonical" not in answer
    assert any("canonical record already" in note for note in answer["notes"])


def test_convert_does_not_write_over_a_file_of_the_users(run: Run, folder: Path, served: Served) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")
    (folder / "s.jsonl.vac.json").write_bytes(b"mine")

    result = run("submit", "s.jsonl", "--convert", "--key", served.key, "--iss", ISS, "--log", served.url)

    assert result.exit_code == 73
    assert (folder / "s.jsonl.vac.json").read_bytes() == b"mine"


def test_what_a_log_refuses_leaves_no_statement_behind(run: Run, folder: Path, served: Served) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")

    result = run("submit", "s.jsonl", "--key", served.key, "--iss", "https://unknown.example", "--log", served.url)

    assert result.exit_code == 77
    assert not (folder / "s.jsonl.cose").exists()


def test_a_log_that_is_not_there_leaves_the_statement_for_the_next_time(
    run: Run, folder: Path, submit: Submit, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transparency.client import retry

    monkeypatch.setattr(retry.Backoff, "delay", lambda *_: 0.0)
    shutil.copy(CLAUDE, folder / "s.jsonl")

    result = run("submit", "s.jsonl", "--key", served.key, "--iss", ISS, "--log", "http://127.0.0.1:1")

    assert result.exit_code == 69
    assert submit("s.jsonl")["entry-id"] == statement_of("s.jsonl.cose").entry_id


def test_not_waiting_keeps_the_statement_and_the_receipt_comes_with_the_next_run(folder: Path, submit: Submit) -> None:
    (folder / "w.jsonl").write_bytes(CLAUDE.read_bytes() + b'{"type":"summary","summary":"w","leafUuid":"w"}\n')

    pending = submit("w.jsonl", "--no-wait")
    registered = submit("w.jsonl")

    assert pending["location"].endswith(registered["entry-id"])
    assert receipts_of(Sign1.from_bytes(Path("w.jsonl.cose").read_bytes()))
