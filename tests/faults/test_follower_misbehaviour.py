"""What a log does wrong is found by its compliance witness and named, and the checkpoint is not cosigned (design 9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.ensemble import copy_of
from tests.faults.following import Followed, followed
from tests.faults.test_follower import register, size_of
from tests.log.audited import flip, tampering
from transparency.compliance.period import Period
from transparency.log.candidate import Candidate
from transparency.policy.judge import FOREVER, Judgement
from transparency.statements.statement import Statement
from transparency.testing import SampleIssuer, running


@asynccontextmanager
async def cosigned_once(home: Path) -> AsyncIterator[tuple[Followed, int]]:
    """A log of which a first checkpoint was cosigned, and its size; the witness is stopped, the log runs."""
    async with followed(home) as found:
        await found.group.register(found.log)
        await found.follow()
        await found.periods(1)
        size = await found.cosigned(await size_of(found))
        assert found.witness is not None
        await found.witness.end()
        yield found, size


async def withheld(found: Followed, size: int) -> tuple[dict[str, object], Period]:
    """The one thing that is found, and what is attested of it; nothing new was cosigned."""
    await found.follow()
    await found.until("withheld", 0)
    (named,) = await found.page("/misbehaviour", "misbehaviour")
    assert await found.cosigned_size() == size
    period = (await found.periods(2))[-1]
    assert (await found.status())["last"] == "withheld"
    assert await found.cosigned_size() == size
    assert (period.misbehaviours, [each.what for each in period.misbehaviour]) == (1, [named["what"]])
    return named, period


async def convicted(found: Followed) -> str:
    """What `verify` says to the evidence that was kept, with nothing but the log's keys."""
    (evidence,) = (found.folder / "evidence").glob("*.evidence")
    keys = [word for vkey in found.group.log_vkeys for word in ("--log-vkey", vkey)]
    return await asyncio.to_thread(found.group.command, "verify", evidence, *keys)


@pytest.mark.sqlite_file
async def test_a_statement_that_was_tampered_with_in_the_database(tmp_path: Path) -> None:
    async with cosigned_once(tmp_path) as (found, size):
        entry = await register(found, found.group.made.issuer.sign(b"to be tampered with"))
        flip(found.group.made.data, size)
        named, period = await withheld(found, size)

    assert (named["code"], named["index"], named["entry"]) == ("statement", size, entry)
    assert named["what"] == "the stored statement does not hash to the entry"
    assert not period.cosigned
    assert period.outcomes["failed"] == 1


async def test_a_statement_that_was_smuggled_past_admission(tmp_path: Path) -> None:
    """By somebody who has the log's keys: tree, head and checkpoint are in order, the policy was not asked."""
    stranger = SampleIssuer("https://stranger.example")
    async with cosigned_once(tmp_path) as (found, size):
        await found.log.end()
        async with running(found.group.made) as log:
            statement = Statement.from_bytes(stranger.sign(b"not for this log"))
            judgement = Judgement(log.policy.generation, 0, FOREVER)
            at = (await log.sequencer.submit(Candidate.of(statement, judgement))).index
        found.log = await found.group.start_log()
        named, period = await withheld(found, size)

    assert (named["code"], named["index"], named["entry"]) == ("admission", at, statement.entry_id)
    assert "the issuer (iss) is not registered with this log" in str(named["what"])
    assert not period.cosigned


@pytest.mark.sqlite_file
async def test_an_entry_that_was_erased_without_a_statement(tmp_path: Path) -> None:
    """REG-20: it is gone, and no order stands on the log."""
    async with cosigned_once(tmp_path) as (found, size):
        entry = await register(found, found.group.made.issuer.sign(b"to be made away with"))
        with tampering(found.group.made.data) as database:
            database.execute("UPDATE entries SET statement = x'' WHERE idx = ?", (size,))
        named, period = await withheld(found, size)

    assert (named["code"], named["index"], named["entry"]) == ("gone", size, entry)
    assert "no order to erase it" in str(named["what"])
    assert not period.cosigned
    assert period.not_available == {"erased": 1}


