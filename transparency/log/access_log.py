"""The access log: who read or changed what, appended to files from which nothing can be taken unseen.

``DIR/access-log/00000001.jsonl`` and so on, and a lock. Any process may append: the server for what it answers,
commands for what they do on the folder. Each takes the lock, finds the end, writes whole lines with one ``write`` and
lets go, so lines never mix and each follows from the one before (log/access_lines.py).

What survives: a line is handed to the system before the answer it stands for is sent, so the death of the process
loses none; ``sync`` makes lines survive the loss of power, at once for what changes the log, within a second for reads.
A line that power loss cut off is removed by the next append: nothing that was answered stood behind it for longer than
that second.

A segment is closed at a size and never written again: whoever erases old ones by retention takes whole files, and the
digests that are registered for their ends (log/access_digests.py) stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from transparency.errors import LogUnusableError, MalformedError
from transparency.log.access_lines import MAX_LINE, NO_CHAIN, Opening, Use, read_line, write_line
from transparency.log.durable import create_durably, sync_folder
from transparency.log.folder import Folder

SEGMENT_BYTES: Final = 64 * 1024 * 1024
_SEGMENT: Final = re.compile(r"([0-9]{8})\.jsonl")
_LOCK: Final = "lock"
_ACTION: Final = re.compile(r"[a-z-]{1,40}")
LOCAL: Final = "local"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Position:
    """Where the log ends: *count* lines, the last of them in *segment*, the chain after it."""

    segment: int
    count: int
    chain: bytes


@dataclass(slots=True)
class _Segment:
    """The segment that is written, as it was when this object last looked."""

    number: int
    descriptor: int
    size: int
    end: Position


class AccessLog:
    """One writer of the log in *folder*. ``append`` belongs to one thread, ``sync`` and ``close`` to any."""

    def __init__(
        self,
        folder: Path,
        origin: str,
        *,
        clock: Callable[[], float] = time.time,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._folder = folder
        self._origin = origin
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._lock: int | None = None
        self._current: _Segment | None = None
        self._closing = threading.Lock()

    def append(self, who: str, action: str, what: str, status: int) -> None:
        """Write one line. It survives the end of this process; :meth:`sync` makes it survive more."""
        now = self._now()
        with self._end() as current:
            target = current if current.size < self._segment_bytes else self._rotate(current)
            line = Use(target.end.count + 1, now, who, action, what, status)
            data, chain = write_line(line, target.end.chain)
            if os.write(target.descriptor, data) != len(data):
                raise OSError(28, "short write")
            target.size += len(data)
            target.end = Position(target.number, line.number, chain)

    def position(self) -> Position | None:
        """The end of the log, whoever wrote last; None where nothing was ever written."""
        if not segments(self._folder):
            return None
        with self._end() as current:
            return current.end

    def sync(self) -> None:
        """What was appended before this call is on the disk after it."""
        with self._closing:
            if self._current is None:
                return
            descriptor = os.dup(self._current.descriptor)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self.sync()
        with self._closing:
            if self._current is not None:
                os.close(self._current.descriptor)
            if self._lock is not None:
                os.close(self._lock)
            self._current = self._lock = None

    @contextlib.contextmanager
    def _end(self) -> Iterator[_Segment]:
        """The segment to append to, and nobody else's hands on it."""
        if self._lock is None:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield self._catch_up()
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _catch_up(self) -> _Segment:
        current = self._current
        if current is None:
            known = segments(self._folder)
            current = self._open(known[-1]) if known else self._create(1, Position(0, 0, NO_CHAIN))
        while _path(self._folder, current.number + 1).exists():
            current = self._open(current.number + 1)
        size = os.fstat(current.descriptor).st_size
        if size != current.size:
            current.size, current.end = _read_end(self._folder, current.number, current.descriptor, size)
        return current

    def _rotate(self, old: _Segment) -> _Segment:
        os.fsync(old.descriptor)
        return self._create(old.number + 1, old.end)

    def _create(self, number: int, before: Position) -> _Segment:
        opening = Opening(before.count + 1, self._now(), self._origin, number, before.chain)
        # Whole or not at all: a segment always has its first line.
        create_durably(_path(self._folder, number), write_line(opening, before.chain)[0])
        sync_folder(self._folder.parent)
        return self._open(number)

    def _open(self, number: int) -> _Segment:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(_path(self._folder, number), flags)
        try:
            size, end = _read_end(self._folder, number, descriptor, os.fstat(descriptor).st_size)
        except BaseException:
            os.close(descriptor)
            raise
        with self._closing:
            if self._current is not None:
                os.close(self._current.descriptor)
            self._current = _Segment(number, descriptor, size, end)
        return self._current

    def _now(self) -> int:
        return int(self._clock() * 1000)


def record_local(data: Path, origin: str, action: str, what: str = "", *, done: bool = True) -> None:
    """Record what was done on the folder itself, by a command or through its socket. On the disk when this returns."""
    log = AccessLog(Folder(data).access_log, origin)
    try:
        log.append(LOCAL, action if _ACTION.fullmatch(action) else UNKNOWN, what, 200 if done else 400)
    finally:
        log.close()


def copy_access_log(source: Path, target: Path) -> None:
    """Copy what is written, up to the last whole line, also while somebody writes. Nothing there makes nothing here."""
    numbers = segments(source)
    if not numbers:
        return
    target.mkdir(mode=0o700, exist_ok=True)
    for number in numbers:
        data = _path(source, number).read_bytes()
        create_durably(_path(target, number), data[: data.rfind(b"\n") + 1])


def segments(folder: Path) -> list[int]:
    """The numbers of the segments that are there, in order."""
    names = (_SEGMENT.fullmatch(path.name) for path in folder.glob("*.jsonl"))
    return sorted(int(match[1]) for match in names if match is not None)


def segment_end(folder: Path, number: int) -> Position:
    """Where a closed segment ends."""
    descriptor = os.open(_path(folder, number), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read_end(folder, number, descriptor, os.fstat(descriptor).st_size, repair=False)[1]
    finally:
        os.close(descriptor)


def lines_of(folder: Path, number: int) -> Iterator[bytes]:
    """The lines of a segment as they stand there, with their ends; one that is too long comes in pieces."""
    with _path(folder, number).open("rb") as file:
        while data := file.readline(MAX_LINE + 2):
            yield data


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:08d}.jsonl"


def _read_end(folder: Path, number: int, descriptor: int, size: int, *, repair: bool = True) -> tuple[int, Position]:
    """Size and end of a segment. What follows its last whole line was cut off by power loss, and goes."""
    start = max(0, size - 2 * MAX_LINE)
    tail = os.pread(descriptor, size - start, start)
    whole, _, torn = tail.rpartition(b"\n")
    try:
        line, _, chain = read_line(whole.rpartition(b"\n")[2])
    except MalformedError as error:
        raise LogUnusableError(
            f"the end of {_path(folder, number)} is damaged: {error}; `transparency log access --verify` tells more. "
            "Moving the folder away begins a new access log, and every check will say that the old one is missing"
        ) from error
    if torn and repair:
        os.ftruncate(descriptor, size - len(torn))
    return size - len(torn), Position(number, line.number, chain)
