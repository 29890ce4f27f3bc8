"""kill -9 of a mirror under load, two branches of a fork pushed after every kill (M-1, M-2).

Whatever it cosigned, it has: after each kill every entry under every cosignature ever returned is served, by the eyes
of the independent client; and no two of them contradict each other. ``TRANSPARENCY_MIRROR_KILLS`` (200 and more in a
release check) and ``TRANSPARENCY_KILL_SEED`` set how many and which; the seed is printed.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.faults.forks import Forks, forking
from tests.interop import tlog_client
from tests.interop.tlog_client import Key
from tests.mirror.mirrored import OCTETS, Uploading, make_mirror
from tests.notes.world import ORIGIN, log_signer
from transparency.errors import NoteError
from transparency.mirror.folder import MirrorFolder
from transparency.notes.checkpoint import origin_hash
from transparency.notes.upload import MirrorInfo

KILLS = int(os.environ.get("TRANSPARENCY_MIRROR_KILLS", "8"))
SEED = int(os.environ.get("TRANSPARENCY_KILL_SEED", str(random.SystemRandom().randrange(2**32))))
CLIENTS = 3
MANY = 2_000
GONE = (TimeoutError, aiohttp.ClientError, ConnectionError)


@dataclass(slots=True)
class _Log:
    """A log whose operator shows two histories from wherever the mirror stands."""

    chance: random.Random
    branches: list[Uploading] = field(default_factory=list)
    # Size and root of every checkpoint that was cosigned.
    cosigned: set[tuple[int, bytes]] = field(default_factory=set)
    answers: Counter[int] = field(default_factory=Counter)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    left: int = 0

    async def settle(self, session: aiohttp.ClientSession, url: str) -> None:
        """Whichever branch the mirror was on when it died, it goes on with: that one is finished first."""
        for branch in self.branches:
            _, answer = await self._post(session, f"{url}/add-checkpoint", branch.checkpoint(branch.size))
            pending = int(answer) if answer else branch.size
            if pending > branch.size:
                continue
            status, _ = await self._post(session, f"{url}/add-checkpoint", branch.checkpoint(pending))
            if status == 200:
                self.branches = [branch]
                while (branch.size, branch.tree.root()) not in self.cosigned:
                    await self._once(session, url, branch, branch.size)
                return
        assert not self.branches, "the mirror is on a tree that it was never shown"

    def fork(self, entries: list[bytes], round_: int) -> None:
        """Two new branches from what is served, and the one before with them."""
        fresh = []
        for number in range(2):
            branch = Uploading(0, word=b"round %d branch %d" % (round_, number))
            branch.entries = list(entries)
            branch.tree.grow(*entries)
            branch.grow(self.chance.randrange(50, 400))
            fresh.append(branch)
        self.branches = [*fresh, *self.branches]

    async def push(self, session: aiohttp.ClientSession, url: str) -> None:
        """One branch or the other, again and again, until the mirror is gone."""
        while True:
            branch = self.chance.choice(self.branches[:2])
            try:
                await self._once(session, url, branch, self.chance.randint(branch.size - 50, branch.size))
            except GONE:
                return
            self.left -= 1
            if self.left <= 0:
                self.heard.set()

    async def _once(self, session: aiohttp.ClientSession, url: str, branch: Uploading, size: int) -> None:
        old, answer = 0, b""
        for _ in range(2):
            status, answer = await self._post(session, f"{url}/add-checkpoint", branch.checkpoint(old, size))
            if status != 409:
                break
            old = int(answer)
            if old > size:
                return
        if status != 200:
            assert status in (409, 422), (status, answer)
            return
        # From the beginning only while that is little: who is answered before all was sent may find the line cut.
        start, ticket = self.chance.choice((0 if size < MANY else old, old)), b""
        for _ in range(6):
            most = self.chance.choice((None, 1, 2))
            body = branch.upload(min(start, size), size, ticket=ticket, most=most)
            status, answer = await self._post(session, f"{url}/add-entries", body)
            if status == 200:
                self.cosigned.add((size, branch.tree.root(size)))
                return
            assert status in (202, 409), (status, answer)
            try:
                info = MirrorInfo.from_bytes(answer)
            except NoteError as error:
                raise AssertionError(answer) from error
            if info.size > size:
                return
            start, ticket = info.next_entry, info.ticket

    async def _post(self, session: aiohttp.ClientSession, url: str, body: bytes) -> tuple[int, bytes]:
        async with session.post(url, data=io.BytesIO(body), headers=OCTETS) as response:
            answer = await response.read()
        self.answers[response.status] += 1
        return response.status, answer


async def test_whatever_a_mirror_cosigned_it_has_also_after_it_was_killed(tmp_path: Path) -> None:
    """M-2: "the mirror MUST NOT sign or update its mirror checkpoint until all entries are durably committed"."""
    print(f"\nTRANSPARENCY_KILL_SEED={SEED}")  # noqa: T201 - to repeat a failure
    log, phases = _Log(random.Random(SEED)), Counter[str]()
    folder = make_mirror(tmp_path / "mirror")
    async with forking("tests.faults.mirror_server", str(folder.path)) as forks:
        for number in range(KILLS):
            phases[await _round(forks, folder, log, number)] += 1
        pid = await forks.start()
        try:
            entries = await _served(await forks.ready(), folder, log)
        finally:
            os.kill(pid, signal.SIGKILL)
            await forks.reap()

    print(  # noqa: T201 - figures for the report
        f"{KILLS} kills; {len(log.cosigned)} checkpoints cosigned, all of one tree of {len(entries)} entries, which is "
        f"served whole; answers {dict(log.answers)}; killed while: {dict(phases)}"
    )
    assert len(log.cosigned) >= KILLS // 2
    assert log.answers[422] + log.answers[409] >= KILLS // 2, "the fork was not offered"


async def _round(forks: Forks, folder: MirrorFolder, log: _Log, number: int) -> str:
    """One mirror from its start to its death under load. Returns what it was doing when it died."""
    pid = await forks.start()
    try:
        url = await forks.ready()
        timeout = aiohttp.ClientTimeout(total=20)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
            await _served(url, folder, log)
            await log.settle(session, url)
            log.fork(await _served(url, folder, log), number)
            log.left, log.heard = log.chance.randrange(2, 12), asyncio.Event()
            for _ in range(CLIENTS):
                group.create_task(log.push(session, url))
            await asyncio.wait_for(log.heard.wait(), 30)
            await asyncio.sleep(log.chance.uniform(0, 0.02))
            os.kill(pid, signal.SIGKILL)
    finally:
        # Not reaped yet, so this is still our child, dead or alive.
        os.kill(pid, signal.SIGKILL)
    status, phase = await forks.reap()
    assert os.WIFSIGNALED(status), "the mirror ended by itself"
    return phase


async def _served(url: str, folder: MirrorFolder, log: _Log) -> list[bytes]:
    """Every entry, by the independent client; and every checkpoint that was ever cosigned is of this tree."""
    keys = [Key.from_vkey(key.text) for key in (log_signer().vkey, *folder.load_keys().vkeys)]
    get = tlog_client.over_http(f"{url}/{origin_hash(ORIGIN)}")
    try:
        audited = await asyncio.to_thread(tlog_client.audit, get, keys)
    except tlog_client.TlogError:
        if log.cosigned:
            raise
        return []
    for size, root in log.cosigned:
        assert size <= audited.checkpoint.size, "the mirror has gone back behind what it cosigned"
        assert audited.tree.mth(0, size) == root, "two histories were cosigned"
    return audited.entries
