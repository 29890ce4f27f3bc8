"""Every store the contract is held against, as fixtures: a test that asks for one runs on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.stores import LAGGING, STORES, Opener
from transparency.log import postgres_schema
from transparency.log.store import Store
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.testing.postgres import PostgresServer


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every store, or those that a test names: ``lagging_store`` is one whose index is behind its commits."""
    if "opener" in metafunc.fixturenames:
        metafunc.parametrize("opener", LAGGING if "lagging_store" in metafunc.fixturenames else STORES, indirect=True)


@pytest.fixture
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Stores over the same data; each is closed afterwards."""
    open_store = STORES[request.param](tmp_path)
    opened: list[Store] = []

    def remembering() -> Store:
        opened.append(open_store())
        return opened[-1]

    yield remembering
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> Store:
    return opener()


@pytest.fixture
def lagging_store(opener: Opener) -> Store:
    return opener()


@pytest.fixture
def url(postgres_url: str) -> str:
    """An empty log in a database of its own."""
    postgres_schema.create(postgres_url, EMPTY_ROOT)
    return postgres_url


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that this test alone has, to stop, kill or look into."""
    server = PostgresServer.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[PostgresServer]:
    """A second server, for marks: those of one module share it."""
    server = PostgresServer.start()
    yield server
    server.remove()
