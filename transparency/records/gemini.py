"""Gemini CLI sessions: one JSON document, or (since early 2026) JSONL that is a log of changes (formats.md 7, 8.2).

In JSONL a message is written again, whole, whenever a tool call or a token count is added to it; ``$set`` changes the
session and may replace all its messages; ``$rewindTo`` takes back a message and all after it. The file keeps what the
session took back, and so does the record: a version that was written over becomes an event, a message that was taken
back stays a message, and each names the line that did it. So tokens and tool calls count once, and nothing is lost.

A unit is a line (JSONL) or a message (JSON). Who makes entries from a message is :mod:`gemini_messages`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import json_sequence
from transparency.records.canonical import SessionDraft, name_uuid, time_member
from transparency.records.drift import Drift
from transparency.records.format import Format
from transparency.records.gemini_messages import MESSAGE_KINDS, Context, add_message, kind_of, supersede
from transparency.records.native import text
from transparency.records.unit import Unit, jsonl_units
from transparency.records.violation import Violation

CLI_NAME: Final = "gemini-cli"
SET: Final = "$set"
REWIND: Final = "$rewindTo"
# ``history`` is how saved conversations and old files call it.
_LISTS: Final = ("messages", "history")
_REST_OF_SPACE: Final = re.compile(rb"[ \t\r\n]*+\Z")
_STARTS: Final = ("startTime", "start_time")


def units(data: bytes) -> Iterator[Unit]:
    """Every line, or every message of a document."""
    return _message_units(data) if _is_document(data) else jsonl_units(data)


def _is_document(data: bytes) -> bool:
    """One object that has messages, rather than lines. Decided by its members, not by its layout.

    The first line of a JSONL file may hold an empty list of messages, and a document may stand in one line: what
    follows the object tells.
    """
    try:
        names = [name for name, _ in json_sequence.members(data)]
    except MalformedError:
        # Something follows the first object, or it is broken. A line of its own for the bracket is a document's.
        return data[: data.find(b"\n") + 1].strip() == b"{"
    newline = data.find(b"\n")
    goes_on = newline >= 0 and _REST_OF_SPACE.match(data, newline) is None
    return goes_on or any(name in names for name in _LISTS)


def _message_units(data: bytes) -> Iterator[Unit]:
    found = _list_of(data)
    if found is None:
        return
    for index, extent in enumerate(json_sequence.items(data, found[1])):
        message = json_sequence.read(data, extent)
        yield Unit({"index": index}, message.raw, message.value)


def _list_of(data: bytes) -> tuple[str, json_sequence.Extent] | None:
    """Name and place of the list of messages; ``messages`` before ``history``, and only if it is a list."""
    places = {
        name: extent
        for name, extent in json_sequence.members(data)
        if name in _LISTS and data[extent.start : extent.start + 1] == b"["
    }
    return next(((name, places[name]) for name in _LISTS if name in places), None)


def _document(data: bytes) -> dict[str, Any]:
    """The document without its messages, which are read one by one."""
    messages = _list_of(data)
    return {
        name: json_sequence.read(data, extent).value
        for name, extent in json_sequence.members(data)
        if messages is None or name != messages[0]
    }


def _is_message(line: dict[str, Any]) -> bool:
    return kind_of(line) is not None or ("id" in line and "type" in line)


def _is_metadata(line: dict[str, Any]) -> bool:
    return "sessionId" in line or "projectHash" in line


@dataclass(slots=True)
class _Said:
    """A message as it stands now: its entry, and the native object it was made from."""

    entry: dict[str, Any]
    value: dict[str, Any]


@dataclass(slots=True)
class _Session:
    """The session as its lines have made it so far. ``live`` keeps the order in which messages first appeared."""

    draft: SessionDraft
    context: Context
    metadata: dict[str, Any] = field(default_factory=dict)
    live: dict[str, _Said] = field(default_factory=dict)

    def add(self, unit: Unit, line: object) -> None:
        if not isinstance(line, dict):
            self.draft.unknown(unit, "value")
        elif isinstance(line.get(REWIND), str):
            self._rewind(unit, line)
        elif _is_message(line):
            self.say(unit, line)
        elif isinstance(line.get(SET), dict):
            self._change(unit, "gemini/$set", line, line[SET])
        elif _is_metadata(line):
            self._change(unit, "gemini/metadata", line, line)
        else:
            self.draft.unknown(unit, "unknown", timestamp=line.get("timestamp"))

    def say(self, unit: Unit, message: dict[str, Any], *, replaced: bool = False) -> None:
        """A message; one with the same id that is still in force was an earlier version of it."""
        message_id = text(message, "id")
        earlier = self.live.get(message_id) if message_id is not None else None
        if earlier is not None:
            supersede(self.context, earlier.entry, earlier.value, unit)
        entry = add_message(self.context, unit, message, replaced=replaced)
        if message_id is not None:
            self.live[message_id] = _Said(entry, message)

    def _rewind(self, unit: Unit, line: dict[str, Any]) -> None:
        """Take back the message named and all after it; all there are, if it is not there: so the tool itself does."""
        target = line[REWIND]
        known = target in self.live
        taken: list[str] = []
        while self.live and (not taken or taken[-1] != target):
            message_id, said = self.live.popitem()
            said.entry.setdefault("native", {})["rewound-by"] = dict(unit.ref)
            taken.append(message_id)
        native = {"rewound": taken[::-1]} if known else {"rewound": taken[::-1], "unknown-target": True}
        self.draft.event(unit, f"gemini/{REWIND}", line, native=native)

    def _change(self, unit: Unit, event_type: str, line: dict[str, Any], changes: dict[str, Any]) -> None:
        self.draft.event(unit, event_type, line)
        messages = changes.get("messages")
        self.learn({name: member for name, member in changes.items() if name != "messages"})
        if isinstance(messages, list) and (messages or self.live):
            self._replace(unit, messages)

    def learn(self, changes: dict[str, Any]) -> None:
        self.metadata.update(changes)
        session_id = text(changes, "sessionId")
        if session_id is not None and not self.draft.session_id:
            self.draft.session_id = session_id
        self.context.subagent = self.metadata.get("kind") == "subagent"

    def _replace(self, unit: Unit, messages: list[Any]) -> None:
        """A new list of messages. Those of the old one were said all the same: they stay, and name what replaced them.

        Only a message that was never written before becomes an entry here; the event above holds the whole list.
        """
        before, self.live = self.live, {}
        replacing = bool(before)
        for message in messages:
            message_id = text(message, "id") if isinstance(message, dict) else None
            said = before.pop(message_id, None) if message_id is not None else None
            if not isinstance(message, dict):
                continue
            if said is None or message_id is None:
                self.say(unit, message, replaced=replacing)
                continue
            if said.value != message:
                said.entry.setdefault("native", {})["changed-by"] = dict(unit.ref)
            self.live[message_id] = said
        for said in before.values():
            said.entry.setdefault("native", {})["replaced-by"] = dict(unit.ref)


def sessions(data: bytes, format: Format) -> list[SessionDraft]:  # noqa: A002 - the contract's name
    """The session of the file; none where there is neither line nor document."""
    draft = SessionDraft(format, "", cli_name=CLI_NAME)
    session = _Session(draft, Context(draft))
    document = _is_document(data)
    if document:
        session.learn(_document(data))
    for unit in units(data):
        draft.units += 1
        if document and isinstance(unit.value, dict):
            session.say(unit, unit.value)
        else:
            session.add(unit, unit.value)
    if not draft.units and not session.metadata:
        return []
    _finish(session, data)
    return [draft]


def _finish(session: _Session, data: bytes) -> None:
    draft, metadata = session.draft, session.metadata
    draft.session_id = draft.session_id or name_uuid(hashlib.sha256(data).hexdigest())
    taken = {"sessionId"} if text(metadata, "sessionId") == draft.session_id else set()
    draft.start = _time(metadata, _STARTS, taken) or session.context.first
    draft.end = _time(metadata, ("lastUpdated",), taken) or session.context.last
    meta = metadata.get("meta")
    draft.saw_model(meta.get("model") if isinstance(meta, dict) else None)
    draft.model_id = session.context.model
    if any(model.startswith("gemini-") for model in draft.models):
        draft.model_provider = "google"
    # There is no directory in the file, only its hash: without one the schema allows no environment.
    draft.session_native.update({name: member for name, member in metadata.items() if name not in taken})


def _time(metadata: dict[str, Any], names: tuple[str, ...], taken: set[str]) -> str | None:
    for name in names:
        stamp, kept = time_member(metadata.get(name))
        if stamp is not None:
            if not kept:
                taken.add(name)
            return stamp
    return None


def check(data: bytes, format: Format) -> list[Violation]:  # noqa: A002, ARG001 - the contract's names
    """Gemini CLI has no specification to violate; what this reader does not know yet is a warning."""
    drift = Drift()
    if _is_document(data):
        _check_document(drift, data)
    else:
        _check_lines(drift, data)
    return drift.warnings()


def _check_lines(drift: Drift, data: bytes) -> None:
    known: set[str | None] = set()
    number, named = 0, False
    for unit in units(data):
        number, line = int(unit.ref["line"]), unit.value
        if not isinstance(line, dict):
            drift.saw("a line that is not an object: kept as an event", number)
            continue
        changes = line[SET] if isinstance(line.get(SET), dict) else line
        named = named or text(changes, "sessionId") is not None
        messages = changes.get("messages")
        if isinstance(messages, list):
            known.update(text(message, "id") for message in messages if isinstance(message, dict))
        if isinstance(line.get(REWIND), str):
            if line[REWIND] not in known:
                drift.saw("a rewind to a message that is not there takes back all", number, f"/{REWIND}")
        elif _is_message(line):
            known.add(text(line, "id"))
            _check_message(drift, line, number, "")
        elif changes is line and not _is_metadata(line):
            drift.saw("a line of no known kind: kept as an event", number)
    if number and not named:
        drift.saw("no line says which session this is: an id is derived from the bytes", 1)


def _check_document(drift: Drift, data: bytes) -> None:
    document = _document(data)
    if text(document, "sessionId") is None:
        drift.saw("no sessionId: an id is derived from the bytes", 0, "/sessionId")
    if "startTime" not in document:
        drift.saw("no startTime", 0, "/startTime")
    found = _list_of(data)
    for unit in units(data):
        pointer = f"/{found[0] if found else ''}/{unit.ref['index']}"
        if isinstance(unit.value, dict):
            _check_message(drift, unit.value, 0, pointer)
        else:
            drift.saw("a message that is not an object: kept as an event", 0, pointer)


def _check_message(drift: Drift, message: dict[str, Any], number: int, pointer: str) -> None:
    kind = kind_of(message)
    if kind is None or kind not in MESSAGE_KINDS:
        drift.unknown("kind of message", message.get("type", message.get("role")), number, f"{pointer}/type")
    if "type" not in message:
        drift.saw("a message with a role instead of a type", number, f"{pointer}/role")
    for name in ("timestamp", "ts"):
        if name in message and time_member(message[name])[0] is None:
            drift.saw("a timestamp that is no time", number, f"{pointer}/{name}")
