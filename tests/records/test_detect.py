"""Detection: every format from its bytes alone, in the order of formats.md 9, and a plain word for everything else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.records import format as known
from transparency.records import strict_json, tree, vac_cbor
from transparency.records.detect import UnknownFormatError, detect
from transparency.records.format import Format

RECORDS = Path(__file__).parent.parent / "fixtures" / "records"
VAC: dict[str, Any] = {
    "version": "3.0.0-draft",
    "id": "r",
    "session": {"session-id": "s", "agent-meta": {"model-id": "m", "model-provider": "p"}, "entries": []},
}
TRACE: dict[str, Any] = {"version": "0.1.0", "id": "i", "timestamp": "t", "files": [{"path": "a", "conversations": []}]}
STEPS: dict[str, Any] = {"trace_id": "t", "steps": []}
KEY = "github.com/a2aproject/a2a-samples/extensions/traceability/v1/traceability"
CLAUDE_LINE = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "x"}}
CODEX_LINE = {"timestamp": "t", "type": "session_meta", "payload": {}}
GEMINI = {"sessionId": "s", "projectHash": "h", "messages": []}
GEMINI_HEAD = {"sessionId": "s", "projectHash": "h", "startTime": "t", "lastUpdated": "t", "kind": "main"}
EXPORT = {"info": {"id": "ses_1"}, "messages": [{"info": {}, "parts": []}]}
OPENCODE = [{"id": "p", "worktree": "/w", "time": {}}, {"id": "m", "sessionID": "s", "role": "user"}]


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def jsonl(*values: object) -> bytes:
    return b"".join(dump(value) + b"\n" for value in values)


def pretty(*values: object) -> bytes:
    return "\n".join(json.dumps(value, indent=2) for value in values).encode()


CASES: list[tuple[str, bytes, Format]] = [
    ("COSE with its tag", b"\xd2\x84\x43\xa1\x01\x26\xa0\xf6\x40", known.COSE),
    ("COSE without a tag", b"\x84\x43\xa1\x01\x26\xa0\xf6\x40", known.COSE),
    ("VAC in CBOR", vac_cbor.dumps(VAC), known.VAC_CBOR),
    ("VAC in CBOR with its tag", vac_cbor.dumps(VAC, tagged=True), known.VAC_CBOR),
    ("VAC", dump(VAC), known.VAC_JSON),
    ("VAC over several lines", pretty(VAC), known.VAC_JSON),
    (
        "VAC with attribution alone",
        dump({"version": "1", "id": "x", "file-attribution": {"files": []}}),
        known.VAC_JSON,
    ),
    ("VAC without a version, to be told so", dump({"session": VAC["session"]}), known.VAC_JSON),
    ("AgentLog 0.2", dump({"specVersion": "0.2.0", "agent": {}, "events": []}), known.AGENTLOG),
    ("AgentLog 0.1", dump({"specVersion": "0.1.0", "agent": {}, "events": []}), known.AGENTLOG_01),
    ("Agent Trace", pretty(TRACE), known.AGENT_TRACE),
    ("Agent Trace on one line", dump(TRACE), known.AGENT_TRACE),
    (
        "Agent Trace with the version of the reference",
        dump(TRACE | {"version": "1.0", "metadata": None}),
        known.AGENT_TRACE,
    ),
    ("Agent Trace JSONL", jsonl(TRACE, TRACE), known.AGENT_TRACE_JSONL),
    (
        "Agent Trace, the flat dialect",
        jsonl(*[{"schema": "agent-trace/v0.1.0", "file_path": "a"}] * 2),
        known.AGENT_TRACE_JSONL,
    ),
    ("A2A bare", dump(STEPS), known.A2A),
    ("A2A bare, proto3-JSON", dump({"traceId": "t", "steps": []}), known.A2A),
    ("A2A in a message's metadata", dump({"kind": "message", "parts": [], "metadata": {KEY: {}}}), known.A2A),
    (
        "A2A in a status event",
        dump({"kind": "status-update", "status": {"message": {"metadata": {KEY: STEPS}}}}),
        known.A2A,
    ),
    (
        "A2A as a text part",
        dump({"artifactId": "a", "parts": [{"kind": "text", "text": json.dumps(STEPS)}]}),
        known.A2A,
    ),
    (
        "A2A as an additional artifact",
        dump(
            {"kind": "task", "artifacts": [{"parts": [{"text": "hi"}]}, {"parts": [{"kind": "data", "data": STEPS}]}]}
        ),
        known.A2A,
    ),
    (
        "A2A in a JSON-RPC response",
        dump({"jsonrpc": "2.0", "id": 1, "result": {"artifacts": [{"metadata": {KEY: STEPS}}]}}),
        known.A2A,
    ),
    ("Gemini JSON", pretty(GEMINI), known.GEMINI_JSON),
    ("Gemini JSON, an older form", pretty({"history": [{"role": "user", "parts": []}], "meta": {}}), known.GEMINI_JSON),
    ("OpenCode export", pretty(EXPORT), known.OPENCODE_EXPORT),
    ("Codex", jsonl(CODEX_LINE, CODEX_LINE), known.CODEX),
    ("Codex of one line", jsonl(CODEX_LINE), known.CODEX),
    (
        "Codex before 0.50",
        jsonl({"id": "i", "timestamp": "t", "instructions": None, "git": {}}, {"record_type": "state"}),
        known.CODEX,
    ),
    (
        "Codex bare items",
        jsonl({"type": "message", "role": "user", "content": []}, {"type": "reasoning", "summary": []}),
        known.CODEX,
    ),
    ("Claude", jsonl(CLAUDE_LINE, CLAUDE_LINE), known.CLAUDE),
    ("Claude of one line", dump(CLAUDE_LINE), known.CLAUDE),
    (
        "Claude that begins with a summary",
        jsonl({"type": "summary", "summary": "x", "leafUuid": "l"}, {}),
        known.CLAUDE,
    ),
    (
        "Claude with Windows line ends",
        b"\r\n" + dump(CLAUDE_LINE) + b"\r\n" + dump(CLAUDE_LINE) + b"\r\n",
        known.CLAUDE,
    ),
    ("Claude with a broken second line", jsonl(CLAUDE_LINE) + b'{"type": ', known.CLAUDE),
    ("Gemini JSONL", jsonl(GEMINI_HEAD, {"$set": {}}), known.GEMINI_JSONL),
    (
        "Gemini JSONL without its first line",
        jsonl({"id": "1", "timestamp": "t", "type": "user", "content": ""}, {"$set": {}}),
        known.GEMINI_JSONL,
    ),
    ("Cursor", jsonl(*[{"role": "user", "message": {"content": []}}] * 2), known.CURSOR),
    ("OpenCode objects", pretty(*OPENCODE), known.OPENCODE),
    ("OpenCode objects after a bare array", pretty([], *OPENCODE), known.OPENCODE),
    ("OpenCode objects on a line each", jsonl(*OPENCODE), known.OPENCODE),
    ("an OpenCode storage tree", tree.pack({"message/s/m.json": dump(OPENCODE[1])}), known.OPENCODE),
    ("a Claude session with its sub-agents", tree.pack({"s.jsonl": jsonl(CLAUDE_LINE)}), known.CLAUDE),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_format_is_known_by_its_bytes(data: bytes, expected: Format) -> None:
    assert detect(data).format is expected


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"", "no bytes"),
        (b" \n", "nothing but white space"),
        (b"plain text", "text that is not JSON"),
        (b"\xff\x00\x01binary", "binary data that begins with the bytes ff 00 01"),
        (b"SQLite format 3\x00....", "SQLite"),
        (gzip.compress(b"{}"), "gzip"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b"{}", "an empty JSON object"),
        (b"[1, 2]", "several|array of 2"),
        (dump({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}), "JSON Schema"),
        (dump({"schema_version": "ATIF-v1.7", "steps": []}), "ATIF 1.7"),
        (dump({"kty": "OKP"}), "JSON Web Key"),
        (dump({"schema": "agentlog.v1", "events": []}), "another format with the name AgentLog"),
        (dump({"v": 1, "messages": []}), 'the members "v", "messages"'),
        (
            jsonl({"kind": 0}, {"kind": 1}),
            'several JSON values, of which the first is a JSON object with the members "kind"',
        ),
        (dump({str(number): 0 for number in range(30)}), "and 22 more"),
        (b'{"a": 1,}', "line 1, column 9"),
        (b'{\n "a": tru\n}', "line 2, column"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"\xa1\x61a\x01", "CBOR object with the members"),
        (b"\xbf\xff", "CBOR"),
        (tree.pack({"a.txt": b"x"}), "folder"),
        (dump([]) * 3, "array of 0"),
    ],
)
def test_what_is_unknown_is_named(data: bytes, seen: str) -> None:
    with pytest.raises(UnknownFormatError, match=seen):
        detect(data)


def test_names_from_the_file_are_safe_to_print() -> None:
    with pytest.raises(UnknownFormatError) as caught:
        detect(dump({"\x1b[31m" + "long" * 100: 1, "\u202e": 2}))

    message = str(caught.value)
    assert message.isascii()
    assert message.isprintable()
    assert len(message) < 200


def test_a_byte_order_mark_is_noted_and_does_not_hide_the_format() -> None:
    detected = detect(b"\xef\xbb\xbf" + jsonl(CLAUDE_LINE, CLAUDE_LINE))

    assert detected.format is known.CLAUDE
    assert "byte order mark" in detected.note
    assert not detect(jsonl(CLAUDE_LINE)).note


@pytest.mark.parametrize(
    ("changes", "profile"),
    [
        ({}, "-00"),
        ({"recording-agent": {}}, "19 Feb"),
        ({"session": None, "file-attribution": {"files": []}}, "19 Feb"),
        (
            {"file-attribution": {"files": [{"path": "a", "conversations": [{"ranges": [{"start_line": 1}]}]}]}},
            "19 Feb",
        ),
        ({"session": VAC["session"] | {"entries": [{"type": "tool-call", "call-id": "1"}]}}, "19 Feb"),
        ({"session": VAC["session"] | {"entries": [{"type": "user", "children": [{"type": "reasoning"}]}]}}, "19 Feb"),
        (
            {"session": VAC["session"] | {"entries": [{"type": "tool-call", "name": "n", "input": 1, "output": 2}]}},
            "-00",
        ),
    ],
)
def test_the_profile_of_a_vac_record_is_told_by_what_only_one_has(changes: dict[str, Any], profile: str) -> None:
    assert detect(dump(VAC | changes)).profile == profile


def test_only_the_beginning_of_jsonl_is_read() -> None:
    assert detect(jsonl(CLAUDE_LINE) + b"not JSON at all\n" * 100_000).format is known.CLAUDE


def test_a_document_too_large_to_be_parsed_is_known_by_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    big = pretty({"info": {"id": "s"}, "messages": [{"info": {}, "parts": ["x" * 200_000]}] * 3})
    monkeypatch.setattr(strict_json, "MAX_SIZE", 100_000)

    assert detect(big).format is known.OPENCODE_EXPORT


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"\x81" * 100_000, b"\xa1\x61a" * 100_000])
def test_deep_nesting_is_unknown_and_no_crash(data: bytes) -> None:
    with pytest.raises(UnknownFormatError):
        detect(data)


@pytest.mark.parametrize(
    ("data", "seen"),
    [(b'"a"', "a JSON string"), (b" 5\n", "a JSON number"), (b"true", "a JSON truth value"), (b"null", "a JSON null"),
     (b"[1, 2]", "a JSON array of 2 items"), (b"tru", "text that is not JSON")],
)  # fmt: skip
def test_a_json_value_that_holds_no_record_is_called_what_it_is(data: bytes, seen: str) -> None:
    with pytest.raises(UnknownFormatError, match=seen):
        detect(data)


def test_a_packed_folder_that_is_cut_short_is_no_format() -> None:
    with pytest.raises(UnknownFormatError, match="a packed folder that is not whole"):
        detect(b'{"transparency-tree":1,"path":')


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":, \n0ae\\', max_size=60).map(str.encode))
def test_any_bytes_are_known_or_unknown_and_nothing_else(data: bytes) -> None:
    try:
        seen = detect(data).format.name
    except UnknownFormatError as error:
        seen = str(error).removeprefix("unknown format: ")

    assert seen
