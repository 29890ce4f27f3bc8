"""A monitor follows a log, and each way of breaking a log's word has its own alarm."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.notes.world import ORIGIN
from tests.verifier.witnessing import W1, W2, policy
from tests.witness.monitored import KEYS, NOW, Watcher, entries, sites
from transparency.errors import MalformedError
from transparency.merkle.hashing import leaf_hash
from transparency.notes.policy import WitnessPolicy
from transparency.notes.vkey import VerifierKey
from transparency.witness.monitor_state import MonitorFolder, MonitorState


@pytest.mark.parametrize("sizes", [(2, 3, 7, 8, 300), (256, 257, 512, 600), (1, 1, 65_600)])
async def test_an_honest_log_is_followed_and_rebuilt_from_its_entries(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,))
        for size in sizes:
            log.publish(entries("a", size))
            found = await watcher.round()

            assert (found.alarms, found.sizes) == ([], {ORIGIN: size})
            state = MonitorFolder(tmp_path).load(ORIGIN)
            assert state.last is not None
            assert (state.trail.size, state.trail.root()) == (size, state.last.checkpoint.root)
        assert watcher.events == []


async def test_from_the_start_every_entry_is_read(tmp_path: Path) -> None:
    async with sites() as (log,):
        log.publish(entries("a", 700))
        log.spoil["tile/entries/000"] = b"junk"

        assert await Watcher(tmp_path / "a", (log.url,)).codes() == []
        found = await Watcher(tmp_path / "b", (log.url,), more={"from_start": True}).codes()
        assert found == ["unreachable"], "what is no bundle at all is not an answer"


@pytest.mark.parametrize("common", [0, 3, 255])
@pytest.mark.parametrize("later", [300, 301, 700])
async def test_a_log_that_shows_another_history_later_is_convicted(tmp_path: Path, common: int, later: int) -> None:
    """Same size or larger: by the checkpoint that the monitor remembers."""
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,))
        log.publish(entries("a", 300))
        await watcher.round()
        log.publish(entries("b", later, common))

        assert "split-view" in await watcher.codes()
        verdict = watcher.evidence().judge(KEYS)
        assert (verdict.convicts, verdict.crime, verdict.origin) == (True, "fork", ORIGIN)

        await watcher.round()
        assert ("alarm", "split-view") not in watcher.told, "it is told once"
        log.publish(entries("a", 300))
        await watcher.round()
        assert ("ended", "split-view") not in watcher.told, "what was signed stays signed"


@pytest.mark.parametrize(("first", "second"), [(9, 9), (9, 12), (12, 9)])
async def test_two_places_that_show_two_histories_are_a_split_view(tmp_path: Path, first: int, second: int) -> None:
    async with sites(2) as (one, other):
        one.publish(entries("a", first))
        other.publish(entries("b", second, common=4))
        watcher = Watcher(tmp_path, (one.url, other.url))

        assert await watcher.codes() == ["split-view"]
        assert watcher.evidence().judge(KEYS).convicts


async def test_a_mirror_that_is_only_behind_is_no_split_view(tmp_path: Path) -> None:
    async with sites(2) as (one, other):
        one.publish(entries("a", 500))
        other.publish(entries("a", 499))
        watcher = Watcher(tmp_path, (one.url, other.url))

        assert await watcher.codes() == []
        other.publish(entries("a", 600))
        assert await watcher.codes() == []
        assert MonitorFolder(tmp_path).load(ORIGIN).trail.size == 600


def asking(*witnesses: tuple[VerifierKey, str]) -> WitnessPolicy:
    lines = [f"log {KEYS[0].text}", *(f"witness w{n} {key.text} {url}" for n, (key, url) in enumerate(witnesses))]
    return WitnessPolicy.from_text("".join(f"{line}\n" for line in [*lines, "quorum none"]).encode())


@pytest.mark.parametrize("witnessed", [30, 20, 40])
async def test_what_a_witness_cosigned_of_another_history_convicts(tmp_path: Path, witnessed: int) -> None:
    """W-4: its monitoring endpoint shows what it was shown. A larger tree cannot be compared without its tiles."""
    async with sites(2) as (log, witness):
        log.publish(entries("a", 30))
        witness.publish(entries("b", witnessed), cosigned_by=[W1])
        watcher = Watcher(tmp_path, (log.url,), asking((W1.vkey, witness.url)))

        assert await watcher.codes() == ([] if witnessed > 30 else ["split-view"])
        if witnessed <= 30:
            assert watcher.evidence().judge(KEYS).convicts
        log.publish(entries("a", 50))
        assert "split-view" in await watcher.codes(), "it can, when the log has grown that far"


async def test_a_log_behind_its_witness_for_long_is_frozen(tmp_path: Path) -> None:
    async with sites(2) as (log, witness):
        log.publish(entries("a", 30))
        witness.publish(entries("a", 31), cosigned_by=[W1])
        watcher = Watcher(tmp_path, (log.url,), asking((W1.vkey, witness.url)))
        assert await watcher.codes() == []

        watcher.clock.now = NOW + 601
        assert await watcher.codes() == ["frozen"]

        log.publish(entries("a", 31))
        assert await watcher.codes() == []
        assert watcher.told == [("ended", "frozen")]


async def test_a_witness_that_has_nothing_is_fine_and_one_that_is_gone_is_told(tmp_path: Path) -> None:
    async with sites(2) as (log, witness):
        log.publish(entries("a", 3))
        watcher = Watcher(tmp_path, (log.url,), asking((W1.vkey, witness.url), (W2.vkey, "http://127.0.0.1:9/")))

        found = await watcher.round()

        assert [(alarm.code, alarm.place) for alarm in found.alarms] == [("unreachable", "witness w1")]


async def test_a_smaller_tree_than_before_is_a_rollback_until_it_is_made_up_for(tmp_path: Path) -> None:
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,))
        log.publish(entries("a", 40))
        await watcher.round()
        log.publish(entries("a", 39))

        assert await watcher.codes() == ["rollback"]
        assert not watcher.evidence().judge(KEYS).convicts, "without signed times it is the monitor's word"
        assert await watcher.codes() == ["rollback"]
        assert watcher.told == []
        log.publish(entries("a", 41))
        assert await watcher.codes() == []
        assert watcher.told == [("ended", "rollback")]


async def test_a_rollback_with_signed_times_convicts(tmp_path: Path) -> None:
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,))
        log.publish(entries("a", 40), time=NOW - 60)
        await watcher.round()
        log.publish(entries("a", 39), time=NOW)

        assert await watcher.codes() == ["rollback"]
        assert watcher.evidence().judge(KEYS).crime == "rollback"


async def test_a_rolled_back_log_that_grows_again_on_another_branch_is_convicted(tmp_path: Path) -> None:
    """What a restored backup does that nobody noticed."""
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,))
        log.publish(entries("a", 40))
        await watcher.round()
        log.publish(entries("b", 45, common=30))

        assert await watcher.codes() == ["split-view"]
        assert watcher.evidence().judge(KEYS).convicts


async def test_a_log_without_news_is_frozen_unless_it_signs_anew(tmp_path: Path) -> None:
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,), more={"frozen_after": 1000})
        log.publish(entries("a", 4), time=NOW)
        await watcher.round()
        watcher.clock.now = NOW + 1001

        assert await watcher.codes() == ["frozen"]
        log.publish(entries("a", 4), time=NOW + 900)
        assert await watcher.codes() == []
        assert watcher.told == [("ended", "frozen")]
        watcher.clock.now = NOW + 1900
        log.publish(entries("a", 4), time=NOW + 10**6)
        assert await watcher.codes() == ["frozen"], "a time that is still to come says nothing"


@pytest.mark.parametrize(
    ("cosigners", "codes"), [((W1, W2), []), ((W1,), ["missing-quorum"]), ((), ["missing-quorum"])]
)
async def test_a_missing_quorum_is_told_with_who_is_missing(
    tmp_path: Path, cosigners: tuple[object, ...], codes: list[str]
) -> None:
    async with sites() as (log,):
        log.publish(entries("a", 4), cosigned_by=cosigners)  # type: ignore[arg-type]
        lines = policy().text.replace(policy().logs[0].key.text.encode(), KEYS[0].text.encode())
        watcher = Watcher(tmp_path, (log.url,), WitnessPolicy.from_text(lines))

        found = await watcher.round()

        assert [alarm.code for alarm in found.alarms] == codes
        assert all("w3" in alarm.detail for alarm in found.alarms)


@pytest.mark.parametrize("path", ["tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/001.p/44"])
async def test_a_flipped_bit_in_a_tile_or_entry_is_found(tmp_path: Path, path: str) -> None:
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,))
        log.publish(entries("a", 10))
        await watcher.round()
        log.publish(entries("a", 300))
        async with aiohttp.ClientSession() as session, session.get(log.url + path) as response:
            good = await response.read()
        log.spoil[path] = good[:-1] + bytes([good[-1] ^ 1])

        assert await watcher.codes() == ["bad-tile"]
        assert MonitorFolder(tmp_path).load(ORIGIN).trail.size == 10, "what was not checked is not followed"
        log.spoil.clear()
        assert await watcher.codes() == []
        assert MonitorFolder(tmp_path).load(ORIGIN).trail.size == 300


async def test_what_does_not_answer_and_what_is_no_checkpoint_is_told(tmp_path: Path) -> None:
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url, "http://127.0.0.1:9/"))
        log.publish(entries("a", 4))
        assert await watcher.codes() == ["unreachable"]

        stranger = log.publish(entries("a", 5)).replace(KEYS[0].name.encode(), b"stranger.example")
        log.spoil["checkpoint"] = stranger
        assert sorted(await watcher.codes()) == ["bad-checkpoint", "unreachable"]
        assert watcher.told == [("alarm", "bad-checkpoint")]


async def test_an_empty_tree_has_one_root(tmp_path: Path) -> None:
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,))
        log.publish([])
        assert await watcher.codes() == []
        log.publish(entries("a", 300))
        assert await watcher.codes() == []


def test_a_damaged_state_is_an_error_and_never_a_new_beginning(tmp_path: Path) -> None:
    folder = MonitorFolder(tmp_path)
    state = MonitorState(ORIGIN, since=NOW)
    state.trail = state.trail.extended([leaf_hash(each) for each in entries("a", 11)])
    folder.save(state)
    loaded = folder.load(ORIGIN)
    assert (loaded.trail.root(), loaded.since) == (state.trail.root(), NOW)

    path = next(tmp_path.rglob("state.json"))
    good = path.read_text()
    for bad in ("", "{}", good.replace('"size": "0"', '"size": "1"'), good.replace(ORIGIN, "other.example")):
        path.write_text(bad)
        with pytest.raises(MalformedError, match=r"state\.json"):
            folder.load(ORIGIN)
