"""Workers and the owner of a log killed at random under load: what was acknowledged is there, in one history.

A dead worker is replaced while the others go on; a dead owner ends the service, and its workers with it. Single
statements and batches. ``TRANSPARENCY_WORKER_KILLS`` and ``TRANSPARENCY_WORKER_KILL_SEED`` set how many and which.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.faults.ledger import Ledger
from tests.patience import PATIENCE
from transparency.cose.sequence import item_end
from transparency.errors import NotLeadingError
from transparency.log.log import system_clock
from transparency.statements.statement import Statement
from transparency.testing import MadeLog, make_log, running

KILLS = int(os.environ.get("TRANSPARENCY_WORKER_KILLS", "12"))
SEED = int(os.environ.get("TRANSPARENCY_WORKER_KILL_SEED", str(random.SystemRandom().randrange(2**32))))
CLIENTS = 6
WORKERS = 2
IN_A_BATCH = 20
TAG_18 = 0xD2


@dataclass(slots=True)
class Clients:
    made: MadeLog
    chance: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    unknown: list[bytes] = field(default_factory=list)
    sent: int = 0
    answers: Counter[object] = field(default_factory=Counter)
    told: asyncio.Condition = field(default_factory=asyncio.Condition)

    def next_statement(self) -> bytes:
        if self.unknown and self.chance.random() < 0.3:
            return self.unknown.pop(self.chance.randrange(len(self.unknown)))
        self.sent += 1
        return self.made.issuer.sign(b"%d" % self.sent + b"." * self.chance.randrange(2000))

    async def one_client(self, url: str) -> None:
        """A client that connects again when its connection ends, for as long as it is let."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as session:
            while True:
                sending = [self.next_statement() for _ in range(IN_A_BATCH if self.chance.random() < 0.2 else 1)]
                try:
                    await (
                        self._one(session, url, *sending) if len(sending) == 1 else self._batch(session, url, sending)
                    )
                except (TimeoutError, aiohttp.ClientError, ConnectionError):
                    self.unknown += sending
                    await asyncio.sleep(0.02)
                async with self.told:
                    self.told.notify_all()

    async def _one(self, session: aiohttp.ClientSession, url: str, data: bytes) -> None:
        headers = {"Content-Type": "application/cose"}
        async with session.post(f"{url}/entries", data=data, headers=headers) as response:
            body = await response.read()
        self.answers[response.status] += 1
        assert response.status in (201, 202, 503), f"an unexpected answer: {response.status} {body!r}"
        if response.status == 201:
            self._registered(data, body)
        elif response.status == 202:  # the machine is busy: as much of a promise
            self.ledger.taken_in(data)
        else:
            self.unknown.append(data)

    async def _batch(self, session: aiohttp.ClientSession, url: str, sending: list[bytes]) -> None:
        headers = {"Content-Type": "application/cbor-seq"}
        async with session.post(f"{url}/entries/batch", data=b"".join(sending), headers=headers) as response:
            assert response.status == 200
            body = await response.read()
        at = 0
        for data in sending:
            end = item_end(body, at, 1 << 20)
            assert end is not None, "fewer results than statements"
            self.answers["batched" if body[at] == TAG_18 else "problem"] += 1
            if body[at] == TAG_18:
                self._registered(data, body[at:end])
            else:
                self.unknown.append(data)
            at = end
        assert at == len(body)

    def _registered(self, data: bytes, receipt: bytes) -> None:
        self.ledger.receipts.append((Statement.from_bytes(data), receipt))


async def test_whatever_was_acknowledged_survives_the_death_of_any_process(tmp_path: Path) -> None:
    print(f"\nTRANSPARENCY_WORKER_KILL_SEED={SEED}")  # noqa: T201 - to repeat a failure
    chance = random.Random(SEED)
    began = time.monotonic()
    made = make_log(tmp_path / "log", clock=system_clock)
    clients = Clients(made, chance)
    killed: Counter[str] = Counter()
    while sum(killed.values()) < KILLS:
        await _one_service(made, clients, chance, killed)

    await _lease_ended(made)
    async with running(made) as log:
        await clients.ledger.check(log)
        size = log.newest_head().size
        entries = [row.entry for row in log._store.entries(0, size)]
        assert len(set(entries)) == size, "an entry stands in the tree twice"
    assert made.fsck().clean
    print(  # noqa: T201 - figures for the report
        f"{dict(killed)} killed, {len(clients.ledger.receipts)} receipts, {size} entries, answers "
        f"{dict(clients.answers)}, {time.monotonic() - began:.0f} s"
    )
    assert len(clients.ledger.receipts) > 5 * KILLS
    assert killed["worker"]
    assert killed["owner"]


async def _lease_ended(made: MadeLog) -> None:
    """In PostgreSQL that of the owner who was killed keeps others away for three seconds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                made.open().opened.close()
            except NotLeadingError:
                await asyncio.sleep(0.1)
            else:
                return


async def _one_service(made: MadeLog, clients: Clients, chance: random.Random, killed: Counter[str]) -> None:
    """A service from its start until its owner is killed; workers are killed before, and must be replaced."""
    words = ("serve", "--data", str(made.data), "--watermark", str(made.watermark), "--port", "0", "--open")
    flags = ("--workers", str(WORKERS), "--rate-limit", "0")
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "transparency", *words, *flags, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert owner.stdout is not None
    url = (await owner.stdout.readline()).decode().strip()
    assert url, "the service does not start"
    sending = [asyncio.create_task(clients.one_client(url)) for _ in range(CLIENTS)]
    gone: set[int] = set()
    try:
        for _ in range(chance.randrange(1, 6)):
            await _some_answers(clients, chance.randrange(1, 60))
            workers = await _workers(owner.pid, gone)
            gone.add(victim := chance.choice(workers))
            os.kill(victim, signal.SIGKILL)
            killed["worker"] += 1
        await _some_answers(clients, chance.randrange(1, 60))
        workers = await _workers(owner.pid, gone)
        owner.kill()
        killed["owner"] += 1
        await owner.wait()
        async with asyncio.timeout(PATIENCE):
            while any(_alive(pid) for pid in workers):  # noqa: ASYNC110 - a process that is nobody's child here
                await asyncio.sleep(0.02)
    finally:
        for task in sending:
            task.cancel()
        outcomes = await asyncio.gather(*sending, return_exceptions=True)
        if owner.returncode is None:
            owner.kill()
            await owner.wait()
    failures = [outcome for outcome in outcomes if not isinstance(outcome, asyncio.CancelledError)]
    assert not failures, failures


async def _some_answers(clients: Clients, count: int) -> None:
    wanted = len(clients.ledger.receipts) + count
    async with asyncio.timeout(PATIENCE), clients.told:
        await clients.told.wait_for(lambda: len(clients.ledger.receipts) >= wanted)


async def _workers(owner: int, gone: set[int]) -> list[int]:
    """All that there should be: who was killed is replaced, and may take a moment to be gone."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = [pid for pid in _children(owner) if pid not in gone]
            if len(found) == WORKERS:
                return found
            await asyncio.sleep(0.02)


def _children(owner: int) -> list[int]:
    children = Path(f"/proc/{owner}/task/{owner}/children").read_text().split()
    return [int(pid) for pid in children if b"server.worker" in _command(pid) and _alive(int(pid))]


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
