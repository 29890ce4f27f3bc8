"""Which mark vouches for a log in PostgreSQL: its database names the one that all nodes share. None leads with another.

A node that was not told of that mark has a whole one in a file of its own, or knows one that was left while it was
away. What it released would be unknown to the mark that the others are held against, and an older state that was put
back would pass. So who leads with a shared mark writes its number into the log's database, in its epoch and before it
releases anything; and whoever comes with another mark is refused. Files have no number: each machine has its own.

A database that was put back to before that has forgotten it. So each node that has read it there keeps it in its
folder, in ``shared-mark``, and goes by that where the database names none. A mark that nodes share is never given up
for files, so it is not out of date: at most the mark has moved on, and then that is said where it was.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from transparency.errors import LogUnusableError
from transparency.log.durable import create_durably
from transparency.log.folder import Folder
from transparency.log.mark import MarkValue

# A node may get to lead while it still follows: two of its threads then write the same file.
_NOTING: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class NamedMark:
    """A mark in a second database: the number it began with, whatever the database is called, and how it was named."""

    id: UUID
    place: str

    @classmethod
    def from_bytes(cls, data: bytes) -> NamedMark:
        number, _, place = data.decode("utf-8").removesuffix("\n").partition("\n")
        found = cls(UUID(number), place)
        if found.to_bytes() != data:
            raise ValueError("not as it was written")
        return found

    def to_bytes(self) -> bytes:
        return f"{self.id}\n{self.place}\n".encode()


def known(folder: Folder, named: NamedMark | None) -> NamedMark | None:
    """The mark that the log's database names; where it names none, the one that it named when this folder was used."""
    if named is not None:
        return named
    try:
        return NamedMark.from_bytes(folder.shared_mark.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LogUnusableError(
            f"{folder.shared_mark} cannot be read; it says in which database the high-water mark of this log is. Name "
            "that with --watermark, and take the file away"
        ) from error


def remember(folder: Folder, named: NamedMark | None) -> NamedMark | None:
    """As :func:`known`, and from now on known to the folder. For who owns it."""
    if named is not None:
        said = named.to_bytes()
        with _NOTING:
            if not folder.shared_mark.exists() or folder.shared_mark.read_bytes() != said:
                create_durably(folder.shared_mark, said)
    return known(folder, named)


def check_file(named: NamedMark | None) -> None:
    """For who comes with a file."""
    if named is not None:
        raise LogUnusableError(
            f"the high-water mark of this log is in {named.place}, for all its nodes, and not in a file of this "
            f"machine's: start it once with `transparency serve … --watermark {named.place}`, or with --never-lead"
        )


def check_same(named: NamedMark | None, found: Iterable[UUID | None], place: str, tip: MarkValue) -> None:
    """For who comes with the mark in *place*; *found* are its number and those of the marks that were closed for it."""
    if named is not None and named.id not in found:
        raise LogUnusableError(
            f"the high-water mark of this log is in {named.place}, for all its nodes; in {place} is none, or another "
            f"than the one that vouches for it, which is in {named.place}: name that with --watermark {named.place}; "
            "if it is lost and you know that this database is the newest, say so with "
            f"`transparency serve … --accept-failover {tip.size}:{tip.root.hex()}`"
        )