@pytest.mark.sqlite_file
async def test_an_entry_that_the_log_does_not_give(tmp_path: Path) -> None:
    async with cosigned_once(tmp_path) as (found, size):
        await register(found, found.group.made.issuer.sign(b"one"))
        await register(found, found.group.made.issuer.sign(b"two"))
        with tampering(found.group.made.data) as database:
            database.execute("DELETE FROM entries WHERE idx = ?", (size,))
        await found.follow()
        await found.until("withheld", size)
        (named,) = await found.page("/misbehaviour", "misbehaviour")
        cosigned = await found.cosigned_size()

    assert (named["code"], named["index"]) == ("missing", size)
    assert cosigned == size


async def test_a_split_view(tmp_path: Path) -> None:
    """Two histories, both signed by the log, both larger than what was cosigned; the evidence convicts it offline."""
    async with cosigned_once(tmp_path) as (found, _):
        group = found.group
        await found.log.end()
        twin = copy_of(group.made, tmp_path / "twin")
        found.log = await group.start_log()
        await register(found, group.made.issuer.sign(b"the one history"))
        await found.follow()
        size = await found.cosigned(await size_of(found))
        assert found.witness is not None
        await found.witness.end()
        await found.log.end()
        found.log = await group.start_log(made=twin)
        for number in range(6):
            await register(found, group.made.issuer.sign(b"the other history %d" % number))
        await found.follow()
        await found.until("withheld", 0)
        (named,) = await found.page("/misbehaviour", "misbehaviour")
        cosigned = await found.cosigned_size()
        said = await convicted(found)

    assert named["code"] == "split-view"
    assert "does not extend" in str(named["what"])
    assert cosigned == size
    assert "Convicted of a fork" in said


async def test_a_log_that_shows_another_smaller_tree(tmp_path: Path) -> None:
    async with cosigned_once(tmp_path) as (found, _):
        group = found.group
        await found.log.end()
        twin = copy_of(group.made, tmp_path / "twin")
        found.log = await group.start_log()
        for number in range(3):
            await register(found, group.made.issuer.sign(b"the one history %d" % number))
        await found.follow()
        size = await found.cosigned(await size_of(found))
        assert found.witness is not None
        await found.witness.end()
        await found.log.end()
        found.log = await group.start_log(made=twin)
        await register(found, group.made.issuer.sign(b"the other history"))
        await found.follow()
        await found.until("withheld", 0)
        (named,) = await found.page("/misbehaviour", "misbehaviour")
        cosigned = await found.cosigned_size()
        said = await convicted(found)

    assert named["code"] == "split-view"
    assert "is not how the one of" in named["what"]
    assert cosigned == size
    assert "Convicted of a fork" in said


@pytest.mark.sqlite_file
async def test_misbehaviour_is_not_forgotten_when_the_log_goes_on(tmp_path: Path) -> None:
    async with cosigned_once(tmp_path) as (found, size):
        await register(found, found.group.made.issuer.sign(b"to be tampered with"))
        flip(found.group.made.data, size)
        await withheld(found, size)
        await register(found, found.group.made.issuer.sign(b"later"))
        later = await size_of(found)
        await found.until("withheld", later)
        cosigned = await found.cosigned_size()
        assert found.witness is not None
        await found.witness.end()
        # Put right, and replayed again from entry 0 on the operator's decision: what was cosigned still binds it.
        flip(found.group.made.data, size)
        for path in found.folder.glob("findings.sqlite*"):
            path.rename(path.with_name(f"before-{path.name}"))
        await found.follow()
        after = await found.cosigned(later)
        numbers = [each["number"] for each in await found.page("/periods", "periods")]

    assert cosigned == size
    assert after >= later
    # Its attestations were found on the log again, and go on from there.
    assert numbers[:2] == [1, 2]
