"""The survey: one pass over a record's entries, which collects what all the checks need.

Any value may have any type: a record comes from a stranger, and a survey of it never raises. Time is linear in the
record. Everything that a check would have to look for again in every entry stands here once, by kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from transparency.compliance.settings import DEFAULT, Settings
from transparency.compliance.subject import RecordSubject
from transparency.compliance.texts import Texts, walk
from transparency.records.canonical import AGENT, HUMAN, SYSTEM, TOOL
from transparency.records.timestamps import instant
from transparency.records.vac import TRACE_FORMAT
from transparency.records.vac_pointer import Path, pointer

USER: Final = "user"
ASSISTANT: Final = "assistant"
CALL: Final = "tool-call"
RESULT: Final = "tool-result"
REASONING: Final = "reasoning"
EVENT: Final = "system-event"
TYPES: Final = frozenset({USER, ASSISTANT, CALL, RESULT, REASONING, EVENT})
ACTORS: Final = frozenset({HUMAN, AGENT, TOOL, SYSTEM})
_BY_TYPE: Final[Mapping[str, str]] = {ASSISTANT: AGENT, CALL: AGENT, REASONING: AGENT, RESULT: TOOL, EVENT: SYSTEM}

_ENTRIES: Final[Path] = ((None, "session"), "entries")
# Not content: children are entries of their own, a source-ref holds a hash, and what is encrypted shows nothing.
_SKIPPED: Final = frozenset({"children", "source-ref", "encrypted", "type", "timestamp", "id", "parent-id", "call-id"})
# People are named in "actors" on purpose.
_RECORD_SKIPPED: Final = frozenset({"actors", "session", "source", "version", "id", "created", "file-attribution"})
_SESSION_SKIPPED: Final = frozenset({"entries", "not-attributed", "session-id"})
# Members in which tools and agents say what they may do, wherever they stand: event data, native, session.native.
POLICY_MEMBERS: Final = frozenset({
    "permissionMode", "permission_mode", "permission", "approval_policy", "approvalPolicy", "approvalMode",
    "approval_mode", "sandbox_policy", "sandboxPolicy", "sandbox_mode", "sandbox", "permission_profile",
    "file_system_sandbox_policy", "permissions",
})  # fmt: skip
_MAX_TOKENS: Final = 2**53
# What most records write. A day is looked up once; the rest of such a time is sums.
_USUAL: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{3}))?Z", re.ASCII
)
NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(slots=True, eq=False)
class Row:
    """One entry: where it stands, what it is, and when. ``effective`` is its own time, or that of what it stands in."""

    entry: Mapping[str, Any]
    path: Path
    kind: str
    time: int | None
    effective: int | None
    named: bool
    """Whether it, or an entry that it stands in, has an id."""
    inside: str = ""
    """The kind of the entry that it stands in."""
    actor: str = ""
    """Who acted, as far as it can be said; an empty text where it cannot."""

    @property
    def pointer(self) -> str:
        return pointer(self.path)


def as_map(value: object) -> Mapping[str, Any]:
    # First what nearly all are: asking an abstract class costs ten times as much.
    return value if isinstance(value, dict) or isinstance(value, Mapping) else NOTHING  # noqa: SIM101 - see above


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


class Survey:
    """What the checks look at. ``record`` is empty where there is none; :attr:`missing` then says why."""

    def __init__(self, subject: RecordSubject, settings: Settings = DEFAULT) -> None:
        self.subject = subject
        self.settings = settings
        self.signing = subject.signing
        self.record = as_map(subject.record)
        self.session = as_map(self.record.get("session"))
        self.meta = as_map(self.session.get("agent-meta"))
        self.environment = as_map(self.session.get("environment"))
        self.is_native = subject.format not in ("", TRACE_FORMAT)
        """Whether the bytes that were signed are in another format: then ``created`` and the converter are ours."""
        self.rows: list[Row] = []
        self.strays: list[Path] = []
        """What stands among the entries and is none."""
        self.by_kind: dict[str, list[Row]] = {kind: [] for kind in sorted(TYPES)}
        self.policies: list[tuple[Path, str, Any]] = []
        """Where the record says what the agent may do: place, member, value."""
        self.usages: list[Mapping[str, Any]] = []
        """What entries say of their tokens."""
        self._days: dict[str, int | None] = {}
        self.missing = self._missing()
        """Why there is no content to look at; empty if there is."""
        self._read()

    def _missing(self) -> str:
        if self.subject.record is not None:
            return ""
        reason = next((each.message for each in self.subject.violations if each.level == "violation"), "")
        return f"the record {reason}" if reason else "the record is not available"

    def kind(self, name: str) -> list[Row]:
        return self.by_kind[name]

    def _read(self) -> None:
        entries = self.session.get("entries")
        native = as_map(self.session.get("native"))
        if not POLICY_MEMBERS.isdisjoint(native):
            self._policy(((None, "session"), "native"), native)
        stack: list[tuple[Iterator[tuple[Path, Any]], Row | None]] = [(_numbered(entries, _ENTRIES), None)]
        rows, by_kind = self.rows, self.by_kind
        while stack:
            numbered, parent = stack[-1]
            for path, entry in numbered:
                if not isinstance(entry, dict) and not isinstance(entry, Mapping):
                    self.strays.append(path)
                    continue
                row = self._row(entry, path, parent)
                rows.append(row)
                if row.kind in by_kind:
                    by_kind[row.kind].append(row)
                children = entry.get("children")
                if children and isinstance(children, list | tuple):
                    stack.append((_numbered(children, (path, "children")), row))
                    break
            else:
                stack.pop()

    def _row(self, entry: Mapping[str, Any], path: Path, parent: Row | None) -> Row:
        kind = entry.get("type")
        stamp = entry.get("timestamp")
        time = None if stamp is None else self._instant(stamp)
        row = Row(
            entry,
            path,
            kind if isinstance(kind, str) else "",
            time,
            parent.effective if time is None and parent is not None else time,
            (parent is not None and parent.named) or isinstance(entry.get("id"), str),
            "" if parent is None else parent.kind,
        )
        row.actor = _actor(row)
        usage = entry.get("token-usage")
        if isinstance(usage, dict) or isinstance(usage, Mapping):  # noqa: SIM101 - as in as_map
            self.usages.append(usage)
        data, native = entry.get("data"), entry.get("native")
        if isinstance(data, dict) and not POLICY_MEMBERS.isdisjoint(data):
            self._policy((path, "data"), data)
        if isinstance(native, dict) and not POLICY_MEMBERS.isdisjoint(native):
            self._policy((path, "native"), native)
        return row

    def _instant(self, stamp: object) -> int | None:
        """As ``timestamps.instant``, quicker."""
        usual = _USUAL.fullmatch(stamp) if isinstance(stamp, str) else None
        if usual is None:
            return instant(stamp)
        day, hour, minute, second, fraction = usual.groups()
        if day not in self._days:
            self._days[day] = instant(f"{day}T00:00:00Z")
        midnight = self._days[day]
        if midnight is None:
            return None
        return midnight + 1000 * (3600 * int(hour) + 60 * int(minute) + int(second)) + int(fraction or 0)

    def _policy(self, path: Path, members: Mapping[str, Any]) -> None:
        found = ((name, members[name]) for name in sorted(POLICY_MEMBERS & members.keys()))
        self.policies += [((path, name), name, value) for name, value in found if value not in (None, "", [], {})]

    @cached_property
    def texts(self) -> Texts:
        """Every text of the record: of the entries in their order, then of the session and of the record."""
        return Texts([row.entry for row in self.rows], _SKIPPED, (self.session, _SESSION_SKIPPED), self._outside)

    @property
    def _outside(self) -> tuple[Mapping[str, Any], frozenset[str]]:
        return self.record, _RECORD_SKIPPED

    def paths_of(self, offsets: Sequence[int]) -> list[Path]:
        """Where the texts at these offsets stand in the record, each once."""
        wanted: dict[int, dict[int, None]] = {}
        for owner, number in self.texts.places(offsets):
            wanted.setdefault(owner, {})[number] = None
        return [path for owner, numbers in wanted.items() for path in self._paths(owner, numbers)]

    def _paths(self, owner: int, numbers: Mapping[int, None]) -> Iterator[Path]:
        """Places of some texts of one entry, which is walked through once however many they are."""
        if owner < len(self.rows):
            row = self.rows[owner]
            texts = walk(row.entry, row.path, _SKIPPED)
        elif owner == len(self.rows):
            texts = walk(self.session, (None, "session"), _SESSION_SKIPPED)
        else:
            texts = walk(self.record, None, _RECORD_SKIPPED)
        return (path for number, path in enumerate(texts) if number in numbers)

    @cached_property
    def edge_times(self) -> tuple[int | None, int | None]:
        """Start and end of the session: as stated, else its first and last time."""
        start, end = instant(self.session.get("session-start")), instant(self.session.get("session-end"))
        times = [row.time for row in self.rows if row.time is not None] if start is None or end is None else []
        return (
            min(times, default=None) if start is None else start,
            max(times, default=None) if end is None else end,
        )

    @cached_property
    def tokens(self) -> tuple[int, int]:
        """Tokens of the session, and how many entries say their own; what cannot be a count is left out."""
        total = 0
        for usage in self.usages:
            stated = _count(usage.get("total"))
            total += _count(usage.get("input")) + _count(usage.get("output")) if stated == 0 else stated
        return total, len(self.usages)

    @cached_property
    def reasoning_tokens(self) -> int:
        return sum(_count(usage.get("reasoning")) for usage in self.usages)

    @cached_property
    def humans(self) -> list[Row]:
        """What a person said: no tool's output, no instructions that a program put there, no part of a message."""
        return [row for row in self.kind(USER) if row.actor == HUMAN and row.inside != USER]

    @property
    def is_sub_agent(self) -> bool:
        return bool(as_text(self.session.get("parent-session-id"))) and not self.humans

    @property
    def is_synthetic(self) -> bool:
        """An attribution without a conversation (Agent Trace): its session was made up to hold it."""
        return self.session.get("synthetic") is True


def _numbered(entries: object, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(entries, list | tuple):
        for number, entry in enumerate(entries):
            yield (path, number), entry


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else 0


def _actor(row: Row) -> str:
    """Who acted. "user" is the role that a message was sent in, and not always a person (formats.md 8.1 rule 9)."""
    stated = row.entry.get("actor")
    if row.kind != USER:
        if stated is None:
            return _BY_TYPE.get(row.kind, "")
        return stated if isinstance(stated, str) and stated in ACTORS else ""
    if stated in (None, HUMAN) and is_tool_output(row.entry.get("content")):
        return TOOL
    if stated is not None:
        return stated if isinstance(stated, str) and stated in ACTORS else ""
    return SYSTEM if as_map(row.entry.get("native")).get("isMeta") is True else HUMAN


def is_tool_output(content: object) -> bool:
    """Whether all of a message is results of tools, as Claude sends them in the role of the user."""
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(block, Mapping) and block.get("type") == "tool_result" for block in content)
