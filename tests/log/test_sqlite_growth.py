"""How the SQLite store keeps a log that grows: tiles in rows, young indexes that are folded into old ones."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from pathlib import Path

import pytest

from tests.log.stores import batch_of, entry_of
from transparency.log import schema, sqlite_index
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Tip
from transparency.merkle.hashing import EMPTY_ROOT, leaf_hash
from transparency.merkle.tiles import RightEdge


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    schema.create(path, EMPTY_ROOT)
    return path


def grow(store: SqliteStore, *counts: int) -> RightEdge:
    """Batches of so many entries each, from nothing."""
    edge, tip = RightEdge(), store.take_over()
    for count in counts:
        batch = batch_of(tip, count, before=tip.size, edge=edge)
        store.commit(batch)
        tip = Tip(batch.head.size, batch.head.root, tip.epoch)
    return edge


def rows_of(path: Path, table: str) -> int:
    with sqlite3.connect(path) as database:
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - a name from this file


def signed(n: int) -> bytes:
    return hashlib.sha256(b"tbs %d" % n).digest()


def everything_is_found(store: SqliteStore, count: int) -> bool:
    entries = [entry_of(n) for n in range(count)]
    return (
        [store.find(entry) for entry in entries] == list(range(count))
        and store.find_some(entries) == {entry: n for n, entry in enumerate(entries)}
        and all(store.siblings(signed(n), 9) == [(n, entry_of(n))] for n in range(count))
    )


def test_tiles_that_grow_a_few_hashes_at_a_time_are_those_that_the_tree_has(path: Path) -> None:
    chance = random.Random(7)
    counts = [chance.randrange(1, 70) for _ in range(30)]
    store = SqliteStore(path)
    edge = grow(store, *counts)

    tiles = RightEdge().append([leaf_hash(entry_of(n)) for n in range(edge.size)])
    assert edge.size > 2 * 256
    assert {place: store.tile(*place) for place in tiles} == tiles
    assert store.tile(0, edge.size // 256 + 1) is None
    assert store.tile(2, 0) is None
    store.close()


def test_a_leaf_takes_at_most_forty_bytes_of_the_file(path: Path) -> None:
    """The bound of design §11. Two tiles of 8 KB would not share a page of 16."""
    store = SqliteStore(path)
    edge = grow(store, *[200] * 60)
    store.close()

    with sqlite3.connect(path) as database:
        pages = database.execute("SELECT sum(pgsize) FROM dbstat WHERE name = 'tiles'").fetchone()[0]
    assert pages / edge.size <= 40


def test_a_database_with_whole_tiles_and_one_index_is_migrated(path: Path) -> None:
    store = SqliteStore(path)
    edge = grow(store, 300, 700)
    tiles = RightEdge().append([leaf_hash(entry_of(n)) for n in range(1000)])
    store.extend_index(1000)
    store.close()
    with sqlite3.connect(path) as old:
        old.execute("DELETE FROM tiles")
        old.executemany(
            "INSERT INTO tiles VALUES (?, ?)", [(level << 48 | index, whole) for (level, index), whole in tiles.items()]
        )
        old.execute("INSERT INTO digest_index SELECT * FROM digest_young")
        old.execute("INSERT INTO sibling_index SELECT * FROM sibling_young")
        old.execute("DROP TABLE digest_young")
        old.execute("DROP TABLE sibling_young")
        old.execute("ALTER TABLE indexed DROP COLUMN young")
        old.execute("DELETE FROM _sqlite_migrations WHERE name = 'm007_growth'")
    old.close()

    store = SqliteStore(path)
    assert RightEdge.load(1000, store.tile).root() == edge.root()
    assert {place: store.tile(*place) for place in tiles} == tiles
    assert everything_is_found(store, 1000)
    store.close()


def test_young_rows_are_folded_into_the_old_index_and_found_at_every_moment(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_index, "_FOLD_LEAST", 100)
    monkeypatch.setattr(sqlite_index, "_ROUND", 4)
    monkeypatch.setattr(sqlite_index, "_SLICE_ENTRIES", 16)
    store = SqliteStore(path)
    grow(store, 400)
    most = 0
    for stop in range(8, 401, 8):
        some = range(stop - 8, stop)
        store.index_some(sorted((entry_of(n), n) for n in some), sorted((signed(n), n) for n in some), stop)
        assert everything_is_found(store, stop)
        most = max(most, rows_of(path, "digest_young"))

    assert 90 <= most < 250
    assert rows_of(path, "digest_index") > 150
    assert rows_of(path, "digest_young") + rows_of(path, "digest_index") == 400
    assert rows_of(path, "sibling_young") + rows_of(path, "sibling_index") == 400
    store.close()


def test_a_fold_that_was_cut_short_begins_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_index, "_FOLD_LEAST", 100)
    monkeypatch.setattr(sqlite_index, "_ROUND", 4)
    monkeypatch.setattr(sqlite_index, "_SLICE_ENTRIES", 16)
    store = SqliteStore(path)
    grow(store, 120)
    rows, others = [(entry_of(n), n) for n in range(120)], [(signed(n), n) for n in range(120)]
    store.index_some(sorted(rows), sorted(others), 120)
    half = rows_of(path, "digest_young")
    store.close()

    store = SqliteStore(path)
    assert 0 < half < 120
    for _ in range(8):
        assert everything_is_found(store, 120)
        store.index_some([], [], None)
    assert rows_of(path, "digest_young") == 0
    assert everything_is_found(store, 120)
    store.close()


def test_an_index_that_is_far_behind_catches_up_by_sorting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(path)
    grow(store, 50, 350)
    store.index_some([(entry_of(n), n) for n in range(50)], [(signed(n), n) for n in range(50)], 50)
    store.erase([60])
    monkeypatch.setattr(sqlite_index, "SORTED", 200)

    store.extend_index(400)

    assert store.indexed_size() == 400
    assert (rows_of(path, "digest_young"), rows_of(path, "digest_index")) == (50, 350)
    assert [store.find(entry_of(n)) for n in range(400)] == list(range(400))
    assert store.siblings(signed(61), 9) == [(61, entry_of(61))]
    assert store.siblings(signed(60), 9) == store.siblings(b"", 9) == []
    store.close()
