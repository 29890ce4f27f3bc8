"""kill -9 while statements are read: every read that was answered is in the access log, and no digest is belied.

``TRANSPARENCY_ACCESS_KILLS`` and ``TRANSPARENCY_KILL_SEED`` set how many and which; the seed is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.faults.forks import Forks, forking
from transparency.log.access_check import AccessReport, check_access
from transparency.log.access_digests import digests_in
from transparency.log.access_lines import Use, read_line
from transparency.log.access_log import LOCAL, lines_of, record_local, segments
from transparency.log.folder import Folder
from transparency.log.log import system_clock
from transparency.server.tokens import Scope, TokenStore
from transparency.statements.statement import Statement, entry_id
from transparency.testing import MadeLog, make_log, running

KILLS = int(os.environ.get("TRANSPARENCY_ACCESS_KILLS", "25"))
SEED = int(os.environ.get("TRANSPARENCY_KILL_SEED", str(random.SystemRandom().randrange(2**32))))
READERS = 6
_ACTIONS = {"statement": "read-statement", "siblings": "read-siblings"}

Line = tuple[str, str, str, int]
"""Who, action, what, status."""


@dataclass(slots=True)
class _Readers:
    """What token holders asked, and what they were answered."""

    entries: list[str]
    secrets: dict[str, str]
    chance: random.Random
    asked: Counter[Line] = field(default_factory=Counter)
    answered: Counter[Line] = field(default_factory=Counter)
    woken: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def one(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        """Read one thing after another until the server is gone."""
        headers = {"Authorization": f"Bearer {self.secrets[token]}"}
        while True:
            entry, what = self.chance.choice(self.entries), self.chance.choice(tuple(_ACTIONS))
            line = (f"token:{token}", _ACTIONS[what], entry)
            self.asked[*line, 0] += 1
            try:
                async with session.get(f"{url}/entries/{entry}/{what}", headers=headers) as response:
                    # The first byte of an answer is enough: its line was there before it.
                    self.answered[*line, response.status] += 1
                    async with self.woken:
                        self.woken.notify_all()
                    await response.read()
            except (TimeoutError, aiohttp.ClientError, ConnectionError):
                return


async def test_every_read_that_was_answered_is_in_the_access_log_after_kill_9(tmp_path: Path) -> None:
    """docs/access.md: "what survives: the end of the process, however it ends: every line"."""
    print(f"\nTRANSPARENCY_KILL_SEED={SEED}")  # noqa: T201 - to repeat a failure
    chance = random.Random(SEED)
    made = make_log(tmp_path / "log", clock=system_clock)
    readers = await _prepare(made, chance)
    phases: Counter[str] = Counter()
    local = 0
    async with forking("tests.faults.access_server", str(made.data), str(made.watermark)) as forks:
        for number in range(KILLS):
            phases[await _round(forks, readers, made, chance)] += 1
            local += 1
            _holds(made, readers, local, f"after kill {number + 1}")

    # A log that is opened again after all of it adds to the same chain.
    await asyncio.to_thread(record_local, made.data, made.origin, "look")
    report = _holds(made, readers, local + 1, "at the end")
    assert made.fsck().clean
    print(  # noqa: T201 - figures for the report
        f"{KILLS} kills, {readers.answered.total()} reads answered of {readers.asked.total()} asked, {report.lines} "
        f"lines in {report.segments} segments, {report.covered} covered by {report.digests} digests; "
        f"killed while: {dict(phases)}"
    )
    assert readers.answered.total() > KILLS
    assert report.segments > 2
    assert report.digests > 0
    assert {line[3] for line in readers.answered} == {200, 404}


async def _prepare(made: MadeLog, chance: random.Random) -> _Readers:
    """Some statements on the log, one entry that is not there, and a token for each reader."""
    statements = [made.issuer.sign(b"%d" % number) for number in range(5)]
    async with running(made) as log:
        for statement in statements:
            await log.register(statement)
    unknown = made.issuer.sign(b"never registered")
    entries = [entry_id(Statement.from_bytes(data).entry) for data in (*statements, unknown)]
    tokens = TokenStore(made.data / "access.sqlite")
    secrets = dict(tokens.create([Scope.READ]) for _ in range(READERS))
    tokens.close()
    return _Readers(entries, secrets, chance)


async def _round(forks: Forks, readers: _Readers, made: MadeLog, chance: random.Random) -> str:
    """One server from its fork to its death while it is read from. Returns what it was doing when it died."""
    pid = await forks.start()
    try:
        await _read_and_kill(await forks.ready(), readers, made, pid, chance)
    finally:
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so this is still our child, dead or alive
    status, phase = await forks.reap()
    assert os.WIFSIGNALED(status), "the server ended by itself"
    return phase


async def _read_and_kill(url: str, readers: _Readers, made: MadeLog, pid: int, chance: random.Random) -> None:
    until = readers.answered.total() + chance.randrange(1, 80)
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
        for token in readers.secrets:
            group.create_task(readers.one(session, url, token))
        # A command on the folder appends to the same file, and is not killed.
        group.create_task(asyncio.to_thread(record_local, made.data, made.origin, "look"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20), readers.woken:
                await readers.woken.wait_for(lambda: readers.answered.total() >= until)
        await asyncio.sleep(chance.uniform(0, 0.01))
        os.kill(pid, signal.SIGKILL)


def _holds(made: MadeLog, readers: _Readers, local: int, when: str) -> AccessReport:
    folder = Folder(made.data)
    report = check_access(folder.access_log, made.origin, digests_in(folder))
    assert report.findings == [], when
    assert not report.unfinished, "a line of some hundred bytes is written whole or not at all"
    lines = Counter(_lines(folder.access_log))
    lost = readers.answered - lines
    assert not lost, f"{when}: answered and not recorded: {lost}"
    assert lines[LOCAL, "look", "", 200] == local, when
    # What was recorded was asked for: nobody is said to have read what they did not.
    seen = Counter[Line]()
    for (who, action, what, _), count in lines.items():
        if who != LOCAL:
            seen[who, action, what, 0] += count
    assert seen <= readers.asked, when
    return report


def _lines(folder: Path) -> list[Line]:
    read = (read_line(data.removesuffix(b"\n"))[0] for number in segments(folder) for data in lines_of(folder, number))
    return [(line.who, line.action, line.what, line.status) for line in read if isinstance(line, Use)]
