"""Line ranges out of AgentLog's file operations, where their diffs are real ones (formats.md 8.2).

A ``diff`` is often none: excerpts under a unified header, or text cut at 500 characters (formats.md 5). So a diff
counts only if every hunk holds exactly the lines its header says. Ranges are followed through later edits of the same
file; an edit that cannot be followed ends all that was known of it, because its lines may be anywhere after that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_HUNK: Final = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(?: .*)?")
_HEADER: Final = re.compile(
    r"(?:diff |index |--- |\+\+\+ |(?:new|deleted) file mode |(?:old|new) mode |similarity |rename ).*"
)
# Following n ranges through m edits costs n·m: a hostile log is given up after this many steps.
_MAX_WORK: Final = 2_000_000

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Change:
    """``removed`` lines at ``old`` (in the file before) became ``added`` lines at ``new`` (in the file after)."""

    old: int
    removed: int
    new: int
    added: int


def attribution(operations: Iterable[Mapping[str, Any]], model: str | None) -> dict[str, Any] | None:
    """``file-attribution`` of the ranges that stand at the end of the session; None where there are none."""
    known: dict[str, list[Range]] = {}
    models = {model}
    work = 0
    for operation in operations:
        path, kind = operation.get("path"), operation.get("operation")
        if not isinstance(path, str) or kind == "read":
            continue
        before = known.pop(path, [])
        work += 1 + len(before)
        if work > _MAX_WORK:
            return None
        diff = operation.get("diff")
        changes = changes_of(diff) if kind in ("edit", "create") and isinstance(diff, str) else None
        if changes is None or operation.get("truncated") is True:
            continue
        models.add(operation.get("model") if isinstance(operation.get("model"), str) else model)
        added = [(change.new, change.new + change.added - 1) for change in changes if change.added]
        known[path] = _joined(_moved(before, changes) + added)
    # One contributor for all: where the edits are of several models, none of them is named.
    contributor = {"type": "ai"} | ({"model-id": model} if model is not None and models == {model} else {})
    files = [_file(path, contributor, ranges) for path, ranges in known.items() if ranges]
    return {"files": files} if files else None


def _file(path: str, contributor: Mapping[str, str], ranges: list[Range]) -> dict[str, Any]:
    lines = [{"start-line": start, "end-line": end} for start, end in ranges]
    return {"path": path, "conversations": [{"contributor": dict(contributor), "ranges": lines}]}


def changes_of(diff: str) -> list[Change] | None:
    """The changes of a unified diff of one file, in order; None if it is not exactly one."""
    lines = diff.split("\n")
    if lines[-1] == "":
        lines.pop()
    changes: list[Change] = []
    position, end = 0, 0
    while position < len(lines) and _HEADER.fullmatch(lines[position]):
        position += 1
    while position < len(lines):
        head = _HUNK.fullmatch(lines[position])
        if head is None:
            return None
        old, new = int(head.group(1)), int(head.group(3))
        counts = (int(head.group(2) or 1), int(head.group(4) or 1))
        # A side without lines is numbered by the line before it (diffutils manual, "Detailed Unified").
        old, new = old + (counts[0] == 0), new + (counts[1] == 0)
        if old < max(end, 1) or new < 1:
            return None
        after = _hunk(lines, position + 1, old, new, counts, changes)
        if after is None:
            return None
        position, end = after, old + counts[0]
    return changes or None


def _hunk(
    lines: list[str], position: int, old: int, new: int, counts: tuple[int, int], changes: list[Change]
) -> int | None:
    """Read the body of one hunk into *changes*; where it ends, or None if it does not hold what its header says."""
    old_end, new_end = old + counts[0], new + counts[1]
    removed = added = 0
    while (old, new) != (old_end, new_end) or lines[position : position + 1] == ["\\ No newline at end of file"]:
        if position >= len(lines) or old > old_end or new > new_end:
            return None
        sign = lines[position][:1]
        position += 1
        if sign in (" ", ""):
            if removed or added:
                changes.append(Change(old - removed, removed, new - added, added))
            removed = added = 0
            old, new = old + 1, new + 1
        elif sign == "-":
            removed, old = removed + 1, old + 1
        elif sign == "+":
            added, new = added + 1, new + 1
        elif sign != "\\":
            return None
    if removed or added:
        changes.append(Change(old - removed, removed, new - added, added))
    return position


def _moved(ranges: list[Range], changes: list[Change]) -> list[Range]:
    """Where sorted *ranges* of the file before stand in the file after; removed lines are gone."""
    moved: list[Range] = []
    number, shift = 0, 0
    for start, end in ranges:
        at = start
        while number < len(changes) and changes[number].old + changes[number].removed <= at:
            shift += changes[number].added - changes[number].removed
            number += 1
        # From here on changes overlap or split the range; the last of them may reach into the next one.
        ahead, moving = number, shift
        while ahead < len(changes) and changes[ahead].old <= end:
            change = changes[ahead]
            if at < change.old:
                moved.append((at + moving, change.old - 1 + moving))
            at = max(at, change.old + change.removed)
            moving += change.added - change.removed
            ahead += 1
        if at <= end:
            moved.append((at + moving, end + moving))
    return moved


def _joined(ranges: list[Range]) -> list[Range]:
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
