"""A node that cannot register says why: once in its log, and to who asks whether it is ready or waits in vain."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.log.clusters import MadeCluster, database, make_cluster
from tests.log.test_cluster import nodes
from tests.patience import until
from transparency.errors import LogUnusableError, OverloadedError, StoreError
from transparency.log.cluster_trouble import KEPT_SECONDS, Trouble
from transparency.log.opening import check_tip
from transparency.log.postgres import PostgresStore
from transparency.log.postgres_connection import passing
from transparency.server.operations import why_not_ready
from transparency.testing import FakeClock

FULL = "could not extend file: No space left on device"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MadeCluster]:
    with database() as url:
        yield make_cluster(tmp_path, url)


async def test_a_leader_whose_disk_is_full_says_so_once_and_is_not_ready(
    cluster: MadeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transparency.log.cluster.PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("transparency.log.cluster_handover.PATIENCE_SECONDS", 1.0)
    issuer = cluster.made.issuer
    async with nodes(cluster, "one") as [log]:
        with psycopg.connect(cluster.url, autocommit=True) as session:
            session.execute(
                sql.SQL(
                    "CREATE FUNCTION is_full() RETURNS trigger LANGUAGE plpgsql AS "
                    "$$ BEGIN RAISE EXCEPTION {} USING ERRCODE = 'disk_full'; END $$"
                ).format(sql.Literal(FULL))
            )
            session.execute("CREATE TRIGGER is_full BEFORE INSERT ON entries EXECUTE FUNCTION is_full()")

            with pytest.raises(OverloadedError, match=FULL):
                await log.register(issuer.sign(b"no room for it"))

            assert FULL in (why_not_ready(log) or "")
            await until(lambda: log.leads)
            assert FULL in (why_not_ready(log) or ""), "it leads, and nothing that it commits is kept"
            session.execute("DROP TRIGGER is_full ON entries")

        await until(lambda: why_not_ready(log) is None)  # what was handed over is registered by itself
        assert (await log.register(issuer.sign(b"no room for it"))).index == 2
    told = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert [FULL in line for line in told] == [True]


async def test_a_node_whose_database_is_refused_says_what_is_wrong_with_it(
    cluster: MadeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transparency.log.cluster.PAUSE_SECONDS", 0.05)
    async with nodes(cluster, "one") as [log]:
        with psycopg.connect(cluster.url, autocommit=True) as session:
            session.execute(f"ALTER DATABASE {session.info.dbname} SET synchronous_commit = off")
            session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await until(lambda: "synchronous_commit=off" in (why_not_ready(log) or ""))
        caplog.clear()
        seen = log._keeper._campaign.epoch
        await until(lambda: log._keeper._campaign.epoch > seen + 1)  # it got the lease again

        with pytest.raises(OverloadedError, match="synchronous_commit=off"):
            await log.register(cluster.made.issuer.sign(b"not here"))
        assert sum("synchronous_commit=off" in record.message for record in caplog.records) <= 1


class EndsAtTheTree(PostgresStore):
    """Its server ends its sessions when the first tile is read."""

    url: str

    def tile(self, level: int, index: int) -> bytes | None:
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ends'"
        with psycopg.connect(self.url, autocommit=True) as session:
            session.execute(end)
        return super().tile(level, index)


def test_a_server_that_goes_away_while_the_tree_is_read_is_a_passing_trouble(cluster: MadeCluster) -> None:
    """The session's end is two causes below what is said: a node that took it for the tree's fault would be gone."""
    with closing(EndsAtTheTree(cluster.url, "ends")) as store:
        store.url = cluster.url
        with pytest.raises(LogUnusableError, match="right edge cannot be read") as away:
            check_tip(store, store.tip())
    with closing(PostgresStore(cluster.url)) as store, psycopg.connect(cluster.url, autocommit=True) as session:
        session.execute("DELETE FROM tiles")
        with pytest.raises(LogUnusableError, match="right edge cannot be read") as damaged:
            check_tip(store, store.tip())

    assert [passing(away.value), passing(damaged.value)] == [True, False]


def test_trouble_is_told_when_it_is_another_and_known_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock(1_000)
    trouble = Trouble(clock)
    for _ in range(3):
        trouble.note("it fails", StoreError("the disk is full"))
    trouble.note("it fails", LogUnusableError("PostgreSQL cannot be reached at db.internal"))

    assert [record.message for record in caplog.records] == [
        "it fails: the disk is full",
        "it fails: PostgreSQL cannot be reached at db.internal",
    ]
    assert trouble.now, "strangers learn that it fails"
    assert "internal" not in trouble.now, "and not where things are"

    clock.advance(int(KEPT_SECONDS))
    trouble.check()
