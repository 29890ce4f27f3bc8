"""A smaller tree than the one that is followed is held against it, whoever shows it and whatever is left to ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notes.world import ORIGIN
from tests.verifier.witnessing import W1, W2
from tests.witness.monitored import KEYS, NOW, Watcher, entries, sites
from tests.witness.test_monitor import asking
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import verify_consistency
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.witness import monitor_trail
from transparency.witness.monitor_state import MAX_WAITING, MonitorFolder, MonitorState
from transparency.witness.monitor_trail import Trail


@pytest.mark.parametrize("size", [8, 11, 300, 20_000])
async def test_a_fork_is_convicted_when_the_smaller_honest_tree_is_shown_after_it(tmp_path: Path, size: int) -> None:
    """CP-2: the tiles of the fork are gone; what was kept of it convicts."""
    async with sites(2) as (fork, honest):
        fork.publish(entries("b", size, common=size - 3))
        assert await Watcher(tmp_path, (fork.url,)).codes() == []
        fork.checkpoint = None
        honest.publish(entries("a", size - 1, common=size - 3))
        watcher = Watcher(tmp_path, (honest.url,))

        assert await watcher.codes() == ["split-view"]
        assert watcher.evidence().judge(KEYS).crime == "fork"


async def test_a_fork_shown_between_two_honest_trees_at_one_url_is_convicted(tmp_path: Path) -> None:
    """An old copy that goes on for a while, and is taken away before it is as large as what was followed."""
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,))
        log.publish(entries("a", 40, common=30))
        await watcher.round()
        log.publish(entries("a", 30, common=30))
        assert await watcher.codes() == ["rollback"]
        log.publish(entries("b", 35, common=30))

        assert sorted(await watcher.codes()) == ["rollback", "split-view"]
        assert watcher.evidence().judge(KEYS).crime == "fork"
        log.publish(entries("a", 41, common=30))
        assert await watcher.codes() == ["split-view"], "what was signed stays signed"
        assert watcher.told == [("ended", "rollback")]


async def test_what_is_too_long_past_waits_until_it_can_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork is smaller than all that was kept of the tree: said, kept, and convicted by the log's tiles later."""
    monkeypatch.setattr(monitor_trail, "KEPT", 256)
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,))
        log.publish(entries("a", 1000, common=30))
        await watcher.round()
        log.publish(entries("b", 35, common=30))

        found = await watcher.round()

        assert sorted(alarm.code for alarm in found.alarms) == ["not-compared", "rollback"]
        assert found.waiting == [f"35 entries at {log.url}"]
        log.publish(entries("a", 1001, common=30))
        assert await watcher.codes() == ["split-view"]
        assert watcher.evidence().judge(KEYS).crime == "fork"
        assert ("ended", "not-compared") in watcher.told
        assert MonitorFolder(tmp_path).load(ORIGIN).waiting == []


async def test_what_only_a_witness_has_seen_waits_also_when_the_witness_forgets_it(tmp_path: Path) -> None:
    async with sites(2) as (log, witness):
        log.publish(entries("a", 30))
        witness.publish(entries("b", 40), cosigned_by=[W1])
        watcher = Watcher(tmp_path, (log.url,), asking((W1.vkey, witness.url)))
        found = await watcher.round()
        assert (found.alarms, found.waiting) == ([], ["40 entries at witness w0"])
        witness.checkpoint = None
        watcher.clock.now = NOW + 1
        assert (await watcher.round()).waiting == ["40 entries at witness w0"]

        log.publish(entries("a", 50))

        assert await watcher.codes() == ["split-view"]
        assert watcher.evidence().judge(KEYS).convicts


async def test_a_witness_with_two_keys_is_asked_and_told_of_once(tmp_path: Path) -> None:
    async with sites() as (log,):
        log.publish(entries("a", 3))
        dead = "http://127.0.0.1:9/"
        watcher = Watcher(tmp_path, (log.url,), asking((W1.vkey, dead), (W2.vkey, dead)))

        assert [(alarm.code, alarm.place) for alarm in (await watcher.round()).alarms] == [
            ("unreachable", "witness w0")
        ]


@pytest.mark.parametrize("base", [0, 1, 5, 8, 12, 13])
def test_a_trail_has_the_root_of_every_size_since_its_base_and_proves_it(base: int) -> None:
    leaves = [leaf_hash(each) for each in entries("a", 21)]
    whole = Trail(CompactRange(), leaves)
    start = CompactRange()
    start.extend(leaves[:base])

    trail = Trail(start, leaves[base:])

    for size in range(max(base, 1), 22):
        assert trail.reaches(size)
        assert trail.root_at(size) == whole.root_at(size) == Trail(CompactRange(), leaves[:size]).root()
        verify_consistency(size, 21, trail.root_at(size), whole.root(), trail.consistency_path(size))
    assert not trail.reaches(22)
    assert not base or not trail.reaches(base - 1)


def test_a_trail_is_bounded_and_reads_the_same_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_trail, "KEPT", 10)
    monkeypatch.setattr(monitor_trail, "_SLACK", 3)
    leaves = [leaf_hash(each) for each in entries("a", 100)]
    trail = Trail()
    for at in range(0, 100, 7):
        trail = trail.extended(leaves[at : at + 7])

        assert len(trail.leaves) <= 13
        assert trail.root() == Trail(CompactRange(), leaves[: trail.size]).root()
    state = MonitorState(ORIGIN, trail=trail)
    again = MonitorState.from_bytes(state.to_bytes())
    assert (again.trail.base, again.trail.leaves, again.trail.root()) == (trail.base, trail.leaves, trail.root())


async def test_what_waits_is_bounded_the_first_stay_and_the_newest() -> None:
    state = MonitorState(ORIGIN)
    async with sites() as (log,):
        notes = [SignedCheckpoint.from_bytes(log.publish(entries("a", n))) for n in range(1, MAX_WAITING + 20)]
    state.wait_for([("x", note) for note in [*notes, notes[0]]])

    assert [signed.checkpoint.size for _, signed in state.waiting] == [*range(1, MAX_WAITING), MAX_WAITING + 19]
    assert MonitorState.from_bytes(state.to_bytes()).waiting == state.waiting


def test_the_state_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    folder = MonitorFolder(tmp_path)
    folder.save(MonitorState(ORIGIN, since=NOW))
    path = next(tmp_path.rglob("state.json"))
    text = path.read_text().replace("transparency-monitor/2", "transparency-monitor/1")
    lines = [line for line in text.splitlines() if line.split('"')[1:2] not in
             (["place"], ["leaves"], ["waiting"], ["acknowledged"])]  # fmt: skip
    path.write_text("\n".join(lines).replace('"active": {},\n}', '"active": {}\n}'))

    loaded = folder.load(ORIGIN)
    assert (loaded.since, loaded.waiting, loaded.trail.size) == (NOW, [], 0)
