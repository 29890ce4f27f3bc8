"""Erasing in PostgreSQL: rows are emptied, then the tables that held them written anew.

An UPDATE leaves the old row where it was, VACUUM its bytes in the free part of the page. So the tables are copied and
the old ones dropped, in one transaction. Nobody else may write to them meanwhile, be it a leader that was overtaken and
erases what the next one erases, too: they are locked, and only reads go on. The intake is every node's, and small:
VACUUM FULL does the same with it while others wait.

What this cannot reach, and only the operator can: the write-ahead log, which has every row as it was written until the
server has used its segments again, its archive, and base backups. (Standbys follow by themselves.) docs/postgres.md
says how long each lasts; `transparency retention copy` notes them in the register of copies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import psycopg

from transparency.errors import StoreError, TipMovedError
from transparency.log.postgres_connection import Connection, words
from transparency.log.postgres_transaction import Run, Transaction

# Each with the storage parameters that LIKE does not take along.
_COPIED: Final = {"entries": "", "statements": "toast_tuple_target = 8160"}
_REWRITTEN: Final = ("collateral", "intake")
_TIP: Final = "SELECT size, root, epoch FROM tip"


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
        for table in _REWRITTEN:
            connection.execute(f"VACUUM (FULL) {table}")
        with Transaction(connection) as run:
            _copy(run)
    except psycopg.Error as error:
        return f"the tables could not be written anew ({words(error)})"
    except StoreError as error:
        return f"the tables could not be written anew ({error})"
    finally:
        with contextlib.suppress(psycopg.Error):
            connection.execute("RESET statement_timeout")
    return ""


def _copy(run: Run) -> None:
    before = run(_TIP).fetchone()
    run(f"LOCK TABLE {', '.join(_COPIED)} IN SHARE ROW EXCLUSIVE MODE")
    for table, parameters in _COPIED.items():
        run(f"CREATE TABLE {table}_new (LIKE {table} INCLUDING ALL)")
        if parameters:
            run(f"ALTER TABLE {table}_new SET ({parameters})")
        run(f"INSERT INTO {table}_new SELECT * FROM {table} ORDER BY idx")
    if run(f"{_TIP} FOR UPDATE").fetchone() != before:
        raise TipMovedError("another writer has moved the tip of this log meanwhile")
    for table in _COPIED:
        run(f"DROP TABLE {table}")
        run(f"ALTER TABLE {table}_new RENAME TO {table}")
