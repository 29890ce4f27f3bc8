"""Published checkpoints in SQLite: one row a size, whose text never changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from transparency.errors import StoreError
from transparency.notes.note import Note

COVERING: Final = "SELECT note FROM checkpoints WHERE size > ? AND witnessed ORDER BY size LIMIT 1"
PAGE: Final = "SELECT size, note FROM checkpoints WHERE size > ? ORDER BY size LIMIT 256"
_PUT: Final = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)"


def put(run: Callable[..., Any], size: int, note: bytes, *, witnessed: bool) -> None:
    """Within a transaction."""
    row = run("SELECT note FROM checkpoints WHERE size = ?", (size,)).fetchone()
    if row is not None:
        check_same_text(row[0], note, size)
    run(_PUT, (size, note, int(witnessed)))


def check_same_text(old: bytes, new: bytes, size: int) -> None:
    """Two checkpoints of one size that say different things would be the proof of a split view (CP-2)."""
    if Note.from_bytes(old).text != Note.from_bytes(new).text:
        raise StoreError(f"another checkpoint of size {size} was published before; this one must not be")
