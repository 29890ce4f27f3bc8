"""Edits of Codex: apply_patch, as a tool of its own or as a command, with what its events tell of them.

A patch of Codex has no line numbers. ``patch_apply_end`` holds, for each file, a unified diff or the whole text;
``turn_diff`` a git diff from the start of the turn. Without either a patch is placed by its context, where the text of
the file is known and the place is the only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from transparency.records import diffs, edits
from transparency.records.codex_patch import FilePatch, read_patch
from transparency.records.edits import NO_LINES, UNCONFIRMED, Call, Edit, Found, Unattributed, text
from transparency.records.shells import TOOLS, command_text

_HEREDOC: Final = re.compile(
    r"\s*(?:cd\s+[^\s;&|]+\s*&&\s*)?apply_patch\s+<<\s*(['\"]?)(\w+)\1\n(?P<patch>.*)\n\2\s*", re.DOTALL
)
_APPLIED: Final = "Success. Updated the following files:"
# A path of more steps is none that a repository holds; trying its endings costs their square.
_MOST_STEPS: Final = 256
_NEW_TURN: Final = frozenset({"codex/turn_context", "codex/task_started", "codex/turn_started"})


def found(entries: Sequence[edits.Entry], default_model: str | None = None) -> Iterator[Found]:
    """What the session did to files."""
    events = _read_events(entries)
    made = list(edits.read(entries, events.read, default_model))
    return _by_turn(made, events)


@dataclass(slots=True)
class _Events:
    """What events tell: the changes of each call that succeeded, the turn of each call, the last diff of each turn."""

    changes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    turns: dict[int, int] = field(default_factory=dict)
    diffs: dict[int, dict[str, str]] = field(default_factory=dict)

    def read(self, call: Call) -> Iterable[Found] | None:
        changes = self.changes.get(call.entry.get("call-id", ""))
        if changes is not None:
            return [_changed(call, path, change) for path, change in changes.items()]
        patch = _patch(call)
        if patch is None:
            return None
        files = read_patch(patch)
        if not (call.succeeded or _says_applied(call)):
            return [Unattributed(call, UNCONFIRMED, path=file.path) for file in files or ()]
        if files is None:
            return [Unattributed(call, NO_LINES)]
        return [_patched(call, file) for file in files]

    def turn_of(self, call: Call) -> int:
        return self.turns.get(id(call.entry), 0)


def _read_events(entries: Iterable[edits.Entry]) -> _Events:
    events = _Events()
    turn = 0
    for entry in entries:
        kind, data = entry.get("event-type"), entry.get("data")
        if entry.get("type") == "tool-call":
            events.turns[id(entry)] = turn
        elif kind in _NEW_TURN:
            turn += 1
        elif kind == "codex/patch_apply_end" and isinstance(data, dict) and data.get("success") is True:
            call_id, changes = data.get("call_id"), data.get("changes")
            if isinstance(call_id, str) and isinstance(changes, dict) and changes:
                events.changes[call_id] = changes
        elif kind == "codex/turn_diff":
            events.diffs[turn] = diffs.by_file(text(data, "unified_diff") or "")
    return events


def _patch(call: Call) -> str | None:
    """The patch that a call applies, and applies only."""
    given = call.entry.get("input")
    if call.name == "apply_patch":
        return given if isinstance(given, str) else text(given, "input") or text(given, "patch") or ""
    if call.name not in TOOLS:
        return None
    words = call.input.get("command")
    if isinstance(words, list) and len(words) == 2 and words[0] == "apply_patch":
        return words[1] if isinstance(words[1], str) else None
    found_there = _HEREDOC.fullmatch(command_text(given) or "")
    return None if found_there is None else found_there["patch"]


def _says_applied(call: Call) -> bool:
    output = call.result.get("output") if call.result is not None else None
    return isinstance(output, str) and output.startswith(_APPLIED)


def _changed(call: Call, path: str, change: object) -> Found:
    """One file of ``patch_apply_end``; older versions wrap the change in its kind."""
    detail = change if isinstance(change, dict) else {}
    kind: object = detail.get("type")
    if kind is None and len(detail) == 1:
        ((kind, detail),) = detail.items()
    content, diff = text(detail, "content"), text(detail, "unified_diff")
    if kind == "add" and content is not None:
        return Edit(path, call.by(), call, created=True, after=content)
    if kind == "delete":
        return Edit(path, call.by(), call, deleted=True)
    moved_to = text(detail, "move_path")
    if diff == "" and moved_to is not None:
        return Edit(path, call.by(), call, moved_to=moved_to)
    hunks = None if diff is None else diffs.unified(diff)
    if hunks is None:
        return Unattributed(call, NO_LINES, path=path)
    return Edit(path, call.by(), call, hunks=hunks, moved_to=moved_to)


def _patched(call: Call, file: FilePatch) -> Edit:
    if file.kind == "add":
        return Edit(file.path, call.by(), call, created=True, after=file.content())
    if file.kind == "delete":
        return Edit(file.path, call.by(), call, deleted=True)
    return Edit(file.path, call.by(), call, moved_to=file.moved_to, replacements=file.replacements())


def _by_turn(found_all: list[Found], events: _Events) -> Iterator[Found]:
    """Put the diffs of turns where patches have none: the last patch of a file in a turn stands for all of them.

    Not where a shell command may have written in that turn: the diff would hold its lines too.
    """
    unclear = {events.turn_of(each.call) for each in found_all if isinstance(each, Unattributed)}
    groups: dict[tuple[int, str], list[Edit]] = {}
    for each in found_all:
        if isinstance(each, Edit) and events.diffs:
            groups.setdefault((events.turn_of(each.call), each.path), []).append(each)
    placed: dict[int, list[diffs.Hunk] | None] = {}
    for (turn, path), group in groups.items():
        hunks = _hunks_of(path, events.diffs.get(turn, {}))
        if hunks is not None and turn not in unclear and all(each.replacements for each in group):
            placed |= {id(each): None for each in group}
            placed[id(group[-1])] = hunks
    for each in found_all:
        hunks = placed.get(id(each))
        if hunks is not None and isinstance(each, Edit):
            yield replace(each, hunks=hunks)
        elif id(each) not in placed:
            yield each


def _hunks_of(path: str, parts: Mapping[str, str]) -> list[diffs.Hunk] | None:
    """The hunks of the one file of a diff that *path* names: the diff has it from the repository's root.

    So its name there is an ending of the path: each is looked up, since a turn may change as many files as it likes.
    """
    steps = path.split("/")[-_MOST_STEPS:]
    endings = {path, *("/".join(steps[number:]) for number in range(len(steps)))}
    same = [parts[name] for name in endings if name in parts]
    return diffs.unified(same[0]) if len(same) == 1 else None
