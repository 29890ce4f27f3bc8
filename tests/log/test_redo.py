"""What a store lost to a power cut is brought back from the mark's journal, and nothing else is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import cbor2
import pytest

from transparency.errors import LogUnusableError
from transparency.log import redo
from transparency.log.journal import CAPACITY, Kept
from transparency.log.log import Log, Registered
from transparency.log.mark import Mark
from transparency.log.opening import open_log
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Commit, Store, Tip
from transparency.statements.receipt import Receipt
from transparency.testing import Fault, FaultyStore, MadeLog, make_log, running, settled

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log")


class Crashed:
    """A log that was cut off while it ran: its receipts, and the state of its store before the last of them."""

    def __init__(self, made: MadeLog, copy: Path) -> None:
        self.made, self._copy = made, copy
        self.registered: list[Registered] = []

    def lose_what_came_since(self) -> None:
        """As a power cut may: the store is a state that once was, the mark is as it was synced."""
        for name in ("log.sqlite", "log.sqlite-wal", "log.sqlite-shm"):
            (self.made.data / name).unlink(missing_ok=True)
            if (self._copy / name).exists():
                shutil.copy(self._copy / name, self.made.data / name)

    def mark(self) -> Mark:
        mark = Mark.open(self.made.watermark, self.made.origin)
        mark.close()
        return mark


async def crashed(
    made: MadeLog, tmp_path: Path, *, before: Iterable[bytes] = (), after: Iterable[bytes] = (b"one", b"two", b"three")
) -> Crashed:
    """A log that registers *before*; then its store's files are copied; then it registers *after*, and is gone."""
    copy = tmp_path / "store-then"
    copy.mkdir()
    result = Crashed(made, copy)
    log = made.open()
    await log.start(drain=False)
    for payload in before:
        result.registered.append(await log.register(made.issuer.sign(payload)))
    await settled(log)
    for file in made.data.glob("log.sqlite*"):
        shutil.copy(file, copy)
    for payload in after:
        result.registered.append(await log.register(made.issuer.sign(payload)))
    await cut_off(log)
    return result


async def cut_off(log: Log) -> None:
    """End it without a word to mark or store, as a process ends that is killed, or whose power is cut."""
    log.sequencer._appender.finish = lambda: None  # type: ignore[method-assign]
    cast("SqliteStore", log.opened.store)._writing._held.clear()
    await log.stop()


def check_all_there(made: MadeLog, registered: Iterable[Registered]) -> None:
    opened = open_log(made.data, clock=made.clock, watermark=made.watermark)
    try:
        for each in registered:
            row = opened.store.entry(each.index)
            assert row is not None
            assert row.entry == each.entry
            (proof,) = Receipt.from_bytes(each.receipt).inclusion
            head = opened.store.head(proof.size)
            assert head is not None
            assert Receipt.from_bytes(each.receipt).root_for(each.entry) == head.root
            assert each.receipt.endswith(head.signature), "it is the very head that was signed"
            assert opened.store.find(each.entry) == each.index
        assert not opened.mark.keeps
    finally:
        opened.close()
    assert made.fsck().clean


