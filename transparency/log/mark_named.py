"""Which mark vouches for a log in PostgreSQL: its database names the one that all nodes share. None leads with another.

A node that was not told of that mark has a whole one in a file of its own, or knows one that was left while it was
away. What it released would be unknown to the mark that the others are held against, and an older state that was put
back would pass. So who leads with a shared mark writes its number into the log's database, in its epoch and before it
releases anything; and whoever comes with another mark is refused. Files have no number: each machine has its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from transparency.errors import LogUnusableError
from transparency.log.mark import MarkValue


@dataclass(frozen=True, slots=True)
class NamedMark:
    """A mark in a second database: the number it began with, whatever the database is called, and how it was named."""

    id: UUID
    place: str


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
            f"the high-water mark in {place} is another than the one that vouches for this log, which is in "
            f"{named.place}: name that with --watermark {named.place}; if it is lost and you know that this database "
            f"is the newest, say so with `transparency serve … --accept-failover {tip.size}:{tip.root.hex()}`"
        )
