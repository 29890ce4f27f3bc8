"""Every store the contract is held against, as fixtures: a test that asks for one runs on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.stores import LAGGING, STORES, Opener
from transparency.log.store import Store


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