async def test_what_was_acknowledged_and_lost_is_brought_back_with_its_heads(
    made: MadeLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crash = await crashed(made, tmp_path, before=[b"zero"])
    crash.lose_what_came_since()

    with caplog.at_level(logging.WARNING, "transparency.log"):
        check_all_there(made, crash.registered)

    assert "brought back from the journal: entries 3 to 5, which the store did not have" in caplog.text


async def test_what_a_process_that_was_killed_had_not_written_is_brought_back(
    made: MadeLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crash = await crashed(made, tmp_path)
    assert [each.after[0] for each in crash.mark().kept] == [3, 4, 5]
    with contextlib.closing(SqliteStore(made.data / "log.sqlite")) as store:
        assert store.tip().size == 2

    check_all_there(made, crash.registered)

    assert "brought back from the journal: entries 2 to 4" in caplog.text


async def test_what_it_had_written_is_not(made: MadeLog, caplog: pytest.LogCaptureFixture) -> None:
    log = made.open()
    await log.start(drain=False)
    registered = await log.register(made.issuer.sign(b"one"))
    await settled(log)
    await cut_off(log)

    check_all_there(made, [registered])

    assert "brought back" not in caplog.text


async def test_after_a_stop_in_order_an_old_copy_is_an_old_copy(made: MadeLog, tmp_path: Path) -> None:
    async with running(made) as log:
        shutil.copy(made.data / "log.sqlite", tmp_path / "old")
        await log.register(made.issuer.sign(b"one"))
    shutil.copy(tmp_path / "old", made.data / "log.sqlite")

    with pytest.raises(LogUnusableError, match="an older copy was put back"):
        made.open()


async def test_a_copy_of_before_the_last_start_is_an_old_copy_even_after_a_crash(made: MadeLog, tmp_path: Path) -> None:
    """The journal would lead on from it, entry by entry. But power that is cut takes no start away."""
    shutil.copy(made.data / "log.sqlite", tmp_path / "old")
    crash = await crashed(made, tmp_path)
    assert crash.mark().kept[0].before[0] == 2
    for file in made.data.glob("log.sqlite*"):
        file.unlink()
    shutil.copy(tmp_path / "old", made.data / "log.sqlite")

    for _ in range(3):  # each try raises the epoch of the copy: it must not come to look like the right one
        with pytest.raises(LogUnusableError, match="an older copy was put back"):
            made.open()


async def test_bringing_back_that_is_cut_short_goes_on_at_the_next_start(made: MadeLog, tmp_path: Path) -> None:
    crash = await crashed(made, tmp_path)
    crash.lose_what_came_since()

    def second_fails(store: Store) -> Store:
        faulty = FaultyStore(store)
        faulty.fail("commit", Fault.FAILS, nth=2)
        return faulty

    with pytest.raises(LogUnusableError, match="check its disk"):
        made.open(wrap_store=second_fails)
    with contextlib.closing(SqliteStore(made.data / "log.sqlite")) as store:
        assert store.tip().size == 3, "one came back"

    check_all_there(made, crash.registered)


async def test_a_log_that_came_back_goes_on(made: MadeLog, tmp_path: Path) -> None:
    crash = await crashed(made, tmp_path)
    crash.lose_what_came_since()

    async with running(made) as log:
        again = await log.register(made.issuer.sign(b"two"))
        further = await log.register(made.issuer.sign(b"four"))

    assert (again.new, again.index) == (False, 3)
    assert again.receipt == crash.registered[1].receipt
    assert further.index == 5
    check_all_there(made, [*crash.registered, further])


async def test_who_only_looks_is_told_that_the_log_has_to_be_started(made: MadeLog, tmp_path: Path) -> None:
    crash = await crashed(made, tmp_path)
    crash.lose_what_came_since()

    report = made.fsck()

    (finding,) = report.findings
    assert "entries 2 to 4 were acknowledged and are not in" in str(finding)
    assert "Start it, which brings them back" in str(finding)


async def test_a_journal_whose_batch_gives_another_root_is_refused(made: MadeLog, tmp_path: Path) -> None:
    crash = await crashed(made, tmp_path)
    crash.lose_what_came_since()
    kept = list(crash.mark().kept)
    wrong = kept[0]._replace(after=(3, bytes(32)))

    with contextlib.closing(SqliteStore(made.data / "log.sqlite")) as store:
        with pytest.raises(LogUnusableError, match="does not give the root"):
            redo.bring_back(store, [wrong], lambda *_: None)
        with pytest.raises(LogUnusableError, match="cannot be read"):
            redo.bring_back(store, [kept[0]._replace(content=b"\x80")], lambda *_: None)
        assert store.tip().size == 2


@pytest.mark.parametrize(
    "value", [7, [], [1, b"", b"", b"", 7], ["1", b"", b"", b"", []], [1, b"", b"", b"", [[b"", 1, b"", "", b""]]]]
)
def test_content_that_is_no_batch_cannot_be_read(value: object) -> None:
    with pytest.raises(LogUnusableError, match="cannot be read"):
        redo.read_batch(Kept(1, (2, bytes(32)), (3, bytes(32)), cbor2.dumps(value)))


def test_a_batch_is_read_as_it_was_kept(made: MadeLog) -> None:
    tip = Tip(2, bytes(32), 7)

    committed: list[Commit] = []

    class Noting(FaultyStore):
        def commit(self, batch: Commit) -> None:
            committed.append(batch)
            super().commit(batch)

    log = made.open(wrap_store=Noting)

    async def one() -> None:
        await log.start()
        await log.register(made.issuer.sign(b"one"))
        await log.stop()

    asyncio.run(one())
    entries, head = committed[0].entries, committed[0].head

    kept = redo.batch(tip, entries, head)

    assert kept[:3] == (7, (2, bytes(32)), (head.size, head.root))
    assert redo.read_batch(kept) == (list(entries), head)


# -- what is kept, and what is not ---------------------------------------------------------------------------------


class Watched(FaultyStore):
    """Which commits were said to be kept."""

    kept: list[bool]

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.kept = []

    def commit(self, batch: Commit) -> None:
        self.kept.append(batch.kept)
        super().commit(batch)


async def watched(made: MadeLog) -> tuple[Log, Watched]:
    stores: list[Watched] = []

    def watch(store: Store) -> Store:
        stores.append(Watched(store))
        return stores[0]

    log = made.open(wrap_store=watch)
    await log.start()
    return log, stores[0]


async def test_a_statement_is_kept_a_large_one_and_what_rules_the_log_are_not(made: MadeLog) -> None:
    log, store = await watched(made)

    await log.register(made.issuer.sign(b"small"))
    await log.register(made.issuer.sign(bytes(redo.LONGEST)))
    await log.update_policy(made.next_policy(log, lambda policy, entry: replace(policy, generation=2, previous=entry)))
    await log.manifests.make()
    await log.register(made.issuer.sign(b"small again"))
    await log.stop()

    assert store.kept == [True, False, False, False, True]


async def test_what_comes_from_the_intake_is_not_kept(made: MadeLog) -> None:
    log, store = await watched(made)

    came = asyncio.Event()
    log.sequencer.on_published.append(lambda _size: came.set())

    await log.accept(made.issuer.sign(b"accepted"))
    await asyncio.wait_for(came.wait(), 60)
    await log.stop()

    assert store.kept == [False]


async def test_when_the_journal_is_full_one_commit_is_synced_and_it_begins_anew(made: MadeLog) -> None:
    log, store = await watched(made)
    payload = bytes(100 * 1024)
    fit = CAPACITY // (104 * 1024)

    for number in range(fit + 2):
        await log.register(made.issuer.sign(payload + b"%d" % number))
    await log.stop()

    assert store.kept == [True] * fit + [False, True]


async def test_a_log_in_order_leaves_nothing_to_bring_back(made: MadeLog) -> None:
    async with running(made) as log:
        await log.register(made.issuer.sign(b"one"))

    mark = Mark.open(made.watermark, made.origin)
    mark.close()

    assert mark.kept == []
    assert mark.value.size == 3
