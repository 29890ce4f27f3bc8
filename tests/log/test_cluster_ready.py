"""Whether a node is ready: it is not while nothing that is given to it gets registered, by all that it can see."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.clusters import MadeCluster, database, make_cluster
from tests.log.test_cluster import nodes
from tests.patience import until
from transparency.errors import OverloadedError, StoreError
from transparency.log.cluster_outlook import (
    IN_VAIN_SECONDS,
    REMEMBERED_SECONDS,
    STALLED_SECONDS,
    TAKEN_IN_VAIN,
    UNSEEN_SECONDS,
    Outlook,
    Progress,
)
from transparency.server.operations import why_not_ready
from transparency.testing import FakeClock
from transparency.testing.postgres import PostgresServer


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MadeCluster]:
    with database() as url:
        yield make_cluster(tmp_path, url)


@pytest.fixture
def elsewhere() -> Iterator[PostgresServer]:
    server = PostgresServer.start()
    yield server
    server.remove()


async def test_while_the_mark_is_away_no_node_is_ready_and_who_may_lead_says_why(
    tmp_path: Path, elsewhere: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transparency.log.cluster_handover.PATIENCE_SECONDS", 60.0)
    with database() as url:
        cluster = make_cluster(tmp_path, url, mark_url=elsewhere.new_database())
        async with nodes(cluster, "one", "two") as candidates:
            front_end = cluster.node("three", candidate=False)
            try:
                await front_end.start()
                await until(lambda: [why_not_ready(log) for log in (*candidates, front_end)] == [None] * 3)

                await asyncio.to_thread(elsewhere.stop)
                waits = asyncio.ensure_future(candidates[0].register(cluster.made.issuer.sign(b"not now")))
                await until(lambda: "none gets to lead" in (why_not_ready(front_end) or ""))
                for log in candidates:
                    await until(lambda log=log: "the high-water mark" in (why_not_ready(log) or ""))  # type: ignore[misc]

                await asyncio.to_thread(elsewhere.resume)
                assert (await waits).index == 2
                await until(lambda: [why_not_ready(log) for log in (*candidates, front_end)] == [None] * 3)
            finally:
                await front_end.stop()


async def test_a_node_with_the_lease_that_does_not_lead_yet_names_no_leader(
    cluster: MadeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hangs(*_: object) -> None:
        begun.set()
        go_on.wait(20)
        raise StoreError("the mark has no room")

    leader, other = cluster.node("one"), cluster.node("two")
    try:
        await leader.start()
        await other.start()
        assert other.leader == leader.holder
        monkeypatch.setattr("transparency.log.cluster.prepare", hangs)

        await leader.stop()
        await until(begun.is_set)

        assert other.leader == ""
        assert why_not_ready(other) == "No node of this log leads"
        go_on.set()
        await until(lambda: "the mark has no room" in (why_not_ready(other) or ""))
    finally:
        go_on.set()
        await other.stop()


def test_nodes_that_take_the_lease_and_do_not_lead_are_no_leaders() -> None:
    clock = FakeClock(1_000)
    outlook = Outlook(clock)
    for epoch in range(1, TAKEN_IN_VAIN + 1):
        outlook.check()
        outlook.saw(epoch)
        outlook.saw(epoch)
        clock.advance(1)
    with pytest.raises(OverloadedError, match="none gets to lead"):
        outlook.check()

    outlook.led()
    outlook.check()
    for epoch in range(11, TAKEN_IN_VAIN + 11):
        outlook.saw(epoch)
    assert outlook.now
    clock.advance(int(IN_VAIN_SECONDS))
    outlook.saw(TAKEN_IN_VAIN + 10)
    assert not outlook.now, "the last one has kept it, and its bell was missed"


def test_who_does_not_see_the_lease_does_not_know_that_anybody_leads() -> None:
    clock = FakeClock(1_000)
    outlook = Outlook(clock)
    outlook.saw(1)
    clock.advance(int(UNSEEN_SECONDS))
    outlook.check()

    clock.advance(1)
    with pytest.raises(OverloadedError, match="has not seen for 6 seconds"):
        outlook.check()


def test_what_waits_and_does_not_move_on_is_told_and_remembered_when_nobody_waits_any_more() -> None:
    clock = FakeClock(1_000)
    progress = Progress(clock)
    progress.check(None)
    progress.check(1_000.0)
    clock.advance(int(STALLED_SECONDS) + 1)
    with pytest.raises(OverloadedError, match="nobody has sequenced any"):
        progress.check(1_000.0)
    progress.moved()
    progress.check(1_000.0)

    clock.advance(1)
    progress.gave_up()
    with pytest.raises(OverloadedError):
        progress.check(None)
    clock.advance(int(REMEMBERED_SECONDS))
    progress.check(None)
