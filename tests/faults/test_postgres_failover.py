"""A standby takes the primary's place: with everything, the log goes on; with less, it is refused and never forked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.ledger import Ledger
from tests.log.clusters import MadeCluster, database, make_cluster
from transparency.errors import LogUnusableError, OverloadedError
from transparency.log.cluster import ClusterLog
from transparency.log.cluster_lead import Accepted
from transparency.log.lease_table import FailoverError
from transparency.log.postgres import PostgresStore
from transparency.testing.postgres import PostgresServer

BEFORE = 20


@pytest.fixture
def mark_url() -> Iterator[str]:
    """In another PostgreSQL than the log's."""
    with database() as url:
        yield url


class Pair:
    """A primary with one database and its standby; nodes connect to whichever of the two can be written."""

    def __init__(self) -> None:
        self.primary = PostgresServer.start()
        self.database = self.primary.new_database().partition("?")[0].rpartition("/")[2]
        self.standby = self.primary.standby()

    @property
    def url(self) -> str:
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://postgres@{hosts}/{self.database}?target_session_attrs=primary"

    def configure(self, server: PostgresServer, name: str, value: str) -> None:
        with server.connect() as session:
            session.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            session.execute("SELECT pg_reload_conf()")

    def make_synchronous(self) -> None:
        self.configure(self.primary, "synchronous_standby_names", f'ANY 1 ("{self.standby.name}")')

    def cut_standby_off(self) -> None:
        """It gets nothing more from the primary; what it has by now is all it will have."""
        self.configure(self.standby, "primary_conninfo", "")
        with self.standby.connect() as session:
            while session.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchone() != (0,):
                pass

    def caught_up(self) -> None:
        with self.primary.connect() as primary, self.standby.connect() as standby:
            row = primary.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            assert row is not None
            while standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", row).fetchone() != (True,):
                pass

    def fail_over(self) -> None:
        self.primary.kill()
        self.standby.promote()

    def remove(self) -> None:
        self.standby.remove()
        self.primary.remove()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.remove()


@asynccontextmanager
async def node(cluster: MadeCluster, name: str, accepted: Accepted | None = None) -> AsyncIterator[ClusterLog]:
    log = cluster.node(name, accepted=accepted)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(log.stop)
        await log.start()
        yield log


async def register(log: ClusterLog, data: bytes, ledger: Ledger) -> None:
    """As a client: told to come back, it does."""
    async with asyncio.timeout(30):
        while True:
            try:
                ledger.registered(data, await log.register(data))
            except OverloadedError:
                await asyncio.sleep(0.05)
            else:
                return


async def refusal(log: ClusterLog) -> BaseException:
    """Why a node cannot serve: it says so at its start, or when the lease of whoever led before is over."""
    failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    log.on_failure = lambda error: None if failed.done() else failed.set_result(error)
    try:
        await log.start()
        async with asyncio.timeout(30):
            return await failed
    except LogUnusableError as error:
        return error
    finally:
        await log.stop()


async def leads(log: ClusterLog) -> None:
    async with asyncio.timeout(30):
        while not log.leads:  # noqa: ASYNC110 - by the database's clock
            await asyncio.sleep(0.02)


async def test_a_synchronous_standby_is_promoted_and_nothing_acknowledged_is_lost(
    tmp_path: Path, pair: Pair, mark_url: str
) -> None:
    cluster = make_cluster(tmp_path, pair.url, mark_url=mark_url)
    pair.make_synchronous()
    issuer, ledger = cluster.made.issuer, Ledger()
    async with node(cluster, "one") as log:
        for number in range(BEFORE):
            await register(log, issuer.sign(b"%d" % number), ledger)

        under_way = [
            asyncio.ensure_future(register(log, issuer.sign(b"under way %d" % number), ledger)) for number in range(10)
        ]
        await asyncio.to_thread(pair.fail_over)
        for number in range(BEFORE):
            await register(log, issuer.sign(b"after %d" % number), ledger)
        await asyncio.gather(*under_way)

        await leads(log)
        await ledger.check(log)
        assert log.newest_head().size == 2 + 2 * BEFORE + 10


async def test_a_standby_that_lags_behind_the_mark_is_refused_by_all_and_nothing_is_forked(
    tmp_path: Path, pair: Pair, mark_url: str
) -> None:
    cluster = make_cluster(tmp_path, pair.url, mark_url=mark_url)
    issuer, ledger = cluster.made.issuer, Ledger()
    failed: list[BaseException] = []
    async with node(cluster, "one") as log:
        log.on_failure = failed.append
        await register(log, issuer.sign(b"both have it"), ledger)
        await asyncio.to_thread(pair.caught_up)
        await asyncio.to_thread(pair.cut_standby_off)
        await register(log, issuer.sign(b"only the primary has it"), ledger)

        await asyncio.to_thread(pair.fail_over)
        async with asyncio.timeout(30):
            while not failed:  # noqa: ASYNC110 - by the database's clock
                await asyncio.sleep(0.02)

        assert isinstance(failed[0], LogUnusableError)
        assert not log.leads
    assert "an older copy was put back" in str(await refusal(cluster.node("two")))
    # What the operator says does not help against what the mark knows.
    accepting = cluster.node("two", accepted=_tip(pair))
    assert "an older copy was put back" in str(await refusal(accepting))


async def test_without_a_mark_elsewhere_nobody_leads_after_a_failover_until_the_operator_says_so(
    tmp_path: Path, pair: Pair
) -> None:
    cluster = make_cluster(tmp_path, pair.url)
    issuer, ledger = cluster.made.issuer, Ledger()
    async with node(cluster, "one") as log:
        await register(log, issuer.sign(b"both have it"), ledger)
    await asyncio.to_thread(pair.caught_up)
    await asyncio.to_thread(pair.fail_over)

    for name in ("one", "two"):
        refused = await refusal(cluster.node(name))
        assert isinstance(refused, FailoverError)
        assert "--accept-failover 3:" in str(refused)
    tip = _tip(pair)
    assert isinstance(await refusal(cluster.node("two", accepted=replace(tip, size=2))), FailoverError)

    async with node(cluster, "two", tip) as log:
        await register(log, issuer.sign(b"after"), ledger)
        await ledger.check(log)
    async with node(cluster, "one") as log:
        assert log.leads, "once is enough: the lease knows where the log is now"


async def test_exports_are_read_from_a_standby_while_it_has_everything(tmp_path: Path, pair: Pair) -> None:
    cluster = make_cluster(tmp_path, pair.url)
    issuer, ledger = cluster.made.issuer, Ledger()
    log = cluster.node("one", read_url=pair.standby.tcp_url(pair.database))
    await log.start()
    try:
        await register(log, issuer.sign(b"both have it"), ledger)
        await asyncio.to_thread(pair.caught_up)
        before = await asyncio.to_thread(log.export_entries, 0)
        assert log._scans.store(3) is not log.opened.store, "the standby was asked"

        await asyncio.to_thread(pair.cut_standby_off)
        await register(log, issuer.sign(b"only the primary has it"), ledger)
        after = await asyncio.to_thread(log.export_entries, 0)
        assert after.startswith(before)
        assert log._scans.store(4) is log.opened.store
        assert len(after) > len(before), "what the standby lacks comes from the primary"

        await asyncio.to_thread(pair.standby.stop)
        assert await asyncio.to_thread(log.export_entries, 0) == after
    finally:
        await log.stop()


def _tip(pair: Pair) -> Accepted:
    store = PostgresStore.for_reading(pair.url)
    try:
        tip = store.tip()
        return Accepted(tip.size, tip.root)
    finally:
        store.close()
