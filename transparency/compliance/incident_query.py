"""What an incident is about: a time, tools, files, sessions, issuers, words; and which entries of a record that finds.

Values of one kind are alternatives, kinds must hold together. Times are those of the entries themselves, not of their
registration: an entry without a time of its own has that of the one it stands in; one that has none at all is kept if
its session, or else its registration, does not speak against it. A result belongs to its call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.compliance.survey import CALL, RESULT, Row, Survey, as_map, as_text
from transparency.errors import MalformedError
from transparency.records.facts_gathering import Gathering
from transparency.records.paths import relative_path
from transparency.records.timestamps import instant, rfc3339

MAX_VALUES: Final = 64
MAX_CHARS: Final = 2_048
_KINDS: Final = ("tools", "paths", "sessions", "issuers", "texts")
_MEMBERS: Final = frozenset({"from", "to", *_KINDS})


@dataclass(frozen=True, slots=True)
class IncidentQuery:
    """``since <= time < until`` in milliseconds since 1970; None and () are no condition."""

    since: int | None = None
    until: int | None = None
    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    issuers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        times = {"from": self.since, "to": self.until}
        shown = {name: None if time is None else rfc3339(time) for name, time in times.items()}
        return shown | {name: list(getattr(self, name)) for name in _KINDS}

    @classmethod
    def from_json(cls, value: object) -> IncidentQuery:
        """Read one; MalformedError for whatever ``to_json`` does not write."""
        if not isinstance(value, dict) or value.keys() != _MEMBERS:
            raise MalformedError(f"a query has the members {', '.join(sorted(_MEMBERS))}")
        since, until = (None if value[name] is None else instant(value[name]) for name in ("from", "to"))
        query = cls(since, until, *(_texts(name, value[name]) for name in _KINDS))
        if query.to_json() != value:
            raise MalformedError("a query's times are written as 2026-11-16T07:00:00.000Z")
        return query

    def rows(self, survey: Survey, registered: int | None) -> Iterator[tuple[Row, Row | None]]:
        """The entries that it finds in a session, each with the call that it answers or is."""
        if self.sessions and session_of(survey) not in self.sessions:
            return
        calls = {name: row for row in survey.kind(CALL) if (name := as_text(row.entry.get("call-id")))}
        kept: dict[int, bool] = {}
        for row in survey.rows:
            call = row if row.kind == CALL else None
            if row.kind == RESULT:
                call = calls.get(as_text(row.entry.get("call-id")))
            if (self.tools or self.paths) and call is None:
                continue
            if call is not None and id(call) not in kept:
                kept[id(call)] = self._is_about(call, survey)
            if call is not None and not kept[id(call)] and (self.tools or self.paths):
                continue
            if self._is_then(row, survey, registered) and self._is_said(row, call):
                yield row, call

    def _is_about(self, call: Row, survey: Survey) -> bool:
        if self.tools and as_text(call.entry.get("name")) not in self.tools:
            return False
        return not self.paths or any(self._is_there(path, survey) for path in paths_of(call))

    def _is_there(self, path: str, survey: Survey) -> bool:
        given = (path, relative_path(path, as_text(survey.environment.get("working-dir")) or None))
        return any(
            each.startswith(wanted[:-1]) if wanted.endswith("/*") else each == wanted
            for wanted in self.paths
            for each in given
        )

    def _is_then(self, row: Row, survey: Survey, registered: int | None) -> bool:
        if self.since is None and self.until is None:
            return True
        first = last = row.effective
        if row.effective is None:
            first, last = survey.edge_times
            last = registered if last is None else last
        return not (
            (self.until is not None and first is not None and first >= self.until)
            or (self.since is not None and last is not None and last < self.since)
        )

    def _is_said(self, row: Row, call: Row | None) -> bool:
        if not self.texts:
            return True
        wanted = [text.casefold() for text in self.texts]
        entries = [row.entry] if call is None or call is row else [row.entry, call.entry]
        return any(text in said for entry in entries for said in map(str.casefold, strings(entry)) for text in wanted)


def session_of(survey: Survey) -> str:
    identity = survey.session.get("session-id")
    return identity.hex() if isinstance(identity, bytes) else as_text(identity)


def paths_of(call: Row) -> list[str]:
    found = Gathering()
    found.call(None, call.entry.get("input"))
    return list(found.paths)


def strings(entry: Mapping[str, Any]) -> Iterator[str]:
    """Every text of an entry and none of its children's, never recursing."""
    stack: list[object] = [value for name, value in entry.items() if name != "children"]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            stack += value.values()
            stack += value.keys()
        elif isinstance(value, list | tuple):
            stack += value


def agent_of(survey: Survey) -> str:
    return as_text(as_map(survey.session.get("agent-meta")).get("cli-name"))


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_VALUES:
        raise MalformedError(f"a query's {name} is a list of at most {MAX_VALUES}")
    if not all(isinstance(each, str) and 0 < len(each) <= MAX_CHARS for each in value):
        raise MalformedError(f"a query's {name} are texts of 1 to {MAX_CHARS} characters")
    return tuple(value)
