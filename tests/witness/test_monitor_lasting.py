"""An alarm ends when what it was about was looked at again and is well; a split view only when somebody says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notes.world import ORIGIN
from tests.verifier.witnessing import W1
from tests.witness.monitored import Watcher, entries, sites
from tests.witness.test_monitor import asking
from transparency.witness.monitor_state import MonitorFolder


async def test_a_split_view_is_an_alarm_in_every_round_until_it_is_acknowledged(tmp_path: Path) -> None:
    async with sites(2) as (honest, fork):
        honest.publish(entries("a", 9, common=4))
        fork.publish(entries("b", 10, common=4))
        assert await Watcher(tmp_path, (honest.url,)).codes() == []
        assert await Watcher(tmp_path, (honest.url, fork.url)).codes() == ["split-view"]

        honest.publish(entries("a", 10, common=4))
        alone = Watcher(tmp_path, (honest.url,))

        assert await alone.codes() == ["split-view"]
        assert alone.told == [], "it was told"
        folder = MonitorFolder(tmp_path)
        state = folder.load(ORIGIN)
        assert state.trail.size == 9, "what was signed first is what everything is held against"
        (key,) = state.acknowledge("today")
        folder.save(state)
        assert await alone.codes() == []
        again = folder.load(ORIGIN)
        assert (again.trail.size, again.acknowledged[key].startswith("today: ")) == (10, True)
        both = Watcher(tmp_path, (honest.url, fork.url))
        assert await both.codes() == ["split-view"], "and it is one again if the other tree is shown again"


@pytest.mark.parametrize("cosigned", ["honest", "fork"])
async def test_a_split_view_names_both_places_and_who_has_cosigned_what(tmp_path: Path, cosigned: str) -> None:
    async with sites(2) as (honest, fork):
        honest.publish(entries("a", 9, common=4), cosigned_by=[W1] if cosigned == "honest" else [])
        fork.publish(entries("b", 10, common=4), cosigned_by=[W1] if cosigned == "fork" else [])
        watcher = Watcher(tmp_path, (honest.url, fork.url), asking((W1.vkey, "http://127.0.0.1:9/")))
        await watcher.round()

        event = next(event for event in watcher.events if event.get("code") == "split-view")

        assert event["place"] == " and ".join(sorted([honest.url, fork.url]))
        shown = {view["place"]: (view["size"], view["cosigned-by"]) for view in event["views"]}
        assert shown == {
            honest.url: (9, ["w0"] if cosigned == "honest" else []),
            fork.url: (10, ["w0"] if cosigned == "fork" else []),
        }


async def test_an_alarm_about_a_place_that_was_not_looked_at_does_not_end(tmp_path: Path) -> None:
    async with sites(2) as (log, mirror):
        log.publish(entries("a", 40))
        mirror.publish(entries("a", 40))
        both = Watcher(tmp_path, (log.url, mirror.url))
        await both.round()
        mirror.publish(entries("a", 39))
        assert await both.codes() == ["rollback"]

        left_off = Watcher(tmp_path, (log.url,))
        assert (await left_off.codes(), left_off.told) == ([], [])
        mirror.spoil["checkpoint"] = b"junk"
        assert await both.codes() == ["bad-checkpoint"]
        assert both.told == [("alarm", "bad-checkpoint")], "whether it is still behind is not known"

        mirror.spoil.clear()
        mirror.publish(entries("a", 41))
        assert await both.codes() == []
        assert sorted(both.told) == [("ended", "bad-checkpoint"), ("ended", "rollback")]


async def test_tiles_that_were_bad_are_looked_at_again_also_where_they_are_not_needed(tmp_path: Path) -> None:
    async with sites(2) as (log, mirror):
        log.publish(entries("a", 4))
        mirror.publish(entries("a", 6))
        mirror.spoil["tile/0/000.p/6"] = b"\0" * 6 * 32
        both = Watcher(tmp_path, (log.url, mirror.url))
        assert await both.codes() == ["bad-tile"]

        log.publish(entries("a", 8))
        assert await both.codes() == ["bad-tile"], "the log has them all, and the mirror is still wrong"
        mirror.spoil.clear()
        assert (await both.codes(), both.told) == ([], [("ended", "bad-tile")])


async def test_a_log_that_does_not_answer_at_all_ends_no_alarm(tmp_path: Path) -> None:
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,), more={"frozen_after": 1000})
        log.publish(entries("a", 4))
        await watcher.round()
        watcher.clock.now += 1001
        assert await watcher.codes() == ["frozen"]
        log.checkpoint = None

        assert await watcher.codes() == ["unreachable"]
        assert watcher.told == [("alarm", "unreachable")]
