"""L4 and L12: retention, erasure, holds; and that reading is written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compliance.log_world import DAY, NOW, envelope, findings, report_on, session, sign, upload, world
from tests.log.audited import tampering
from tests.log.erasing import Erasing, by_order, by_term, shorten, state_audit
from transparency.compliance.examined import Examined
from transparency.compliance.finding import Verdict
from transparency.compliance.log_check_keeping import Retention
from transparency.compliance.log_facts import LogFacts
from transparency.compliance.log_settings import LogSettings
from transparency.log.access_digests import AccessDigests
from transparency.log.access_log import AccessLog
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.log.stores import open_for_reading
from transparency.policy.erasure import ARTIFACT, Erasure, Item
from transparency.policy.hold import ISSUER, Hold
from transparency.testing import FakeClock, MadeLog, running, settled
from transparency.witness.examiner import Examiner, Known
from transparency.witness.spill import TemporarySpill


async def test_records_that_are_all_at_hand_are_kept(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        await log.register(sign(made.issuer, session("attached")))
        upload(made, session("beside"))
        await log.register(envelope(made.issuer, session("beside")))

    found = findings(made)["L4"]

    assert found.verdict is Verdict.PASS
    assert (found.counts["records"], found.counts["read"], found.counts["hash-only"]) == (2, 2, 0)
    assert (found.counts["fetched"], found.counts["of-sample"]) == (2, 2)


async def test_a_log_without_records_and_one_with_digests_only_have_nothing_to_show(tmp_path: Path) -> None:
    empty, private = world(tmp_path / "a"), world(tmp_path / "b")
    async with running(private) as log:
        await log.register(envelope(private.issuer, session("elsewhere")))

    assert findings(empty)["L4"].verdict is Verdict.NOT_APPLICABLE
    found = findings(private)["L4"]
    assert found.verdict is Verdict.NOT_APPLICABLE
    assert (found.counts["read"], found.counts["hash-only"]) == (0, 1)


async def test_a_class_of_a_week_is_shorter_than_what_is_asked(tmp_path: Path) -> None:
    made = world(tmp_path)
    assert isinstance(made.clock, FakeClock)
    async with running(made) as log:
        await shorten(Erasing(made, made.clock), log)
        kept = await log.register(sign(made.issuer, session("s")))

    found = findings(made)["L4"]

    assert found.verdict is Verdict.WARN
    assert found.pointers == (kept.entry_id,)
    assert found.counts["short-term"] == 1


async def test_what_was_erased_by_order_is_counted_and_is_no_fault(tmp_path: Path) -> None:
    made = world(tmp_path)
    assert isinstance(made.clock, FakeClock)
    async with running(made) as log:
        await log.register(sign(made.issuer, session("kept")))
        gone = await log.register(sign(made.issuer, session("gone")))
        await state_audit(Erasing(made, made.clock), log)
        await by_order(log, gone.index)

    report = report_on(made)
    found = next(finding for finding in report.log if finding.check == "L4")

    assert found.verdict is Verdict.PASS
    assert (found.counts["read"], found.counts["erased"], found.counts["erased-by-order"]) == (1, 1, 1)
    assert (report.total, report.availability) == (2, {"read": 1, "erased": 1})
    assert report.outcomes == {"reproduced": 1, "erased": 1}


async def test_a_statement_that_is_gone_without_an_order_fails(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        gone = await log.register(sign(made.issuer, session("gone")))
    with tampering(made.data) as database:
        database.execute("UPDATE entries SET statement = x'' WHERE idx = ?", (gone.index,))

    found = findings(made)["L4"]

    assert found.verdict is Verdict.FAIL
    assert found.pointers == (gone.entry_id,)
    assert found.counts["gone-without-order"] == 1


async def test_an_artifact_whose_term_is_over_may_go(tmp_path: Path) -> None:
    made = world(tmp_path)
    assert isinstance(made.clock, FakeClock)
    erasing = Erasing(made, made.clock)
    async with running(made) as log:
        await shorten(erasing, log)
        upload(made, session("old"))
        await log.register(envelope(made.issuer, session("old")))
        made.clock.advance(9 * DAY)
        await log.register(sign(made.issuer, session("new", at=made.clock() - 60)))
        await settled(log)
        await by_term(log, erasing.plan())

    found = findings(made, settings="[log]\nretention-days = 7\n")["L4"]

    assert found.verdict is Verdict.PASS
    assert (found.counts["erased-by-term"], found.counts["erased-too-early"]) == (1, 0)
    assert found.counts["erased"] == 1


def erased(entry: Examined, *, rule: str, time: int, hold: Hold | None = None) -> tuple[Verdict, dict[str, int | str]]:
    """What L4 says when the log states an erasure of *entry* that a server of ours would not have made."""
    with TemporarySpill() as spill:
        check = Retention(LogSettings(), spill)
        check.see(entry)
        if hold is not None:
            check.see(Examined("hold", 6, "operation", "log", "hold", NOW, availability="operation", stated=hold))
        item = Item(entry.index, entry.entry, ARTIFACT, rule, "operator", time)
        stated = Erasure("log", (item,))
        check.see(Examined("order", 7, "operation", "log", "erasure", time, availability="operation", stated=stated))
        found = check.finish(LogFacts(now=time))
        assert found.pointers == ((entry.entry,) if found.verdict is Verdict.FAIL else ())
        return found.verdict, dict(found.counts)


@pytest.mark.parametrize(("after", "verdict"), [(364, Verdict.FAIL), (366, Verdict.PASS)])
async def test_what_goes_before_its_term_is_over_fails(tmp_path: Path, after: int, verdict: Verdict) -> None:
    (entry,) = await examined_of(world(tmp_path))

    found, counts = erased(entry, rule="retention class default, policy generation 1", time=NOW + after * DAY)

    assert found is verdict
    assert counts["erased-too-early"] == (verdict is Verdict.FAIL)


async def test_what_goes_though_on_hold_fails(tmp_path: Path) -> None:
    (entry,) = await examined_of(world(tmp_path))
    hold = Hold("log", ISSUER, entry.iss, "counsel", "case 1", NOW)

    found, counts = erased(entry, rule="order 4711", time=NOW + DAY, hold=hold)

    assert found is Verdict.FAIL
    assert counts["erased-though-held"] == 1


async def examined_of(made: MadeLog) -> list[Examined]:
    """One record of a real log, examined."""
    async with running(made) as log:
        await log.register(sign(made.issuer, session("s")))
    store = open_for_reading(Folder(made.data))
    try:
        head = store.newest_head()
        assert head is not None
        known = Known("reproduced", ("default", 365 * DAY))
        return [Examiner().examine(row, head, lambda _: None, known) for row in store.entries(2, 3)]
    finally:
        store.close()


async def read_by(made: MadeLog, log: Log, times: int) -> None:
    """Somebody reads, and the log registers the digest of it."""
    digests = AccessDigests(made.data, made.origin, log.operate)
    access = AccessLog(Folder(made.data).access_log, made.origin)
    for number in range(times):
        access.append("token:0123456789ab", "read-statement", f"entry-{number}", 200)
    access.close()
    await digests.register()


async def test_accesses_that_a_digest_covers_are_written_down(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        await read_by(made, log, 3)

    found = findings(made)["L12"]

    assert found.verdict is Verdict.PASS
    assert found.counts["digests"] == 1
    assert found.counts["covered"] == found.counts["registered-lines"]
    assert int(found.counts["registered-lines"]) >= 3


async def test_an_access_log_that_was_changed_fails(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        await read_by(made, log, 3)
    (segment,) = sorted(Folder(made.data).access_log.glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b"entry-1", b"entry-9"))

    found = findings(made)["L12"]

    assert found.verdict is Verdict.FAIL
    assert int(found.counts["problems"]) >= 1


async def test_days_without_a_digest_are_a_warning(tmp_path: Path) -> None:
    made = world(tmp_path)
    assert isinstance(made.clock, FakeClock)
    async with running(made) as log:
        await read_by(made, log, 1)
        made.clock.advance(5 * DAY)
        await read_by(made, log, 1)

    found = findings(made)["L12"]

    assert found.verdict is Verdict.WARN
    assert found.counts["widest-hours"] == 120


async def test_a_log_that_nobody_read_has_no_accesses(tmp_path: Path) -> None:
    made = world(tmp_path)

    found = findings(made)["L12"]

    assert found.verdict is Verdict.NOT_APPLICABLE
    assert found.counts["lines"] == 0


async def test_accesses_that_no_digest_covers_have_to_be_attested(tmp_path: Path) -> None:
    made = world(tmp_path)
    access = AccessLog(Folder(made.data).access_log, made.origin)
    access.append("token:0123456789ab", "read-statement", "entry-1", 200)
    access.close()

    assert findings(made)["L12"].verdict is Verdict.ATTEST
