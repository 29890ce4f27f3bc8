"""What a mirror cosigned, and what it said it has, survives power loss at any moment (M-2): the model of power_cut.py.

Three files are written by turns: the trees, the state, the mark. The workload runs once on all of them; then the disk
is rebuilt for the moment before each sync and opened with every check of a start. There every tile and root must follow
from the entries (`mirror check`), and the upload that was under way must go on from where the mirror says it is.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.power_cut import CosignerRun, Model, Recorder, every_model, rebuild_all, strict
from tests.mirror.mirrored import Uploading, make_mirror
from tests.notes.world import ORIGIN
from transparency.errors import TransparencyError
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import WIDTH, RightEdge
from transparency.mirror.check import check
from transparency.mirror.folder import MirrorFolder
from transparency.mirror.mending import Fetched
from transparency.mirror.mirror import Mirror, Upload
from transparency.mirror.serve import open_mirror
from transparency.mirror.trees import Trees
from transparency.notes.upload import MirrorInfo, UploadHead, spans
from transparency.testing import FakeClock
from transparency.witness.folder import WitnessConfig
from transparency.witness.keeper import Keeper
from transparency.witness.logs import LogList
from transparency.witness.state import WitnessState

TREES = "tree.sqlite"
# Within a tile, over its end, and over several at once.
SIZES = (3, 256, 300, 700)
LOG = Uploading(SIZES[-1])


@dataclass(frozen=True, slots=True)
class _Told:
    """What a client was told: so many entries are here, so many are cosigned."""

    entries: int
    cosigned: int


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CosignerRun:
    """The workload with the settings we ship, recorded once."""
    return asyncio.run(_workload(tmp_path_factory.mktemp("recorded") / "mirror"))


@every_model
def test_whatever_a_mirror_has_cosigned_is_there_after_a_power_cut_at_every_sync(
    run: CosignerRun, in_memory: Path, model: Model
) -> None:
    """M-2: "until all entries are durably committed"."""
    assert run.journal.count("sync", TREES) > 3, "no checkpoint of its journal was in it"

    points = _rebuild_all(run, in_memory, model)

    print(f"{points} sync points, {run.journal.count('acknowledge')} answers")  # noqa: T201 - for the report
    assert points > 30, "too few sync points to show anything"


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
async def test_without_full_sync_the_same_test_fails(tmp_path: Path, in_memory: Path, synchronous: str) -> None:
    """The model is able to see a loss."""
    run = await _workload(tmp_path / "mirror", synchronous=synchronous)

    with pytest.raises((AssertionError, TransparencyError)):
        _rebuild_all(run, in_memory, lambda _: strict)


# -- the workload --------------------------------------------------------------------------------------------------


async def _workload(path: Path, *, synchronous: str = "FULL") -> CosignerRun:
    """A log that grows by turns, each time uploaded in two pieces, with checkpoints of the journals in between.

    Each time its first bundle is put back as well, as if it had been damaged.
    """
    folder = make_mirror(path)
    mark = WitnessConfig.read(folder.config).watermark
    base = {file.name: file.read_bytes() for file in (folder.state, folder.trees, mark)}
    recorder, clock = Recorder(), FakeClock()
    with open_mirror(
        folder,
        clock=clock,
        connect=recorder.connect,
        synchronous=synchronous,
        open_mark_file=recorder.open_mark_file,
    ) as mirror:
        # Small, so that SQLite checkpoints by itself in the middle of commits.
        for owner in (mirror._state, mirror._trees):
            owner._connection.execute("PRAGMA wal_autocheckpoint = 12")
        keeper = Keeper(mirror, LogList(folder.logs), mirror.keys, clock, clock, cosign=lambda *_: ())
        await keeper.start()
        for old, size in zip((0, *SIZES), SIZES, strict=False):
            assert (await keeper.add(LOG.checkpoint(old, size))).status == 200
            for most in (1, None):
                recorder.journal.acknowledge(_told(mirror, size, most))
            _mend(mirror, size)
            recorder.journal.acknowledge(_Told(size, size))
            clock.advance(1)
        await keeper.stop()
    recorder.close()
    return CosignerRun(folder, base, recorder.journal)


def _mend(mirror: Mirror, size: int) -> None:
    mirror.note_damage(ORIGIN, 0, "it is said to be")
    tiles = RightEdge().append([leaf_hash(entry) for entry in LOG.entries[:size]])
    above = {place: content for place, content in tiles.items() if place[1] == 0}
    assert mirror.mend(ORIGIN, Fetched(0, size, LOG.entries[: min(size, WIDTH)], above))
    assert not mirror.damaged


def _told(mirror: Mirror, size: int, most: int | None = None) -> _Told:
    """What the answer to an upload says, from where the mirror is up to *size*; of all its packages or the first."""
    start = mirror.next_entry(ORIGIN)
    upload = mirror.begin(UploadHead(ORIGIN.encode(), start, size), lambda _: True)
    assert isinstance(upload, Upload)
    mirror.save(upload, [LOG.package(span, size) for span in list(spans(start, size))[:most]])
    answer = mirror.finish(upload)
    if answer.status == 200:
        return _Told(size, size)
    cosigned = mirror.cosigned(ORIGIN)
    return _Told(MirrorInfo.from_bytes(answer.body).next_entry, 0 if cosigned is None else cosigned.size)


# -- the disk as it would be, and a start on it --------------------------------------------------------------------


def _rebuild_all(run: CosignerRun, folder: Path, model: Model) -> int:
    return rebuild_all(
        run.base, run.journal, model, lambda files, got, name: _check_start(run, files, got, folder / name)
    )


def _check_start(run: CosignerRun, files: dict[str, bytes], acknowledged: list[object], folder: Path) -> None:
    again = MirrorFolder(run.put_back(files, folder))
    with open_mirror(again, watermark=folder / run.mark) as mirror:
        record = mirror.cosigned(ORIGIN)
        for told in acknowledged[-1:]:
            assert isinstance(told, _Told)
            assert mirror.next_entry(ORIGIN) >= told.entries, "entries that it said it has are gone"
            assert (0 if record is None else record.size) >= told.cosigned, "what was cosigned is gone"
        assert record is None or record.root == LOG.tree.root(record.size)
        # And it goes on from there.
        pending = mirror.pending(ORIGIN)
        if pending is not None:
            assert _told(mirror, pending.size).cosigned == pending.size
    with closing(WitnessState.for_reading(again)) as state, closing(Trees.for_reading(again.trees)) as trees:
        assert [each.fault for each in check(trees, state.records()) if each.fault] == []
    shutil.rmtree(folder)
