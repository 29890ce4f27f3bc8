"""A server that is told, while a log runs, to forget what it acknowledges: ALTER SYSTEM, and a reload."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.log.clusters import database, make_cluster
from transparency.errors import LogUnusableError, StoreError
from transparency.log.mark import MarkValue
from transparency.log.mark_postgres import Place, PostgresMark
from transparency.log.postgres import PostgresStore
from transparency.testing.postgres import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer.start()
    yield server
    server.remove()


@contextmanager
def reloaded(server: PostgresServer, name: str, value: str) -> Iterator[None]:
    """With another setting, which every session has heard of that asks for something from now on."""
    with server.connect() as session:
        session.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        session.execute("SELECT pg_reload_conf()")
        _heard(server, name, value)
        yield
        session.execute(sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name)))
        session.execute("SELECT pg_reload_conf()")
        _heard(server, name, "on")


def _heard(server: PostgresServer, name: str, value: str) -> None:
    while True:
        with server.connect() as session:
            if session.execute("SELECT current_setting(%s)", (name,)).fetchone() == (value,):
                return


def _commits(session: psycopg.Connection[tuple[object, ...]]) -> object:
    row = session.execute("SELECT current_setting('synchronous_commit')").fetchone()
    return row and row[0]


@pytest.mark.parametrize(("was", "pinned"), [("remote_apply", "remote_apply"), ("local", "on")])
def test_what_was_checked_of_commits_is_the_session_s_own(
    tmp_path: Path, server: PostgresServer, was: str, pinned: str
) -> None:
    with database(server) as url:
        make_cluster(tmp_path, url)
        with (
            reloaded(server, "synchronous_commit", was),
            closing(PostgresStore(url)) as store,
            closing(PostgresMark.open(url, "log.example/one", 1, Place(7, 1), MarkValue(2, bytes(32)))) as mark,
            reloaded(server, "synchronous_commit", "off"),
        ):
            assert [_commits(session) for session in (store._writer, mark._connection)] == [pinned, pinned]


async def test_a_leader_stops_when_its_database_begins_to_forget(tmp_path: Path, server: PostgresServer) -> None:
    with database(server) as url:
        log = make_cluster(tmp_path, url).node("one")
        await log.start()
        try:
            with reloaded(server, "full_page_writes", "off"):
                async with asyncio.timeout(20):
                    while log.node.failed is None:  # noqa: ASYNC110 - told by a thread
                        await asyncio.sleep(0.02)
                assert "full_page_writes=off" in str(log.node.failed)
                assert not log.leads
        finally:
            await log.stop()


def test_a_mark_is_not_taken_for_kept_by_a_database_that_began_to_forget(server: PostgresServer) -> None:
    with database(server) as url:
        mark = PostgresMark.open(url, "log.example/one", 1, Place(7, 1), MarkValue(2, bytes(32)))
        with closing(mark), reloaded(server, "full_page_writes", "off"):
            with pytest.raises(StoreError, match="full_page_writes=off"):
                mark.write(MarkValue(3, bytes(32)))
            with pytest.raises(LogUnusableError, match="full_page_writes=off"):
                PostgresMark.open(url, "log.example/one", 2, Place(7, 1), None)
