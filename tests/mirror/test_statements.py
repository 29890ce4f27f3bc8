"""Statements beside a mirrored tree: those that the log lets the mirror read, until it orders them erased."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.log.erasing import Erasing, by_order, files_with, state_audit
from tests.mirror.mirrored import served as mirrored
from tests.server.served import Served, served
from transparency.log.checkpoints import PublishSettings
from transparency.log.store import Kind, StoredEntry
from transparency.mirror.folder import MirrorFolder, create_mirror
from transparency.mirror.pull import PullSettings
from transparency.mirror.statements import StatementStore
from transparency.notes.vkey import VerifierKey
from transparency.statements.statement import Entry
from transparency.testing import FakeClock, MadeLog, SampleIssuer
from transparency.witness.logs import KnownLog, changing

MARKER = b"Margarete-Steiff-7319"
ORIGIN = "log.example/test"


def _trust(folder: MirrorFolder, site: Served) -> None:
    keys = tuple(VerifierKey.parse(key.text) for key in site.service.publisher.vkeys())
    with changing(folder.logs) as logs:
        logs[ORIGIN] = KnownLog(keys, site.url, None)


def _kept(folder: MirrorFolder) -> dict[int, bytes]:
    with StatementStore(folder.statements) as store:
        return {row.index: row.statement for row in store.rows(ORIGIN)}


@pytest.mark.parametrize("allowed", [True, False])
async def test_statements_are_kept_where_the_log_lets_them_be_read(tmp_path: Path, allowed: bool) -> None:
    folder = create_mirror(tmp_path / "mirror", "mirror.example/m1")
    async with served(tmp_path, open=False, publish=PublishSettings(interval=3600.0)) as site:
        _trust(folder, site)
        token = site.bearer("read").removeprefix("Bearer ")
        posted = site.statement(b'{"n":1}')
        await site.post(posted, Authorization=site.bearer("submit"))
        await site.service.publisher.publish()
        pull = PullSettings(retries=0, tokens={ORIGIN: token} if allowed else {})
        async with mirrored(folder, pull=pull) as client:
            await client.running.puller.round()
            assert client.running.conditions.all[ORIGIN].code == "current"
            assert client.running.mirror.next_entry(ORIGIN) == site.log.status().size
            over_http = await client.send("GET", "/statements.sqlite")
            assert over_http.status == 404
        stored = {index: site.log.stored(index).statement for index in range(site.log.status().size)}

    assert _kept(folder) == (stored if allowed else {})
    assert posted in stored.values()


class NoRoom:
    """A connection to a disk with no room for a second copy of the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "VACUUM":
            raise sqlite3.OperationalError("database or disk is full")
        return self._connection.execute(sql, *values)

    def close(self) -> None:
        self._connection.close()


def test_what_is_erased_is_gone_also_where_there_is_no_room_to_give_space_back(tmp_path: Path) -> None:
    row = StoredEntry(0, Entry(bytes(32)), Kind.STATEMENT, 1, b"", MARKER, b"")
    with StatementStore(tmp_path / "statements.sqlite") as store:
        store.keep("log.example", [row], [])
        assert files_with(MARKER, [tmp_path])
        store._connection = NoRoom(store._connection)
        store.keep("log.example", [], [0])

        assert files_with(MARKER, [tmp_path]) == []


async def test_what_the_log_erased_is_erased_here_too(tmp_path: Path) -> None:
    folder = create_mirror(tmp_path / "mirror", "mirror.example/m1")
    async with served(tmp_path, publish=PublishSettings(interval=3600.0)) as site:
        _trust(folder, site)
        await site.post(site.statement(b'{"name":"%b"}' % MARKER))
        index = site.log.status().size - 1
        await site.service.publisher.publish()
        async with mirrored(folder) as client:
            await client.running.puller.round()
            assert MARKER in _kept(folder)[index]
            clock, issuer = FakeClock(), SampleIssuer("https://issuer.example", site.issuer)
            await state_audit(Erasing(MadeLog(tmp_path / "log", tmp_path / "mark", issuer, clock), clock), site.log)
            await by_order(site.log, index)
            await site.service.publisher.publish()
            await client.running.puller.round()

    assert _kept(folder)[index] == b""
    assert files_with(MARKER, [folder.path]) == []
