"""Nodes of one log over one PostgreSQL: one leads, the others hand over, and each answers as if it were alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.log.clusters import MadeCluster, database, make_cluster
from tests.patience import until
from transparency.errors import NotLeadingError, OverloadedError, RefusedError, StoreError
from transparency.log.candidate import Candidate
from transparency.log.cluster import ClusterLog
from transparency.log.durable import DurableFile
from transparency.log.log import Found
from transparency.log.role import Role
from transparency.statements.receipt import Receipt
from transparency.testing import SampleIssuer


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MadeCluster]:
    with database() as url:
        yield make_cluster(tmp_path, url)


@asynccontextmanager
async def nodes(cluster: MadeCluster, *names: str) -> AsyncIterator[list[ClusterLog]]:
    """Started one after the other, so the first one leads."""
    async with AsyncExitStack() as stack:
        started = []
        for name in names:
            log = cluster.node(name)
            stack.push_async_callback(log.stop)
            await log.start()
            started.append(log)
        yield started


async def test_one_leads_and_both_register(cluster: MadeCluster) -> None:
    issuer = cluster.made.issuer
    async with nodes(cluster, "one", "two") as (leader, front_end):
        assert (leader.role, front_end.role) == (Role.LEADER, Role.FRONT_END)
        assert front_end.leader == leader.holder

        here = await leader.register(issuer.sign(b"at the leader"))
        there = await front_end.register(issuer.sign(b"at a front end"))

        assert (here.index, there.index) == (2, 3)
        assert there.new
        key = {key.kid: key for key in leader.receipt_keys()}
        for registered in (here, there):
            receipt = Receipt.from_bytes(registered.receipt)
            assert receipt.kid is not None
            receipt.verify_inclusion(registered.entry, key[receipt.kid])
        # Whoever is asked says the same.
        await until(lambda: front_end.published == leader.published)
        for log in (leader, front_end):
            assert log.lookup(there.entry) == Found(3)
            assert log.receipt(3) == there.receipt
            assert (await log.register(issuer.sign(b"at the leader"))).index == 2


async def test_many_from_both_sides_stand_in_the_tree_once(cluster: MadeCluster) -> None:
    issuer = cluster.made.issuer
    statements = [issuer.sign(b"%d" % number) for number in range(200)]
    async with nodes(cluster, "one", "two") as (leader, front_end):
        results = await asyncio.gather(
            *(log.register(statement) for statement in statements for log in (leader, front_end))
        )

        assert len({each.index for each in results}) == 200
        assert leader.newest_head().size == 202


async def test_what_a_front_end_accepts_is_brought_in(cluster: MadeCluster) -> None:
    statement = cluster.made.issuer.sign(b"later")
    async with nodes(cluster, "one", "two") as (_, front_end):
        accepted = await front_end.accept(statement)
        await until(lambda: front_end.lookup(accepted.entry) == Found(2))


async def test_a_policy_of_the_leader_is_in_force_at_once_everywhere(cluster: MadeCluster) -> None:
    other = SampleIssuer("https://other.example")
    async with nodes(cluster, "one", "two") as (leader, front_end):
        with pytest.raises(RefusedError):
            await front_end.register(other.sign(b"too early"))

        await leader.update_policy(
            cluster.made.next_policy(
                leader,
                lambda policy, entry: replace(
                    policy,
                    generation=2,
                    previous=entry,
                    issuers=(*policy.issuers, other.as_policy_issuer()),
                ),
            )
        )
        registered = await front_end.register(other.sign(b"now"))

        assert registered.index == 3
        assert front_end.policy.generation == 2


async def test_what_was_judged_under_an_older_policy_is_judged_again_by_the_leader(cluster: MadeCluster) -> None:
    issuer = cluster.made.issuer
    async with nodes(cluster, "one", "two") as (leader, front_end):
        front_end.refresh_in_force = _never  # type: ignore[method-assign] # it hears nothing of the next policy
        await leader.update_policy(
            cluster.made.next_policy(
                leader, lambda policy, entry: replace(policy, generation=2, previous=entry, issuers=())
            )
        )

        with pytest.raises(RefusedError):
            await front_end.register(issuer.sign(b"by the old policy"))

        assert leader.newest_head().size == 3, "nothing but the policy was registered"


async def _never() -> bool:
    return False


async def test_documents_are_for_the_leader(cluster: MadeCluster) -> None:
    async with nodes(cluster, "one", "two") as (leader, front_end):
        policy = cluster.made.next_policy(leader, lambda policy, entry: replace(policy, generation=2, previous=entry))
        with pytest.raises(NotLeadingError, match="ask one "):
            await front_end.update_policy(policy)


async def test_a_leader_that_stops_is_followed_at_once(cluster: MadeCluster) -> None:
    issuer = cluster.made.issuer
    async with nodes(cluster, "two") as _:
        pass  # an epoch that has ended cleanly
    one, two = cluster.node("one"), cluster.node("two")
    await one.start()
    await two.start()
    assert one.leads
    await one.register(issuer.sign(b"a"))

    registering = [asyncio.ensure_future(two.register(issuer.sign(b"%d" % number))) for number in range(20)]
    await one.stop()
    await until(lambda: two.leads)

    assert len({(await each).index for each in registering}) == 20
    assert (await two.register(issuer.sign(b"a"))).index == 2
    await two.stop()


async def test_a_leader_whose_lease_was_taken_steps_down_and_who_waits_does_not_notice(cluster: MadeCluster) -> None:
    issuer = cluster.made.issuer
    async with nodes(cluster, "one", "two") as (one, two):
        registering = [asyncio.ensure_future(one.register(issuer.sign(b"%d" % number))) for number in range(50)]
        await asyncio.sleep(0)
        with psycopg.connect(cluster.url, autocommit=True) as session:
            session.execute("UPDATE lease SET expires = '-infinity'")
            session.execute("UPDATE tip SET epoch = epoch + 1")  # as who takes it does

        indexes = {(await each).index for each in registering}

        assert len(indexes) == 50
        await until(lambda: one.leads != two.leads)
        assert one.newest_head().size >= 52


async def test_a_row_that_the_leader_stumbles_over_is_left_for_the_next_who_leads(cluster: MadeCluster) -> None:
    def stumble(*_: object) -> Candidate:
        raise ZeroDivisionError

    async with nodes(cluster, "one", "two") as (leader, front_end):
        assert leader._leader is not None
        leader._leader.intake._candidate = stumble

        async with asyncio.timeout(30):
            assert (await front_end.register(cluster.made.issuer.sign(b"hard to swallow"))).index == 2


async def test_a_leader_that_fails_while_it_stops_is_closed_once(
    cluster: MadeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A descriptor that is closed a second time may be somebody else's by then, who would wait on it for ever."""
    closed: list[DurableFile] = []
    close = DurableFile.close

    def counting(file: DurableFile) -> None:
        closed.append(file)
        close(file)

    monkeypatch.setattr(DurableFile, "close", counting)
    log = cluster.node("one")
    await log.start()
    leader = log._leader
    assert leader is not None
    closed.clear()  # of those that only looked

    stopping = asyncio.ensure_future(log.stop())
    await asyncio.sleep(0)
    leader.fail(StoreError("its database went away"))
    await stopping

    # The leader's; and that of whoever had just begun to look whether this node may lead again.
    assert closed
    assert len(closed) == len({id(file) for file in closed})
    assert not log._keeper._thread.is_alive(), "nobody renews the lease any more"


