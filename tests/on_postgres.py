"""TRANSPARENCY_TEST_STORE=postgres: the whole suite, with every log that a test makes in PostgreSQL.

Logs made in this process are put there by themselves. Commands that run as processes of their own are given a database
by the helper that starts them (tests/cli/conftest.py), copies of a folder a copy of theirs (``copy_folder``). A test
about the file that SQLite writes, or about copies of it, says so with the mark ``sqlite_file`` and keeps it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from transparency.log import stores
from transparency.log.folder import Config, Folder
from transparency.testing.postgres import shared_server

ASKED = os.environ.get("TRANSPARENCY_TEST_STORE") == "postgres"

_create = stores.create_store
_made: list[str] = []
_scopes: list[str] = []


def _new_database(template: str | None = None) -> str:
    """It goes with the module that it was made for, or with the server if several share it."""
    db = shared_server().new_database(template)
    if not {"session", "package"}.intersection(_scopes):
        _made.append(db)
    return db


def _create_in_postgres(folder: Folder, db: str | None) -> str | None:
    return _create(folder, _new_database() if db is None else db)


def store_wanted() -> str:
    """Where the test that runs has its logs: postgres, or sqlite."""
    return "postgres" if stores.create_store is _create_in_postgres else "sqlite"


def begin(item: pytest.Item) -> None:
    """Before the fixtures of a test, also those that it shares with others, are made."""
    wants_file = item.get_closest_marker("sqlite_file") is not None
    stores.create_store = _create if wants_file else _create_in_postgres


@contextmanager
def making(scope: str) -> Iterator[None]:
    """While a fixture of this scope is made."""
    _scopes.append(scope)
    try:
        yield
    finally:
        _scopes.pop()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    with making(fixturedef.scope):
        return (yield)


def end(item: pytest.Item, following: pytest.Item | None) -> None:
    if following is None or following.path != item.path:
        while _made:
            shared_server().drop_database(_made.pop())


def with_database(words: Sequence[str | Path], cwd: Path) -> list[str]:
    """The words of a command; one that makes a log is told to make it in a database."""
    said = [str(word) for word in words]
    if store_wanted() == "sqlite" or "--db" in said or said[0] not in ("init", "serve") or "--data" not in said[:-1]:
        return said
    data = cwd / said[said.index("--data") + 1]
    return said if Folder(data).exists() else [*said, "--db", _new_database()]


def copy_folder(source: Path, target: Path, mark: Path | None = None) -> None:
    """A copy of a log that nobody runs, with a database of its own if it is in one.

    Who has a copy of the *mark*, too, does not name the original any more: it would be closed when the copy starts.
    """
    shutil.copytree(source, target)
    config = Config.read(Folder(target).config)
    changed = replace(config, watermark=mark or config.watermark, db=config.db and _new_database(config.db))
    if changed != config:
        changed.write(Folder(target).config)
