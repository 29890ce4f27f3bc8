"""Diffs: reading those that agents record, making those they leave out, and following lines through them.

A recorded diff is often none: excerpts under a unified header, or text cut at 500 characters (formats.md 5). So one
counts only if every hunk holds exactly the lines its header says, and hunks are in order and fit each other. Lines are
separated by LF and are held without their ending, LF or CRLF: tools record the one for files that have the other.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

_HUNK: Final = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(?: .*)?")
_HEADER: Final = re.compile(
    r"(?:diff |index |Index: |--- |\+\+\+ |(?:new|deleted) file mode |(?:old|new) mode |similarity |rename |={10,}).*"
)
_NO_NEWLINE: Final = "\\"
# Lines that no anchor separates are compared pair by pair (cubic at worst): more than these are taken as replaced.
_MAX_PAIRS: Final = 40_000
# A diff that looks at every line more often than this was made to be slow: what is left is taken as replaced.
_MAX_LOOKS: Final = 64


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines *before*, from line *old* (of the file before) on, became the lines *after*, from line *new* on.

    ``kept`` are the pairs of indexes (in before, in after) of lines that stayed; all others were removed or added.
    """

    old: int
    new: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    kept: tuple[tuple[int, int], ...] = ()

    def changes(self) -> Iterator[tuple[int, int, int, tuple[str, ...]]]:
        """(line in the file before, lines removed there, line in the file after, lines added there), in order."""
        done = (0, 0)
        for here in (*self.kept, (len(self.before), len(self.after))):
            removed, added = here[0] - done[0], self.after[done[1] : here[1]]
            if removed or added:
                yield self.old + done[0], removed, self.new + done[1], added
            done = (here[0] + 1, here[1] + 1)


