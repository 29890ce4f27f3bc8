"""The plan: whose term is over, by the policy of its time; what several entries share; what holds keep."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.log import erasing
from tests.log.erasing import WEEK
from transparency.cose.algorithms import P256
from transparency.cose.keys import PrivateKey
from transparency.errors import RefusedError
from transparency.log.carrying_out import works_of
from transparency.log.erasure import Request, judge
from transparency.log.stores import open_for_reading
from transparency.policy.document import Policy
from transparency.policy.hold import ENTRY, ISSUER, SESSION
from transparency.policy.operations import ERASURE
from transparency.statements.statement import Statement, normalise
from transparency.testing import SampleIssuer, running, settled

YEAR = 366 * 24 * 3600


def malleated(sent: bytes) -> bytes:
    """The same statement with its signature's other form, which anybody can write."""
    message = Statement.from_bytes(sent).message
    other = P256.order - int.from_bytes(message.signature[32:], "big")
    return normalise(message.protected, message.payload or b"", message.signature[:32] + other.to_bytes(32, "big"))


async def test_a_class_is_that_of_the_policy_an_entry_was_judged_by(tmp_path: Path) -> None:
    """A later policy neither shortens nor lengthens what was promised."""
    made = erasing.make(tmp_path)
    old, new = erasing.record(1), erasing.record(2)
    for data in (old, new):
        erasing.upload(made, data)
    async with running(made.made) as log:
        first = await log.register(erasing.envelope(made.issuer, old))
        await erasing.shorten(made, log)
        second = await log.register(erasing.envelope(made.issuer, new))

    made.clock.advance(WEEK - 1)
    assert made.plan().due == []
    made.clock.advance(1)
    planned = made.plan()
    assert [due.references[0].index for due in planned.due] == [second.index]
    assert planned.kept == 1
    made.clock.set(planned.next or 0)
    assert {due.references[0].index for due in made.plan().due} == {first.index, second.index}
    assert planned.due[0].references[0].rule == "retention class short, policy generation 2"


async def test_an_artifact_that_two_entries_name_is_kept_for_the_longer_term(tmp_path: Path) -> None:
    """REG-20: an artifact goes only when no referring entry is retained."""
    made = erasing.make(tmp_path)
    data = erasing.record(1)
    erasing.upload(made, data)
    async with running(made.made) as log:
        long = await log.register(erasing.envelope(made.issuer, data, sub="long"))
        await erasing.shorten(made, log)
        short = await log.register(erasing.envelope(made.issuer, data, sub="short"))
        await settled(log)
        made.clock.advance(2 * WEEK)

        assert made.plan().due == []
        made.clock.advance(YEAR)
        (due,) = made.plan().due
        assert [each.index for each in due.references] == [long.index, short.index]
        made.clock.advance(-YEAR)
        with pytest.raises(RefusedError, match="is not over"):
            await log.erasures.erase(Request(log.status().size, [long.index]))


@pytest.mark.parametrize("scope", [ENTRY, ISSUER, SESSION])
async def test_a_hold_on_any_entry_that_names_it_keeps_an_artifact_even_from_orders(tmp_path: Path, scope: str) -> None:
    made = erasing.make(tmp_path)
    data = erasing.record(1)
    erasing.upload(made, data)
    async with running(made.made) as log:
        await erasing.shorten(made, log)
        one = await log.register(erasing.envelope(made.issuer, data, sub="one"))
        two = await log.register(erasing.envelope(made.issuer, data, sub="two"))
        made.clock.advance(WEEK)
        value = {ENTRY: two.entry_id, ISSUER: made.issuer.iss, SESSION: erasing.SESSION}[scope]
        hold = await log.erasures.hold(scope, value, "A. Counsel", "case 17")

        planned = made.plan()
        assert (planned.due, [each.entry for _, each in planned.held]) == ([], [hold.entry_id])
        with pytest.raises(RefusedError, match=f"on hold by {hold.entry_id} .case 17."):
            await erasing.by_order(log, one.index, two.index)

        await log.erasures.release(hold.entry_id, "A. Counsel", "closed")
        assert len(made.plan().due) == 1
        with pytest.raises(RefusedError, match="no hold"):
            await log.erasures.release(hold.entry_id, "A. Counsel", "again")


