"""transparency.testing is a product: what its docstrings show is run, and its faults strike where they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

from transparency.errors import StoreError
from transparency.testing import FakeClock, Fault, FaultyStore, MemoryStore

MODULES = ["", ".clock", ".faults", ".fixtures", ".memory_store"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(f"transparency.testing{name}"))

    assert failed == 0


def test_a_fault_that_fails_does_nothing_and_one_that_persists_does_it_once() -> None:
    store = FaultyStore(MemoryStore())
    store.fail("take_over", Fault.FAILS, nth=2)
    store.fail("take_over", Fault.FAILS_BUT_PERSISTS, nth=3)

    store.take_over()
    with pytest.raises(StoreError, match="before it was done"):
        store.take_over()
    assert store.tip().epoch == 1
    with pytest.raises(StoreError, match="after it was done"):
        store.take_over()

    assert store.tip().epoch == 2
    assert store.struck == ["take_over", "take_over"]
    assert store.take_over().epoch == 3


@pytest.mark.parametrize(("method", "nth"), [("comit", 1), ("commit", 0)])
def test_a_fault_that_could_never_strike_is_refused(method: str, nth: int) -> None:
    with pytest.raises(ValueError, match="no"):
        FaultyStore(MemoryStore()).fail(method, Fault.FAILS, nth)


def test_the_fake_clock_jumps_both_ways() -> None:
    clock = FakeClock(1000)

    clock.advance(-400)
    assert clock() == 600
    clock.set(5)
    assert clock() == 5
