"""The mirror that test_mirror_kill.py kills, forked by the means of forks.py."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.faults.forks import Phase, fork_servers, say
from transparency.mirror.folder import MirrorFolder
from transparency.mirror.mirror import Mirror, Upload
from transparency.mirror.pull import PullSettings
from transparency.mirror.serve import open_mirror, serve
from transparency.mirror.trees import Trees
from transparency.notes.upload import Package
from transparency.server.settings import ServerSettings
from transparency.witness.decide import Answer
from transparency.witness.record import Evidence, Move, Record
from transparency.witness.state import WitnessState

PHASES = ("starting", "serving", "pending", "verifying", "entries", "cosigning", "record", "recorded, not answered")


def main(path: Path) -> None:
    phase = Phase(PHASES)
    fork_servers(phase, lambda: _serve(MirrorFolder(path), phase))


def _serve(folder: MirrorFolder, phase: Phase) -> None:
    set_pending, append = Trees.set_pending, Trees.append
    save, finish, commit = Mirror.save, Mirror.finish, WitnessState.commit

    def phased_pending(trees: Trees, records: Mapping[str, Record]) -> None:
        phase.set("pending")
        set_pending(trees, records)
        phase.set("serving")

    def phased_append(
        trees: Trees, origin: str, size: int, entries: Sequence[bytes], tiles: Mapping[tuple[int, int], bytes]
    ) -> None:
        phase.set("entries")
        append(trees, origin, size, entries, tiles)
        phase.set("serving")

    def phased_save(mirror: Mirror, upload: Upload, packages: Sequence[Package]) -> int:
        phase.set("verifying")
        return save(mirror, upload, packages)

    def phased_finish(mirror: Mirror, upload: Upload) -> Answer:
        phase.set("cosigning")
        return finish(mirror, upload)

    def phased_commit(state: WitnessState, moves: Sequence[Move], evidence: Sequence[Evidence] = ()) -> None:
        phase.set("record")
        commit(state, moves, evidence)
        phase.set("recorded, not answered")

    Trees.set_pending, Trees.append = phased_pending, phased_append  # type: ignore[method-assign,assignment]
    Mirror.save, Mirror.finish = phased_save, phased_finish  # type: ignore[method-assign,assignment]
    WitnessState.commit = phased_commit  # type: ignore[method-assign,assignment]
    settings = ServerSettings(port=0, rate_limit=None)
    with open_mirror(folder) as mirror:
        asyncio.run(serve(folder, mirror, settings, PullSettings(), lambda url: say(f"ready {url}")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
