"""Leaving out what an agent was told, thought or did: the native units of a kind, each replaced by a stub in its place.

Kinds are those of canonical entries. A converter says which unit became which entries, so a unit is left out if any
of its entries is of a kind that was named: rather too much is left out than too little. The stub keeps what links units
(ids, times), says that it is one, and takes as many lines, so that what is left is still a file of its format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import convert
from transparency.records import format as known
from transparency.records.detect import Detected
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
_ANY_TIME: Final = "1970-01-01T00:00:00Z"
_TIMING: Final = frozenset({"latency-ms", "latency", "durationMs", "timestamp", "cost", "traceId", "spanId"})
OMITTED: Final = "omitted"
_STUB: Final = b"[REDACTED:omit-"


def parse_kinds(text: str) -> frozenset[str]:
    """``reasoning,tool-result`` as kinds; MalformedError naming those there are."""
    kinds = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = sorted(kinds - set(KINDS))
    if unknown or not kinds:
        raise MalformedError(f"{', '.join(unknown) or 'nothing'} cannot be left out; there are {', '.join(KINDS)}")
    return kinds


class Omission:
    """Which units of one record are left out. ``mixed`` counts those that held something of another kind too."""

    def __init__(self, data: bytes, detected: Detected, kinds: Collection[str]) -> None:
        self._format = detected.format
        self._kinds = frozenset(kinds)
        self._is_vac = detected.format is known.VAC_JSON
        self._units: Mapping[str, frozenset[str]] = {} if self._is_vac else _kinds_of_units(data, detected)
        self.mixed = 0
        if detected.format in (known.AGENT_TRACE, known.AGENT_TRACE_JSONL):
            raise MalformedError(f"{detected.format.name} has no entries of a kind that could be left out")

    def kind_of(self, path: Path, raw: str) -> str | None:
        """The kind for which the object at *path* is left out; None if it stays."""
        if path and not (len(path) > 1 and isinstance(path[-1], int) and path[-2] in _LISTS):
            return None
        if self._is_vac:
            kind = json.loads(raw).get("type") if path[:2] == ("session", "entries") else None
            return kind if isinstance(kind, str) and kind in self._kinds else None
        held = self._units.get(hashlib.sha256(raw.encode()).hexdigest(), frozenset())
        found = sorted(held & self._kinds)
        if not found:
            return None
        self.mixed += bool(held - self._kinds)
        return found[0]

    def check(self, redacted: bytes) -> None:
        """Read the result as a verifier will: MalformedError if a unit of these kinds is still in it.

        That is so where a record holds another inside a string (A2A puts a trace into a message's text).
        """
        if self._is_vac:
            return
        detected = Detected(self._format)
        kinds = _kinds_of_units(redacted, detected)
        for unit in convert.units(redacted, detected):
            if kinds.get(hashlib.sha256(unit.raw).hexdigest(), frozenset()) & self._kinds and _STUB not in unit.raw:
                where = ", ".join(f"{name} {place}" for name, place in unit.ref.items())
                raise MalformedError(f"the unit at {where} cannot be left out: it does not stand by itself in the file")

    def stub(self, raw: str, mark: str, rename: Callable[[str], str]) -> tuple[str, Path]:
        """What takes the place of a unit, on as many lines, and the path in it to its mark."""
        value = json.loads(raw)
        kept = {name: _renamed(item, rename) for name, item in value.items() if name in _KEPT and _is_short(item)}
        if self._format is known.OPENCODE_EXPORT and isinstance(value.get("info"), dict):
            # A message is named by its info, and its parts say what it holds.
            info = value["info"].items()
            short = {name: _renamed(item, rename) for name, item in info if name in _KEPT and _is_short(item)}
            kept["info"] = short | {name: item for name, item in info if name == "time" and _is_times(item)}
        members, path = self._members(value, kept, mark)
        text = json.dumps(members, ensure_ascii=raw.isascii(), separators=(",", ":"))
        return text[:-1] + "\n" * raw.count("\n") + "}", path

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


def _kinds_of_units(data: bytes, detected: Detected) -> dict[str, frozenset[str]]:
    kinds: dict[str, frozenset[str]] = {}
    for record in convert.convert(data, created=_ANY_TIME, detected=detected):
        for entry in convert.flat(record["session"]["entries"]):
            digest = entry["source-ref"]["sha-256"]
            kinds[digest] = kinds.get(digest, frozenset()) | _kinds_of(entry)
    return kinds


def _kinds_of(entry: Mapping[str, Any]) -> frozenset[str]:
    kind = entry["type"]
    if kind == "tool-result" and entry.get("output") is None and _TIMING.issuperset(entry.get("native", ())):
        return frozenset()  # that a call ended, and nothing of what it gave
    if kind != "system-event":
        return frozenset({kind})
    name = str(entry.get("event-type", "")).lower()
    return frozenset({kind}).union(*(kinds for word, kinds in _ECHOES if word in name))


def _is_short(item: object) -> bool:
    return (
        item is None or isinstance(item, bool | int | float) or (isinstance(item, str) and len(item) <= _LONGEST_KEPT)
    )


def _is_times(item: object) -> bool:
    return isinstance(item, dict) and all(type(value) in (int, float) for value in item.values())


def _renamed(item: object, rename: Callable[[str], str]) -> object:
    return rename(item) if isinstance(item, str) else item
