"""The audit against holds: an erasure that names what stood under one is found, whoever signed it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.log import erasing
from tests.log.audited import audit_folder, pinned, tampering
from tests.log.erasing import Erasing
from transparency.log.audit import AuditReport
from transparency.log.log import Log
from transparency.policy.erasure import ARTIFACT, PAYLOAD, Erasure, Item
from transparency.policy.hold import ENTRY, ISSUER, SESSION, Hold, Release
from transparency.policy.operations import ERASURE, HOLD
from transparency.statements.statement import entry_id
from transparency.testing import running

pytestmark = pytest.mark.sqlite_file


@dataclass(frozen=True, slots=True)
class Registered:
    """An envelope that names its session, and one statement with its payload; both audited and under a manifest."""

    made: Erasing
    log: Log
    beside: int
    inside: int

    async def erase(self, index: int, what: str) -> int:
        """Past the owner's own judgement, as whoever has the operations key can; the index of the order."""
        log = self.log
        item = Item(index, entry_id(log.stored(index).entry), what, "order", "the operator", self.made.clock())
        return (await log.operate(ERASURE, Erasure(log.origin, (item,)).to_bytes())).index

    def value(self, scope: str, index: int) -> str:
        entry = entry_id(self.log.stored(index).entry)
        return {ENTRY: entry, ISSUER: self.made.issuer.iss, SESSION: erasing.SESSION}[scope]

    async def hold(self, scope: str, index: int) -> str:
        return (await self.log.erasures.hold(scope, self.value(scope, index), "A. Counsel", "case 17")).entry_id

    def audit(self) -> AuditReport:
        return audit_folder(self.made.made.data, pinned(self.made.made))


async def registered(made: Erasing, log: Log) -> Registered:
    envelope = erasing.envelope(made.issuer, b"record", session=erasing.SESSION)
    beside = await log.register(envelope)
    inside = await log.register(made.issuer.sign(b"payload"))
    await erasing.state_audit(made, log)
    return Registered(made, log, beside.index, inside.index)


def about_holds(report: AuditReport) -> list[tuple[int, str]]:
    return [(found.index, found.what) for found in report.findings if "under the hold" in found.what]


@pytest.mark.parametrize("scope", [ENTRY, ISSUER, SESSION])
async def test_an_artifact_that_was_erased_while_on_hold_is_named(tmp_path: Path, scope: str) -> None:
    """REG-20: its envelope stays, so entry, issuer and signed session can be told for ever."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await registered(made, log)
        hold = await there.hold(scope, there.beside)
        order = await there.erase(there.beside, ARTIFACT)

        report = there.audit()

    words = f"entry {there.beside} was to be erased, and stood under the hold {hold}"
    assert [(found.index, found.what) for found in report.findings] == [(order, words)]


async def test_a_payload_that_was_erased_while_on_hold_is_named_by_its_entry_id(tmp_path: Path) -> None:
    """REG-20: an erased statement has its entry id left."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await registered(made, log)
        hold = await there.hold(ENTRY, there.inside)
        order = await there.erase(there.inside, PAYLOAD)
    with tampering(made.made.data) as database:
        database.execute("UPDATE entries SET statement = x'' WHERE idx = ?", (there.inside,))

    assert about_holds(there.audit()) == [
        (order, f"entry {there.inside} was to be erased, and stood under the hold {hold}")
    ]


@pytest.mark.parametrize("scope", [ISSUER, SESSION])
async def test_whose_an_erased_payload_was_cannot_be_told_and_is_counted(tmp_path: Path, scope: str) -> None:
    """The statement is gone, and with it its issuer; that is said, and neither passed nor called a breach."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await registered(made, log)
        await log.erasures.hold(scope, "https://somebody.else.example", "A. Counsel", "case 17")
        assert (await erasing.by_order(log, there.inside)).unfinished == ""

        report = there.audit()

    assert report.findings == []
    assert (report.holds_untold, report.certain) == (1, True)


@pytest.mark.parametrize("when", ["released before", "held after", "another entry"])
async def test_a_hold_that_did_not_stand_is_no_finding(tmp_path: Path, when: str) -> None:
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await registered(made, log)
        if when == "released before":
            hold = await there.hold(ENTRY, there.beside)
            await log.erasures.release(hold, "A. Counsel", "closed")
        if when == "another entry":
            await there.hold(ENTRY, there.inside)
        await there.erase(there.beside, ARTIFACT)
        if when == "held after":
            await there.hold(ENTRY, there.beside)

        report = there.audit()

    assert (report.findings, report.holds_untold) == ([], 0)


async def test_a_release_that_came_after_the_erasure_mends_nothing(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await registered(made, log)
        hold = await there.hold(ENTRY, there.beside)
        order = await there.erase(there.beside, ARTIFACT)
        await log.erasures.release(hold, "A. Counsel", "closed")

        assert [index for index, _ in about_holds(there.audit())] == [order]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"\xa0", "a hold"),
        (Hold("elsewhere.example", ISSUER, "x", "a", "r", 1).to_bytes(), "another log's"),
        (None, "no hold that stood"),
    ],
    ids=["unreadable", "another log's", "a release of nothing"],
)
async def test_a_hold_that_nobody_could_keep_to_is_named(tmp_path: Path, payload: bytes | None, words: str) -> None:
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        there = await registered(made, log)
        said = await log.operate(HOLD, payload or Release(log.origin, "A" * 43, "a", "r", 1).to_bytes())

        (finding,) = there.audit().findings

    assert finding.index == said.index
    assert words in finding.what
