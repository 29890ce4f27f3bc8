"""Checking the access log: every line follows from the one before, and all is as the registered digests say.

Two things are found differently. Who changes, takes out or moves a line leaves a break in the chain, and the line is
named. Who writes everything after it anew leaves no break, but another chain than the one that the log has registered:
then the stretch between two digests is named. After a break the check goes on from what the line itself states, so
that one fault is told once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transparency.errors import MalformedError
from transparency.log.access_digests import RegisteredDigest
from transparency.log.access_lines import NO_CHAIN, Line, Opening, chain_of, read_line
from transparency.log.access_log import lines_of, segments


@dataclass(slots=True)
class AccessReport:
    """*covered* lines stand as a registered digest says; *unfinished*: the last line is being written, or was cut."""

    lines: int = 0
    segments: int = 0
    digests: int = 0
    covered: int = 0
    unfinished: bool = False
    findings: list[str] = field(default_factory=list)


def check_access(folder: Path, origin: str, digests: Sequence[RegisteredDigest]) -> AccessReport:
    """Check the access log in *folder* against the *digests* on the log *origin*."""
    return _Check(folder, origin, digests).run()


class _Check:
    def __init__(self, folder: Path, origin: str, digests: Sequence[RegisteredDigest]) -> None:
        self._folder = folder
        self._origin = origin
        self._due: dict[int, list[RegisteredDigest]] = defaultdict(list)
        for each in digests:
            self._due[each.digest.count].append(each)
        self._report = AccessReport(digests=len(digests))
        self._expected = 1
        # None after a break: what the next line follows from is not known.
        self._chain: bytes | None = NO_CHAIN

    def run(self) -> AccessReport:
        numbers = segments(self._folder)
        for number in numbers:
            self._segment(number, last=number == numbers[-1])
        self._report.segments = len(numbers)
        for each in (each for count in sorted(self._due) for each in self._due[count]):
            self._find(
                f"lines {self._expected} to {each.digest.count} are missing at the end: entry {each.entry_id} (index "
                f"{each.index}) has registered {each.digest.count}"
            )
        return self._report

    def _find(self, what: str) -> None:
        self._report.findings.append(what)

    def _segment(self, number: int, *, last: bool) -> None:
        for position, data in enumerate(lines_of(self._folder, number)):
            if not data.endswith(b"\n") and last:
                self._report.unfinished = True
                return
            self._report.lines += 1
            try:
                line, body, chain = _read(data, first=position == 0)
            except MalformedError as error:
                self._find(f"line {self._expected} (segment {number}) cannot be read: {error}")
                self._expected, self._chain = self._expected + 1, None
                continue
            if isinstance(line, Opening):
                self._open(line, number)
            self._follow(line, body, chain)

    def _open(self, line: Opening, number: int) -> None:
        if line.segment != number or line.log != self._origin:
            self._find(f"segment {number} says that it is segment {line.segment} of {line.log}")
        if line.number > self._expected:
            self._find(
                f"lines {self._expected} to {line.number - 1} are not here: the segments before {number} are gone"
            )
            self._skip(line.number - 1, line.previous)
        elif self._chain is not None and line.previous != self._chain:
            self._find(f"segment {number} begins with another chain than segment {number - 1} ends with")
            self._chain = line.previous

    def _skip(self, count: int, chain: bytes) -> None:
        """Go on after lines that are not here. Digests within them cannot be checked, the one of their end can."""
        self._expected, self._chain = count + 1, chain
        for passed in [number for number in self._due if number < count]:
            del self._due[passed]
        self._compare(count, chain)

    def _follow(self, line: Line, body: bytes, chain: bytes) -> None:
        number = line.number
        if number < self._expected:
            self._find(f"line {number} stands after line {self._expected - 1}: it was moved, or is there twice")
            return
        if number > self._expected:
            one = number == self._expected + 1
            gone = f"line {self._expected} is" if one else f"lines {self._expected} to {number - 1} are"
            self._find(f"{gone} missing before line {number}")
        elif self._chain is not None and chain_of(self._chain, body) != chain:
            self._find(f"line {number} was changed, or line {number - 1} with its chain: it does not follow from that")
        self._expected, self._chain = number + 1, chain
        self._compare(number, chain)

    def _compare(self, count: int, chain: bytes) -> None:
        for each in self._due.pop(count, ()):
            if each.digest.chain == chain:
                self._report.covered = count
            else:
                self._find(
                    f"lines {self._report.covered + 1} to {count} are not those whose digest entry {each.entry_id} "
                    f"(index {each.index}) has registered"
                )


def _read(data: bytes, *, first: bool) -> tuple[Line, bytes, bytes]:
    line, body, chain = read_line(data.removesuffix(b"\n"))
    if first != isinstance(line, Opening):
        raise MalformedError("a segment opens with its own line, and with that alone")
    return line, body, chain
