"""kill -9 of a witness under load, both branches of a fork offered after every kill (W-3).

Of all cosignatures ever returned no two are inconsistent. ``TRANSPARENCY_WITNESS_KILLS`` (500 and more in a release
check) and ``TRANSPARENCY_KILL_SEED`` set how many and which; the seed is printed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from tests.faults.forks import Forks, forking
from tests.patience import PATIENCE
from tests.witness.served import cosignatures, make_witness
from tests.witness.trees import Tree, request
from transparency.notes.checkpoint import SignedCheckpoint, origin_hash
from transparency.notes.note import write_signatures
from transparency.notes.vkey import VerifierKey

KILLS = int(os.environ.get("TRANSPARENCY_WITNESS_KILLS", "50"))
SEED = int(os.environ.get("TRANSPARENCY_KILL_SEED", str(random.SystemRandom().randrange(2**32))))
ORIGINS = ("one.example/log", "two.example/log")
CLIENTS = 3
# How far a branch goes beyond the point where it leaves the other.
REACH = 5


@dataclass(frozen=True, slots=True)
class _Got:
    """A 200: which tree the log meant, and the lines."""

    tree: Tree
    size: int
    body: bytes


@dataclass(slots=True)
class _ForkedLog:
    """A log whose operator shows two histories wherever the witness has not yet made up its mind."""

    origin: str
    chance: random.Random
    base: Tree = field(default_factory=Tree)
    branches: list[Tree] = field(default_factory=list)
    got: list[_Got] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    # What the witness said last, by whatever answer.
    told: int = 0
    # Rounds in which both branches were offered and answered.
    offered: int = 0
    # Called with every answer to the load.
    heard: Callable[[], None] = lambda: None

    def fork_at(self, size: int, root: bytes | None) -> None:
        """Two new branches from what is recorded. Older ones, most of them lost by now, are offered on as well."""
        if root is not None:
            found = next((tree for tree in self.branches if tree.size >= size and tree.root(size) == root), None)
            assert found is not None, "the witness has recorded a tree that it was not shown lately"
            self.base = found.cut(size)
        self.told = size
        fresh = [self.base.fork().grow(*self._leaves()) for _ in range(2)]
        self.branches = [*fresh, *self.branches[:4]]

    def _leaves(self) -> list[bytes]:
        return [self.chance.randbytes(16) for _ in range(REACH)]

    async def offer_both(self, session: aiohttp.ClientSession, url: str) -> None:
        """Both new branches and both that were offered before the kill, at once; every one of them is answered."""
        answers = await asyncio.gather(*(self.offer(session, url, tree) for tree in self.branches[:4]))
        assert all(answers), "the witness did not answer"
        self.offered += 1

    async def one_client(self, session: aiohttp.ClientSession, url: str) -> None:
        """Offer one branch after the other, until the witness is gone."""
        while await self.offer(session, url, self.branches[self.chance.choice((0, 0, 1, 1, -1))]):
            self.heard()

    async def offer(self, session: aiohttp.ClientSession, url: str, tree: Tree) -> bool:
        """Send one checkpoint of a branch; whether there was an answer."""
        old = min(self.told, tree.size)
        size = self.chance.randint(max(old, 1), min(tree.size, max(old, 1) + 1))
        body = request(tree, old, size, origin=self.origin)
        try:
            async with session.post(f"{url}/add-checkpoint", data=body) as response:
                answer = await response.read()
        except (TimeoutError, aiohttp.ClientError, ConnectionError):
            return False
        self.answers[response.status] += 1
        if response.status == 200:
            self.got.append(_Got(tree, size, answer))
            self.told = max(self.told, size)
        elif response.status == 409:
            self.told = int(answer)
        else:
            assert response.status == 422, (response.status, answer)
        return True

    def check(self, keys: tuple[VerifierKey, ...]) -> None:
        """All cosignatures are of one history, and their times do not go back as it grows."""
        times = 0
        self.got.sort(key=lambda got: (got.size, int.from_bytes(_time_of(got, self.origin, keys))))
        for smaller, larger in zip(self.got, self.got[1:], strict=False):
            assert larger.tree.root(smaller.size) == smaller.tree.root(smaller.size), "two histories were cosigned"
        for got in self.got:
            now = int.from_bytes(_time_of(got, self.origin, keys))
            assert now >= times, "the time of a larger tree is earlier"
            times = now


def _time_of(got: _Got, origin: str, keys: tuple[VerifierKey, ...]) -> bytes:
    found = cosignatures(got.body, got.tree.checkpoint(got.size, origin).text, keys)
    (time,) = {one.time for one in found}
    assert time > 0
    return time.to_bytes(8, "big")


async def test_no_two_cosignatures_ever_returned_are_inconsistent(tmp_path: Path) -> None:
    print(f"\nTRANSPARENCY_KILL_SEED={SEED}")  # noqa: T201 - to repeat a failure
    chance = random.Random(SEED)
    began = time.monotonic()
    folder = make_witness(tmp_path / "witness", *ORIGINS)
    logs = [_ForkedLog(origin, chance) for origin in ORIGINS]
    phases: Counter[str] = Counter()
    async with forking("tests.faults.witness_server", str(folder.path)) as forks:
        # A witness killed while it starts is offered nothing, and the first one follows no kill: those come on top.
        while logs[0].offered <= KILLS:
            phases[await _round(forks, logs, chance)] += 1

    for log in logs:
        log.check(folder.load_keys().vkeys)
    got = sum(len(log.got) for log in logs)
    answers = sum((log.answers for log in logs), Counter[int]())
    sizes = [log.told for log in logs]
    print(  # noqa: T201 - figures for the report
        f"{phases.total()} kills, both branches of two forks offered after {logs[0].offered - 1} of them; "
        f"{got} x 200 in one history each, answers {dict(answers)}, sizes {sizes}, "
        f"{time.monotonic() - began:.0f} s; killed while: {dict(phases)}"
    )
    assert [log.offered for log in logs] == [KILLS + 1] * len(logs)
    assert got > KILLS
    assert answers[409] + answers[422] > KILLS, "the fork was not offered"
    assert len(phases) >= min(4, KILLS // 20), "the kills did not hit varied phases"


async def _round(forks: Forks, logs: list[_ForkedLog], chance: random.Random) -> str:
    """One witness from its fork to its death under load. Returns what it was doing when it died."""
    pid = await forks.start()
    try:
        if chance.random() < 0.05:
            # Killed while it opens: recovery itself must be safe to interrupt.
            await asyncio.sleep(chance.uniform(0, 0.03))
        else:
            await _under_load(await forks.ready(), logs, pid, chance)
    finally:
        # Not reaped yet, so this is still our child, dead or alive.
        os.kill(pid, signal.SIGKILL)
    status, phase = await forks.reap()
    assert os.WIFSIGNALED(status), "the witness ended by itself"
    assert os.WTERMSIG(status) == signal.SIGKILL
    return phase


async def _under_load(url: str, logs: list[_ForkedLog], pid: int, chance: random.Random) -> None:
    """Killed after a number of answers and a moment, not after a time: that would be nothing on a busy machine."""
    enough = asyncio.Event()
    left = chance.randrange(1, 12)

    def heard() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            enough.set()

    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
        for log in logs:
            log.heard = heard
            log.fork_at(*await _recorded(session, url, log))
        await asyncio.gather(*(log.offer_both(session, url) for log in logs))
        for log in logs:
            for _ in range(CLIENTS):
                group.create_task(log.one_client(session, url))
        await asyncio.wait_for(enough.wait(), PATIENCE)
        await asyncio.sleep(chance.uniform(0, 0.01))
        os.kill(pid, signal.SIGKILL)


async def _recorded(session: aiohttp.ClientSession, url: str, log: _ForkedLog) -> tuple[int, bytes | None]:
    async with session.get(f"{url}/{origin_hash(log.origin)}/checkpoint") as response:
        if response.status == 404:
            assert not log.got, "what was cosigned is gone"
            return 0, None
        checkpoint = SignedCheckpoint.from_bytes(await response.read()).checkpoint
    largest = max((got.size for got in log.got), default=0)
    assert checkpoint.size >= largest, "the witness has gone back behind what it cosigned"
    return checkpoint.size, checkpoint.root


def test_the_check_sees_two_histories_and_a_time_that_goes_back(tmp_path: Path) -> None:
    keys = make_witness(tmp_path / "witness").load_keys()
    base = Tree().grow(b"a", b"b")
    branches = [base.fork().grow(word, word) for word in (b"c", b"d")]

    def got(tree: Tree, size: int, when: int) -> _Got:
        return _Got(tree, size, write_signatures(keys.cosign(tree.checkpoint(size, ORIGINS[0]), when)))

    def check(*cosigned: _Got) -> None:
        _ForkedLog(ORIGINS[0], random.Random(0), got=list(cosigned)).check(keys.vkeys)

    check(got(branches[0], 2, 5), got(branches[1], 2, 5), got(branches[1], 3, 6))
    with pytest.raises(AssertionError, match="two histories"):
        check(got(branches[0], 3, 5), got(branches[1], 4, 5))
    with pytest.raises(AssertionError, match="two histories"):
        check(got(branches[0], 3, 5), got(branches[1], 3, 5))
    with pytest.raises(AssertionError, match="earlier"):
        check(got(branches[0], 2, 5), got(branches[0], 3, 4))
