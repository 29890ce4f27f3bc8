"""A cluster under load: processes over one PostgreSQL, clients that send to all of them, and what they were told."""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import itertools
import json
import os
import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from tests.faults.ledger import Ledger
from tests.faults.proxy import Proxy
from tests.log.clusters import MadeCluster
from transparency.statements.statement import Statement
from transparency.testing.postgres import PostgresServer

CLIENTS = 6


@dataclass(slots=True)
class Node:
    name: str
    candidate: bool
    proxy: Proxy
    url: str = ""
    process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid


@dataclass(slots=True)
class World:
    cluster: MadeCluster
    server: PostgresServer
    mark_url: str
    chance: random.Random
    nodes: list[Node] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    unknown: list[bytes] = field(default_factory=list)
    sent: int = 0
    answers: Counter[object] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    gaps: dict[str, list[float]] = field(default_factory=dict)

    # -- nodes ---------------------------------------------------------------------------------------------------

    async def add(self, name: str, *, candidate: bool) -> None:
        node = Node(name, candidate, Proxy(self.server.port))
        await node.proxy.start()
        self.nodes.append(node)
        await self.start(node)

    async def start(self, node: Node) -> None:
        database = self.cluster.url.partition("?")[0].rpartition("/")[2]
        url = self.server.tcp_url(database, port=node.proxy.port)
        node.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.cluster_server", str(self.cluster.folder(node.name)), node.name, url,
            self.mark_url, "candidate" if node.candidate else "front end", stdout=asyncio.subprocess.PIPE,
            stderr=None if os.environ.get("TRANSPARENCY_SHOW") else asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert node.process.stdout is not None
        async with asyncio.timeout(60):
            node.url = (await node.process.stdout.readline()).decode().strip()
        assert node.url, f"the node {node.name} does not start"

    async def stop(self) -> None:
        for node in self.nodes:
            if node.process is not None and node.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    node.process.send_signal(signal.SIGCONT)
                    node.process.kill()
                await node.process.wait()
            await node.proxy.stop()

    async def leader(self, session: aiohttp.ClientSession, *, but: Node | None = None) -> Node:
        """The node that says of itself that it leads."""
        async with asyncio.timeout(60):
            while True:
                for node in self.nodes:
                    if node is not but and node.url and await self._leads(session, node):
                        return node
                await asyncio.sleep(0.02)

    async def _leads(self, session: aiohttp.ClientSession, node: Node) -> bool:
        with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with session.get(f"{node.url}/readyz", timeout=aiohttp.ClientTimeout(1)) as response:
                if response.status == 200:
                    return bool(json.loads(await response.read())["role"] == "leader")
        return False

    # -- load ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def under_load(self) -> AsyncIterator[aiohttp.ClientSession]:
        timeout = aiohttp.ClientTimeout(40)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            sending = [asyncio.create_task(self._client(session, number)) for number in range(CLIENTS)]
            try:
                yield session
            finally:
                for task in sending:
                    task.cancel()
                done = await asyncio.gather(*sending, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in done), done

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        """Keeps to a node while that answers, then goes to another, as a load balancer has it."""
        at = number
        while True:
            data = self._next()
            url = self.nodes[at % len(self.nodes)].url
            headers = {"Content-Type": "application/cose"}
            if self.chance.random() < 0.2:
                headers["Prefer"] = "respond-async"
            try:
                limit = aiohttp.ClientTimeout(8)
                async with session.post(f"{url}/entries", data=data, headers=headers, timeout=limit) as response:
                    self._told(data, response.status, await response.read())
                    if response.status == 503:
                        at += 1
                        await asyncio.sleep(0.05)
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                self.answers[type(error).__name__] += 1
                self.unknown.append(data)
                at += 1
                await asyncio.sleep(0.05)

    def _next(self) -> bytes:
        if self.unknown and self.chance.random() < 0.3:
            return self.unknown.pop(self.chance.randrange(len(self.unknown)))
        self.sent += 1
        return self.cluster.made.issuer.sign(b"%d" % self.sent + b"." * self.chance.randrange(2000))

    def _told(self, data: bytes, status: int, body: bytes) -> None:
        self.answers[status] += 1
        assert status in (201, 202, 503), f"an unexpected answer: {status} {body!r}"
        if status == 201:
            self.times.append(time.monotonic())
            self.ledger.receipts.append((Statement.from_bytes(data), body))
        elif status == 202:
            self.ledger.accepted.append(Statement.from_bytes(data))
        else:
            self.unknown.append(data)

    async def some_receipts(self, count: int) -> None:
        until = len(self.times) + count
        async with asyncio.timeout(60):
            while len(self.times) < until:  # noqa: ASYNC110 - whoever sends counts
                await asyncio.sleep(0.01)

    async def recovered(self, what: str, struck: float) -> None:
        """Wait for receipts again; the longest time without any since it was *struck* is the gap in service."""
        await self.some_receipts(20)
        since = [struck, *self.times[bisect.bisect(self.times, struck) :]]
        self.gaps.setdefault(what, []).append(max(after - before for before, after in itertools.pairwise(since)))

    def figures(self) -> str:
        return "; ".join(
            f"{len(gaps)} x {what}: gap p50 {statistics.median(gaps):.2f} s, max {max(gaps):.2f} s"
            for what, gaps in self.gaps.items()
        )
