"""Which format a parsed JSON value belongs to, by the members it has (formats.md 9, steps 2-4).

Nothing is checked here: a record with a mistake must still be recognised, so that the mistake can be named. What real
tools write beside the letter of their format (formats.md 4, 7) is recognised too. The order of the tests is the order
of formats.md 9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from transparency.records import format as known
from transparency.records.format import Format

Test = Callable[[Mapping[str, Any]], bool]

A2A_KEY: Final = "github.com/a2aproject/a2a-samples/extensions/traceability/v1/traceability"

# Where an A2A object carries others: Message, Task, Artifact, events, JSON-RPC envelopes (formats.md 6).
_A2A_PATHS: Final = (
    "metadata", "status", "message", "artifact", "artifacts", "result", "params", "parts", "history", "task",
    "statusUpdate", "artifactUpdate", "status_update", "artifact_update", "root", "data",
)  # fmt: skip
_MAX_NODES: Final = 10_000
_MAX_TEXT: Final = 16 * 1024 * 1024

_GEMINI_TYPES: Final = frozenset({"user", "gemini", "info", "error", "warning"})
CODEX_LINES: Final = frozenset({
    "session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state",
    "inter_agent_communication", "inter_agent_communication_metadata", "security_risk_score",
})  # fmt: skip
# Bare items of rollouts before 0.50, each with a member that no other format gives such a line.
_CODEX_ITEMS: Final[Mapping[str, str]] = {
    "message": "role",
    "reasoning": "summary",
    "function_call": "arguments",
    "function_call_output": "call_id",
    "custom_tool_call": "call_id",
    "custom_tool_call_output": "call_id",
    "local_shell_call": "action",
    "web_search_call": "action",
}
_CLAUDE_LINES: Final[Mapping[str, str]] = {
    "summary": "leafUuid",
    "file-history-snapshot": "snapshot",
    "file-history-delta": "messageId",
    "started": "agentId",
    "result": "agentId",
}
OPENCODE_PARTS: Final = frozenset({
    "text", "reasoning", "tool", "file", "patch", "step-start", "step-finish", "snapshot", "agent", "subtask",
    "compaction", "retry",
})  # fmt: skip
_OPENCODE_OWN_PARTS: Final = frozenset({"step-start", "step-finish", "patch"})
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")
_LONGEST_NAME: Final = 40
_MOST_NAMES: Final = 8


def document(value: object) -> Format | None:
    """The format of a value that is the whole file (step 2)."""
    return _first(_DOCUMENTS, value)


def line(value: object) -> Format | None:
    """The format of a file of which this is one line (step 3)."""
    return _first(_LINES, value)


def _first(tests: tuple[tuple[Test, Format], ...], value: object) -> Format | None:
    if not isinstance(value, dict):
        return None
    return next((format_ for test, format_ in tests if test(value)), None)


def piece(value: object) -> Format | None:
    """The format of a file of which this is one value among others (step 4), or a part kept in a file of its own."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("agentType"), str) and not value.keys() & {"id", "version", "role"}:
        return known.CLAUDE  # agent-*.meta.json beside a sub-agent's file
    identity, time = value.get("id"), value.get("time")
    if not isinstance(identity, str):
        return known.OPENCODE if isinstance(value.get("sessionID"), str) else None
    marks = value.keys() & {"sessionID", "messageID", "projectID", "worktree"}
    timed = isinstance(time, dict) and _is_text_in(value.get("type"), OPENCODE_PARTS)
    return known.OPENCODE if marks or timed or _is_text_in(value.get("type"), _OPENCODE_OWN_PARTS) else None


def is_vac(value: Mapping[str, Any]) -> bool:
    """``session``+``version``+``id``; or, where one of these is missing, members that only VAC has."""
    session, attribution = value.get("session"), value.get("file-attribution")
    if {"session", "version", "id"} <= value.keys():
        return True
    if isinstance(session, dict) and len(session.keys() & {"session-id", "agent-meta", "entries"}) > 1:
        return True
    return isinstance(attribution, dict) and "files" in attribution


def is_agent_trace(value: Mapping[str, Any]) -> bool:
    """``files[].conversations``; no file at all with the rest of a record; the flat dialect (formats.md 4)."""
    files, schema = value.get("files"), value.get("schema")
    if isinstance(schema, str) and schema.startswith("agent-trace/"):
        return True
    if not isinstance(files, list):
        return False
    if any(isinstance(file, dict) and "conversations" in file for file in files[:_MAX_NODES]):
        return True
    return {"version", "id", "timestamp"} <= value.keys() and all(
        isinstance(file, dict) and "path" in file for file in files[:_MAX_NODES]
    )


def is_response_trace(value: object) -> bool:
    """An A2A ResponseTrace, in either spelling: every field of proto3 is optional, but nothing else tells a trace."""
    return (
        isinstance(value, dict) and ("trace_id" in value or "traceId" in value) and isinstance(value.get("steps"), list)
    )


def holds_a2a_trace(value: object) -> bool:
    """A trace: bare, in metadata under its key, in a data part, or as the text of a text part (formats.md 6)."""
    waiting, seen = [value], 0
    while waiting and seen < _MAX_NODES:
        node = waiting.pop()
        seen += 1
        if isinstance(node, list):
            waiting += node[:_MAX_NODES]
        if not isinstance(node, dict):
            continue
        if is_response_trace(node) or _trace_text(node.get("text")):
            return True
        metadata = node.get("metadata")
        if isinstance(metadata, dict) and any(str(name).endswith(A2A_KEY) for name in metadata):
            return True
        waiting += [node[name] for name in _A2A_PATHS if name in node]
    return False


