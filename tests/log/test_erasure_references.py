"""An artifact goes with every entry that names it: the owner of the log looks for itself, and the log decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.log import erasing
from tests.log.erasing import Erasing
from transparency.errors import RefusedError
from transparency.log.erasure import Outcome, Request
from transparency.log.log import Log
from transparency.policy.erasure import ARTIFACT, Erasure, Item
from transparency.policy.hold import ENTRY
from transparency.policy.operations import ERASURE
from transparency.statements.statement import Statement, entry_id
from transparency.testing import running


@dataclass(frozen=True, slots=True)
class Shared:
    """One artifact, and two entries that name it."""

    made: Erasing
    log: Log
    digest: str
    one: int
    two: int

    async def order(self, *indexes: int, last: bool = True) -> Outcome:
        """By who says to have read the whole log, and to have found nobody else."""
        size = self.log.status().size
        return await self.log.erasures.erase(Request(size, indexes, "D. Officer", "order 4711", last=last))

    async def state(self, *indexes: int) -> None:
        """An erasure as whoever has the operations key could register it, past every judgement."""
        log = self.log
        items = [Item(at, entry_id(log.stored(at).entry), ARTIFACT, "rule", "operator", 0) for at in indexes]
        await log.operate(ERASURE, Erasure(log.origin, tuple(items)).to_bytes())

    def is_here(self) -> bool:
        return self.digest in set(self.made.artifacts.digests())


async def shared(made: Erasing, log: Log) -> Shared:
    data = erasing.record(1)
    digest = erasing.upload(made, data)
    one = await log.register(erasing.envelope(made.issuer, data, sub="one"))
    two = await log.register(erasing.envelope(made.issuer, data, sub="two"))
    return Shared(made, log, digest, one.index, two.index)


async def test_a_request_that_overlooks_an_entry_is_refused_whatever_it_says_to_have_read(tmp_path: Path) -> None:
    """REG-20: an artifact goes only when no referring entry is retained."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await shared(made, log)
        size = log.status().size

        for named, other in ((there.one, there.two), (there.two, there.one)):
            with pytest.raises(RefusedError, match=f"entry {other} names the same artifact"):
                await there.order(named)

        assert there.is_here()
        assert log.status().size == size
        await there.order(there.one, there.two)
        assert not there.is_here()


async def test_an_erasure_on_the_log_that_overlooks_an_entry_takes_no_artifact(tmp_path: Path) -> None:
    """Registered past every judgement, and carried out at the next start: what goes is what the log says."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await shared(made, log)
        await there.state(there.two)
    async with running(made.made):
        pass

    assert there.is_here()
    assert made.made.fsck().findings == []


async def test_an_erasure_takes_nothing_from_an_entry_that_came_after_it(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    data = erasing.record(1)
    erasing.upload(made, data)
    async with running(made.made) as log:
        later = erasing.envelope(made.issuer, data)
        item = Item(log.status().size + 1, Statement.from_bytes(later).entry_id, ARTIFACT, "rule", "operator", 0)
        await log.operate(ERASURE, Erasure(log.origin, (item,)).to_bytes())
        assert (await log.register(later)).entry_id == item.entry
    async with running(made.made):
        pass

    assert len(list(made.artifacts.digests())) == 1


async def test_parts_of_one_erasure_take_an_artifact_with_the_last_of_them(tmp_path: Path) -> None:
    """Many entries take several statements; where the process ends in between, nothing has gone."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await shared(made, log)
        await there.order(there.one, last=False)
    async with running(made.made) as log:
        assert there.is_here()

        outcome = await Shared(made, log, there.digest, there.one, there.two).order(there.two)

        assert outcome.unfinished == ""
    assert not there.is_here()
    assert made.made.fsck().findings == []


async def test_a_hold_between_two_parts_keeps_the_artifact(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await shared(made, log)
        await there.order(there.one, last=False)
        hold = await log.erasures.hold(ENTRY, entry_id(log.stored(there.one).entry), "A. Counsel", "case 17")

        with pytest.raises(RefusedError, match=f"entry {there.one} is on hold by {hold.entry_id}"):
            await there.order(there.two)
    assert there.is_here()