def split_lines(text: str) -> list[str]:
    """The lines of a text without their endings; a text that ends with one has no empty line after it."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def unified(diff: str) -> list[Hunk] | None:
    """The hunks of a unified diff of one file; None if it is not exactly one, or changes nothing."""
    lines = split_lines(diff)
    position = 0
    while position < len(lines) and _HEADER.fullmatch(lines[position]):
        position += 1
    found: list[Hunk] = []
    while position < len(lines):
        head = _HUNK.fullmatch(lines[position])
        if head is None:
            return None
        counts = (int(head[2] or 1), int(head[4] or 1))
        # A side without lines is numbered by the line before it (diffutils manual, "Detailed Unified").
        start = (int(head[1]) + (counts[0] == 0), int(head[3]) + (counts[1] == 0))
        end = _body_end(lines, position + 1, counts)
        if end is None:
            return None
        found.append(_hunk(start, lines[position + 1 : end]))
        position = end
    return _fitting(found)


def structured(patch: object) -> list[Hunk] | None:
    """The hunks of a structured patch (``oldStart, oldLines, newStart, newLines, lines``); None as in ``unified``."""
    found: list[Hunk] = []
    for item in patch if isinstance(patch, list) else ():
        if not isinstance(item, dict):
            return None
        numbers = [item.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        lines = item.get("lines")
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            return None
        if any(type(number) is not int or not 0 <= number < 1 << 32 for number in numbers):
            return None
        if _body_end(lines, 0, (item["oldLines"], item["newLines"])) != len(lines):
            return None
        found.append(_hunk((max(item["oldStart"], 1), max(item["newStart"], 1)), lines))
    return _fitting(found)


def _body_end(lines: Sequence[str], position: int, counts: tuple[int, int]) -> int | None:
    """Where the body of a hunk ends; None if it does not hold what its header says."""
    old, new = counts
    while old or new or (position < len(lines) and lines[position][:1] == _NO_NEWLINE):
        if position >= len(lines):
            return None
        sign = lines[position][:1]
        # Some tools cut the blank that stands for an empty line of context.
        old -= sign in (" ", "", "-")
        new -= sign in (" ", "", "+")
        if old < 0 or new < 0 or sign not in (" ", "", "-", "+", _NO_NEWLINE):
            return None
        position += 1
    return position


def _hunk(start: tuple[int, int], body: Sequence[str]) -> Hunk:
    before: list[str] = []
    after: list[str] = []
    kept: list[tuple[int, int]] = []
    for line in body:
        sign, text = line[:1], line[1:].removesuffix("\r")
        if sign in (" ", ""):
            kept.append((len(before), len(after)))
        if sign in (" ", "", "-"):
            before.append(text)
        if sign in (" ", "", "+"):
            after.append(text)
    return Hunk(*start, tuple(before), tuple(after), tuple(kept))


def _fitting(hunks: list[Hunk]) -> list[Hunk] | None:
    """The hunks if they follow each other and their two numberings agree; None if there are none."""
    end, shift = 1, 0
    for hunk in hunks:
        if hunk.old < end or hunk.new != hunk.old + shift:
            return None
        end, shift = hunk.old + len(hunk.before), shift + len(hunk.after) - len(hunk.before)
    return hunks or None


def fits(text: Sequence[str], hunks: Sequence[Hunk]) -> bool:
    """Whether every line that the hunks say was there is there."""
    return all(tuple(text[hunk.old - 1 : hunk.old - 1 + len(hunk.before)]) == hunk.before for hunk in hunks)


def patched(text: Sequence[str], hunks: Sequence[Hunk]) -> list[str]:
    """The lines after hunks that fit."""
    made: list[str] = []
    done = 0
    for hunk in hunks:
        made += text[done : hunk.old - 1]
        made += hunk.after
        done = hunk.old - 1 + len(hunk.before)
    made += text[done:]
    return made


def between(before: Sequence[str], after: Sequence[str]) -> list[Hunk]:
    """A diff of two texts, as one hunk; none where they are the same.

    Anchored at the lines that are in both exactly once (Cohen's patience diff), so a large file costs n log n, and
    only short stretches without any are compared in every way.
    """
    kept: list[tuple[int, int]] = []
    waiting = [(0, len(before), 0, len(after))]
    looks = _MAX_LOOKS * (len(before) + len(after))
    while waiting and looks >= 0:
        low, high, new_low, new_high = waiting.pop()
        looks -= high - low + new_high - new_low
        while low < high and new_low < new_high and before[low] == after[new_low]:
            kept.append((low, new_low))
            low, new_low = low + 1, new_low + 1
        while low < high and new_low < new_high and before[high - 1] == after[new_high - 1]:
            high, new_high = high - 1, new_high - 1
            kept.append((high, new_high))
        if low == high or new_low == new_high:
            continue
        anchors = _anchors(before, after, (low, high, new_low, new_high))
        if not anchors:
            kept += _compared(before, after, (low, high, new_low, new_high))
            continue
        for at, new_at in (*anchors, (high, new_high)):
            waiting.append((low, at, new_low, new_at))
            if at < high:
                kept.append((at, new_at))
            low, new_low = at + 1, new_at + 1
    if len(kept) == len(before) == len(after):
        return []
    return [Hunk(1, 1, tuple(before), tuple(after), tuple(sorted(kept)))]


Window = tuple[int, int, int, int]


def _anchors(before: Sequence[str], after: Sequence[str], window: Window) -> list[tuple[int, int]]:
    """Lines that are in both windows exactly once: the longest series that is in the same order in both."""
    low, high, new_low, new_high = window
    counts, new_counts = Counter(before[low:high]), Counter(after[new_low:new_high])
    places = {after[at]: at for at in range(new_low, new_high) if new_counts[after[at]] == 1}
    pairs = [(at, places[before[at]]) for at in range(low, high) if counts[before[at]] == 1 and before[at] in places]
    # Patience sorting: tops[k] ends the best series of k + 1 pairs; links lead back through each.
    tops: list[int] = []
    ends: list[int] = []
    links: list[int] = []
    for number, (_, place) in enumerate(pairs):
        pile = bisect_left(tops, place)
        links.append(ends[pile - 1] if pile else -1)
        tops[pile : pile + 1], ends[pile : pile + 1] = [place], [number]
    series: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        series.append(pairs[number])
        number = links[number]
    return series[::-1]


def _compared(before: Sequence[str], after: Sequence[str], window: Window) -> Iterator[tuple[int, int]]:
    low, high, new_low, new_high = window
    if (high - low) * (new_high - new_low) > _MAX_PAIRS:
        return
    matcher = SequenceMatcher(None, before[low:high], after[new_low:new_high], autojunk=False)
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            yield low + block.a + step, new_low + block.b + step


def by_file(diff: str) -> dict[str, str]:
    """The parts of a git diff of several files, by the path after (``b/…``); a deleted file by its old path."""
    parts: dict[str, str] = {}
    for part in re.split(r"(?m)^(?=diff --git )", diff):
        found = re.search(r"(?m)^\+\+\+ (?:b/)?([^\t\n]+)", part)
        if found is not None and found[1] == "/dev/null":
            found = re.search(r"(?m)^--- (?:a/)?([^\t\n]+)", part)
        if found is not None:
            parts[found[1]] = part
    return parts