def _trace_text(text: object) -> bool:
    if not isinstance(text, str) or len(text) > _MAX_TEXT or text.lstrip()[:1] != "{":
        return False
    if '"trace_id"' not in text and '"traceId"' not in text:
        return False
    try:
        return is_response_trace(json.loads(text))
    except (ValueError, RecursionError):
        return False


def _is_gemini_json(value: Mapping[str, Any]) -> bool:
    messages, history = value.get("messages"), value.get("history")
    if "sessionId" in value and isinstance(messages, list):
        first = messages[0] if messages else None
        typed = isinstance(first, dict) and _is_text_in(first.get("type"), _GEMINI_TYPES)
        return "projectHash" in value or (typed and ("startTime" in value or "lastUpdated" in value))
    # An older form: {history: [{role, parts}], meta, start_time}.
    first = history[0] if isinstance(history, list) and history else None
    return isinstance(first, dict) and {"role", "parts"} <= first.keys()


def _is_opencode_export(value: Mapping[str, Any]) -> bool:
    info, messages = value.get("info"), value.get("messages")
    if not isinstance(info, dict) or not isinstance(messages, list):
        return False
    return not messages or (isinstance(messages[0], dict) and "parts" in messages[0])


def _is_codex(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    kind = kind if isinstance(kind, str) else None
    if "payload" in value and kind is not None:
        return "timestamp" in value or kind in CODEX_LINES
    if "sessionId" in value or "parentUuid" in value:
        return False
    if kind is None:
        # The first line of a rollout before 0.50, and its "state" lines.
        header = {"id", "timestamp"} <= value.keys() and bool(value.keys() & {"instructions", "git"})
        return header or isinstance(value.get("record_type"), str)
    return _CODEX_ITEMS.get(kind) in value


def _is_agentlog(value: Mapping[str, Any]) -> bool:
    """The three members that no other format with this name has (formats.md 5); or two of them and a known version."""
    if {"specVersion", "events", "agent"} <= value.keys():
        return True
    return value.get("specVersion") in ("0.1.0", "0.2.0") and "events" in value


def _is_agentlog_01(value: Mapping[str, Any]) -> bool:
    return _is_agentlog(value) and str(value.get("specVersion")).startswith("0.1.")


def _is_claude(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    return "parentUuid" in value or "sessionId" in value or _CLAUDE_LINES.get(kind) in value


def _is_gemini_line(value: Mapping[str, Any]) -> bool:
    if "$set" in value or "$rewindTo" in value or {"sessionId", "projectHash"} <= value.keys():
        return True
    return _is_text_in(value.get("type"), _GEMINI_TYPES) and {"id", "timestamp", "content"} <= value.keys()


def _is_cursor(value: Mapping[str, Any]) -> bool:
    message = value.get("message")
    return value.keys() == {"role", "message"} and isinstance(message, dict) and "content" in message


def _is_text_in(value: object, texts: frozenset[str]) -> bool:
    return isinstance(value, str) and value in texts


_DOCUMENTS: Final[tuple[tuple[Test, Format], ...]] = (
    (is_vac, known.VAC_JSON),
    (_is_agentlog_01, known.AGENTLOG_01),
    (_is_agentlog, known.AGENTLOG),
    (is_agent_trace, known.AGENT_TRACE),
    (holds_a2a_trace, known.A2A),
    (_is_gemini_json, known.GEMINI_JSON),
    (_is_opencode_export, known.OPENCODE_EXPORT),
)
_LINES: Final[tuple[tuple[Test, Format], ...]] = (
    (_is_codex, known.CODEX),
    (_is_claude, known.CLAUDE),
    (_is_gemini_line, known.GEMINI_JSONL),
    (_is_cursor, known.CURSOR),
    (is_agent_trace, known.AGENT_TRACE_JSONL),
)


def what(value: object) -> str:
    """What a value is that no format recognises, for a message: names only, never contents."""
    if isinstance(value, list):
        return f"a JSON array of {len(value)} items"
    if not isinstance(value, dict):
        return f"a JSON {_SCALARS.get(type(value), 'value')}"
    return _named(value) or _members(value)


def _named(value: Mapping[str, Any]) -> str:
    """What the value itself says it is, where that is something well known."""
    schema, version = value.get("$schema"), value.get("schema_version")
    if isinstance(schema, str) and "json-schema.org" in schema:
        return "a JSON Schema, which describes records and is none"
    if isinstance(version, str) and version.startswith("ATIF"):
        return f"ATIF {name(version.removeprefix('ATIF').lstrip('-v'))}, which is not read"
    if "kty" in value:
        return "a JSON Web Key"
    for member in ("format", "schema", "specVersion", "type", "kind"):
        said = value.get(member)
        if isinstance(said, str) and "agentlog" in said.lower():
            return f'another format with the name AgentLog ("{name(said)}")'
    return ""


def _members(value: Mapping[str, Any]) -> str:
    if not value:
        return "an empty JSON object"
    names = ", ".join(f'"{name(member)}"' for member in islice(value, _MOST_NAMES))
    more = f" and {len(value) - _MOST_NAMES} more" if len(value) > _MOST_NAMES else ""
    return f"a JSON object with the members {names}{more}"


_SCALARS: Final[Mapping[type, str]] = {
    str: "string", int: "number", float: "number", bool: "truth value", type(None): "null",
}  # fmt: skip


def name(text: object) -> str:
    """A name from a record, safe to print: short, and without a control or bidi character."""
    plain = _UNPRINTABLE.sub("?", str(text)[: _LONGEST_NAME + 1])
    return plain if len(plain) <= _LONGEST_NAME else plain[: _LONGEST_NAME - 1] + "~"
