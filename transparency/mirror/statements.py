"""Statements beside a mirrored tree: a second copy, held against the tree.

The entries of a log of this project are digests. What they are of, the log gives to those who may read it
(log/export.py); a mirror that may, keeps it.

It is a file of its own, not served: who may read statements is the log's to say. Nor does a cosignature speak of it.
An order of erasure that stands in the mirrored tree is followed as soon as it is read: the copy goes, its bytes too.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from transparency.client.client import LogClient
from transparency.errors import MalformedError, ProofError, ServiceRefusedError, UnreachableError
from transparency.log.durable import create_private
from transparency.log.export import read_entries, write_entries
from transparency.log.sqlite_transaction import Transaction, unreadable
from transparency.log.store import Kind, StoredEntry
from transparency.policy import operations
from transparency.policy.erasure import PAYLOAD, Erasure
from transparency.statements.statement import Statement, entry_of

_TABLE: Final = """CREATE TABLE IF NOT EXISTS statements (origin TEXT NOT NULL, number INTEGER NOT NULL,
                   row BLOB NOT NULL, PRIMARY KEY (origin, number)) STRICT"""
EntryAt = Callable[[int], bytes]
"""The mirrored entry at an index."""


class StatementStore:
    """One row an entry, as the log's export has it. From any thread: one at a time is inside."""

    def __init__(self, path: Path) -> None:
        create_private(path)
        self._connection: Any = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            self._connection.execute(f"PRAGMA {setting}").fetchone()
        self._connection.execute(_TABLE)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that was left alone ends first.
        with self._lock:
            self._connection.close()

    def end(self, origin: str) -> int:
        """After the last entry that was asked for."""
        last = self._all("SELECT max(number) FROM statements WHERE origin = ?", origin)[0][0]
        return 0 if last is None else int(last) + 1

    def origins(self) -> list[str]:
        """Of which logs there is something."""
        return [str(origin) for (origin,) in self._all("SELECT DISTINCT origin FROM statements ORDER BY origin")]

    def rows(self, origin: str) -> Iterator[StoredEntry]:
        """What is kept, in order; of an erased entry the statement is empty."""
        start = 0
        sql = "SELECT number, row FROM statements WHERE origin = ? AND number >= ? ORDER BY number LIMIT 100"
        while found := self._all(sql, origin, start):
            for number, row in found:
                yield from read_entries(bytes(row))
                start = int(number) + 1

    def keep(self, origin: str, rows: Sequence[StoredEntry], erased: Sequence[int]) -> None:
        """Rows that were checked; and of the entries in *erased* nothing any more but that there was one."""
        with self._lock:
            self._keep(origin, rows, erased)

    def _keep(self, origin: str, rows: Sequence[StoredEntry], erased: Sequence[int]) -> None:
        with Transaction(self._connection) as run:
            for row in rows:
                run("INSERT OR REPLACE INTO statements VALUES (?, ?, ?)", (origin, row.index, write_entries([row])))
            for index in erased:
                found = run("SELECT row FROM statements WHERE origin = ? AND number = ?", (origin, index)).fetchone()
                if found is not None:
                    (row,) = read_entries(bytes(found[0]))
                    emptied = write_entries(
                        [StoredEntry(row.index, row.entry, row.kind, row.generation, b"", b"", b"")]
                    )
                    run("UPDATE statements SET row = ? WHERE origin = ? AND number = ?", (emptied, origin, index))
        if erased:
            # What was overwritten in the file is still in the journal; giving space back is another matter.
            for tidying in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                with contextlib.suppress(sqlite3.Error):  # somebody reads, or there is no room; the next one does it
                    self._connection.execute(tidying).fetchall()

    def _all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(sql, values).fetchall()  # type: ignore[no-any-return]
        except sqlite3.Error as error:
            raise unreadable(error) from error


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of an export that are those of the mirrored tree, and what they order to be erased."""

    rows: tuple[StoredEntry, ...]
    erased: tuple[int, ...]


async def pages(client: LogClient, start: int, size: int, entry_at: EntryAt) -> AsyncGenerator[Page, None]:
    """From *start* up to *size*. Raises ProofError for a row that is not of the tree, UnreachableError for none."""
    while start < size:
        try:
            found = read_entries(await client.export("entries", start))
        except MalformedError as error:
            raise UnreachableError(f"the log's export is not one ({error})") from error
        rows = [row for row in found if row.index < size]
        if [row.index for row in rows] != list(range(start, start + len(rows))) or not rows:
            raise UnreachableError(f"the log's export does not have the entries from {start} on")
        yield Page(tuple(rows), tuple(index for row in rows for index in _checked(row, entry_at)))
        start += len(rows)


def _checked(row: StoredEntry, entry_at: EntryAt) -> Sequence[int]:
    """That the statement is that of the entry; which entries it has erased."""
    if entry_at(row.index) != row.entry or (not row.erased and entry_of(row.statement) != row.entry):
        raise ProofError(f"the log's statement of entry {row.index} is not the one that the tree has")
    if row.erased or row.kind is not Kind.OPERATION:
        return ()
    try:
        statement = Statement.from_bytes(row.statement)
        if statement.sub != operations.ERASURE:
            return ()
        return [item.index for item in Erasure.from_bytes(statement.payload).items if item.what == PAYLOAD]
    except MalformedError:
        return ()


def may_not_read(error: ServiceRefusedError) -> bool:
    """It is no log of this project, or it gives its statements to others."""
    return error.status in (401, 403, 404, 405, 406)
