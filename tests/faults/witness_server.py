"""The witness that test_witness_kill.py kills, forked by the means of forks.py."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.faults.forks import Phase, fork_servers, say
from transparency.log.durable import DurableFile
from transparency.server.settings import ServerSettings
from transparency.witness.folder import WitnessFolder
from transparency.witness.keeper import Keeper, Outcome
from transparency.witness.record import Evidence, Move
from transparency.witness.serve import serve
from transparency.witness.state import WitnessState, open_state

PHASES = ("starting", "serving", "deciding", "commit", "mark", "recorded, not answered")


def main(path: Path) -> None:
    phase = Phase(PHASES)
    fork_servers(phase, lambda: _serve(WitnessFolder(path), phase))


def _serve(folder: WitnessFolder, phase: Phase) -> None:
    class File(DurableFile):
        def write_at(self, offset: int, data: bytes) -> None:
            phase.set("mark")
            super().write_at(offset, data)

    commit, process, release = WitnessState.commit, Keeper._process, Keeper._release

    def phased_commit(state: WitnessState, moves: Sequence[Move], evidence: Sequence[Evidence] = ()) -> None:
        phase.set("commit")
        commit(state, moves, evidence)
        phase.set("recorded, not answered")

    def phased_process(keeper: Keeper, bodies: Sequence[bytes]) -> list[Outcome]:
        phase.set("deciding")
        return process(keeper, bodies)

    def phased_release(keeper: Keeper, waiting: Sequence[asyncio.Future[object]], outcomes: Sequence[Outcome]) -> None:
        release(keeper, waiting, outcomes)  # type: ignore[arg-type]
        phase.set("serving")

    WitnessState.commit = phased_commit  # type: ignore[method-assign,assignment]
    Keeper._process = phased_process  # type: ignore[method-assign,assignment]
    Keeper._release = phased_release  # type: ignore[method-assign,assignment]
    settings = ServerSettings(port=0, rate_limit=None)
    with open_state(folder, open_mark_file=File) as state:
        asyncio.run(serve(folder, state, settings, lambda url: say(f"ready {url}")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
