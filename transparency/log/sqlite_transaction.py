"""A write to SQLite, whole or not at all, and what is said when it fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from transparency.errors import StoreError


def unreadable(error: Exception) -> StoreError:
    """Whatever binding is below, damage and a failing disk are one error to those above.

    Named by its code: the text of a decoding error would carry the stored bytes, which may be a payload.
    """
    return StoreError(f"the store could not be read ({getattr(error, 'sqlite_errorname', type(error).__name__)})")


class Transaction:
    """BEGIN IMMEDIATE … COMMIT. Any failure is a :class:`StoreError`: what was kept is in doubt (contract 2)."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - sqlite3's connection, or a shim that looks like it
        self._connection = connection

    def __enter__(self) -> Callable[..., Any]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except Exception as error:
            raise StoreError(f"the store cannot begin to write: {error}") from error
        return self._connection.execute  # type: ignore[no-any-return]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            try:
                self._connection.execute("COMMIT")
            except Exception as failure:
                self._rollback()
                raise StoreError(f"the store could not commit: {failure}") from failure
            return
        self._rollback()
        if not isinstance(error, StoreError) and isinstance(error, Exception):
            raise StoreError(f"the store could not write: {error}") from error

    def _rollback(self) -> None:
        # SQLite may have rolled back already; the first error is the one to report.
        with contextlib.suppress(Exception):
            self._connection.execute("ROLLBACK")
