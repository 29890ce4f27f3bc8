"""The compliance witness that test_follower_kill.py kills, forked by the means of forks.py."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.forks import Phase, fork_servers, say
from transparency.witness import follow_replay
from transparency.witness.findings import Findings
from transparency.witness.follow_folder import FollowerFolder
from transparency.witness.follow_periods import Periods
from transparency.witness.follow_serve import FollowSettings, following
from transparency.witness.record import Evidence, Move
from transparency.witness.state import WitnessState, open_state

PHASES = ("starting", "replaying", "commit", "cosigning", "attesting", "looking")


def main(path: Path, url: str) -> None:
    phase = Phase(PHASES)
    # More commits than anybody needs, so that many a kill is near one.
    follow_replay.BATCH = 16  # type: ignore[misc]
    fork_servers(phase, lambda: asyncio.run(_follow(FollowerFolder(path), url, phase)))


async def _follow(folder: FollowerFolder, url: str, phase: Phase) -> None:
    _watch(phase)
    with open_state(folder) as state:
        settings = FollowSettings(url, "a test", period=1)
        async with following(
            folder, state, settings, clock=time.time, say=lambda _: None, told=lambda _, __: phase.set("replaying")
        ) as witness:
            say("ready")
            while True:
                phase.set("looking")
                await witness.round()
                await asyncio.sleep(0.01)


def _watch(phase: Phase) -> None:
    """Note in which phase the process is, for whoever finds it dead."""
    commit, close, add = WitnessState.commit, Periods._close, Findings.keep_agents

    def phased_commit(state: WitnessState, moves: Sequence[Move], evidence: Sequence[Evidence] = ()) -> None:
        phase.set("cosigning")
        commit(state, moves, evidence)

    def phased_close(periods: Periods) -> None:
        phase.set("attesting")
        close(periods)

    def phased_add(findings: Findings, changed: object) -> None:
        phase.set("commit")
        add(findings, changed)  # type: ignore[arg-type]

    WitnessState.commit = phased_commit  # type: ignore[method-assign,assignment]
    Periods._close = phased_close  # type: ignore[method-assign,assignment]
    Findings.keep_agents = phased_add  # type: ignore[method-assign,assignment]


def replayed(folder: Path) -> int:
    """How many entries are in a witness' findings."""
    path = folder / "findings.sqlite"
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM entries").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # killed before its tables were made
    finally:
        connection.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
