"""Two front ends and two candidates over PostgreSQL under load: leaders and the database fail, and nothing is lost.

``TRANSPARENCY_LEADER_FAULTS`` sets how many of each kind (100 for a release), ``TRANSPARENCY_LEADER_SEED`` which.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.faults.cluster_world import Node, World
from tests.log.clusters import make_cluster
from transparency.testing.postgres import PostgresServer, shared_server

ROUNDS = int(os.environ.get("TRANSPARENCY_LEADER_FAULTS", "1"))
SEED = int(os.environ.get("TRANSPARENCY_LEADER_SEED", str(random.SystemRandom().randrange(2**32))))


@asynccontextmanager
async def world(path: Path) -> AsyncIterator[World]:
    print(f"\nTRANSPARENCY_LEADER_SEED={SEED}")  # noqa: T201 - to repeat a failure
    server = PostgresServer.start()
    mark = shared_server().new_database()
    cluster = make_cluster(path, server.new_database(), mark_url=mark)
    made = World(cluster, server, mark, random.Random(SEED))
    try:
        for name, candidate in (("a", True), ("b", True), ("c", False), ("d", False)):
            await made.add(name, candidate=candidate)
        yield made
    finally:
        await made.stop()
        server.remove()
        shared_server().drop_database(mark)


async def killed(made: World, session: aiohttp.ClientSession, leader: Node) -> None:
    leader.url, gone = "", leader.process
    assert gone is not None
    gone.kill()
    await gone.wait()
    await made.leader(session, but=leader)
    await made.start(leader)


async def stopped(made: World, session: aiohttp.ClientSession, leader: Node) -> None:
    os.kill(leader.pid, signal.SIGSTOP)
    await made.leader(session, but=leader)
    os.kill(leader.pid, signal.SIGCONT)


async def stopped_in_a_transaction(made: World, session: aiohttp.ClientSession, leader: Node) -> None:
    os.kill(leader.pid, signal.SIGUSR1)
    await made.leader(session, but=leader)
    os.kill(leader.pid, signal.SIGCONT)


async def cut_off(made: World, session: aiohttp.ClientSession, leader: Node) -> None:
    leader.proxy.cut()
    await made.leader(session, but=leader)
    leader.proxy.mend()


async def database_restarted(made: World, session: aiohttp.ClientSession, leader: Node) -> None:
    del session, leader
    await asyncio.to_thread(made.server.stop)
    await asyncio.to_thread(made.server.resume)


async def database_killed(made: World, session: aiohttp.ClientSession, leader: Node) -> None:
    del session, leader
    await asyncio.to_thread(made.server.kill)
    await asyncio.to_thread(made.server.resume)


FAULTS = (killed, stopped, stopped_in_a_transaction, cut_off, database_restarted, database_killed)


async def test_whatever_becomes_of_leaders_and_their_database_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    began = time.monotonic()
    async with world(tmp_path) as made:
        async with made.under_load() as session:
            faults = [fault for fault in FAULTS for _ in range(ROUNDS)]
            made.chance.shuffle(faults)
            for fault in faults:
                leader = await made.leader(session)
                await made.some_receipts(made.chance.randrange(5, 40))
                struck = time.monotonic()
                await fault(made, session, leader)
                await made.recovered(fault.__name__, struck)
        await made.stop()

        node = made.cluster.node("auditor")
        await node.start()
        try:
            async with asyncio.timeout(30):
                # The last leader's lease has to end first: until then nobody says how far it had released.
                while not node.leads:  # noqa: ASYNC110 - by another's clock
                    await asyncio.sleep(0.02)
            await made.ledger.check(node)
            size = node.newest_head().size
            entries = [row.entry for row in node.opened.store.entries(0, size)]
            assert len(set(entries)) == size, "an entry stands in the tree twice"
        finally:
            await node.stop()
    receipts = made.ledger.receipts
    print(  # noqa: T201 - figures for the report
        f"{made.figures()}; {len(receipts)} receipts, {len(made.ledger.accepted)} x 202, {size} entries, answers "
        f"{dict(made.answers)}, {time.monotonic() - began:.0f} s"
    )
    assert len(receipts) > 20 * len(FAULTS) * ROUNDS
