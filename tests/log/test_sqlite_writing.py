"""What is kept elsewhere is held, and written with others; who reads through the store does not notice (0020)."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.log.stores import batch_of, entry_of, intake_row
from tests.patience import PATIENCE
from transparency.errors import StoreError, TipMovedError
from transparency.log import schema
from transparency.log.sqlite import SqliteStore, connect
from transparency.log.store import Commit, Store, Tip
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.merkle.tiles import RightEdge

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_file(tmp_path)


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as store:
        yield store


def new_file(folder: Path) -> Path:
    path = folder / "log.sqlite"
    schema.create(path, EMPTY_ROOT)
    return path


def batches(counts: Sequence[int], *, kept: Sequence[bool] | None = None) -> list[Commit]:
    """Batches of so many entries, one after the other; all of them kept, unless said."""
    tip, edge, made = Tip(0, EMPTY_ROOT, 0), RightEdge(), []
    for number, count in enumerate(counts):
        batch = batch_of(tip, count, before=tip.size, edge=edge)
        made.append(replace(batch, kept=kept is None or kept[number]))
        tip = Tip(batch.head.size, batch.head.root, 0)
    return made


def in_the_file(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("SELECT size FROM tip").fetchone()
    return int(size)


def contents(path: Path) -> list[list[tuple[object, ...]]]:
    tables = ("tip", "entries", "collateral", "tiles", "heads", "intake", "indexed")
    with closing(sqlite3.connect(path)) as connection:
        return [connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in tables]  # noqa: S608


def test_what_is_kept_is_held_and_whoever_reads_through_the_store_sees_it(path: Path, store: SqliteStore) -> None:
    first, second = batches([3, 2])

    store.commit(first)
    store.commit(second)
    assert in_the_file(path) == 0

    assert store.head(3) == first.head
    assert in_the_file(path) == 5


READS: dict[str, Callable[[Store], object]] = {
    "tip": lambda store: store.tip().size,
    "entry": lambda store: getattr(store.entry(2), "index", None),
    "entries": lambda store: len(list(store.entries(0, 9))),
    "digests": lambda store: len(store.digests(0, 9)),
    "admitted": lambda store: len(store.admitted(0, 9)),
    "tile": lambda store: store.tile(0, 0),
    "head": lambda store: store.head(3),
    "head_covering": lambda store: store.head_covering(2),
    "newest_head": lambda store: store.newest_head(),
    "heads": lambda store: len(list(store.heads())),
    "heads_made": lambda store: store.heads_made(),
}


@pytest.mark.parametrize("name", READS)
def test_every_read_of_the_tree_sees_a_commit_that_returned(tmp_path: Path, name: str) -> None:
    read, (batch,) = READS[name], batches([3])
    answers = []
    for kept in (True, False):
        folder = tmp_path / str(kept)
        folder.mkdir()
        with closing(SqliteStore(new_file(folder))) as store:
            store.commit(replace(batch, kept=kept))
            answers.append(read(store))

    assert answers[0] == answers[1]
    assert answers[0]


def test_who_looks_for_an_entry_does_not_have_it_written(path: Path, store: SqliteStore) -> None:
    """Each registration looks; the index would not have it anyway, and the sequencer knows of it."""
    (batch,) = batches([3])
    store.commit(batch)

    assert store.find(entry_of(1)) is None
    assert store.find_some([entry_of(1), entry_of(2)]) == {}
    assert store.find_some([entry_of(1), entry_of(2)], writing=True) == {}
    assert in_the_file(path) == 0


WRITES: dict[str, Callable[[Store], object]] = {
    "take_over": lambda store: store.take_over(),
    "commit": lambda store: store.commit(batches([3, 2], kept=[True, False])[1]),
    "settle": lambda store: store.settle(),
    "extend_index": lambda store: store.extend_index(3),
    "index_some": lambda store: store.index_some([(entry_of(0), 0)], [], None),
    "intake_add": lambda store: store.intake_add([intake_row(7)]),
    "intake_fail": lambda store: store.intake_fail([(entry_of(7), "why")], 5),
    "intake_remove": lambda store: store.intake_remove([entry_of(7)]),
    "intake_forget": lambda store: store.intake_forget(1),
    "erase": lambda store: store.erase([1]),
    "scrub": lambda store: store.scrub(),
    "note_erased": lambda store: store.note_erased(1),
    "put_checkpoint": lambda store: store.put_checkpoint(3, b"note", witnessed=False),
    "close": lambda store: store.close(),
}


@pytest.mark.parametrize("name", WRITES)
def test_whatever_is_written_comes_behind_what_was_committed(path: Path, name: str) -> None:
    store = SqliteStore(path)
    store.commit(batches([3])[0])

    WRITES[name](store)

    assert in_the_file(path) == (5 if name == "commit" else 3)
    store.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["kept", "synced", "settle"])), max_size=8))
def test_held_or_not_the_file_is_the_same_in_the_end(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[int, str]]
) -> None:
    counts = [count for count, _ in plan]
    files = [new_file(tmp_path_factory.mktemp("store")) for _ in range(2)]

    with ExitStack() as stack:
        held, plain = (stack.enter_context(closing(SqliteStore(file))) for file in files)
        for (_, how), batch in zip(plan, batches(counts), strict=True):
            held.commit(replace(batch, kept=how != "synced"))
            plain.commit(replace(batch, kept=False))
            if how == "settle":
                held.settle()

    assert contents(files[0]) == contents(files[1])


def test_a_batch_that_does_not_go_on_from_what_is_held_is_refused(path: Path, store: SqliteStore) -> None:
    first, second, third = batches([3, 2, 1])
    store.commit(first)

    with pytest.raises(TipMovedError):
        store.commit(third)
    with pytest.raises(TipMovedError):
        store.commit(replace(second, expected=replace(second.expected, epoch=1)))

    store.commit(second)
    store.settle()
    assert in_the_file(path) == 5


def test_when_what_is_held_cannot_be_written_nothing_is_any_more(path: Path, store: SqliteStore) -> None:
    """Nobody knows what the file holds: whoever goes on, must open it again."""
    first, second = batches([3, 2])
    store.commit(first)
    with closing(SqliteStore(path)) as other:
        other.take_over()

    with pytest.raises(TipMovedError):
        store.newest_head()

    for again in (store.settle, lambda: store.commit(second), lambda: store.intake_add([intake_row(1)]), store.tip):
        with pytest.raises(StoreError, match="restart the log"):
            again()
    assert in_the_file(path) == 0


def test_many_threads_read_while_one_commits(store: SqliteStore) -> None:
    """Whoever finds something held writes it; never two at once, and nothing is overlooked."""
    done: list[Commit] = []
    failures: list[object] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            last = done[-1] if done else None
            if last is not None and store.head(last.head.size) != last.head:
                failures.append(last.head.size)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for batch in batches([2] * 200):
        store.commit(batch)
        done.append(batch)
    over.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert failures == []
    assert [head.size for head in store.heads()] == [batch.head.size for batch in done]


def test_nobody_who_reads_waits_for_a_batch_that_is_flushed(path: Path) -> None:
    """What is held is written before it, unsynced; so a read finds nothing held, and needs no lock."""
    flushing, may_end = threading.Event(), threading.Event()

    def happens() -> None:
        flushing.set()
        assert may_end.wait(PATIENCE)

    store = SqliteStore(path, connect=lambda at: Slow(connect(at), happens))
    first, second = batches([3, 2], kept=[True, False])
    store.commit(first)
    with ThreadPoolExecutor(2) as pool:
        committing = pool.submit(store.commit, second)
        assert flushing.wait(PATIENCE)
        assert pool.submit(store.head, 3).result(PATIENCE) == first.head
        assert not committing.done()
        may_end.set()
        committing.result(PATIENCE)
    assert store.tip().size == 5
    store.close()


@pytest.mark.parametrize(
    "write", [lambda store, batch: store.commit(batch), lambda store, _: WRITES["intake_add"](store)]
)
def test_nor_who_comes_while_what_is_held_is_being_written(
    path: Path, write: Callable[[SqliteStore, Commit], object]
) -> None:
    """The one who writes it goes on to a flush, with the same lock."""
    settling, may_settle, flushing, may_end = (threading.Event() for _ in range(4))

    def settles() -> None:
        settling.set()
        assert may_settle.wait(PATIENCE)

    def flushes() -> None:
        flushing.set()
        assert may_end.wait(PATIENCE)

    store = SqliteStore(path, connect=lambda at: Slow(connect(at), flushes, settles))
    first, second = batches([3, 2], kept=[True, False])
    store.commit(first)
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(write, store, second)
        assert settling.wait(PATIENCE)
        reading = pool.submit(store.head, 3)
        time.sleep(0.05)  # it has found something held
        may_settle.set()
        assert flushing.wait(PATIENCE)
        assert reading.result(PATIENCE) == first.head
        assert not writing.done()
        may_end.set()
        writing.result(PATIENCE)
    store.close()


def test_a_write_that_could_not_begin_is_tried_again_by_who_comes_next(path: Path) -> None:
    """Nothing is in doubt: somebody else had the file for a moment."""
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        closing(SqliteStore(path, connect=brief)) as store,
    ):
        (batch,) = batches([3])
        store.commit(batch)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="cannot begin to write: database is locked"):
            store.newest_head()
        other.execute("ROLLBACK")

        assert store.newest_head() == batch.head


def test_a_write_that_failed_is_named_to_all_who_come_after_it(path: Path) -> None:
    def fails() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    store = SqliteStore(path, connect=lambda at: Slow(connect(at), fails, fails))
    store.commit(batches([3])[0])
    for _ in range(2):
        with pytest.raises(StoreError, match="database or disk is full"):
            store.newest_head()
    store.close()


def brief(path: Path) -> Any:
    """A connection that does not wait for others."""
    connection = connect(path)
    connection.execute("PRAGMA busy_timeout = 1")
    return connection


class Slow:
    """A connection by which *happens* comes before each COMMIT that is synced, and *settles* before others."""

    def __init__(
        self, connection: Any, happens: Callable[[], None], settles: Callable[[], None] = lambda: None
    ) -> None:
        self._connection = connection
        self._happens = happens
        self._settles = settles

    def execute(self, sql: str, *parameters: Any) -> Any:
        if sql == "COMMIT":
            synced = self._connection.execute("PRAGMA synchronous").fetchone() == (2,)
            (self._happens if synced else self._settles)()
        return self._connection.execute(sql, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_what_is_held_is_written_without_a_checkpoint(path: Path, store: SqliteStore) -> None:
    """Who reads is not to do that. The next batch that is synced does."""
    log = path.with_name("log.sqlite-wal")
    payload = [b"x" * 100_000] * 10
    tip, edge = Tip(0, EMPTY_ROOT, 0), RightEdge()
    for number in range(20):
        batch = batch_of(tip, 10, before=10 * number, edge=edge)
        rows = [new._replace(statement=each) for new, each in zip(batch.entries, payload, strict=True)]
        store.commit(replace(batch, entries=rows, kept=number < 19))
        store.settle()
        tip = Tip(batch.head.size, batch.head.root, 0)
        if number == 18:
            assert log.stat().st_size > 18 * 1_000_000
            assert path.stat().st_size < 1_000_000

    assert path.stat().st_size > 18 * 1_000_000, "the last one brought all of it there"
