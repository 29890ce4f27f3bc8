"""Each write of the log, failing before and after it was done, around a tile boundary, under the real log on SQLite.

Whatever strikes, the log stops rather than guesses; reopened, it has kept everything that it acknowledged, and its
heads form one history.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.conftest import copied
from tests.faults.ledger import Ledger
from tests.patience import PATIENCE
from transparency.errors import LogUnusableError, StoreError
from transparency.log import upkeep
from transparency.log.log import Accepted, Log
from transparency.log.store import Commit, IntakeRow, Store
from transparency.statements.statement import Statement
from transparency.testing import FakeClock, Fault, FaultyFile, FaultyStore, MadeLog, running

CopyOf = Callable[[MadeLog, str], MadeLog]
# The tree's size before the fault: the batches below (1, 2, 1 and 3 entries) then end before, at and after 256.
SIZES = (253, 254, 255, 256)
MARK = "mark"
IN_OPENING = [("take_over", 1), ("extend_index", 1), ("intake_forget", 1)]
IN_SERVICE = [
    *((method, nth) for method in ("commit", MARK, "index_some") for nth in (1, 2, 3)),
    *((method, 1) for method in ("intake_add", "intake_fail", "intake_remove")),
    ("intake_add", 2),
]


@dataclass(slots=True)
class _Bench:
    """A log with faults in its store and its mark, and the clients' ledger."""

    made: MadeLog
    ledger: Ledger
    store: _HeldStore | None = None
    mark: FaultyFile | None = None
    due: tuple[str, Fault, int] | None = None
    number: int = 0

    def open(self) -> Log:
        return self.made.open(wrap_store=self._wrap, open_mark_file=self._file)

    def _wrap(self, store: Store) -> Store:
        assert isinstance(self.made.clock, FakeClock)
        self.store = _HeldStore(store, self.made.clock)
        if self.due is not None:
            self.store.fail(*self.due)
        return self.store

    def _file(self, path: Path) -> FaultyFile:
        self.mark = FaultyFile(path)
        return self.mark

    def arm(self, method: str, fault: Fault, nth: int) -> None:
        assert self.store is not None
        assert self.mark is not None
        if method == MARK:
            self.mark.fail(fault, nth)
        else:
            self.store.fail(method, fault, nth)

    def has_struck(self, method: str) -> bool:
        assert self.store is not None
        assert self.mark is not None
        return self.mark.struck if method == MARK else method in self.store.struck

    def sign(self, **options: int) -> bytes:
        self.number += 1
        return self.made.issuer.sign(b"after the fault's base %d" % self.number, **options)  # type: ignore[arg-type]

    async def register(self, log: Log, data: bytes) -> None:
        self.ledger.registered(data, await log.register(data))

    async def accept(self, log: Log, data: bytes) -> None:
        # The promise is made when accept returns; only then does the ledger know of it.
        result = await log.accept(data)
        if isinstance(result, Accepted):
            self.ledger.taken_in(data)
        else:
            self.ledger.registered(data, result)


