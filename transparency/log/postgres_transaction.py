"""A write to PostgreSQL, whole or not at all, and what is said when it fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from transparency.errors import StoreError
from transparency.log.postgres_connection import Connection, words

Run = Callable[..., psycopg.Cursor[tuple[Any, ...]]]


def unreadable(error: Exception) -> StoreError:
    """A server that went away and one whose disk is damaged are one error to those above."""
    return StoreError(f"the store could not be read ({words(error)})")


@contextlib.contextmanager
def heeding_warnings(connection: Connection) -> Iterator[None]:
    """Around what commits, where a warning is a failure.

    With a synchronous standby a COMMIT waits for it. If that wait is ended, by a timeout or by an administrator, the
    COMMIT succeeds all the same, with a warning: the transaction is here, and perhaps nowhere else. To acknowledge it
    would be to promise what a failover may break.
    """
    warnings: list[str] = []

    def take(notice: psycopg.errors.Diagnostic) -> None:
        warnings.append(notice.message_primary or "a warning")

    connection.add_notice_handler(take)
    try:
        yield
    finally:
        connection.remove_notice_handler(take)
    if warnings:
        raise StoreError(f"the store could not commit: {warnings[0]}")


class Transaction:
    """BEGIN … COMMIT. Any failure is a :class:`StoreError`: what was kept is in doubt (contract 2)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Run:
        try:
            self._connection.execute("BEGIN")
        except Exception as error:
            raise StoreError(f"the store cannot begin to write: {words(error)}") from error
        return self._run

    def _run(self, query: str, values: object = None) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._connection.execute(query, values, binary=True)  # type: ignore[call-overload,no-any-return]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            try:
                self._commit()
            except Exception as failure:
                self._rollback()
                if isinstance(failure, StoreError):
                    raise
                raise StoreError(f"the store could not commit: {words(failure)}") from failure
            return
        self._rollback()
        if not isinstance(error, StoreError) and isinstance(error, Exception):
            raise StoreError(f"the store could not write: {words(error)}") from error

    def _commit(self) -> None:
        with heeding_warnings(self._connection):
            done = self._connection.execute("COMMIT").statusmessage
        if done != "COMMIT":
            raise StoreError("the store could not commit: it was rolled back")

    def _rollback(self) -> None:
        # The first error is the one to report.
        with contextlib.suppress(Exception):
            self._connection.execute("ROLLBACK")