async def test_a_hold_on_what_is_not_there_is_refused(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        with pytest.raises(RefusedError, match="no entry"):
            await log.erasures.hold(ENTRY, "A" * 43, "A. Counsel", "case 17")


async def test_an_entry_that_came_after_the_plan_keeps_its_artifact(tmp_path: Path) -> None:
    """Seen before the erasure is registered it is refused; registered just before it, it is kept all the same."""
    made = erasing.make(tmp_path)
    data = erasing.record(1)
    digest = erasing.upload(made, data)
    async with running(made.made) as log:
        await erasing.shorten(made, log)
        first = await log.register(erasing.envelope(made.issuer, data, sub="first"))
        await settled(log)
        made.clock.advance(WEEK)
        planned = made.plan()
        second = await log.register(erasing.envelope(made.issuer, data, sub="second"))

        with pytest.raises(RefusedError, match=f"entry {second.index} names the same artifact"):
            await erasing.by_term(log, planned)
        request = Request(log.status().size, [first.index], last=False)
        statement = judge(log._store, made.artifacts, log.origin, request, made.clock())
        await log.operate(ERASURE, statement.to_bytes())
    async with running(made.made):
        pass
    assert made.artifacts.size(digest)
    store = open_for_reading(made.folder)
    (work,) = works_of(store, made.made.origin)
    assert work.digests == ()
    store.close()


async def test_an_envelope_that_comes_after_its_artifact_was_erased_finds_it_gone(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    data = erasing.record(1)
    digest = erasing.upload(made, data)
    async with running(made.made) as log:
        registered = await log.register(erasing.envelope(made.issuer, data))
        await erasing.by_order(log, registered.index)
        await log.register(erasing.envelope(made.issuer, data, sub="later"))
        made.clock.advance(YEAR)
        assert made.plan().due == []
    assert made.artifacts.is_gone(digest)
    assert made.made.fsck().findings == []


async def test_a_second_signature_over_the_same_bytes_goes_too_or_nothing_does(tmp_path: Path) -> None:
    """LEAF-7: ECDSA is randomised, so the same content may stand on the log twice."""
    issuer = SampleIssuer(key=PrivateKey.generate(-7))
    made = erasing.make(tmp_path, issuer)
    sent = issuer.sign(b"same")
    async with running(made.made) as log:
        first = await log.register(sent)
        second = await log.register(malleated(sent))
        assert second.entry != first.entry
        await erasing.state_audit(made, log)

        with pytest.raises(RefusedError, match=f"name its siblings, too .entries {second.index}."):
            await erasing.by_order(log, first.index)
        assert (await erasing.by_order(log, first.index, second.index)).unfinished == ""


async def test_tiers_and_records_that_no_entry_names_are_counted(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    data = erasing.record(1)
    erasing.upload(made, data)
    erasing.upload(made, b"an orphan")

    def tiered(old: Policy, entry: str) -> Policy:
        (issuer,) = old.issuers
        issuers = (replace(issuer, retention="pci-dss"),)
        return replace(old, generation=2, previous=entry, issuers=issuers)

    async with running(made.made) as log:
        await log.update_policy(made.made.next_policy(log, tiered))
        await log.register(erasing.envelope(made.issuer, data))
        await log.register(made.issuer.sign(b"attached"))

    assert made.plan().tiers == {("pci-dss", "immediate"): 2}
    made.clock.advance(100 * 24 * 3600)
    planned = made.plan()
    assert planned.tiers == {("pci-dss", "archive"): 2}
    assert (planned.payloads, planned.payloads_past) == (1, 0)
    assert (planned.unreferenced, planned.unreferenced_bytes) == (1, len(b"an orphan"))
    assert hashlib.sha256(b"an orphan").hexdigest() in set(made.artifacts.digests())
