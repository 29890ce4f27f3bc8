"""The register of copies: what an erasure in the data folder cannot reach, and when it will be gone.

DIR/copies.toml has one table for each backup (``log backup`` writes it) and for each other copy the operator notes: an
export, a snapshot. A copy still holds what was erased after it was made: every erasure whose index is not below its
``erased-upto``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from transparency.errors import LogUnusableError, MalformedError
from transparency.log.durable import create_durably
from transparency.policy.erasure import Erasure
from transparency.policy.toml import Table, load, quote, write_time

KEEP_DAYS: Final = 30
MOST_DAYS: Final = 366 * 100
DAY: Final = 24 * 3600
_HEADING: Final = "# Copies of this log, and when each will be gone. Written by `log backup` and `retention copy`."


@dataclass(frozen=True, slots=True)
class Copy:
    """*size* entries were in it; every erasure below *erased_upto* had been carried out in it."""

    where: str
    time: int
    until: int
    size: int
    erased_upto: int

    def exists(self) -> bool:
        return os.path.lexists(self.where)

    def holds(self, erased: Sequence[tuple[int, Erasure]]) -> int:
        """Of how many entries it still has content that was erased since."""
        found = {item.index for at, each in erased if at >= self.erased_upto for item in each.items}
        return sum(index < self.size for index in found)


def read_copies(path: Path) -> list[Copy]:
    try:
        top = Table(load(path.read_bytes(), "register of copies"), "copies")
        copies = [_read(table) for table in top.tables("copy")]
        top.done()
    except FileNotFoundError:
        return []
    except (OSError, MalformedError) as error:
        raise LogUnusableError(f"{path} cannot be read: {error}") from error
    return copies


def add_copy(path: Path, copy: Copy, now: int) -> None:
    """Note *copy*, in the place of an earlier one of that name; those that are over and not there are dropped."""
    with _alone(path.parent):
        write_copies(path, [*(each for each in read_copies(path) if each.where != copy.where), copy], now)


def write_copies(path: Path, copies: Sequence[Copy], now: int) -> None:
    lines = [_HEADING]
    for each in copies:
        if each.until > now or each.exists():
            lines += ["", "[[copy]]", f"where = {quote(each.where)}"]
            lines += [f"time = {write_time(each.time)}", f"until = {write_time(each.until)}"]
            lines += [f"size = {each.size}", f"erased-upto = {each.erased_upto}"]
    create_durably(path, ("\n".join(lines) + "\n").encode())


def place(path: Path) -> str:
    """A path as the register writes it: TOML is UTF-8, paths need not be."""
    return os.fsencode(path.absolute()).decode("utf-8", "replace")


def _read(table: Table) -> Copy:
    times = {name: table.optional_time(name) for name in ("time", "until")}
    for name, value in times.items():
        if value is None:
            raise table.fault(name, "is missing")
    copy = Copy(
        table.text("where"), times["time"] or 0, times["until"] or 0, table.number("size"), table.number("erased-upto")
    )
    table.done()
    return copy


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two backups at once: the second waits. The folder is locked, as the file itself is replaced."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
