"""``submit SESSION``: any agent's file becomes a registered statement, in the form its size and the user ask for."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served, serving
from tests.cli.submitting import CLAUDE, RECORDS, Submit, Verify, large, statement_of
from transparency.cose import labels
from transparency.records import tree
from transparency.statements.statement import Statement

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


@pytest.mark.parametrize("name", FORMATS)
def test_a_session_of_any_format_is_registered_and_verifies(
    folder: Path, submit: Submit, verify: Verify, name: str
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
    folder: Path, submit: Submit, good: Run, verify: Verify, served: Served
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


def test_a_session_from_standard_input_goes_to_standard_output(good: Run, folder: Path, served: Served) -> None:
    words = ("submit", "-", "--key", served.key, "--iss", ISS, "--log", served.url)

    result = good(*words, stdin=CLAUDE.read_bytes())

    assert Statement.from_bytes(result.stdout_bytes).payload == CLAUDE.read_bytes()
    assert list(folder.iterdir()) == []


def test_a_storage_tree_is_packed_and_its_bytes_are_kept_where_verify_finds_them(
    folder: Path, submit: Submit, verify: Verify
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
        (("empty",), 65),
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
