"""Edits: what a session did to files, as its own entries show; the readers of each agent (``edits_<agent>``) find them.

An edit counts only when its result confirms it (seed 002 §10). What a shell command did to files is not seen at all: it
is declared, never guessed. So a reader turns entries into :class:`Edit` and :class:`Unattributed`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.records.diffs import Hunk
from transparency.records.shells import Command, command_of

Entry = Mapping[str, Any]

AI: Final = "ai"
MIXED: Final = "mixed"

UNCONFIRMED: Final = "unconfirmed"
"""No result says that the edit was made."""
NO_LINES: Final = "no-lines"
"""The edit was made, and nothing recorded says to which lines."""
REWOUND: Final = "rewound"
"""The message was taken back; whether its edits were too is not recorded."""
SHELL: Final = "shell"
"""A command may have written files; what it wrote is not recorded."""

# Marks of the Gemini converter on messages that the session took back.
_TAKEN_BACK: Final = ("rewound-by", "replaced-by")
_FAILED: Final = frozenset({"error", "failed", "cancelled", "canceled", "declined", "denied", "rejected"})


@dataclass(frozen=True, slots=True)
class Contributor:
    """Who wrote a line, as -00 says it: ``ai``, or ``mixed`` where a person changed the edit before it was made."""

    type: str = AI
    model: str | None = None

    def to_map(self) -> dict[str, str]:
        return {"type": self.type} | ({"model-id": self.model} if self.model is not None else {})


@dataclass(frozen=True, slots=True)
class Replacement:
    """*old* became *new*: everywhere (None), or in exactly *count* places. ``whole_lines``: in one, of whole lines."""

    old: str
    new: str
    count: int | None = 1
    whole_lines: bool = False

    def applied(self, text: str) -> str | None:
        """*text* after it; None unless *old* is found exactly as often as it must be."""
        old, new = self.old.replace("\r\n", "\n"), self.new.replace("\r\n", "\n")
        if not old:
            return None
        if self.whole_lines:
            lined, old = "\n" + text, "\n" + old
            at = lined.find(old)
            if at < 0 or lined.find(old, at + 1) >= 0:
                return None
            return lined[1 : at + 1] + new + lined[at + len(old) :]
        times = text.count(old)
        return text.replace(old, new) if times and times == (self.count or times) else None


@dataclass(frozen=True, slots=True)
class Edit:
    """One confirmed edit of one file, with whatever was recorded of it.

    ``created``: the file did not exist before, *after* is all of it. ``before`` and ``after`` are whole texts.
    """

    path: str
    by: Contributor
    call: Call
    created: bool = False
    deleted: bool = False
    moved_to: str | None = None
    before: str | None = None
    after: str | None = None
    hunks: list[Hunk] | None = None
    replacements: tuple[Replacement, ...] = ()

    @property
    def says_how(self) -> bool:
        """Whether anything at all is recorded of what became of its lines."""
        return self.hunks is not None or self.after is not None or self.before is not None or bool(self.replacements)


@dataclass(frozen=True, slots=True)
class Unattributed:
    """A call that changed files, or may have, without anything that says which lines are whose."""

    call: Call
    reason: str
    shows: str | None = None
    """What in a shell command shows that it writes, as ``sed -i``."""
    path: str | None = None


@dataclass(slots=True)
class Call:
    """A tool call, the model that made it, and its result once that is read."""

    entry: Entry
    model: str | None
    taken_back: bool = False
    result: Entry | None = None

    @property
    def name(self) -> str:
        found = self.entry.get("name")
        return found if isinstance(found, str) else ""

    @property
    def input(self) -> Mapping[str, Any]:
        found = self.entry.get("input")
        return found if isinstance(found, dict) else {}

    @property
    def succeeded(self) -> bool:
        """Whether the result says so; no answer and an answer that leaves it open do not."""
        return self.result is not None and self.result.get("is-error") is False and not self.failed

    @property
    def failed(self) -> bool:
        if self.result is None:
            return False
        status = self.result.get("status")
        return self.result.get("is-error") is True or (isinstance(status, str) and status.lower() in _FAILED)

    def by(self, kind: str = AI) -> Contributor:
        return Contributor(kind, self.model)

    def native(self, *path: str) -> Any:  # noqa: ANN401 - a JSON value
        """A member of the result's native part; None where a step is missing."""
        found: Any = self.result.get("native") if self.result is not None else None
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def note(self) -> dict[str, Any]:
        """How the record names the call: by its id, or by where it stands."""
        call_id = self.entry.get("call-id")
        if isinstance(call_id, str):
            return {"call-id": call_id, "tool": self.name}
        place = {name: value for name, value in self.entry.get("source-ref", {}).items() if name != "sha-256"}
        return {"source-ref": place, "tool": self.name}


def text(value: object, name: str) -> str | None:
    """A member that is a text, the empty one included: a file may be empty."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


Found = Edit | Unattributed
Reader = Callable[[Call], Iterable[Found] | None]


@dataclass(slots=True)
class Calls:
    """The calls of a session in the order of their results: that is the order in which files changed."""

    default_model: str | None = None
    open: dict[str, Call] = field(default_factory=dict)

    def walk(self, entries: Iterable[Entry]) -> Iterator[Call]:
        """Each call once: when its result comes, or at the end when none did."""
        unnamed: list[Call] = []
        for entry, model, taken_back in _nested(entries, self.default_model):
            call_id = entry.get("call-id")
            if entry.get("type") == "tool-call":
                call = Call(entry, model, taken_back)
                if isinstance(call_id, str):
                    if call_id in self.open:
                        yield self.open.pop(call_id)  # a second call of that id: the first one never was answered
                    self.open[call_id] = call
                else:
                    unnamed.append(call)
            elif entry.get("type") == "tool-result" and isinstance(call_id, str) and call_id in self.open:
                call = self.open.pop(call_id)
                call.result = entry
                yield call
        yield from (*unnamed, *self.open.values())


def _nested(entries: Iterable[Entry], model: str | None) -> Iterator[tuple[Entry, str | None, bool]]:
    """Every entry in document order, with the model and the fate of the message it stands in; never recursing."""
    stack: list[tuple[Iterator[Entry], str | None, bool]] = [(iter(entries), model, False)]
    while stack:
        within, inherited, gone = stack[-1]
        entry = next(within, None)
        if entry is None:
            stack.pop()
            continue
        own = entry.get("model-id")
        said_by = own if isinstance(own, str) else inherited
        native = entry.get("native")
        taken_back = gone or (isinstance(native, dict) and any(mark in native for mark in _TAKEN_BACK))
        yield entry, said_by, taken_back
        children = entry.get("children")
        if isinstance(children, list):
            stack.append((iter(children), said_by, taken_back))


def read(entries: Iterable[Entry], reader: Reader, default_model: str | None = None) -> Iterator[Found]:
    """What the calls of a session did to files: edits by *reader*, which gives None for a tool that edits nothing."""
    for call in Calls(default_model).walk(entries):
        found = reader(call)
        if found is None:
            yield from _by_shell(call)  # a command that failed may have written all the same
        elif call.failed:
            continue
        elif call.taken_back:
            yield from (Unattributed(call, REWOUND, path=_path(each)) for each in found)
        else:
            yield from found


def _path(found: Found) -> str | None:
    return found.path


def _by_shell(call: Call) -> Iterator[Unattributed]:
    command: Command | None = command_of(call.name, call.entry.get("input"))
    if command is not None and not command.only_reads:
        yield Unattributed(call, SHELL, command.shows)
