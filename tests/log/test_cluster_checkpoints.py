"""Checkpoints of a cluster: who leads publishes, whatever befell it; all others serve what that one stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import psycopg
import pytest

from tests.log.clusters import MadeCluster, database, make_cluster
from tests.log.reachable import set_reachable
from tests.patience import PATIENCE, until
from transparency.errors import OverloadedError, StoreError
from transparency.log.checkpoints import CheckpointPublisher, PublishSettings
from transparency.log.cluster import ClusterLog
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.verifier.evidence import log_times


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MadeCluster]:
    with database() as url:
        yield make_cluster(tmp_path, url)


@asynccontextmanager
async def publishing(
    cluster: MadeCluster, *names: str, interval: float = 0.01
) -> AsyncIterator[list[tuple[ClusterLog, CheckpointPublisher]]]:
    async with AsyncExitStack() as stack:
        started = []
        for name in names:
            log = cluster.node(name)
            stack.push_async_callback(log.stop)
            await log.start()
            publisher = CheckpointPublisher(log, PublishSettings(interval), cluster.made.clock)
            stack.push_async_callback(publisher.stop)
            await publisher.start()
            started.append((log, publisher))
        yield started


async def register(log: ClusterLog, statement: bytes) -> int:
    """As a client: told to come back, it does."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return (await log.register(statement)).index
            except OverloadedError:
                await asyncio.sleep(0.05)


async def test_publishers_go_on_when_somebody_leads_again(
    cluster: MadeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody led while they had something to publish: that ended one for good, and its node served the old one."""
    monkeypatch.setattr("transparency.log.checkpoints.RETRY_SECONDS", 0.05)
    issuer = cluster.made.issuer
    async with publishing(cluster, "one", "two") as nodes:
        (one, in_flight), (two, behind) = nodes
        with closing(psycopg.connect(cluster.url)) as session:
            session.execute("LOCK TABLE checkpoints IN EXCLUSIVE MODE")
            await one.register(issuer.sign(b"under way to a checkpoint"))
            await until(lambda: in_flight._writing is not None and not in_flight._writing.done() and behind.behind == 1)
            set_reachable(cluster.url, reachable=False)
        try:
            await until(lambda: not one.leader and in_flight.failures > 1 and behind.failures > 1)
        finally:
            set_reachable(cluster.url, reachable=True)

        index = await register(two, issuer.sign(b"afterwards"))
        await until(lambda: in_flight.published.size > index and behind.published.size > index)


async def test_who_leads_again_goes_on_from_what_was_published_meanwhile(cluster: MadeCluster) -> None:
    """CP-2: also where it did not look in between. A larger tree must not have an earlier time."""
    issuer, now = cluster.made.issuer, cluster.made.clock()
    async with publishing(cluster, "one", "two", interval=600.0) as [(one, first), (two, _)]:
        ahead = CheckpointPublisher(two, clock=lambda: now + 1_000)
        one._step_down(StoreError("made to"))
        await until(lambda: two.leads)
        await register(two, issuer.sign(b"led by the other"))
        await ahead.publish()

        two._step_down(StoreError("made to"))
        await until(lambda: one.leads)
        await register(one, issuer.sign(b"led by this one again"))
        await first.publish()

        newest = first.published.newest
        assert newest is not None
        assert newest.checkpoint.size == 4
        assert set(log_times(newest, checkpoint_vkeys(one.service_keys)).values()) == {now + 1_000}
