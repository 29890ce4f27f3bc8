"""kill -9 at random moments under load: whatever was answered 201 or 202 is there afterwards, in one history.

``TRANSPARENCY_KILLS`` and ``TRANSPARENCY_KILL_SEED`` set how many and which; the seed is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.faults.forks import Forks, forking
from tests.faults.ledger import Ledger
from tests.patience import PATIENCE
from transparency.log.log import system_clock
from transparency.statements.statement import Statement, entry_id
from transparency.testing import MadeLog, make_log, running

KILLS = int(os.environ.get("TRANSPARENCY_KILLS", "200"))
SEED = int(os.environ.get("TRANSPARENCY_KILL_SEED", str(random.SystemRandom().randrange(2**32))))
CLIENTS = 10


@dataclass(slots=True)
class _Clients:
    """What the clients of all rounds send and were told."""

    made: MadeLog
    chance: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    # Sent, and not known what became of them: sent again later, as a client would.
    unknown: list[bytes] = field(default_factory=list)
    sent: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    answered: asyncio.Condition = field(default_factory=asyncio.Condition)

    def next_statement(self) -> bytes:
        if self.unknown and self.chance.random() < 0.3:
            return self.unknown.pop(self.chance.randrange(len(self.unknown)))
        self.sent += 1
        return self.made.issuer.sign(b"%d" % self.sent + b"." * self.chance.randrange(3000))

    async def one_client(self, session: aiohttp.ClientSession, url: str) -> None:
        """Send one statement after another until the server is gone."""
        while True:
            data = self.next_statement()
            headers = {"Content-Type": "application/cose"}
            if self.chance.random() < 0.5:
                headers["Prefer"] = "respond-async"
            try:
                async with session.post(f"{url}/entries", data=data, headers=headers) as response:
                    body = await response.read()
                    self._told(data, response.status, response.headers.get("Location", ""), body)
                    async with self.answered:
                        self.answered.notify_all()
            except (TimeoutError, aiohttp.ClientError, ConnectionError):
                self.unknown.append(data)
                return

    def _told(self, data: bytes, status: int, location: str, body: bytes) -> None:
        self.answers[status] += 1
        statement = Statement.from_bytes(data)
        if status in (201, 202):
            assert location.endswith(f"/entries/{entry_id(statement.entry)}")
        if status == 201:
            self.ledger.receipts.append((statement, body))
        elif status == 202:
            self.ledger.accepted.append(statement)
        else:
            raise AssertionError(f"an unexpected answer: {status} {body!r}")


async def test_whatever_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    print(f"\nTRANSPARENCY_KILL_SEED={SEED}")  # noqa: T201 - to repeat a failure
    chance = random.Random(SEED)
    began = time.monotonic()
    made = make_log(tmp_path / "log", clock=system_clock)
    clients = _Clients(made, chance)
    phases: Counter[str] = Counter()
    async with forking("tests.faults.kill_server", str(made.data), str(made.watermark)) as forks:
        for _ in range(KILLS):
            phases[await _round(forks, clients, chance)] += 1

    ledger = clients.ledger
    async with running(made) as log:
        await ledger.check(log)
        async with asyncio.timeout(PATIENCE):
            # What nobody was told of is brought in as well.
            while log._store.intake_pending(1):  # noqa: ASYNC110 - a store tells nobody
                await asyncio.sleep(0.01)
        size = log.newest_head().size
        entries = [row.entry for row in log._store.entries(0, size)]
        assert len(set(entries)) == size, "an entry stands in the tree twice"
    report = made.fsck()
    assert report.clean, report.findings
    print(  # noqa: T201 - figures for the report
        f"{KILLS} kills, {len(ledger.receipts)} x 201, {len(ledger.accepted)} x 202, {size} entries, "
        f"{report.heads} heads, {time.monotonic() - began:.0f} s; killed while: {dict(phases)}"
    )
    assert len(ledger.receipts) > KILLS
    assert len(ledger.accepted) > KILLS
    assert len(phases) >= min(5, KILLS // 20), "the kills did not hit varied phases"


async def _round(forks: Forks, clients: _Clients, chance: random.Random) -> str:
    """One server from its fork to its death under load. Returns what it was doing when it died."""
    pid = await forks.start()
    try:
        if chance.random() < 0.1:
            # Killed while it opens: recovery itself must be safe to interrupt.
            await asyncio.sleep(chance.uniform(0, 0.04))
        else:
            await _under_load(await forks.ready(), clients, pid, chance)
    finally:
        # Not reaped yet, so this is still our child, dead or alive.
        os.kill(pid, signal.SIGKILL)
    status, phase = await forks.reap()
    assert os.WIFSIGNALED(status), "the server ended by itself"
    assert os.WTERMSIG(status) == signal.SIGKILL
    return phase


async def _under_load(url: str, clients: _Clients, pid: int, chance: random.Random) -> None:
    """Let clients send until the server has answered some of them, however slow the machine is; then kill it."""
    timeout = aiohttp.ClientTimeout(total=10)
    until = clients.answers.total() + chance.randrange(60)
    async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(clients.one_client(session, url))
        with contextlib.suppress(TimeoutError):  # every client may have given up; then there is nothing to wait for
            async with asyncio.timeout(20), clients.answered:
                await clients.answered.wait_for(lambda: clients.answers.total() >= until)
        # Answers end in the same phase each; a few milliseconds more, and it may be in any.
        await asyncio.sleep(chance.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
