"""What is SQLite's own in the store: races between its connections, damage, and files that are no database."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from transparency.errors import LogUnusableError
from transparency.log import schema
from transparency.log.sqlite import SqliteStore, connect
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.statements.statement import Entry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    schema.create(path, EMPTY_ROOT)
    return path


class _Interrupted:
    """A connection that lets something happen just before a statement that begins so; unless said, reads the tip."""

    def __init__(
        self, connection: Any, happens: list[Callable[[], object]], begins: str = "SELECT size, root, epoch"
    ) -> None:
        self._connection = connection
        self._happens = happens
        self._begins = begins

    def execute(self, sql: str, *parameters: Any) -> Any:
        if sql.startswith(self._begins) and self._happens and not self._connection.in_transaction:
            self._happens.pop()()
        return self._connection.execute(sql, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_take_over_tells_its_own_epoch_even_if_another_follows_at_once(path: Path) -> None:
    """Contract 3: two owners who both hold the newer epoch would not be fenced from each other."""
    other = SqliteStore(path)
    happens: list[Callable[[], object]] = [other.take_over]
    store = SqliteStore(path, connect=lambda at: _Interrupted(connect(at), happens))

    assert store.take_over().epoch == 1
    store.close()
    other.close()


def test_whoever_reads_one_row_does_not_wait_for_a_page_of_an_export(path: Path) -> None:
    """The event loop looks for every submitted entry; a page is megabytes, and may come from a slow disk."""
    found: list[object] = []
    happens: list[Callable[[], object]] = []
    store = SqliteStore(path, connect=lambda at: _Interrupted(connect(at), happens, "SELECT idx, entry, kind"))
    with ThreadPoolExecutor(1) as elsewhere:
        happens.append(lambda: found.append(elsewhere.submit(store.find, Entry(bytes(32))).result(timeout=30)))

        assert list(store.entries(0, 1)) == []
    assert found == [None]
    store.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    path.write_bytes(b"not a database at all" * 500)

    with pytest.raises(LogUnusableError, match="cannot be opened as a log database"):
        SqliteStore(path)


def test_a_database_that_is_missing_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(LogUnusableError, match="no log database"):
        SqliteStore(tmp_path / "log.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_commit_reaches_the_disk_before_it_returns(path: Path) -> None:
    """The setting that the power-cut test shows to be the right one."""
    store = SqliteStore(path)

    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()
