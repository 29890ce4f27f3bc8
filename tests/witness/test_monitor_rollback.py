"""A log that goes back is found wherever it does so; a mirror that is late is left alone."""

from __future__ import annotations

from pathlib import Path

from tests.notes.world import ORIGIN, log_signer, signed
from tests.verifier.witnessing import W1
from tests.witness.monitored import KEYS, NOW, Watcher, entries, sites
from tests.witness.test_monitor import asking
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.notes.checkpoint import Checkpoint


async def test_an_old_copy_at_another_place_is_convicted_by_the_times_it_signs(tmp_path: Path) -> None:
    """CP-2: the monitor has seen the larger tree elsewhere, and the smaller one was signed after it."""
    async with sites(2) as (log, copy):
        log.publish(entries("a", 40), time=NOW - 60)
        await Watcher(tmp_path, (log.url,)).round()
        copy.publish(entries("a", 39), time=NOW)
        watcher = Watcher(tmp_path, (copy.url,))

        assert await watcher.codes() == ["rollback"]
        assert watcher.evidence().judge(KEYS).crime == "rollback"


async def test_a_mirror_that_is_late_shows_what_was_signed_before(tmp_path: Path) -> None:
    async with sites(2) as (log, mirror):
        log.publish(entries("a", 40), time=NOW)
        mirror.publish(entries("a", 39), time=NOW - 60)
        await Watcher(tmp_path, (log.url,)).round()

        assert await Watcher(tmp_path, (log.url, mirror.url)).codes() == []
        assert await Watcher(tmp_path, (mirror.url,)).codes() == []


async def test_what_a_witness_cosigned_after_a_larger_tree_convicts_too(tmp_path: Path) -> None:
    """W-4: the old copy was shown to a witness only."""
    async with sites(2) as (log, witness):
        log.publish(entries("a", 40), time=NOW - 60)
        watcher = Watcher(tmp_path, (log.url,), asking((W1.vkey, witness.url)))
        assert await watcher.codes() == []
        witness.publish(entries("a", 39), cosigned_by=[W1], time=NOW)

        found = await watcher.round()

        assert [(alarm.code, alarm.place) for alarm in found.alarms] == [("rollback", "witness w0")]
        assert watcher.evidence().judge(KEYS).convicts


async def test_less_than_was_followed_everywhere_and_for_long_is_frozen(tmp_path: Path) -> None:
    async with sites(2) as (log, mirror):
        log.publish(entries("a", 40))
        await Watcher(tmp_path, (log.url,)).round()
        mirror.publish(entries("a", 39))
        watcher = Watcher(tmp_path, (mirror.url,))
        assert await watcher.codes() == [], "a mirror may be late"

        watcher.clock.now = NOW + 601

        assert await watcher.codes() == ["frozen"]


async def test_a_place_that_shows_another_known_log_no_longer_shows_the_first(tmp_path: Path) -> None:
    other = (log_signer(name="other.example"),)
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,), more={"keys": (*KEYS, other[0].vkey)})
        log.publish(entries("a", 4))
        assert await watcher.codes() == []
        log.spoil["checkpoint"] = signed(Checkpoint("other.example", 0, EMPTY_ROOT), by=other).to_bytes()

        found = await watcher.round()

        assert [(alarm.code, alarm.origin) for alarm in found.alarms] == [("bad-checkpoint", ORIGIN)]