class _HeldStore(FaultyStore):
    """Also lets time pass after an intake, and holds a commit back until a duplicate has come by the other way."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        super().__init__(store)
        self._clock = clock
        self.pass_after_intake = 0
        self.hold: threading.Event | None = None

    def intake_add(self, rows: Sequence[IntakeRow]) -> None:
        super().intake_add(rows)
        self._clock.advance(self.pass_after_intake)

    def commit(self, batch: Commit) -> None:
        if self.hold is not None:
            assert self.hold.wait(PATIENCE)
        super().commit(batch)


@pytest.fixture(scope="module")
def bases(template: MadeLog, tmp_path_factory: pytest.TempPathFactory) -> dict[int, MadeLog]:
    """A log of each size, made once; the statements in them are not of the ledger."""
    return {size: asyncio.run(_grown(template, tmp_path_factory.mktemp(f"base{size}"), size)) for size in SIZES}


@pytest.fixture(autouse=True)
def _index_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "INDEX_EVERY", 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize(("method", "nth"), IN_SERVICE, ids=str)
async def test_a_fault_in_service_loses_nothing_and_forks_nothing(
    bases: dict[int, MadeLog], copy_of: CopyOf, method: str, nth: int, fault: Fault, size: int
) -> None:
    bench = _Bench(copy_of(bases[size], "log"), Ledger())
    log = bench.open()
    await log.start()
    failures: list[BaseException] = []
    log.on_failure = failures.append
    bench.arm(method, fault, nth)

    outcomes = [await _outcome(step(bench, log)) for step in _STEPS]
    await log.stop()

    assert bench.has_struck(method), "the fault was never reached: this case shows nothing"
    assert failures, "the service was not told to stop"
    assert all(outcome is None or isinstance(outcome, StoreError) for outcome in outcomes)
    await _reopens_whole(bench)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize(("method", "nth"), IN_OPENING, ids=str)
async def test_a_fault_while_opening_refuses_and_leaves_a_log_that_opens(
    bases: dict[int, MadeLog], copy_of: CopyOf, method: str, nth: int, fault: Fault, size: int
) -> None:
    bench = _Bench(copy_of(bases[size], "log"), Ledger(), due=(method, fault, nth))
    if method == "intake_forget":
        log = bench.open()
        with pytest.raises(StoreError):
            await log.start()
        with pytest.raises(StoreError):
            await bench.register(log, bench.sign())
        await log.stop()
    else:
        with pytest.raises(LogUnusableError, match="cannot be opened"):
            bench.open()
    bench.due = None

    await _reopens_whole(bench)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
async def test_a_fault_of_the_mark_while_it_is_brought_up_refuses_and_leaves_a_log_that_opens(
    bases: dict[int, MadeLog], copy_of: CopyOf, fault: Fault, size: int
) -> None:
    """A crash between commit and mark, then another while the mark is brought up to the tip."""
    bench = _Bench(copy_of(bases[size], "log"), Ledger())
    log = bench.open()
    await log.start()
    bench.arm(MARK, Fault.FAILS, 1)
    with pytest.raises(StoreError):
        await bench.register(log, bench.sign())
    await log.stop()

    def failing(path: Path) -> FaultyFile:
        file = FaultyFile(path)
        file.fail(fault)
        return file

    with pytest.raises(LogUnusableError, match="cannot be opened"):
        bench.made.open(open_mark_file=failing)
    await _reopens_whole(bench)


# -- what clients do until the fault strikes, and after it -------------------------------------------------------------


async def _one(bench: _Bench, log: Log) -> None:
    await bench.register(log, bench.sign())


async def _two(bench: _Bench, log: Log) -> None:
    await _all(bench.register(log, bench.sign()), bench.register(log, bench.sign()))


async def _later(bench: _Bench, log: Log) -> None:
    await bench.accept(log, bench.sign())


async def _three_ways(bench: _Bench, log: Log) -> None:
    await _all(*(bench.register(log, bench.sign()) for _ in range(2)), bench.accept(log, bench.sign()))


async def _expires_after_its_202(bench: _Bench, log: Log) -> None:
    """Accepted, and expired when it is its turn: intake_fail."""
    assert bench.store is not None
    data = bench.sign(exp=bench.made.clock() + 50)
    bench.ledger.may_fail.add(Statement.from_bytes(data).entry)
    bench.store.pass_after_intake = 100
    try:
        await bench.accept(log, data)
    finally:
        bench.store.pass_after_intake = 0
    await _idle(log)


async def _accepted_while_it_is_being_committed(bench: _Bench, log: Log) -> None:
    """In the tree by the time the intake has it: intake_remove."""
    assert bench.store is not None
    data = bench.sign()
    hold = threading.Event()
    bench.store.hold = hold
    registering = asyncio.create_task(bench.register(log, data))
    try:
        for _ in range(100):
            await asyncio.sleep(0)  # until the batch has left the queue
        accepting = asyncio.create_task(bench.accept(log, data))
        await asyncio.sleep(0)
    finally:
        bench.store.hold = None
        hold.set()
    await _all(registering, accepting)
    await _idle(log)


_STEPS: tuple[Callable[[_Bench, Log], Awaitable[None]], ...] = (
    _one,
    _two,
    _later,
    _three_ways,
    _expires_after_its_202,
    _accepted_while_it_is_being_committed,
    _two,
    _one,
)


async def _reopens_whole(bench: _Bench) -> None:
    """The real start, without faults: everything promised is there, and the log goes on across the boundary."""
    async with running(bench.made) as log:
        await bench.ledger.check(log)
        for step in (_one, _two, _later, _two):
            await step(bench, log)
        # A client who was told of a failure sends the same statement again: never twice in the tree.
        for number in range(1, bench.number + 1):
            data = bench.made.issuer.sign(b"after the fault's base %d" % number)
            await bench.register(log, data)
        await bench.ledger.check(log)
        size = log.newest_head().size
        assert size > 256
        entries = [row.entry for row in log._store.entries(0, size)]
        assert len(set(entries)) == size
        assert log._store.intake_pending(2**20) == []
    report = bench.made.fsck()
    assert report.clean, report.findings


async def _outcome(step: Awaitable[None]) -> BaseException | None:
    try:
        async with asyncio.timeout(PATIENCE):
            await step
    except StoreError as error:
        return error
    return None


async def _all(*work: Awaitable[None]) -> None:
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _idle(log: Log) -> None:
    """Until nothing that was acknowledged is under way."""
    async with asyncio.timeout(PATIENCE):
        while len(log.sequencer.pending_intake) and log.sequencer.failed is None:  # noqa: ASYNC110 - the log tells nobody
            await asyncio.sleep(0.002)


async def _grown(template: MadeLog, folder: Path, size: int) -> MadeLog:
    made = copied(template, folder)
    async with running(made) as log:
        await asyncio.gather(*(log.register(made.issuer.sign(b"base %d" % n)) for n in range(2, size)))
        assert log.newest_head().size == size
    return made
