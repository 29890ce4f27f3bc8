"""Admission manifests: what the log says about its own decisions, in stretches without gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from tests.patience import PATIENCE
from transparency.log.log import Log
from transparency.log.manifests import Manifests
from transparency.log.store import Admitted, Kind, Store
from transparency.policy.manifest import Admission, Manifest
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Statement
from transparency.testing import FakeClock, Fault, MadeLog, make_log, running


def manifests(log: Log) -> list[tuple[int, Manifest]]:
    """Every manifest on the log, with its index."""
    rows = [log.stored(index) for index in range(log.newest_head().size)]
    statements = [(row.index, Statement.from_bytes(row.statement)) for row in rows if row.kind is Kind.OPERATION]
    return [(index, Manifest.from_bytes(one.payload)) for index, one in statements if one.sub == "manifest"]


async def register(log: Log, made: MadeLog, names: range) -> None:
    await asyncio.gather(*(log.register(made.issuer.sign(b"%d" % name)) for name in names))


async def test_a_manifest_says_kind_generation_and_time_of_every_entry_before_it(tmp_path: Path) -> None:
    """AMB-10: what a decision depended on besides the statement, registered."""
    clock = FakeClock(1000)
    made = make_log(tmp_path / "log", clock=clock)
    async with running(made) as log:
        clock.advance(10)
        await register(log, made, range(2))
        clock.advance(10)
        await log.update_policy(made.next_policy(log, lambda old, entry: old.without_issuer("x", previous=entry)))
        await register(log, made, range(2, 3))
        (registered,) = await log.manifests.make()
        ((index, manifest),) = manifests(log)

    assert index == registered.index == 6
    assert (manifest.log, manifest.first, manifest.count, manifest.previous) == (made.origin, 0, 6, "")
    assert [one for _, one in manifest.admissions()] == [
        Admission(Kind.POLICY, 0, 1000),
        Admission(Kind.KEYS, 1, 1000),
        Admission(Kind.STATEMENT, 1, 1010),
        Admission(Kind.STATEMENT, 1, 1010),
        Admission(Kind.POLICY, 1, 1020),
        Admission(Kind.STATEMENT, 2, 1020),
    ]


async def test_each_manifest_begins_where_the_one_before_ended_also_after_a_restart(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    for start in range(0, 6, 2):
        async with running(made) as log:
            await register(log, made, range(start, start + 2))
            await log.manifests.make()
    async with running(made) as log:
        found = manifests(log)
        ids = [Statement.from_bytes(log.statement(index)).entry_id for index, _ in found]

        assert [manifest.previous for _, manifest in found] == ["", *ids[:-1]]
        assert all(one.end == other.first for (_, one), (_, other) in pairwise(found))
        assert [(one.first, one.end) for _, one in found] == [(0, 4), (4, 7), (7, 10)]
    assert made.fsck().clean


async def test_nothing_new_makes_no_manifest_so_a_quiet_log_stays_as_it_is(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        assert await log.manifests.make() == []
        await register(log, made, range(1))
        assert len(await log.manifests.make()) == 1
        assert await log.manifests.make() == []
        await log.operate("hold", b"\xa0")
        assert await log.manifests.make() == []


async def test_a_long_stretch_becomes_several_manifests(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        await register(log, made, range(4_100))
        made_now = await log.manifests.make()

        assert [(one.first, one.end) for _, one in manifests(log)] == [(0, 4096), (4096, 4102)]
        assert len(made_now) == 2


async def test_whoever_serves_a_log_makes_them_in_time_and_at_the_stop(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    log = made.open()
    await log.start(manifests=True)
    log.manifests.every = 8
    came = asyncio.Event()
    log.sequencer.on_published.append(lambda size: came.set() if log.manifests.covered or size == 13 else None)
    await register(log, made, range(10))
    await asyncio.wait_for(came.wait(), PATIENCE)
    await register(log, made, range(10, 11))
    await log.stop()

    async with running(made) as log:
        found = manifests(log)
    assert (found[0][1].first, found[-1][1].end) == (0, found[-1][0])
    assert len(found) == 2


async def test_a_crash_between_a_manifest_and_its_answer_neither_repeats_nor_skips_an_entry(tmp_path: Path) -> None:
    for number, fault in enumerate(Fault):
        made = make_log(tmp_path / f"log{number}")
        log, faulty = made.open_faulty()
        await log.start()
        await register(log, made, range(3))
        faulty.fail("commit", fault)
        outcome = (await asyncio.gather(log.manifests.make(), return_exceptions=True))[0]
        assert isinstance(outcome, Exception)
        await log.stop()

        async with running(made) as log:
            await register(log, made, range(3, 5))
            await log.manifests.make()
            found = manifests(log)
        assert found[0][1].first == 0
        assert all(one.end == other.first for (_, one), (_, other) in pairwise(found))
        assert found[-1][1].end == found[-1][0]
        assert len(found) == (2 if fault is Fault.FAILS_BUT_PERSISTS else 1)
        assert made.fsck().clean


class Damaged:
    """A store that has lost something of its newest entries."""

    def __init__(self, store: Store, *, heads: bool) -> None:
        self._store, self._heads = store, heads

    def admitted(self, start: int, stop: int) -> list[Admitted]:
        rows = self._store.admitted(start, stop)
        return rows if self._heads else rows[:-1]

    def heads(self, after: int = 0) -> Iterator[SignedHead]:
        heads = list(self._store.heads(after))
        return iter(heads[:-1] if self._heads else heads)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


@pytest.mark.parametrize("heads", [True, False])
async def test_where_an_entry_or_its_head_is_missing_none_is_made_and_the_log_still_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, heads: bool
) -> None:
    made = make_log(tmp_path / "log")
    async with asyncio.timeout(PATIENCE), running(made) as log:
        await register(log, made, range(2))
        store = cast("Store", Damaged(log._store, heads=heads))
        making = Manifests(store, made.origin, lambda: log.newest_head().size, log.operate, FakeClock())
        making.start()
        await making.stop(cover=True)

        assert manifests(log) == []
    assert "run `transparency log fsck`" in caplog.text