async def test_a_leader_that_is_stopped_while_it_starts_leaves_nothing_running(cluster: MadeCluster) -> None:
    log = cluster.node("one")
    starting = asyncio.ensure_future(log.start(manifests=True))
    await until(lambda: log.leads)  # it has begun to
    await log.stop()
    await asyncio.wait([starting])
    starting.exception()

    assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"manifests", "sequencer", "intake"})


async def test_a_database_that_was_away_is_used_again(cluster: MadeCluster) -> None:
    issuer = cluster.made.issuer
    async with nodes(cluster, "one", "two") as (one, two):
        with psycopg.connect(cluster.url, autocommit=True) as session:
            session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

        async def persistent(log: ClusterLog, statement: bytes) -> int:
            """As a client: told to come back, it does."""
            while True:
                try:
                    return (await log.register(statement)).index
                except OverloadedError:
                    await asyncio.sleep(0.05)

        async with asyncio.timeout(30):
            places = [await persistent(log, issuer.sign(b"%d" % number)) for number, log in enumerate((one, two))]

        assert places == [2, 3]


def _sockets() -> set[str]:
    """Those that this process has open."""
    links = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them is closed by then
            links.append(str(each.readlink()))
    return {link for link in links if link.startswith("socket:")}


async def test_a_node_that_never_started_leaves_nothing_open(cluster: MadeCluster) -> None:
    before = _sockets()

    await cluster.node("one").stop()

    assert _sockets() <= before
