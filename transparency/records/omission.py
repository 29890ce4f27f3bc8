"""Leaving out what an agent was told, thought or did: everything of a kind, each piece replaced by a stub in its place.

Kinds are those of canonical entries. A converter says which unit became which entries. A unit of several kinds loses
only the blocks of those that were named, where its format keeps each in an object of its own (a thought beside an
answer); else it is left out whole: rather too much is left out than too little. The stub keeps what links units (ids,
times), says that it is one, and takes as many lines, so that what is left is still a file of its format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import convert
from transparency.records import format as known
from transparency.records.detect import Detected
from transparency.records.format import Format
from transparency.records.json_text import Path

KINDS: Final = ("user", "assistant", "tool-call", "tool-result", "reasoning", "system-event")
# Events that repeat under another name what an entry of a kind says (Codex writes most things twice).
_ECHOES: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("reasoning", frozenset({"reasoning"})),
    ("thinking", frozenset({"reasoning"})),
    ("thought", frozenset({"reasoning"})),
    ("user_message", frozenset({"user"})),
    ("agent_message", frozenset({"assistant"})),
    ("exec_", frozenset({"tool-call", "tool-result"})),
    ("tool", frozenset({"tool-call", "tool-result"})),
    ("patch_apply", frozenset({"tool-call", "tool-result"})),
    ("web_search", frozenset({"tool-call", "tool-result"})),
    ("progress", frozenset({"tool-call", "tool-result"})),
    ("turn_diff", frozenset({"tool-result"})),
    ("compact", frozenset(KINDS)),
    ("last-prompt", frozenset({"user"})),
    ("queue-operation", frozenset({"user"})),
    ("$set", frozenset(KINDS)),
    ("superseded", frozenset(KINDS)),
)
# What stays in a stub if it is a short scalar: it orders and links units, and says nothing of what they hold.
_KEPT: Final = frozenset({
    "role", "id", "uuid", "parentUuid", "logicalParentUuid", "parentId", "parentID", "parent-id", "sessionId",
    "sessionID", "session_id", "messageID", "timestamp", "isSidechain", "agentId", "call-id", "step_id", "stepId",
    "trace_id", "traceId", "parent_step_id", "parentStepId", "start_time", "startTime", "end_time", "endTime",
})  # fmt: skip
_LONGEST_KEPT: Final = 128
# Where units stand inside a document (formats.md 9); at the top of a file every value is one.
_LISTS: Final = frozenset({"messages", "history", "events", "steps", "entries", "children"})
# Kinds that may stand in a block of a message; the others are the message.
_BLOCK_KINDS: Final = frozenset({"reasoning", "tool-call", "tool-result"})
_ANY_TIME: Final = "1970-01-01T00:00:00Z"
_TIMING: Final = frozenset({"latency-ms", "latency", "durationMs", "timestamp", "cost", "traceId", "spanId"})
# Members of Claude Code's toolUseResult that say again what the call asked for: the texts of an edit, a prompt.
_ASKED: Final = frozenset({
    "oldString", "newString", "edits", "structuredPatch", "originalFile", "prompt", "command", "query", "oldTodos",
    "newTodos",
})  # fmt: skip
OMITTED: Final = "omitted"
_Blocks = Mapping[Path, Callable[[Mapping[str, Any]], frozenset[str]]]
_STUB: Final = b"[REDACTED:omit-"


def parse_kinds(text: str) -> frozenset[str]:
    """``reasoning,tool-result`` as kinds; MalformedError naming those there are."""
    kinds = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = sorted(kinds - set(KINDS))
    if unknown or not kinds:
        raise MalformedError(f"{', '.join(unknown) or 'nothing'} cannot be left out; there are {', '.join(KINDS)}")
    return kinds


class Omission:
    """What of one record is left out. ``mixed`` counts units left out whole that held something of another kind too."""

    def __init__(self, data: bytes, detected: Detected, kinds: Collection[str]) -> None:
        if detected.format in (known.AGENT_TRACE, known.AGENT_TRACE_JSONL):
            raise MalformedError(f"{detected.format.name} has no entries of a kind that could be left out")
        if detected.format is known.VAC_CBOR:
            raise MalformedError("of a VAC record in CBOR nothing is left out; give its JSON")
        self._format = detected.format
        self._kinds = frozenset(kinds)
        self._is_vac = detected.format is known.VAC_JSON
        self._units: Mapping[str, _Held] = {} if self._is_vac else _kinds_of_units(data, detected)
        self._blocks = _BLOCKS.get(detected.format, {})
        # The path of the unit whose blocks are being looked at, while the walk over the file is inside it.
        self._within: Path | None = None
        self.mixed = 0

    def may_be(self, path: Path) -> bool:
        """Whether an object at *path* could be left out, for a walk that comes by in document order."""
        if self._within is not None and len(path) > (top := len(self._within)) and path[:top] == self._within:
            return path[top:-1] in self._blocks
        self._within = None
        return not path or (len(path) > 1 and isinstance(path[-1], int) and path[-2] in _LISTS)

    def kind_of(self, path: Path, raw: str) -> str | None:
        """The kind for which the object at *path*, which ``may_be`` one, is left out; None if it stays."""
        if self._within is not None:
            return _first(self._blocks[path[len(self._within) : -1]](json.loads(raw)) & self._kinds)
        if self._is_vac:
            kind = json.loads(raw).get("type") if path[:2] == ("session", "entries") else None
            return kind if isinstance(kind, str) and kind in self._kinds else None
        held = self._units.get(hashlib.sha256(raw.encode()).hexdigest(), _Held())
        if self._has_blocks(held, raw):
            self._within = path
            return None
        self.mixed += bool(held.kinds & self._kinds and held.kinds - self._kinds)
        return _first(held.kinds & self._kinds)

    def _has_blocks(self, held: _Held, raw: str) -> bool:
        """Whether all that a unit holds of the kinds named stands in blocks, beside something that stays."""
        wanted = held.kinds & self._kinds
        if not wanted or not self._blocks or held.repeats or not wanted <= _BLOCK_KINDS or not held.kinds - wanted:
            return False
        value = json.loads(raw)
        if "toolUseResult" in value:
            return False  # Claude Code says a result twice in its line
        found: frozenset[str] = frozenset()
        for path, kinds_of in self._blocks.items():
            for block in _list_at(value, path):
                if not isinstance(block, dict):
                    return False
                found |= kinds_of(block)
        return wanted <= found

    def check(self, redacted: bytes) -> None:
        """Read the result as a verifier will: MalformedError if a unit of these kinds is still in it.

        That is so where a record holds another inside a string (A2A puts a trace into a message's text).
        """
        if self._is_vac:
            return
        detected = Detected(self._format)
        held = _kinds_of_units(redacted, detected)
        for unit in convert.units(redacted, detected):
            there = held.get(hashlib.sha256(unit.raw).hexdigest(), _Held())
            left = there.kinds & self._kinds
            # A stub reads as a message or an event, whatever it stands for; never as what stands in a block.
            if (left & _BLOCK_KINDS and not there.repeats) or (left and _STUB not in unit.raw):
                where = ", ".join(f"{name} {place}" for name, place in unit.ref.items())
                raise MalformedError(f"the unit at {where} cannot be left out: it does not stand by itself in the file")

    def stub(self, raw: str, mark: str, rename: Callable[[str], str]) -> tuple[str, Path]:
        """What takes the place of a unit, on as many lines, and the path in it to its mark."""
        value = json.loads(raw)
        kept = {name: _renamed(item, rename) for name, item in value.items() if name in _KEPT and _is_short(item)}
        if self._within is not None:
            return _on_as_many_lines({**kept, "type": OMITTED, OMITTED: mark}, raw), (OMITTED,)
        if self._format is known.OPENCODE_EXPORT and isinstance(value.get("info"), dict):
            # A message is named by its info, and its parts say what it holds.
            info = value["info"].items()
            short = {name: _renamed(item, rename) for name, item in info if name in _KEPT and _is_short(item)}
            kept["info"] = short | {name: item for name, item in info if name == "time" and _is_times(item)}
        members, path = self._members(value, kept, mark)
        return _on_as_many_lines(members, raw), path

    def _members(self, value: Mapping[str, Any], kept: dict[str, Any], mark: str) -> tuple[dict[str, Any], Path]:
        """As the format's converter wants a unit of a kind it does not know, so that it becomes an event."""
        data = {OMITTED: mark}
        if self._is_vac:
            return {"type": "system-event", "event-type": OMITTED, "data": data, **kept}, ("data", OMITTED)
        if self._format is known.CODEX and "payload" in value:
            return {**kept, "type": OMITTED, "payload": data}, ("payload", OMITTED)
        if self._format is known.CURSOR:
            content = [{"type": "text", "text": mark}]
            return {**kept, "message": {"content": content}}, ("message", "content", 0, "text")
        if self._format is known.OPENCODE_EXPORT:
            return {**kept, "parts": [{"type": OMITTED, **data}]}, ("parts", 0, OMITTED)
        if self._format is known.A2A:
            return {**kept, OMITTED: mark}, (OMITTED,)
        return {**kept, "type": OMITTED, **data}, (OMITTED,)


@dataclass(frozen=True, slots=True)
class _Held:
    """The kinds of what a unit holds. ``repeats``: some of it is an event that says under its name what others say."""

    kinds: frozenset[str] = frozenset()
    repeats: bool = False


def _kinds_of_units(data: bytes, detected: Detected) -> dict[str, _Held]:
    held: dict[str, _Held] = {}
    for record in convert.convert(data, created=_ANY_TIME, detected=detected):
        for entry in convert.flat(record["session"]["entries"]):
            digest = entry["source-ref"]["sha-256"]
            before, found = held.get(digest, _Held()), _held(entry)
            held[digest] = _Held(before.kinds | found.kinds, before.repeats or found.repeats)
    return held


def _held(entry: Mapping[str, Any]) -> _Held:
    kind = entry["type"]
    if kind == "tool-result" and entry.get("output") is None and _TIMING.issuperset(entry.get("native", ())):
        return _Held()  # that a call ended, and nothing of what it gave
    if kind == "tool-result" and _ASKED.intersection(_answered(entry)):
        return _Held(_CALL, repeats=True)
    if kind != "system-event":
        return _Held(frozenset({kind}))
    name = str(entry.get("event-type", "")).lower()
    repeated = [kinds for word, kinds in _ECHOES if word in name]
    return _Held(frozenset({kind}).union(*repeated), bool(repeated))


def _answered(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """What Claude Code keeps of a result beside its message."""
    result = entry.get("native", {}).get("toolUseResult")
    return result if isinstance(result, dict) else {}


def _content_block(block: Mapping[str, Any]) -> frozenset[str]:
    """Of the Messages API, as Claude Code and Cursor record it."""
    kind = str(block.get("type"))
    if kind in ("thinking", "redacted_thinking"):
        return frozenset({"reasoning"})
    return frozenset(
        name for name, ending in (("tool-call", "tool_use"), ("tool-result", "tool_result")) if kind.endswith(ending)
    )


def _gemini_part(part: Mapping[str, Any]) -> frozenset[str]:
    named = (("tool-call", "functionCall"), ("tool-result", "functionResponse"))
    return frozenset(name for name, member in named if member in part)


def _opencode_part(part: Mapping[str, Any]) -> frozenset[str]:
    return {"reasoning": frozenset({"reasoning"}), "tool": _CALL}.get(str(part.get("type")), frozenset())


_CALL: Final = frozenset({"tool-call", "tool-result"})
_GEMINI: Final[_Blocks] = {
    ("thoughts",): lambda _: frozenset({"reasoning"}),
    ("toolCalls",): lambda _: _CALL,
    ("content",): _gemini_part,
}
# Where units keep blocks, and which kinds a block is of.
_BLOCKS: Final[Mapping[Format, _Blocks]] = {
    known.CLAUDE: {("message", "content"): _content_block},
    known.CURSOR: {("message", "content"): _content_block},
    known.GEMINI_JSON: _GEMINI,
    known.GEMINI_JSONL: _GEMINI,
    known.OPENCODE_EXPORT: {("parts",): _opencode_part},
}


def _list_at(value: Any, path: Path) -> list[Any]:  # noqa: ANN401 - JSON
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


def _first(kinds: frozenset[str]) -> str | None:
    return min(kinds, default=None)


def _on_as_many_lines(members: Mapping[str, Any], raw: str) -> str:
    text = json.dumps(members, ensure_ascii=raw.isascii(), separators=(",", ":"))
    return text[:-1] + "\n" * raw.count("\n") + "}"


def _is_short(item: object) -> bool:
    return (
        item is None or isinstance(item, bool | int | float) or (isinstance(item, str) and len(item) <= _LONGEST_KEPT)
    )


def _is_times(item: object) -> bool:
    return isinstance(item, dict) and all(type(value) in (int, float) for value in item.values())


def _renamed(item: object, rename: Callable[[str], str]) -> object:
    return rename(item) if isinstance(item, str) else item
