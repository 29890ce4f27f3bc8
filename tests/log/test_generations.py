"""The sequencer under concurrency: generations, decision times, overload and draining (REG-21, REG-22)."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from transparency.errors import OverloadedError, RefusedError
from transparency.log import queue
from transparency.log.documents import read_policy
from transparency.log.log import Found, Log, Registered
from transparency.log.store import Commit, Kind, NewEntry, Store
from transparency.policy.document import Policy
from transparency.statements.statement import Statement
from transparency.testing import FakeClock, FaultyStore, MadeLog, SampleIssuer, make_log, running

REGISTRATIONS = 3000
CHANGES = 24


async def test_a_policy_changed_under_load_leaves_each_entry_under_the_generation_of_its_place(tmp_path: Path) -> None:
    """REG-21: thousands of registrations by two issuers, one of whom every other policy does not know."""
    made = make_log(tmp_path / "log")
    guest = SampleIssuer(iss="https://guest.example")
    chance = random.Random(3)
    statements = [
        (guest if n % 2 else made.issuer).sign(b"%d" % n, sub="guest" if n % 2 else "host")
        for n in range(REGISTRATIONS)
    ]
    async with running(made) as log:

        async def one_client(mine: list[bytes]) -> list[Registered | BaseException]:
            # Out of step with each other and with the operator, or all would meet the same policy each time.
            return [await _ended(_after(chance.uniform(0, 0.02), log.register(data))) for data in mine]

        async def operator() -> None:
            for turn in range(CHANGES):
                await asyncio.sleep(0.005)
                await log.update_policy(made.next_policy(log, _toggle(guest, turn)))

        changing = asyncio.create_task(operator())
        outcomes = await asyncio.gather(*(one_client(statements[at : at + 30]) for at in range(0, REGISTRATIONS, 30)))
        await changing
        _check_generations(log)
        counters = log.sequencer.counters
        assert counters.accepted > counters.sequenced, "no judgement went stale: the policy changes hit nothing"
        flat = [outcome for client in outcomes for outcome in client]
    registered = sum(isinstance(outcome, Registered) for outcome in flat)
    refused = sum(isinstance(outcome, RefusedError) for outcome in flat)

    assert registered + refused == REGISTRATIONS
    assert refused > 0, "the guest was never turned away: the policy changes hit nothing"
    assert registered > REGISTRATIONS // 2, "the guest was never let in: the policy changes hit nothing"
    report = made.fsck()
    assert report.clean, report.findings


async def test_head_times_never_go_back_however_the_clock_jumps(tmp_path: Path) -> None:
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    chance = random.Random(7)
    async with running(made) as log:
        for n in range(120):
            clock.advance(chance.randrange(-5000, 5000))
            await log.register(made.issuer.sign(b"%d" % n))
        times = [head.time for head in log._store.heads()]
    clock.set(5)
    async with running(made) as log:
        await log.register(made.issuer.sign(b"after a restart in 1970"))
        times.append(log.newest_head().time)

    assert times == sorted(times)
    assert len(set(times)) > 10
    assert made.fsck().clean


async def test_no_entry_is_sequenced_at_a_time_its_judgement_does_not_cover(tmp_path: Path) -> None:
    """REG-21: valid when judged, expired when its batch is formed, because time passed in the queue."""
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    hold = _Hold()
    log = made.open(wrap_store=hold.around)
    await log.start()
    ahead = asyncio.create_task(log.register(made.issuer.sign(b"ahead in the queue")))
    await hold.reached()
    expiring = asyncio.create_task(log.register(made.issuer.sign(b"expires", exp=clock() + 50)))
    lasting = asyncio.create_task(log.register(made.issuer.sign(b"lasts", exp=clock() + 5000)))
    await asyncio.sleep(0)
    clock.advance(100)
    hold.release()

    assert (await ahead).new
    assert (await lasting).new
    with pytest.raises(RefusedError, match="expired"):
        await expiring
    await log.stop()


async def test_the_decision_time_is_the_heads_even_when_the_clock_was_set_back(tmp_path: Path) -> None:
    """REG-21: a head's time never goes back, so a statement that expired before the newest head is refused."""
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    async with running(made) as log:
        clock.advance(1000)
        await log.register(made.issuer.sign(b"makes a head in the future"))
        clock.advance(-1000)

        with pytest.raises(RefusedError, match="expired"):
            await log.register(made.issuer.sign(b"expires in between", exp=clock() + 500))


