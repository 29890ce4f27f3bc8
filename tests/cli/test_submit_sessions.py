"""``submit SESSION``: any agent's file becomes a registered statement, in the form its size and the user ask for."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, ROOT, Run, Served, serving
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.records import tree
from transparency.statements.statement import Statement, entry_id
from transparency.statements.transparent import receipts_of

RECORDS = ROOT / "tests" / "fixtures" / "records"
CLAUDE = RECORDS / "claude" / "session.jsonl"
FORMATS = {
    "claude/session.jsonl": ("claude-jsonl", "application/jsonl"),
    "codex/session.jsonl": ("codex-jsonl", "application/jsonl"),
    "gemini/session.json": ("gemini-json", "application/json"),
    "gemini/session.jsonl": ("gemini-jsonl", "application/jsonl"),
    "opencode/export.json": ("opencode-export-json", "application/json"),
    "opencode/sessions.concat.json": ("opencode-json", "application/json"),
    "cursor/tool-use.jsonl": ("cursor-jsonl", "application/jsonl"),
    "agentlog/every-event.agentlog.json": ("agentlog-0.2", "application/agentlog+json"),
    "agent-trace/record.json": ("agent-trace-0.1", "application/vnd.agent-trace.record+json"),
    "agent-trace/traces.jsonl": ("agent-trace-0.1", "application/jsonl"),
    "a2a/proto.json": ("a2a-traceability-v1", "application/json"),
    "session.vac.json": ("ietf-vac-v3.0", "application/agent-conversation"),
}

Submit = Callable[..., dict[str, Any]]


@pytest.fixture
def submit(good: Run, served: Served) -> Submit:
    def run(*words: str | Path) -> dict[str, Any]:
        result = good("submit", *words, "--key", served.key, "--iss", ISS, "--log", served.url, "--json")
        value: dict[str, Any] = json.loads(result.stdout)
        return value

    return run


@pytest.fixture
def verify(run: Run, good: Run, served: Served) -> Callable[..., int]:
    def verified(*words: str | Path) -> int:
        good("keys", "--log", served.url, "--out", "log.keys", "--force")
        return run("verify", *words, "--log-key", "log.keys", "--issuer-key", served.public).exit_code

    return verified


def large(lines: int = 2000) -> bytes:
    """A Claude session of more than 64 KiB: the fixture, and many answers after it."""
    base = CLAUDE.read_bytes()
    more = [
        {"type": "user", "uuid": f"x{n}", "sessionId": "5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c",
         "timestamp": "2026-03-02T11:00:00.000Z", "message": {"role": "user", "content": f"and number {n}"}}
        for n in range(lines)
    ]  # fmt: skip
    return base + b"".join(json.dumps(line).encode() + b"\n" for line in more)


def statement_of(path: str) -> Statement:
    return Statement.from_bytes(Path(path).read_bytes())


@pytest.mark.parametrize("name", FORMATS)
def test_a_session_of_any_format_is_registered_and_verifies(
    folder: Path, submit: Submit, verify: Callable[..., int], name: str
) -> None:
    trace_format, content_type = FORMATS[name]
    file = folder / Path(name).name
    shutil.copy(RECORDS / name, file)

    answer = submit(file.name)

    statement = statement_of(f"{file.name}.cose")
    assert answer["file"] == f"{file.name}.cose"
    assert answer["format"] == trace_format
    assert statement.content_type == content_type
    assert statement.payload == file.read_bytes()
    assert answer["form"] == "attached"
    signed = statement.message.headers.get(labels.TRACE_METADATA_SIGNED)
    assert answer["trace-metadata"] == (signed is not None)
    if signed is not None:
        assert signed == statement.message.unprotected[labels.TRACE_METADATA]
        assert signed["trace-format"] == trace_format
        assert signed["content-hash"] == hashlib.sha256(file.read_bytes()).hexdigest()
    else:
        assert any(note.startswith("no trace-metadata: ") for note in answer["notes"])
    assert verify(f"{file.name}.cose") in (0, 3)


def test_a_small_session_is_attached_and_a_large_one_lies_beside_the_log(
    folder: Path, submit: Submit, good: Run, verify: Callable[..., int], served: Served
) -> None:
    record = large()
    (folder / "big.jsonl").write_bytes(record)

    answer = submit("big.jsonl")

    digest = hashlib.sha256(record).hexdigest()
    statement = statement_of("big.jsonl.cose")
    assert (answer["form"], answer["artifact"]) == ("envelope", digest)
    assert statement.envelope is not None
    assert statement.payload.hex() == digest
    assert statement.envelope.preimage_content_type == "application/jsonl"
    assert (served.data / "artifacts" / digest[:2] / digest[2:]).read_bytes() == record
    assert statement.message.headers[labels.TRACE_METADATA_SIGNED]["content-hash"] == digest
    assert verify("big.jsonl.cose") == 0  # the record is found beside it


def test_attach_puts_a_large_session_into_the_statement(folder: Path, submit: Submit, served: Served) -> None:
    record = large(1999)
    (folder / "big.jsonl").write_bytes(record)

    assert submit("big.jsonl", "--attach")["form"] == "attached"

    assert statement_of("big.jsonl.cose").payload == record
    digest = hashlib.sha256(record).hexdigest()
    assert not (served.data / "artifacts" / digest[:2] / digest[2:]).exists()


@pytest.mark.parametrize("lines", [0, 1998])
def test_private_gives_the_log_a_digest_and_nothing_else(
    folder: Path, submit: Submit, served: Served, lines: int
) -> None:
    record = large(lines) + b'{"type":"summary","summary":"private","leafUuid":"p"}\n'
    (folder / "p.jsonl").write_bytes(record)

    answer = submit("p.jsonl", "--private", "--sub", "urn:x:1")

    digest = hashlib.sha256(record).hexdigest()
    assert answer["form"] == "private"
    assert answer["readable-by"].startswith("nobody")
    statement = statement_of("p.jsonl.cose")
    assert statement.payload.hex() == digest
    assert labels.TRACE_METADATA_SIGNED not in statement.message.headers
    assert labels.TRACE_METADATA not in statement.message.unprotected
    assert b"5b0d7a40" not in Path("p.jsonl.cose").read_bytes()
    assert not (served.data / "artifacts" / digest[:2] / digest[2:]).exists()


def test_private_carries_trace_metadata_when_asked(folder: Path, submit: Submit) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")

    assert submit("s.jsonl", "--private", "--trace-metadata")["trace-metadata"] is True


def test_the_output_says_what_happened_and_who_can_read_it(good: Run, folder: Path, served: Served) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")
    words = ("--key", served.key, "--iss", ISS, "--log", served.url)

    attached = good("submit", "s.jsonl", *words, "--out", "a.cose").stderr
    private = good("submit", "s.jsonl", *words, "--private", "--out", "p.cose").stderr

    assert "the record is in the statement" in attached
    assert "read token" in attached
    assert "SHA-256 only" in private
    assert "nobody" in private


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


def test_convert_registers_the_canonical_record_linked_by_hash(
    folder: Path, submit: Submit, verify: Callable[..., int]
) -> None:
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


def test_an_unknown_format_is_65_and_named_unless_the_user_says_what_it_is(
    run: Run, folder: Path, submit: Submit, served: Served
) -> None:
    (folder / "notes.txt").write_bytes(b"what I remember")
    words = ("--key", served.key, "--iss", ISS, "--log", served.url)

    refused = run("submit", "notes.txt", *words)

    assert refused.exit_code == 65
    assert "text that is not JSON" in refused.stderr
    assert submit("notes.txt", "--content-type", "text/plain", "--sub", "urn:x:notes")["format"] is None


def test_a_line_half_written_is_65_and_says_why(run: Run, folder: Path, served: Served) -> None:
    (folder / "s.jsonl").write_bytes(CLAUDE.read_bytes()[:-20])

    result = run("submit", "s.jsonl", "--key", served.key, "--iss", ISS, "--log", served.url)

    assert result.exit_code == 65
    assert "line" in result.stderr
    assert "try again" in result.stderr
    assert not (folder / "s.jsonl.cose").exists()


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


def test_a_session_from_standard_input_goes_to_standard_output(good: Run, folder: Path, served: Served) -> None:
    words = ("submit", "-", "--key", served.key, "--iss", ISS, "--log", served.url)

    result = good(*words, stdin=CLAUDE.read_bytes())

    assert Statement.from_bytes(result.stdout_bytes).payload == CLAUDE.read_bytes()
    assert list(folder.iterdir()) == []


def test_a_storage_tree_is_packed_and_its_bytes_are_kept_where_verify_finds_them(
    folder: Path, submit: Submit, verify: Callable[..., int]
) -> None:
    files = {
        "session/p/ses_1.json": {"id": "ses_1", "version": "1.0.0", "time": {"created": 1767225600000}},
        "message/ses_1/msg_1.json": {"id": "msg_1", "sessionID": "ses_1", "role": "user"},
        "part/msg_1/prt_1.json": {"id": "prt_1", "messageID": "msg_1", "type": "text", "text": "hi"},
    }
    for name, value in files.items():
        path = folder / "storage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    packed = tree.pack({name: (folder / "storage" / name).read_bytes() for name in files})

    attached = submit("storage")
    private = submit("storage", "--private", "--out", "private.cose")

    assert statement_of("storage.cose").payload == packed
    assert attached["format"] == "opencode-json"
    assert private["form"] == "private"
    assert Path("private.payload").read_bytes() == packed
    assert verify("private.cose") == 0


def test_a_claude_session_is_registered_with_its_sub_agents(folder: Path, submit: Submit) -> None:
    shutil.copytree(RECORDS / "claude" / "folder", folder / "project")
    name = "5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c"

    by_project = submit("project")
    by_session = submit(f"project/{name}")

    assert Path(by_project["file"]) == Path(f"project/{name}.cose")
    assert by_session["known"] is True
    paths = [file.path for file in tree.unpack(statement_of(by_project["file"]).payload)]
    assert paths[0] == f"{name}.jsonl"
    assert any("/subagents/agent-" in path for path in paths)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 64),
        (("s.jsonl", "--latest", "claude"), 64),
        (("s.jsonl", "--private", "--attach"), 64),
        (("s.jsonl", "t.jsonl", "--sub", "x"), 64),
        (("s.jsonl", "t.jsonl", "--out", "x"), 64),
        (("missing.jsonl",), 66),
        (("empty",), 66),
        (("*.none",), 66),
        (("--latest", "codex"), 66),
    ],
    ids=str,
)
def test_what_goes_wrong_has_its_code(
    run: Run, folder: Path, served: Served, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    shutil.copy(CLAUDE, folder / "s.jsonl")
    shutil.copy(CLAUDE, folder / "t.jsonl")
    (folder / "empty").mkdir()

    result = run("submit", *words, "--key", served.key, "--iss", ISS, "--log", served.url)

    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == 1


def test_a_submit_token_is_enough_to_register_a_large_session(tmp_path: Path, folder: Path, good: Run) -> None:
    (folder / "big.jsonl").write_bytes(large())
    data = tmp_path / "closed"
    data.mkdir()
    with serving(data) as log:
        made = json.loads(good("token", "create", "--data", log.data, "--scope", "submit", "--json").stdout)
        words = ("big.jsonl", "--key", log.key, "--iss", ISS, "--log", log.url, "--token", made["secret"], "--json")

        assert json.loads(good("submit", *words).stdout)["form"] == "envelope"
