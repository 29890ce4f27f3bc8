"""TRANSPARENCY_TEST_STORE=postgres: the whole suite, with every log that a test makes in this process in PostgreSQL.

A test about the file that SQLite writes, or about copies of it, says so with the mark ``sqlite_file`` and keeps it.
"""

from __future__ import annotations

import os

import pytest

from transparency.log import stores
from transparency.log.folder import Folder
from transparency.testing.postgres import shared_server

ASKED = os.environ.get("TRANSPARENCY_TEST_STORE") == "postgres"

_create = stores.create_store
_made: list[str] = []


def _create_in_postgres(folder: Folder, db: str | None) -> str | None:
    if db is None:
        db = shared_server().new_database()
        _made.append(db)
    return _create(folder, db)


def begin(item: pytest.Item) -> None:
    """Before the fixtures of a test, also those that it shares with others, are made."""
    wants_file = item.get_closest_marker("sqlite_file") is not None
    stores.create_store = _create if wants_file else _create_in_postgres


def end(item: pytest.Item, following: pytest.Item | None) -> None:
    """Databases go with the module that they were made for."""
    if following is None or following.path != item.path:
        while _made:
            shared_server().drop_database(_made.pop())
