"""REG-23: what a 202 promises. The statement is durable first, gets into the tree, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from transparency.errors import OverloadedError, RefusedError, StoreError
from transparency.log import intake, sequencer
from transparency.log.log import Accepted, Failed, Found, Log, Pending
from transparency.log.store import Store
from transparency.statements.statement import Statement
from transparency.testing import Fault, MadeLog, make_log, running


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log")


async def test_an_accepted_statement_gets_into_the_tree_and_leaves_the_intake(made: MadeLog) -> None:
    """REG-23."""
    data = made.issuer.sign(b"later")
    entry = Statement.from_bytes(data).entry
    async with running(made) as log:
        assert isinstance(await log.accept(data), Accepted)

        assert isinstance(await _settled(log, data), Found)
        assert log._store.intake_get(entry) is None
        again = await log.accept(data)
        assert not isinstance(again, Accepted)
        assert not again.new


@pytest.mark.parametrize("fault", list(Fault))
async def test_whoever_waits_for_the_intake_is_told_when_the_store_fails(made: MadeLog, fault: Fault) -> None:
    log, faulty = made.open_faulty()
    await log.start()
    faulty.fail("intake_add", fault)

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreError):
            await log.accept(made.issuer.sign(b"x"))
    with pytest.raises(StoreError):
        await log.register(made.issuer.sign(b"y"))
    await log.stop()


async def test_a_client_that_goes_away_while_its_statement_is_made_durable_does_not_strand_it(made: MadeLog) -> None:
    """The row is in the intake, so the next client who sends it gets 202: it must still get into the tree."""
    data = made.issuer.sign(b"abandoned")
    gate = _Gate()
    log = made.open(wrap_store=gate.around("intake_add"))
    await log.start()
    first = asyncio.create_task(log.accept(data))
    await gate.reached()

    first.cancel()
    gate.open()

    assert isinstance(await _settled(log, data), Found)
    await log.stop()


async def test_statements_waiting_in_the_intake_are_bounded(made: MadeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under overload the service sheds: a flood of 202s may not grow without end while batches are slow."""
    monkeypatch.setattr(intake, "MAX_PENDING", 8)
    monkeypatch.setattr(sequencer, "MAX_BATCH", 1)
    refused = 0
    most = 0
    async with running(made) as log:
        for wave in range(20):
            flood = [log.accept(made.issuer.sign(b"%d %d" % (wave, n))) for n in range(8)]
            answers = await asyncio.gather(*flood, return_exceptions=True)
            refused += sum(isinstance(answer, OverloadedError) for answer in answers)
            most = max(most, len(log._store.intake_pending(2**20)))

    assert refused > 0
    assert most <= 8


async def test_a_statement_refused_after_its_202_is_recorded_as_failed_with_the_reason(made: MadeLog) -> None:
    """REG-23: judged under generation 1, sequenced under generation 2, which no longer knows the issuer."""
    data = made.issuer.sign(b"too late")
    gate = _Gate()
    log = made.open(wrap_store=gate.around("commit"))
    await log.start()
    policy = made.next_policy(log, lambda old, previous: old.without_issuer(made.issuer.iss, previous=previous))
    update = asyncio.create_task(log.update_policy(policy))
    await gate.reached()
    taking = asyncio.create_task(log.accept(data))
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(update, taking)

    failed = await _settled(log, data)
    assert isinstance(failed, Failed)
    assert "not registered" in failed.reason
    with pytest.raises(RefusedError):
        await log.register(data)
    await log.stop()


async def test_what_was_acknowledged_is_taken_up_again_after_a_crash(made: MadeLog) -> None:
    data = [made.issuer.sign(b"%d" % n) for n in range(3)]
    log, faulty = made.open_faulty()
    await log.start()
    faulty.fail("commit", Fault.FAILS)
    await asyncio.gather(*(log.accept(each) for each in data))
    await log.stop()

    async with running(made) as log:
        for each in data:
            assert isinstance(await _settled(log, each), Found)
        assert log._store.intake_pending(2**20) == []
    assert made.fsck().clean


async def _settled(log: Log, data: bytes) -> object:
    entry = Statement.from_bytes(data).entry
    async with asyncio.timeout(PATIENCE):
        while True:
            found = log.lookup(entry)
            if found is not None and not isinstance(found, Pending):
                return found
            await asyncio.sleep(0.005)


class _Gate:
    """Holds the writer's thread in one method until opened."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def around(self, method: str) -> Callable[[Store], Store]:
        def wrap(store: Store) -> Store:
            original = getattr(store, method)

            def held(*arguments: object) -> object:
                self._reached.set()
                assert self._open.wait(PATIENCE)
                return original(*arguments)

            setattr(store, method, held)
            return store

        return wrap

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, PATIENCE)

    def open(self) -> None:
        self._open.set()


async def test_the_intake_is_bounded_in_bytes_too(made: MadeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """REG-23: large statements, few of them; what waits on the disk is not held in memory."""
    monkeypatch.setattr(intake, "MAX_PENDING_BYTES", 100_000)
    gate = _Gate()
    log = made.open(wrap_store=gate.around("commit"))
    await log.start()
    blocking = asyncio.create_task(log.register(made.issuer.sign(b"in the way")))
    await gate.reached()

    waiting = [asyncio.create_task(log.accept(made.issuer.sign(bytes([n]) * 30_000))) for n in range(8)]
    await asyncio.sleep(0.05)
    refused = sum(isinstance(task.exception(), OverloadedError) for task in waiting if task.done())
    gate.open()
    await asyncio.gather(blocking, *waiting, return_exceptions=True)

    assert refused == 5
    await log.stop()


async def test_a_read_that_fails_while_draining_stops_the_log_and_strands_nobody(made: MadeLog) -> None:
    """REG-23: a 202 that nobody brings in would be a broken promise; the next start keeps it."""
    log, faulty = made.open_faulty()
    told = asyncio.Event()
    log.on_failure = lambda _: told.set()
    await log.start()
    await asyncio.sleep(0.01)  # let it look once and find nothing
    faulty.fail("intake_pending", Fault.FAILS)
    data = made.issuer.sign(b"acknowledged")

    assert isinstance(await log.accept(data), Accepted)
    async with asyncio.timeout(PATIENCE):
        await told.wait()
    with pytest.raises(StoreError):
        await log.register(made.issuer.sign(b"after"))
    await log.stop()
    async with running(made) as log:
        assert isinstance(await _settled(log, data), Found)


async def test_many_that_are_refused_together_are_settled_together(made: MadeLog) -> None:
    """One transaction a chunk, not one a statement."""
    gate = _Gate()
    hold = gate.around("commit")
    log, faulty = made.open_faulty(hold)
    await log.start()
    policy = made.next_policy(log, lambda old, previous: old.without_issuer(made.issuer.iss, previous=previous))
    update = asyncio.create_task(log.update_policy(policy))
    await gate.reached()
    data = [made.issuer.sign(b"%d" % n) for n in range(200)]
    taking = [asyncio.create_task(log.accept(each)) for each in data]
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(update, *taking)

    for each in data:
        assert isinstance(await _settled(log, each), Failed)
    assert faulty.calls["intake_fail"] <= 5
    await log.stop()
