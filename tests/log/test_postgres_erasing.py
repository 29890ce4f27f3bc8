"""Erasing in PostgreSQL: what is gone is in no file of the tables, and meanwhile the log is read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest

from tests.log.stores import batch_of, entry_of, intake_row
from transparency.log import postgres_schema
from transparency.log.postgres import PostgresStore
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.testing.postgres import PostgresServer


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


def test_after_a_scrub_no_file_of_the_tables_holds_what_was_erased(server: PostgresServer) -> None:
    """Neither dead rows nor free space of pages. The write-ahead log is the server's (docs/postgres.md)."""
    url = server.new_database()
    postgres_schema.create(url, EMPTY_ROOT)
    store = PostgresStore(url)
    secret = b"only here " * 500
    batch = batch_of(store.take_over(), 3)
    store.intake_add([replace(intake_row(1), statement=secret)])
    entries = [batch.entries[0], batch.entries[1]._replace(statement=secret), batch.entries[2]]
    store.commit(replace(batch, entries=entries, intake_done=[entry_of(1)]))
    assert _files_with(server, secret[:40])

    store.erase([1])
    assert store.scrub() == ""
    with server.connect() as session:
        session.execute("CHECKPOINT")

    assert _files_with(server, secret[:40]) == []
    assert [row.erased for row in store.entries(0, 3)] == [False, True, False]
    store.close()


def test_while_tables_are_written_anew_reads_are_answered(url: str, store: PostgresStore) -> None:
    store.commit(batch_of(store.take_over(), 3))
    store.erase([1])
    with psycopg.connect(url, autocommit=True) as session, ThreadPoolExecutor(1) as sequencer:
        with session.transaction():
            session.execute("SELECT 1 FROM tip FOR UPDATE")  # which scrub comes to when it has copied everything
            scrubbing = sequencer.submit(store.scrub)
            _wait_for(session, "SELECT 1 FROM pg_locks WHERE NOT granted")

            assert [row.erased for row in store.entries(0, 3)] == [False, True, False]
            assert store.find(entry_of(2)) == 2
        assert scrubbing.result(30) == ""
    store.commit(batch_of(store.tip(), 1, before=3))
    assert store.scrub() == ""
    assert [store.find(entry_of(n)) for n in range(4)] == [0, 1, 2, 3]


def test_a_scrub_under_which_another_took_over_leaves_everything_as_it_was(url: str, store: PostgresStore) -> None:
    """What the other one commits would not be in the copies."""
    tip = store.take_over()
    with psycopg.connect(url, autocommit=True) as session, ThreadPoolExecutor(1) as sequencer:
        with session.transaction():
            session.execute("UPDATE tip SET epoch = epoch + 1")
            scrubbing = sequencer.submit(store.scrub)
            _wait_for(session, "SELECT 1 FROM pg_locks WHERE NOT granted")
        assert "another writer has moved the tip" in scrubbing.result(30)
        store.commit(batch_of(replace(tip, epoch=tip.epoch + 1), 1))
        tables = session.execute("SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_new%'").fetchone()
    assert tables == (0,)


def test_what_another_erases_meanwhile_stays_erased(url: str, store: PostgresStore) -> None:
    """As the leader does that has overtaken the one that scrubs."""
    store.commit(batch_of(store.take_over(), 3))
    with psycopg.connect(url, autocommit=True) as session, ThreadPoolExecutor(1) as sequencer:
        with session.transaction():
            session.execute("UPDATE statements SET statement = '' WHERE idx = 1")
            scrubbing = sequencer.submit(store.scrub)
            _wait_for(session, "SELECT 1 FROM pg_locks WHERE NOT granted")
        assert scrubbing.result(30) == ""

    assert [row.erased for row in store.entries(0, 3)] == [False, True, False]


def test_a_scrub_that_cannot_have_the_tables_says_so(url: str, store: PostgresStore) -> None:
    store._writer.execute("SET lock_timeout = '50ms'")
    with psycopg.connect(url, autocommit=True) as session, session.transaction():
        session.execute("SELECT count(*) FROM statements")

        assert "lock timeout" in store.scrub()
    assert store.scrub() == ""


def _wait_for(session: psycopg.Connection[tuple[object, ...]], query: str) -> None:
    for _ in range(3000):
        if session.execute(query).fetchone() is not None:
            return
        threading.Event().wait(0.01)
    pytest.fail(f"{query} never gave a row")


def _files_with(server: PostgresServer, what: bytes) -> list[str]:
    with server.connect() as session:
        session.execute("CHECKPOINT")
    return [path.name for path in (server.data / "base").rglob("*") if path.is_file() and what in path.read_bytes()]
