"""Published checkpoints in SQLite: one row a size, whose text never changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from transparency.log import checkpoint_keeping as keeping

_PUT: Final = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)"
_BELOW: Final = "SELECT size, witnessed FROM checkpoints WHERE size < ? ORDER BY size DESC LIMIT 1"
_DELETE: Final = "DELETE FROM checkpoints WHERE size = ?"
_AT_ONCE: Final = 256
"""Rows that go in one transaction: a store of before there was a rule has many, and writes wait for this one."""


def put(run: Callable[..., Any], size: int, note: bytes, *, witnessed: bool) -> None:
    """Within a transaction."""
    newest = run("SELECT max(size) FROM checkpoints").fetchone()[0]
    keeping.check_may_follow(newest, size)
    if newest == size:
        before = run("SELECT note, witnessed FROM checkpoints WHERE size = ?", (size,)).fetchone()
        keeping.check_same_text(before[0], note, size)
        witnessed = witnessed or bool(before[1])
    run(_PUT, (size, note, int(witnessed)))
    _prune(run, size)


def _prune(run: Callable[..., Any], newest: int) -> None:
    for _ in range(_AT_ONCE):
        below = run(_BELOW, (newest,)).fetchone()
        if below is None or below[1]:
            break
        run(_DELETE, (below[0],))
    # Each publication moves one row out of the recent ones; sizes alone are read, and no note.
    pair = run("SELECT size FROM checkpoints ORDER BY size DESC LIMIT 2 OFFSET ?", (keeping.RECENT - 1,)).fetchall()
    if len(pair) > 1 and keeping.in_one_block(pair[1][0], pair[0][0]):
        run(_DELETE, (pair[1][0],))
