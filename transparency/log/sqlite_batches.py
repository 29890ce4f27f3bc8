"""Batches into SQLite: one, or several that came one after the other, as one. Inside a transaction of the caller's.

What a commit costs is mostly its own: the tip, the head, the pages at the edge of the tree and of the table of entries.
Several written together pay for that once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from transparency.errors import TipMovedError
from transparency.log import sqlite_tiles
from transparency.log.sql_reads import address_of
from transparency.log.sqlite_rows import insert
from transparency.log.store import Commit

_MOVE_TIP: Final = "UPDATE tip SET size = ?, root = ? WHERE size = ? AND root = ? AND epoch = ?"
_HEADS_MADE: Final = "SELECT coalesce((SELECT number + 1 FROM heads ORDER BY size DESC LIMIT 1), 0)"


def write(writer: Any, batches: Sequence[Commit]) -> None:  # noqa: ANN401 - as sqlite.connect gives
    """*batches*, each of which goes on from where the one before it ends (:func:`follows`)."""
    expected, newest = batches[0].expected, batches[-1].head
    moved = (newest.size, newest.root, expected.size, expected.root, expected.epoch)
    writer.execute(_MOVE_TIP, moved)
    if writer.execute("SELECT changes()").fetchone()[0] != 1:
        raise moved_by_another()
    entries = [new for batch in batches for new in batch.entries]
    rows = [
        (index, entry, int(kind), generation, tbs, statement, address_of(collateral))
        for index, (entry, kind, generation, tbs, statement, collateral) in enumerate(entries, expected.size)
    ]
    insert(writer, "INSERT INTO entries VALUES", rows)
    collateral = {address_of(new.collateral): new.collateral for new in entries if new.collateral}
    if collateral:
        writer.executemany("INSERT OR IGNORE INTO collateral VALUES (?, ?)", list(collateral.items()))
    # A tile is given whole: of one that several batches made grow, the last says all.
    tiles = {key: tile for batch in batches for key, tile in batch.tiles.items()}
    sqlite_tiles.put(writer, tiles, expected.size)
    number = writer.execute(_HEADS_MADE).fetchone()[0]
    heads = [
        (head.size, head.root, head.time, head.kid, head.protected, head.signature, made)
        for made, head in enumerate((batch.head for batch in batches), number)
    ]
    insert(writer, "INSERT INTO heads VALUES", heads)
    done = [(entry,) for batch in batches for entry in batch.intake_done]
    if done:
        writer.executemany("DELETE FROM intake WHERE entry = ?", done)


def follows(batch: Commit, last: Commit) -> bool:
    """Whether *batch* goes on from where *last* ends."""
    expected, head = batch.expected, last.head
    return (expected.size, expected.root, expected.epoch) == (head.size, head.root, last.expected.epoch)


def moved_by_another() -> TipMovedError:
    return TipMovedError("another writer has moved the tip of this log; this process must stop")
