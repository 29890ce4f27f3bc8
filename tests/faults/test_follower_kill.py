"""kill -9 of a compliance witness in the middle of a backlog: every entry is in its findings exactly once.

``TRANSPARENCY_FOLLOWER_KILLS`` and ``TRANSPARENCY_KILL_SEED`` set how many and which; the seed is printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from tests.compliance.records_under_check import good
from tests.faults.bad_record import bad
from tests.faults.follow_server import replayed
from tests.faults.following import ISS, Followed, followed
from tests.faults.forks import Forks, forking
from tests.faults.test_follower import size_of
from tests.log.audited import pinned
from tests.log.erasing import envelope
from tests.patience import PATIENCE
from transparency.compliance.period import Period
from transparency.statements.statement import Statement
from transparency.testing import MadeLog, running

KILLS = int(os.environ.get("TRANSPARENCY_FOLLOWER_KILLS", "30"))
SEED = int(os.environ.get("TRANSPARENCY_KILL_SEED", str(random.SystemRandom().randrange(2**32))))
ENTRIES = 3_000
# Kills that fall on cosigning and attesting, after the backlog; and more, on a machine so busy that they all hit one.
MORE = 10
MOST_MORE = 60
VARIED = 3


async def test_every_entry_is_found_once_however_often_the_witness_is_killed(tmp_path: Path) -> None:
    print(f"\nTRANSPARENCY_KILL_SEED={SEED}")  # noqa: T201 - to repeat a failure
    chance = random.Random(SEED)
    phases: Counter[str] = Counter()
    async with followed(tmp_path) as found:
        await found.log.end()
        await fill(found.group.made)
        found.log = await found.group.start_log()
        size = await size_of(found)
        async with forking("tests.faults.follow_server", str(found.folder), found.log.url) as forks:
            await through_the_backlog(forks, found, size, chance, phases)
            while phases.total() < KILLS + (MORE if len(phases) >= VARIED else MOST_MORE):
                await found.group.register(found.log)
                target = await size_of(found)
                phases[await killed_after(forks, found.folder, target, chance.uniform(0, 1))] += 1
        # Undisturbed to its end; and another witness, which nobody disturbs at all, beside it.
        await asyncio.to_thread(
            found.group.command,
            "witness",
            "follow",
            found.log.url,
            "--dir",
            found.folder,
            "--once",
            "--period",
            "1",
        )
        undisturbed = await other_witness(found)

    print(f"{phases.total()} kills, {size} entries in the backlog; killed while: {dict(phases)}")  # noqa: T201 - figures
    assert phases.total() >= KILLS + MORE
    assert len(phases) >= VARIED, "the kills did not hit varied phases"
    mine, theirs = everything(found.folder), everything(undisturbed)
    assert [row[0] for row in mine["entries"]] == list(range(len(mine["entries"])))
    least = min(len(mine["entries"]), len(theirs["entries"]))
    assert least > size
    assert mine["entries"][:least] == theirs["entries"][:least]
    assert within(mine["findings"], size) == within(theirs["findings"], size)
    assert len(within(mine["findings"], size)) > ENTRIES
    assert mine["misbehaviour"] == theirs["misbehaviour"] == []
    check_periods(found.folder, theirs)


async def fill(made: MadeLog) -> None:
    """Records that pass, that fail, that are none, and that are not here; one agent spends more and more tokens."""
    async with running(made) as log:
        for start in range(0, ENTRIES, 500):
            await asyncio.gather(*(log.register(statement(made, number)) for number in range(start, start + 500)))


def statement(made: MadeLog, number: int) -> bytes:
    if number % 10 == 7:
        return envelope(made.issuer, b"private %d" % number, sub=f"private-{number}")
    if number % 10 == 8:
        return made.issuer.sign(b"no record %d" % number)
    record = json.loads(bad()) if number % 10 == 9 else good()
    record["id"] = f"record-{number}"
    record["session"]["session-id"] = f"session-{number}"
    record["session"]["entries"][6]["token-usage"] = {"input": 900 + number % 97, "output": 100 + number % 13}
    return made.issuer.sign(json.dumps(record).encode())


async def through_the_backlog(
    forks: Forks, found: Followed, size: int, chance: random.Random, phases: Counter[str]
) -> None:
    """Killed at KILLS places of the backlog: a moment after so many entries are committed.

    In its first half: whoever kills may stand still for a second while the witness goes on.
    """
    step = size // (2 * KILLS)
    for number in range(KILLS):
        target = step * number + chance.randrange(step)
        phases[await killed_after(forks, found.folder, target, chance.uniform(0, 0.02))] += 1
        have = await asyncio.to_thread(replayed, found.folder)
        assert have < size, "the backlog was over before the kills were"


async def killed_after(forks: Forks, folder: Path, size: int, seconds: float) -> str:
    """What it was doing when it was killed: so many seconds after so many entries were committed."""
    pid = await forks.start()
    await forks.ready()
    async with asyncio.timeout(PATIENCE):
        while True:
            if await asyncio.to_thread(replayed, folder) >= size:
                break
            await asyncio.sleep(0.002)
    await asyncio.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    status, phase = await forks.reap()
    assert os.WIFSIGNALED(status), "the witness ended by itself"
    assert os.WTERMSIG(status) == signal.SIGKILL
    return phase


async def other_witness(found: Followed) -> Path:
    other = found.group.home / "undisturbed"
    command = found.group.command
    await asyncio.to_thread(
        command, "witness", "init-follower", "--dir", other, "--name", "other.example", "--iss", "https://other.example",
        "--policy-key", pinned(found.group.made).hex(),
    )  # fmt: skip
    await asyncio.to_thread(command, "witness", "follow", found.log.url, "--dir", other, "--once")
    return other


def everything(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    connection = sqlite3.connect(folder / "findings.sqlite")
    try:
        return {
            "entries": connection.execute("SELECT * FROM entries ORDER BY idx").fetchall(),
            "findings": connection.execute(
                "SELECT idx, session, check_id, verdict, summary, evidence FROM findings ORDER BY number"
            ).fetchall(),
            "misbehaviour": connection.execute("SELECT code, idx, what FROM misbehaviour").fetchall(),
            "periods": connection.execute("SELECT payload, statement, entry FROM periods ORDER BY number").fetchall(),
        }
    finally:
        connection.close()


def within(rows: list[tuple[Any, ...]], size: int) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[0] < size]


def check_periods(folder: Path, others: dict[str, list[tuple[Any, ...]]]) -> None:
    """Every entry is in one period, and every period once on the log, by the other witness' reading of it."""
    periods = [Period.from_bytes(payload) for payload, _, _ in everything(folder)["periods"]]
    assert len(periods) > 1
    assert [each.first for each in periods] == [0, *(each.end for each in periods[:-1])]
    assert [each.number for each in periods] == list(range(1, len(periods) + 1))
    assert all(sum(each.entries.values()) == each.end - each.first for each in periods)
    stated = [Statement.from_bytes(statement).entry_id for _, statement, _ in everything(folder)["periods"]]
    assert [each.previous for each in periods] == ["", *stated[:-1]]
    registered = [row for row in others["entries"] if row[4] == ISS]
    assert len(registered) == len({row[1] for row in registered})
    assert len(registered) >= len(periods) - 1
