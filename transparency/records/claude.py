"""Claude Code sessions: JSONL, one JSON object a line, a tree by uuid and parentUuid (formats.md 7, 8.2).

A unit is a line. Lines that are messages become entries (see :mod:`claude_lines`), every other type of line becomes a
``system-event`` that holds it whole. A sub-agent keeps a file of its own, ``<session>/subagents/agent-<id>.jsonl``, in
which lines name the session that started it: it is a session of its own here, linked with its parent. Such files are
read alone, or packed with the session's main file by :mod:`tree`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from transparency.errors import MalformedError
from transparency.records import strict_json, tree
from transparency.records.canonical import SessionDraft, name_uuid
from transparency.records.claude_lines import Session
from transparency.records.drift import Drift
from transparency.records.format import Format
from transparency.records.native import text
from transparency.records.unit import Unit, jsonl_units
from transparency.records.violation import Violation

MAX_SESSIONS: Final = 10_000

_META: Final = ".meta.json"
# The line types seen so far (formats.md 7); others are kept alike, and said to be new by ``check``.
LINE_TYPES: Final = frozenset({
    "user", "assistant", "system", "attachment", "progress", "summary", "file-history-snapshot", "file-history-delta",
    "queue-operation", "permission-mode", "mode", "agent-name", "agent-setting", "agent-color", "custom-title",
    "ai-title", "last-prompt", "frame-link", "pr-link", "started", "result", "relocated", "worktree-state",
    "bridge-session", "atis-latch", "tag", "content-replacement", "marble-origami-commit", "speculation-accept",
    "tool_use", "tool_result",
})  # fmt: skip


def units(data: bytes) -> Iterator[Unit]:
    """Every line; of a pack the lines of each file with its path, and each ``agent-*.meta.json`` whole."""
    for _, found in _files(data):
        yield from found


def sessions(data: bytes, format: Format) -> list[SessionDraft]:  # noqa: A002 - the converters' common interface
    """The sessions of a file or pack, in the order in which they begin."""
    book = _Book(format, data)
    for path, found in _files(data):
        book.read(path, found)
    return book.drafts()


def check(data: bytes, format: Format) -> list[Violation]:  # noqa: A002, ARG001 - the converters' common interface
    """Claude Code's format has no specification: only drift is reported, as warnings."""
    drift = Drift()
    named: set[str] = set()
    for unit in units(data):
        line = unit.ref.get("line", 0)
        number = line if isinstance(line, int) else 0
        value = unit.value
        if not isinstance(value, dict):
            drift.saw("a line that is no object: kept as an event", number)
            continue
        kind, session = value.get("type"), value.get("sessionId")
        if not number or (kind is None and isinstance(value.get("agentType"), str)):
            continue  # meta.json
        if kind not in LINE_TYPES if isinstance(kind, str) else True:
            drift.unknown("line type", kind, number, "/type")
        elif kind in ("user", "assistant") and not isinstance(value.get("message"), dict):
            drift.saw(f"{kind} line without a message: kept as an event", number, "/message")
        if isinstance(session, str) and session not in named and not value.get("isSidechain"):
            named.add(session)
            if len(named) == 2:
                drift.saw("a second session in one file: it becomes a record of its own", number, "/sessionId")
    return drift.warnings()


def _files(data: bytes) -> Iterator[tuple[str, Iterator[Unit]]]:
    """Path ("" where there is none) and units of each file."""
    if not tree.is_packed(data):
        yield "", jsonl_units(data) if not _is_meta(data) else iter([_whole("", data)])
        return
    for file in tree.unpack(data):
        if file.path.endswith(".jsonl"):
            yield file.path, _lines(file)
        else:
            yield file.path, iter([_whole(file.path, file.data)])


def _lines(file: tree.PackedFile) -> Iterator[Unit]:
    try:
        for unit in jsonl_units(file.data):
            yield Unit({"path": file.path, **unit.ref}, unit.raw, unit.value)
    except MalformedError as error:
        raise MalformedError(f"{file.path}: {error}") from None


def _whole(path: str, data: bytes) -> Unit:
    try:
        value = strict_json.loads(data)
    except MalformedError as error:
        raise MalformedError(f"{path}: {error}" if path else str(error)) from None
    return Unit({"path": path} if path else {"line": 1}, data, value)


def _is_meta(data: bytes) -> bool:
    """A sub-agent's meta.json given alone and printed over several lines; as one line it is JSONL anyway."""
    return len(data) < 65536 and data.lstrip(b" \t\r\n")[:64].split(b"\n", 1)[0].strip() == b"{"


@dataclass(slots=True)
class _Book:
    """The sessions of one file or pack, by their ids, in the order in which they were first seen."""

    format: Format
    data: bytes
    sessions: dict[str, Session] = field(default_factory=dict)

    def read(self, path: str, found: Iterator[Unit]) -> None:
        """All units of one file. Lines that name no session belong to that of the line before, at first to the next."""
        waiting: list[Unit] = []
        for unit in found:
            waiting.append(unit)
            if text(unit.value, "sessionId"):
                break
        first = waiting[-1].value if waiting else None
        current = self._of_file(path, first)
        apart = _agent(first) is not None or _stem(path).startswith("agent-")
        for unit in chain(waiting, found):
            named = None if apart else text(unit.value, "sessionId")
            if named is not None and named != current.draft.session_id:
                current = self._session(named)
            current.add(unit)

    def drafts(self) -> list[SessionDraft]:
        for session in self.sessions.values():
            parent = self.sessions.get(session.draft.parent_session or "")
            if parent is not None and parent is not session:
                parent.draft.saw_child(session.draft.session_id)
        return [session.finish() for session in self.sessions.values()]

    def _of_file(self, path: str, first: object) -> Session:
        """The session that a file begins with; for a sub-agent's file the only one, whatever its lines name."""
        named, agent, stem = text(first, "sessionId"), _agent(first), _stem(path)
        if agent is None and stem.startswith("agent-"):
            agent = stem.removeprefix("agent-")
        if agent is None:
            return self._session(named or name_uuid(hashlib.sha256(self.data).hexdigest()))
        session = self._session(f"agent-{agent}")
        session.is_agent = True
        if session.draft.parent_session is None:
            parent = named if named != session.draft.session_id else None
            session.draft.parent_session = parent or _parent_of(path)
        return session

    def _session(self, session_id: str) -> Session:
        found = self.sessions.get(session_id)
        if found is None:
            if len(self.sessions) >= MAX_SESSIONS:
                raise MalformedError(f"more than {MAX_SESSIONS} sessions in one file are not read")
            found = self.sessions[session_id] = Session(SessionDraft(self.format, session_id))
        return found


def _agent(line: object) -> str | None:
    """The sub-agent whose file begins with this line. Its lines are all a side chain and carry its id."""
    if isinstance(line, dict) and line.get("isSidechain") is True:
        return text(line, "agentId")
    return None


def _stem(path: str) -> str:
    """``agent-a1`` of ``…/subagents/agent-a1.jsonl`` and of its ``.meta.json``."""
    return path.rsplit("/", 1)[-1].removesuffix(".jsonl").removesuffix(_META)


def _parent_of(path: str) -> str | None:
    """The session in whose folder a sub-agent's file lies."""
    steps = path.split("/")
    return steps[-3] if len(steps) >= 3 and steps[-2] == "subagents" else None
