"""Every store the contract is held against, as fixtures: a test that asks for one runs on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.stores import STORES, Opener
from transparency.log.store import Store


@pytest.fixture(params=STORES)
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
