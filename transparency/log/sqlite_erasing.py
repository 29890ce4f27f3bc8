"""Erasing in SQLite: the row is emptied and its bytes overwritten, then the file is written anew without what was free.

``secure_delete`` overwrites what a transaction takes away. Copies may lie elsewhere: in pages that were freed earlier
(an intake row that went when its entry was committed), and between the cells of pages that were rebalanced. VACUUM
leaves none of them; it costs one copy of the database, so it is done once for many erasures. The write-ahead log is
emptied last: it holds the pages as they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_TRIES = 3


@contextlib.contextmanager
def overwriting(connection: Any) -> Iterator[None]:  # noqa: ANN401 - sqlite3's connection, or a shim that looks like it
    """What is deleted in here is overwritten with zeros. At other times it is as SQLite was built: some always do."""
    before = 0
    with contextlib.suppress(Exception):  # where the store is broken, the transaction says so
        before = int(connection.execute("PRAGMA secure_delete").fetchone()[0])
        connection.execute("PRAGMA secure_delete = ON").fetchone()
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            connection.execute(f"PRAGMA secure_delete = {before}").fetchone()


def erase(run: Callable[..., Any], indexes: Sequence[int]) -> None:
    """Within a transaction. Whatever of the service's own stands under an index is left alone."""
    for index in indexes:
        row = run("SELECT entry, tbs, collateral FROM entries WHERE idx = ? AND kind = 0", (index,)).fetchone()
        if row is None:
            continue
        entry, tbs, collateral = row
        run("DELETE FROM sibling_young WHERE tbs = ? AND idx = ?", (tbs, index))
        run("DELETE FROM sibling_index WHERE tbs = ? AND idx = ?", (tbs, index))
        run("UPDATE entries SET statement = x'', tbs = x'', collateral = NULL WHERE idx = ?", (index,))
        run("DELETE FROM intake WHERE entry = ?", (entry,))
        if collateral is not None:
            # Many statements share a chain: it goes with the last of them.
            sql = "DELETE FROM collateral WHERE digest = ? AND NOT EXISTS (SELECT 1 FROM entries WHERE collateral = ?)"
            run(sql, (collateral, collateral))


def scrub(connection: Any) -> str:  # noqa: ANN401 - as above
    """Write the file anew and empty the write-ahead log; the reason if that did not succeed, "" if it did."""
    try:
        with overwriting(connection):
            connection.execute("VACUUM")
            for _ in range(_TRIES):
                if not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                    return ""
    except Exception as error:  # noqa: BLE001 - of whichever binding; VACUUM is all or nothing
        return f"the database could not be written anew ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
    return "the write-ahead log is being read, and could not be emptied"
