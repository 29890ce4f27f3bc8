"""The stores of a node: one that is opened anew when it fails, one whose commits end with a lease."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from transparency.errors import LogUnusableError, OverloadedError, StoreError
from transparency.log.cluster_store import LeadersStore, SteadyStore
from transparency.log.store import Commit, Store, Tip
from transparency.testing import Fault, FaultyStore, MemoryStore


class Server:
    """Opens stores over the same content, or does not."""

    def __init__(self) -> None:
        self.content = MemoryStore()
        self.opened: list[FaultyStore] = []
        self.up = threading.Event()
        self.up.set()

    def open(self) -> Store:
        if not self.up.is_set():
            raise LogUnusableError("it cannot be reached")
        self.opened.append(FaultyStore(self.content))
        return self.opened[-1]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def steady(server: Server) -> Iterator[Store]:
    store = SteadyStore.of(server.open)
    yield store
    store.close()


def answers(store: Store) -> Tip:
    """As who is told to come back."""
    while True:
        with suppress(OverloadedError):
            return store.tip()


def test_a_store_that_fails_is_opened_anew_and_meanwhile_says_come_back(server: Server, steady: Store) -> None:
    server.opened[0].fail("take_over", Fault.FAILS)
    server.up.clear()

    with pytest.raises(OverloadedError):
        steady.take_over()
    with pytest.raises(OverloadedError):
        steady.tip()

    server.up.set()
    assert answers(steady) == server.content.tip()
    assert len(server.opened) == 2


def test_what_a_start_needs_must_be_there_and_what_it_does_not_may_come_later(server: Server) -> None:
    server.up.clear()
    with pytest.raises(LogUnusableError):
        SteadyStore.of(server.open)

    later = SteadyStore.perhaps(server.open)
    with pytest.raises(OverloadedError):
        later.tip()
    server.up.set()

    assert answers(later) == server.content.tip()
    later.close()


def test_a_store_is_not_closed_under_a_thread_that_uses_it(server: Server, steady: Store) -> None:
    """It would wait on a session that is gone, for ever."""
    inside, go_on, closed = threading.Event(), threading.Event(), threading.Event()
    first = server.opened[0]

    def slow() -> Tip:
        inside.set()
        go_on.wait(20)
        assert not closed.is_set()
        return server.content.tip()

    first.tip = slow  # type: ignore[method-assign]
    first.close = closed.set  # type: ignore[method-assign]
    reading = threading.Thread(target=steady.tip)
    reading.start()
    assert inside.wait(20)

    first.fail("take_over", Fault.FAILS)
    with pytest.raises(OverloadedError):
        steady.take_over()
    go_on.set()
    reading.join(20)

    assert closed.wait(20)


def test_another_is_opened_while_somebody_still_uses_the_one_that_failed(server: Server, steady: Store) -> None:
    """A scan may take minutes; nobody else is told to come back for so long."""
    inside, go_on = threading.Event(), threading.Event()
    first = server.opened[0]

    def slow() -> Tip:
        inside.set()
        go_on.wait(20)
        return server.content.tip()

    first.tip = slow  # type: ignore[method-assign]
    reading = threading.Thread(target=steady.tip)
    reading.start()
    assert inside.wait(20)
    first.fail("take_over", Fault.FAILS)
    with pytest.raises(OverloadedError):
        steady.take_over()

    assert answers(steady) == server.content.tip()

    go_on.set()
    reading.join(20)


def test_rows_of_a_store_that_has_failed_meanwhile_are_not_read_on(server: Server, steady: Store) -> None:
    rows = steady.heads()
    server.opened[0].fail("take_over", Fault.FAILS)
    with pytest.raises(OverloadedError):
        steady.take_over()
    answers(steady)

    with pytest.raises(OverloadedError):
        next(rows)


def test_a_leader_writes_nothing_once_it_does_not_believe_in_its_lease() -> None:
    store = MemoryStore()
    leaders = LeadersStore.of(store, lambda: False)
    tip = store.take_over()

    with pytest.raises(StoreError, match="lease"):
        leaders.commit(Commit(tip, (), {}, None))  # type: ignore[arg-type]
    for write in ("erase", "scrub", "note_erased", "intake_add", "intake_fail", "intake_remove", "intake_forget"):
        with pytest.raises(StoreError, match="lease"):
            getattr(leaders, write)

    assert leaders.tip() == store.tip() == tip
