"""Runs: lines that one contributor wrote, and where they stand as the file changes around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transparency.records.diffs import Hunk
from transparency.records.edits import Contributor


@dataclass(frozen=True, slots=True)
class Run:
    """*lines* stand in a file from line *start* (counted from 1) on, and are *by* this contributor."""

    start: int
    lines: tuple[str, ...]
    by: Contributor | None

    @property
    def end(self) -> int:
        """The last line."""
        return self.start + len(self.lines) - 1

    def part(self, first: int, last: int, shift: int) -> Run:
        """Its lines *first* to *last*, moved by *shift*."""
        return Run(first + shift, self.lines[first - self.start : last - self.start + 1], self.by)

    def stands_in(self, text: Sequence[str]) -> bool:
        """Whether *text* has these lines at this place."""
        return tuple(text[self.start - 1 : self.end]) == self.lines


def moved(runs: Sequence[Run], hunks: Iterable[Hunk], by: Contributor | None) -> list[Run]:
    """Where sorted *runs* of the file before stand in the file after, with the lines added (unless *by* is None)."""
    changes = [change for hunk in hunks for change in hunk.changes()]
    made = [Run(new, added, by) for _, _, new, added in changes if added and by is not None]
    number = shift = 0
    for run in runs:
        at = run.start
        while number < len(changes) and changes[number][0] + changes[number][1] <= at:
            shift += len(changes[number][3]) - changes[number][1]
            number += 1
        # From here on changes overlap or split the run; the last of them may reach into the next one.
        ahead, moving = number, shift
        while ahead < len(changes) and changes[ahead][0] <= run.end:
            old, removed, _, added = changes[ahead]
            if at < old:
                made.append(run.part(at, old - 1, moving))
            at = max(at, old + removed)
            moving += len(added) - removed
            ahead += 1
        if at <= run.end:
            made.append(run.part(at, run.end, moving))
    return sorted(made, key=lambda run: run.start)


def runs_fit(runs: Sequence[Run], hunks: Iterable[Hunk]) -> bool:
    """Whether the lines that the hunks say were there do not contradict the runs; both are sorted."""
    number = 0
    for hunk in hunks:
        end = hunk.old + len(hunk.before)
        while number < len(runs) and runs[number].end < hunk.old:
            number += 1
        at = number
        while at < len(runs) and runs[at].start < end:
            low, high = max(runs[at].start, hunk.old), min(runs[at].end + 1, end)
            known = runs[at].lines[low - runs[at].start : high - runs[at].start]
            if known != hunk.before[low - hunk.old : high - hunk.old]:
                return False
            at += 1
    return True