def test_an_appender_that_is_told_an_earlier_time_signs_the_newest_heads(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    log = made.open()
    statement = Statement.from_bytes(made.issuer.sign(b"x"))
    new = NewEntry(statement.entry, Kind.STATEMENT, 1, statement.tbs_digest, statement.normalised)

    head = log._opened.appender.append([new], time=5)

    assert head.time == made.clock()
    log._opened.close()


async def test_when_the_queue_is_full_nothing_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_log(tmp_path / "log")
    monkeypatch.setattr(queue, "MAX_WAITING", 16)
    await _shed(made, [made.issuer.sign(b"%d" % n) for n in range(40)], fit=16)


async def test_when_the_queue_holds_too_many_bytes_nothing_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_log(tmp_path / "log")
    statements = [made.issuer.sign(b"%02d" % n + bytes(1000)) for n in range(40)]
    monkeypatch.setattr(queue, "MAX_WAITING_BYTES", 10 * len(statements[0]))
    await _shed(made, statements, fit=10)


async def test_stop_commits_what_is_queued_and_takes_nothing_more(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    hold = _Hold()
    log = made.open(wrap_store=hold.around)
    await log.start()
    statements = [made.issuer.sign(b"%d" % n) for n in range(300)]
    registering = [asyncio.create_task(log.register(data)) for data in statements[:200]]
    await hold.reached()
    registering += [asyncio.create_task(log.register(data)) for data in statements[200:]]
    await asyncio.sleep(0)
    stopping = asyncio.create_task(log.stop())
    await asyncio.sleep(0.01)
    with pytest.raises(OverloadedError, match="stopping"):
        await log.register(made.issuer.sign(b"too late"))
    hold.release()
    await stopping

    assert len({result.index for result in await asyncio.gather(*registering)}) == 300
    async with running(made) as log:
        assert log.newest_head().size == 302
        assert all(isinstance(log.lookup(Statement.from_bytes(data).entry), Found) for data in statements)
    assert made.fsck().clean


async def test_duplicates_in_flight_share_one_place(tmp_path: Path) -> None:
    """LEAF-7: a hundred clients with the same statement, before, while and after it is committed."""
    made = make_log(tmp_path / "log")
    data = made.issuer.sign(b"the same")
    async with running(made) as log:
        results = await asyncio.gather(*(_after(n % 5 / 1000, log.register(data)) for n in range(100)))

        assert {result.index for result in results} == {2}
        assert len({result.receipt for result in results}) == 1
        assert log.newest_head().size == 3


# -- helpers ---------------------------------------------------------------------------------------------------------


def _toggle(guest: SampleIssuer, turn: int) -> Callable[[Policy, str], Policy]:
    def change(policy: Policy, previous: str) -> Policy:
        if turn % 2 == 0:
            return policy.with_issuer(guest.iss, (guest.key.public,), previous=previous)
        return policy.without_issuer(guest.iss, previous=previous)

    return change


def _check_generations(log: Log) -> None:
    """Replay: each entry says the generation that was in force at its index, and that policy knows its issuer."""
    policies = {
        row.index: read_policy(Statement.from_bytes(row.statement)) for row in log._store.documents(Kind.POLICY)
    }
    assert [policy.generation for policy in policies.values()] == list(range(1, CHANGES + 2))
    in_force = policies[0]
    for row in log._store.entries(2, log.newest_head().size):
        assert row.generation == in_force.generation
        if row.kind is Kind.STATEMENT:
            assert in_force.issuer(Statement.from_bytes(row.statement).iss) is not None
        in_force = policies.get(row.index, in_force)


async def _shed(made: MadeLog, statements: list[bytes], *, fit: int) -> None:
    """With one batch held in its commit, *fit* more wait and the rest are turned away, leaving no trace."""
    hold = _Hold()
    log = made.open(wrap_store=hold.around)
    await log.start()
    first = asyncio.create_task(log.register(made.issuer.sign(b"being committed")))
    await hold.reached()
    waiting = [asyncio.create_task(_ended(log.register(data))) for data in statements]
    await asyncio.sleep(0)
    assert log.status().waiting == fit
    hold.release()
    results = await asyncio.gather(*waiting)
    await first

    shed = [data for data, result in zip(statements, results, strict=True) if isinstance(result, OverloadedError)]
    assert len(shed) == len(statements) - fit
    assert all(result.retry_after >= 1 for result in results if isinstance(result, OverloadedError))
    assert all(log.lookup(Statement.from_bytes(data).entry) is None for data in shed)
    assert log.newest_head().size == 3 + fit
    again = await log.register(shed[0])
    assert again.new
    await log.stop()


class _Hold:
    """Holds the first commit back until released."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._released = threading.Event()

    def around(self, store: Store) -> Store:
        hold = self

        class Held(FaultyStore):
            def commit(self, batch: Commit) -> None:
                hold._reached.set()
                assert hold._released.wait(PATIENCE)
                super().commit(batch)

        return Held(store)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, PATIENCE)

    def release(self) -> None:
        self._released.set()


async def _ended(work: Awaitable[Registered]) -> Registered | BaseException:
    try:
        return await work
    except (RefusedError, OverloadedError) as error:
        return error


async def _after(seconds: float, work: Awaitable[Registered]) -> Registered:
    await asyncio.sleep(seconds)
    return await work
