"""One timeline across records: which entries an incident's query finds, in the order of their times.

It follows from the statements, their receipts and records alone: whoever has these makes the same timeline again, to
the byte. That is how a bundle's timeline is checked. Texts of records stand in it as they are, cut, JSON-escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from transparency.compliance.incident_query import IncidentQuery, agent_of, paths_of, session_of
from transparency.compliance.outcomes import outcomes
from transparency.compliance.subject import RecordSubject
from transparency.compliance.survey import RESULT, Row, Survey, as_text
from transparency.errors import MalformedError, TransparencyError
from transparency.records import convert
from transparency.records.detect import detect
from transparency.records.timestamps import rfc3339
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.statements.transparent import receipts_of

KIND: Final = "transparency-timeline/1"
MAX_EVENTS: Final = 100_000
MAX_TEXT: Final = 1_000
MAX_NAME: Final = 300
MAX_PATHS: Final = 20
# What tools call it when a call went well; any other word of a record is shown as it stands.
_OK: Final = frozenset({"ok", "success", "succeeded", "successful", "completed", "complete", "done"})
NOT_SAID: Final = "not said"
_CREATED: Final = "1970-01-01T00:00:00.000Z"
_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement with its receipt, and its record where that could be had."""

    data: bytes
    record: bytes | None = None


# An event, and where it stands among the others.
_Placed = tuple[tuple[Any, ...], dict[str, Any]]


class Looked(NamedTuple):
    """What is told of one statement, and what the query finds in its record; ``why`` that could not be read."""

    entry: dict[str, Any]
    events: list[_Placed]
    why: str = ""


@dataclass(slots=True)
class Timeline:
    """Statements are looked at one by one, and kept in the order of the log: above MAX_EVENTS they are only counted."""

    query: IncidentQuery
    _entries: list[dict[str, Any]] = field(default_factory=list)
    _events: list[_Placed] = field(default_factory=list)
    _left_out: int = 0

    def keep(self, looked: Looked) -> None:
        self._entries.append(looked.entry)
        kept = looked.events[: MAX_EVENTS - len(self._events)]
        self._left_out += len(looked.events) - len(kept)
        self._events += kept

    def look(self, piece: Piece) -> Looked:
        """What the query finds in it. TransparencyError where it is no transparent statement."""
        statement = Statement.from_bytes(piece.data)
        receipts = [Receipt.from_bytes(data) for data in receipts_of(statement.message)[:1]]
        if not receipts or not receipts[0].inclusion:
            raise MalformedError("a statement of a bundle has a receipt of its inclusion")
        index, time = receipts[0].inclusion[0].index, receipts[0].iat
        record = record_of(statement, piece.record)
        entry: dict[str, Any] = {
            "index": index, "entry": statement.entry_id, "issuer": statement.iss, "subject": statement.sub,
            "registered": None if time is None else rfc3339(time * _MS),
        }  # fmt: skip
        if record is None:
            return Looked(entry | {"record": "not here", "format": None, "sessions": [], "events": 0}, [])
        try:
            detected = detect(record)
            records = convert.convert(record, created=_CREATED, detected=detected)
        except TransparencyError as error:
            unread: dict[str, Any] = {"record": "not readable", "format": None, "sessions": [], "events": 0}
            return Looked(entry | unread, [], str(error))
        found: list[_Placed] = []
        sessions: list[str] = []
        registered = None if time is None else time * _MS
        for number, each in enumerate(records):
            survey = Survey(RecordSubject(each))
            sessions.append(_cut(session_of(survey), MAX_NAME))
            about = {"entry": statement.entry_id, "index": index, "session": sessions[-1],
                     "agent": _cut(agent_of(survey), MAX_NAME)}  # fmt: skip
            ended = outcomes(survey)
            for place, (row, call) in enumerate(self.query.rows(survey, registered)):
                order = (row.effective is None, row.effective or 0, index, number, place)
                found.append((order, _event(row, call, about, ended.get(row, ""))))
        shown = {"record": "read", "format": detected.format.trace_format, "sessions": sessions, "events": len(found)}
        return Looked(entry | shown, found)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "query": self.query.to_json(),
            "entries": sorted(self._entries, key=lambda entry: entry["index"]),
            "events": [event for _, event in sorted(self._events, key=lambda item: item[0])],
            "events-left-out": self._left_out,
        }


def to_bytes(value: object) -> bytes:
    """The one form of a JSON file of a bundle: whoever reads it holds it against this."""
    return json.dumps(value, ensure_ascii=True, indent=1, sort_keys=True).replace("\x7f", "\\u007f").encode() + b"\n"


def record_of(statement: Statement, beside: bytes | None) -> bytes | None:
    """The record that was signed: the payload, or what lies beside if it is what the envelope names."""
    if statement.envelope is None:
        return statement.payload
    return beside if beside is not None and statement.envelope.digest(beside) == statement.payload else None


def _event(row: Row, call: Row | None, about: Mapping[str, Any], ended: str) -> dict[str, Any]:
    text = _said(row.entry)
    paths = [] if call is None else paths_of(call)
    return {
        **about,
        "time": None if row.effective is None else rfc3339(row.effective),
        "actor": row.actor,
        "type": _cut(row.kind, MAX_NAME),
        "tool": "" if call is None else _cut(as_text(call.entry.get("name")), MAX_NAME),
        "paths": [_cut(path, MAX_NAME) for path in paths[:MAX_PATHS]],
        "result": ended or (_result(row.entry) if row.kind == RESULT else ""),
        "text": _cut(text, MAX_TEXT),
        "text-left-out": max(0, len(text) - MAX_TEXT),
        "pointer": row.pointer,
    }


def _result(entry: Mapping[str, Any]) -> str:
    """What a result that did not end badly says of itself: silence is not success."""
    status = as_text(entry.get("status"))
    if status:
        return "ok" if status.lower() in _OK else _cut(status, MAX_NAME)
    return "ok" if entry.get("is-error") is False else NOT_SAID


def _said(entry: Mapping[str, Any]) -> str:
    for name in ("content", "output", "input", "data"):
        value = entry.get(name)
        if value not in (None, "", [], {}):
            return value if isinstance(value, str) else _json(value)
    return as_text(entry.get("event-type"))


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=lambda other: f"({type(other).__name__})")
    except (ValueError, RecursionError, TypeError):
        return "(a value that cannot be shown)"


def _cut(text: str, most: int) -> str:
    return text[:most]
