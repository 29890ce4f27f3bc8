"""Two writers at the same tip, past the lock that should keep them apart: the compare-and-swap lets one win."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from tests.log.test_redo import cut_off
from tests.patience import PATIENCE
from transparency.errors import LogUnusableError, StoreError, TipMovedError
from transparency.log.appender import Appender, Identity
from transparency.log.documents import load_in_force
from transparency.log.folder import Config, Folder
from transparency.log.journal import Kept
from transparency.log.mark import Mark
from transparency.log.signers import ReceiptSigners
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Commit, Kind, NewEntry
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Statement
from transparency.testing import MadeLog, running

pytestmark = pytest.mark.sqlite_file  # PostgreSQL's are in tests/log/test_postgres_store.py


class _AtBarrier(SqliteStore):
    """Waits, with its batch computed and its head signed, until the other is there too."""

    barrier: threading.Barrier | None = None

    def commit(self, batch: Commit) -> None:
        if self.barrier is not None:
            self.barrier.wait(PATIENCE)
        super().commit(batch)


class _Writer:
    """An appender loaded from the folder without taking its lock; *epoch* is whatever is there, or a new one."""

    def __init__(self, made: MadeLog, stack: ExitStack, *, take_over: bool, journal: bool = False) -> None:
        folder = Folder(made.data)
        config = Config.read(folder.config)
        self.store = _AtBarrier(folder.database)
        stack.callback(self.store.close)
        mark = Mark.open(made.watermark, config.origin)
        stack.callback(mark.close)
        if journal:
            mark.make_journal()
        self.mark = mark
        in_force = load_in_force(self.store, config.origin, config.policy_key)
        tip = self.store.take_over() if take_over else self.store.tip()
        head = self.store.newest_head()
        assert head is not None
        self.appender = Appender(
            self.store,
            mark,
            Identity(config.iss, config.origin),
            ReceiptSigners.open(in_force.keys.keys, folder.load_key, head.time).at,
            made.clock,
            tip,
            head.time,
        )
        self._made = made

    def append(self, *payloads: bytes) -> SignedHead:
        statements = [Statement.from_bytes(self._made.issuer.sign(payload)) for payload in payloads]
        entries = [NewEntry(one.entry, Kind.STATEMENT, 1, one.tbs_digest, one.normalised) for one in statements]
        return self.appender.append(entries, self.appender.decision_time())


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("attempt", range(10))
def test_of_two_writers_at_one_tip_one_wins_and_the_other_is_spent(
    made: MadeLog, stack: ExitStack, attempt: int
) -> None:
    writers = [_Writer(made, stack, take_over=False) for _ in range(2)]
    assert writers[0].appender.tip == writers[1].appender.tip
    barrier = threading.Barrier(2)
    for writer in writers:
        writer.store.barrier = barrier

    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(writer.append, b"writer %d" % n) for n, writer in enumerate(writers)]
    errors = [end.exception() for end in ends]

    assert sum(error is None for error in errors) == 1
    winner, loser = (writers[0], writers[1]) if errors[0] is None else (writers[1], writers[0])
    assert any(isinstance(error, TipMovedError) for error in errors)
    for writer in writers:
        writer.store.barrier = None
    with pytest.raises(StoreError, match="restart the log"):
        loser.append(b"once more")
    head = winner.append(b"goes on")
    assert head.size == 4
    assert [head.size for head in winner.store.heads()] == [2, 3, 4]
    assert made.fsck().clean


@pytest.mark.parametrize("journal", [False, True], ids=["synced", "kept"])
def test_a_take_over_in_between_fences_the_earlier_owner(made: MadeLog, stack: ExitStack, *, journal: bool) -> None:
    """The tip's size and root are still what the first one expects; only the epoch has moved."""
    first = _Writer(made, stack, take_over=True, journal=journal)
    second = _Writer(made, stack, take_over=True, journal=journal)

    with pytest.raises(TipMovedError):
        first.append(b"too late")
    with pytest.raises(StoreError, match="restart the log"):
        first.append(b"again")
    assert second.append(b"the owner").size == 3
    second.store.settle()
    assert made.fsck().clean


@pytest.mark.parametrize("journal", [False, True], ids=["synced", "kept"])
def test_a_take_over_between_a_batch_and_its_commit_fences_it(
    made: MadeLog, stack: ExitStack, *, journal: bool
) -> None:
    first = _Writer(made, stack, take_over=True, journal=journal)
    first.store.barrier = threading.Barrier(2)
    with ThreadPoolExecutor(1) as pool:
        appending = pool.submit(first.append, b"computed, signed, not committed")
        second = _Writer(made, stack, take_over=True, journal=journal)
        first.store.barrier.wait(PATIENCE)
        error = appending.exception()

    assert isinstance(error, TipMovedError)
    assert second.append(b"the owner").size == 3
    second.store.settle()
    assert made.fsck().clean


def test_a_mark_is_not_written_by_the_one_who_lost(made: MadeLog, stack: ExitStack) -> None:
    first = _Writer(made, stack, take_over=True)
    before = made.watermark.read_bytes()
    _Writer(made, stack, take_over=True)

    with pytest.raises(TipMovedError):
        first.append(b"x")
    assert made.watermark.read_bytes() == before


def test_a_take_over_behind_the_journal_of_a_batch_fences_it(made: MadeLog, stack: ExitStack) -> None:
    """It is synced there, and not released: who took over reads the journal behind that, and would find it."""
    first = _Writer(made, stack, take_over=True, journal=True)
    keep = first.mark.keep

    def keep_and_lose(batch: Kept) -> None:
        keep(batch)
        first.store.take_over()

    first.mark.keep = keep_and_lose  # type: ignore[method-assign]
    with pytest.raises(TipMovedError):
        first.append(b"kept, and too late")


async def test_what_was_acknowledged_before_a_take_over_that_did_not_see_it_is_told_from_an_older_copy(
    made: MadeLog,
) -> None:
    """Nothing is lost, and a new log would lose it: the message says what to do, and that works."""
    log = made.open()
    await log.start(drain=False)
    before = log.opened.appender.tip.epoch
    registered = await log.register(made.issuer.sign(b"acknowledged"))
    with closing(SqliteStore(made.data / "log.sqlite")) as other:  # past every lock, and with no look at the journal
        other.take_over()
    await cut_off(log)

    with pytest.raises(LogUnusableError, match=rf"entries 2 to 2 are in the journal, of epoch {before}, .* taken over"):
        made.open()
    with closing(sqlite3.connect(made.data / "log.sqlite", isolation_level=None)) as by_hand:
        by_hand.execute("UPDATE tip SET epoch = ?", (before,))
    async with running(made) as again:
        assert again.receipt(registered.index) == registered.receipt
    assert made.fsck().clean
