"""Cursor's agent transcripts as canonical records: a line is a message, and there is nothing else.

The file has no session, no times, no model and no tool results (formats.md 7). None of them is invented: the session
id is derived from the bytes, the model is "unknown", a tool call stands without an answer, and ``[REDACTED]``, which
Cursor writes where it withheld text, stays as it was written.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records.canonical import AGENT, HUMAN, SessionDraft, name_uuid, rest
from transparency.records.drift import Drift
from transparency.records.format import Format
from transparency.records.native import Members, required
from transparency.records.unit import Unit, jsonl_units
from transparency.records.violation import Violation

units = jsonl_units

_ACTORS: Final = {"user": HUMAN, "assistant": AGENT}


def sessions(data: bytes, format: Format) -> list[SessionDraft]:  # noqa: A002 - the name all converters use
    """The one session of the file."""
    draft = SessionDraft(format, name_uuid(hashlib.sha256(data).hexdigest()), cli_name="cursor")
    for unit in units(data):
        draft.units += 1
        _write(draft, unit)
    if not draft.units:
        raise MalformedError("there is no line in this Cursor transcript")
    return [draft]


def check(data: bytes, format: Format) -> list[Violation]:  # noqa: A002, ARG001 - as sessions
    """Cursor has no specification: warnings only, for lines that are no message as far as this converter knows."""
    drift = Drift()
    for unit in units(data):
        if not _is_message(unit.value):
            drift.saw("not a message of user or assistant: kept as an event", int(unit.ref["line"]))
    return drift.warnings()


def _write(draft: SessionDraft, unit: Unit) -> None:
    value = unit.value
    if not _is_message(value):
        role = value.get("role") if isinstance(value, dict) else None
        draft.unknown(unit, role if isinstance(role, str) and role else "line")
        return
    message = value["message"]
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    calls = [(number, block) for number, block in enumerate(blocks) if _is_call(block)]
    native = rest(value, ("role", "message"))
    if others := rest(message, ("content",) if content is not None else ()):
        native["message"] = others
    made = draft.entry(
        unit,
        value["role"],
        {"content": _spoken(content), "id": f"line-{unit.ref['line']}"},
        actor=_ACTORS[value["role"]],
        native=native,
    )
    for number, block in calls:
        _call(draft, unit, made, number, block)


def _spoken(content: object) -> object:
    """The content without its tool calls; a single text as the text it is, anything richer as its blocks, verbatim."""
    if not isinstance(content, list):
        return content
    said = [block for block in content if not _is_call(block)]
    if (
        len(said) == 1
        and isinstance(said[0], dict)
        and said[0].keys() == {"type", "text"}
        and said[0]["type"] == "text"
    ):
        return said[0]["text"]
    return said


def _call(draft: SessionDraft, unit: Unit, message: dict[str, Any], number: int, block: dict[str, Any]) -> None:
    taken = Members(block, "type", "name", "input")
    given = required(draft, unit, "tool-call", block, "input")
    members = {"name": block["name"], "input": given, "call-id": taken.text("id")}
    # The place among the blocks is the only order there is between texts and calls.
    draft.entry(unit, "tool-call", members, actor=AGENT, native={**taken.rest(), "block": number}, parent=message)


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in ("user", "assistant")
        and isinstance(value.get("message"), dict)
    )


def _is_call(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("name"), str)
