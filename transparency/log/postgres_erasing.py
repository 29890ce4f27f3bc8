"""Erasing in PostgreSQL: rows are emptied, then the tables that held them written anew.

An UPDATE leaves the old row where it was, VACUUM its bytes in the free part of the page. VACUUM FULL writes a new file
of what is there, and empties the old one. Whoever reads waits for it: it is done once for many erasures.

What this cannot reach, and only the operator can: the write-ahead log, which has every row as it was written until the
server has used its segments again, its archive, and base backups. (Standbys follow by themselves.) docs/postgres.md
says how long each lasts; `transparency retention copy` notes them in the register of copies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import psycopg

from transparency.log.postgres_connection import Connection, words
from transparency.log.postgres_transaction import Run

_HELD: Final = ("statements", "entries", "collateral", "intake")


def erase(run: Run, indexes: Sequence[int]) -> None:
    """Within a transaction. Whatever of the service's own stands under an index is left alone."""
    rows = run(
        "SELECT idx, entry, collateral FROM entries WHERE idx = ANY(%s::bigint[]) AND kind = 0 ORDER BY idx FOR UPDATE",
        (list(indexes),),
    ).fetchall()
    if not rows:
        return
    found = [index for index, _, _ in rows]
    run("UPDATE statements SET statement = '' WHERE idx = ANY(%s::bigint[])", (found,))
    run("UPDATE entries SET tbs = '', collateral = NULL WHERE idx = ANY(%s::bigint[])", (found,))
    run(
        "DELETE FROM intake WHERE entry IN (SELECT entry FROM intake WHERE entry = ANY(%b) ORDER BY entry FOR UPDATE)",
        ([entry for _, entry, _ in rows],),
    )
    chains = sorted({collateral for _, _, collateral in rows if collateral is not None})
    if chains:
        # Many statements share a chain: it goes with the last of them.
        run(
            "DELETE FROM collateral WHERE digest = ANY(%b)"
            " AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.collateral = digest)",
            (chains,),
        )


def scrub(connection: Connection) -> str:
    """Write the tables anew; the reason if that did not succeed, "" if it did."""
    try:
        connection.execute("SET statement_timeout = 0")
        for table in _HELD:
            connection.execute(f"VACUUM (FULL) {table}")
    except psycopg.Error as error:
        return f"the tables could not be written anew ({words(error)})"
    finally:
        with contextlib.suppress(psycopg.Error):
            connection.execute("RESET statement_timeout")
    return ""
