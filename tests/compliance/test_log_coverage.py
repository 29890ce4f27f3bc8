"""L1 to L3: coverage, registration lag, issuers and their keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.compliance.log_world import DAY, NOW, findings, session, sign, world
from transparency.compliance import log_check_coverage
from transparency.compliance.finding import Verdict
from transparency.cose import labels
from transparency.cose.keys import PrivateKey
from transparency.policy.document import Policy
from transparency.policy.issuer import Validity
from transparency.statements.statement import parse_entry_id
from transparency.testing import FakeClock, MadeLog, SampleIssuer, running

EXPECT = b'[[expect]]\niss = "https://issuer.example"\nagent = "claude-code"\n'


async def daily(made: MadeLog, days: int, *, leave_out: int = -1) -> None:
    """A session a day, one of them perhaps not."""
    assert isinstance(made.clock, FakeClock)
    async with running(made) as log:
        for day in range(days):
            if day != leave_out:
                record = session(f"day-{day}", at=made.clock() - 60)
                await log.register(sign(made.issuer, record))
            made.clock.advance(DAY)


async def test_sessions_without_an_inventory_have_to_be_attested(tmp_path: Path) -> None:
    made = world(tmp_path)
    await daily(made, 3)

    found = findings(made)["L1"]

    assert found.verdict is Verdict.ATTEST
    assert found.counts["sessions"] == 3
    assert found.counts["agents"] == 1
    assert found.counts["gaps"] == 0


async def test_every_day_that_the_inventory_expects_has_its_session(tmp_path: Path) -> None:
    made = world(tmp_path)
    await daily(made, 3)

    found = findings(made, inventory=EXPECT)["L1"]

    assert found.verdict is Verdict.PASS
    assert (found.counts["days"], found.counts["missing-days"]) == (3, 0)


async def test_a_day_without_a_session_is_missing_and_named(tmp_path: Path) -> None:
    made = world(tmp_path)
    await daily(made, 3, leave_out=1)

    found = findings(made, inventory=EXPECT)["L1"]

    assert found.verdict is Verdict.FAIL
    assert found.counts["missing-days"] == 1
    assert str(found.counts["first-missing"]).endswith("2026-09-22")


async def test_an_agent_that_nobody_declared_is_a_warning(tmp_path: Path) -> None:
    made = world(tmp_path)
    await daily(made, 2)
    other = b'[[expect]]\niss = "https://issuer.example"\nagent = "codex-cli"\ndays = ["sun"]\n'

    found = findings(made, inventory=other)["L1"]

    assert found.verdict is Verdict.WARN
    assert found.counts["undeclared"] == 1
    assert "claude-code" in found.summary


async def test_a_session_that_continues_what_is_not_there_fails(tmp_path: Path) -> None:
    """Checkpoint 3 of a session after checkpoint 1: the second was never registered."""
    made = world(tmp_path)
    async with running(made) as log:
        first = await log.register(sign(made.issuer, session("s")))
        headers: dict[int | str, Any] = {
            labels.SUPERSEDES: parse_entry_id(first.entry_id),
            labels.SESSION_CHECKPOINT: 3,
        }
        third = await log.register(sign(made.issuer, session("s") + session("s"), headers=headers))

    found = findings(made)["L1"]

    assert found.verdict is Verdict.FAIL
    assert found.pointers == (third.entry_id,)


async def test_a_log_without_records_has_no_coverage_no_lag_and_no_issuers(tmp_path: Path) -> None:
    made = world(tmp_path)

    found = findings(made)

    assert [found[check].verdict for check in ("L1", "L2", "L3")] == [Verdict.NOT_APPLICABLE] * 3
    assert found["L3"].counts == {"policies": 1}


async def test_sessions_registered_soon_after_their_end_pass(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        await log.register(sign(made.issuer, session("s")))

    found = findings(made)["L2"]

    assert found.verdict is Verdict.PASS
    assert (found.counts["within-an-hour"], found.counts["late"]) == (1, 0)
    assert found.counts["longest-lag-seconds"] == 60


async def test_a_session_that_ends_after_its_registration_has_a_wrong_clock(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        await log.register(sign(made.issuer, session("fine")))
        ahead = await log.register(sign(made.issuer, session("ahead", at=NOW + 3600)))

    found = findings(made)["L2"]

    assert found.verdict is Verdict.FAIL
    assert found.pointers == (ahead.entry_id,)
    assert found.counts["worst-skew-seconds"] == 3600
    assert found.counts["clocks-ahead"] == made.issuer.iss


async def test_sessions_registered_days_later_are_late(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        late = await log.register(sign(made.issuer, session("s", at=NOW - 3 * DAY)))

    found = findings(made)["L2"]

    assert found.verdict is Verdict.WARN
    assert found.pointers == (late.entry_id,)


async def test_keys_that_are_good_still_need_the_people_behind_them_attested(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        await log.register(sign(made.issuer, session("s")))

    found = findings(made)["L3"]

    assert found.verdict is Verdict.ATTEST
    assert (found.counts["issuers"], found.counts["keys"], found.counts["compromised-records"]) == (1, 1, 0)


async def test_records_after_a_compromise_are_named_though_they_were_admitted(tmp_path: Path) -> None:
    """The compromise became known later: at the time of registration nobody could refuse it."""
    made = world(tmp_path)
    assert isinstance(made.clock, FakeClock)
    async with running(made) as log:
        await log.register(sign(made.issuer, session("before")))
        made.clock.advance(DAY)
        after = await log.register(sign(made.issuer, session("after", at=NOW + DAY - 60)))
        since = NOW + DAY // 2
        await log.update_policy(
            made.next_policy(
                log,
                lambda old, entry: old.with_compromise(
                    made.issuer.iss, made.issuer.key.public, since=since, previous=entry
                ),
            )
        )

    found = findings(made)["L3"]

    assert found.verdict is Verdict.FAIL
    assert found.pointers == (after.entry_id,)
    assert found.counts["policies"] == 2


async def test_taking_a_compromised_issuer_out_of_the_policy_makes_nothing_good_that_it_signed(tmp_path: Path) -> None:
    made = world(tmp_path)
    issuer = made.issuer
    async with running(made) as log:
        tainted = await log.register(sign(issuer, session("s")))
        for change in (
            lambda old, entry: old.with_compromise(issuer.iss, issuer.key.public, since=NOW - DAY, previous=entry),
            lambda old, entry: old.without_issuer(issuer.iss, previous=entry),
        ):
            await log.update_policy(made.next_policy(log, change))

    found = findings(made)["L3"]

    assert (found.verdict, found.pointers) == (Verdict.FAIL, (tainted.entry_id,))


async def test_keys_beyond_those_that_are_followed_are_not_called_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_check_coverage, "MAX_NAMES", 1)
    made, other = world(tmp_path), SampleIssuer("https://other.example")
    async with running(made) as log:
        await log.update_policy(
            made.next_policy(log, lambda old, entry: old.with_issuer(other.iss, (other.key.public,), previous=entry))
        )
        for issuer in (made.issuer, other):
            await log.register(sign(issuer, session(f"of {issuer.iss}")))

    found = findings(made)["L3"]

    assert found.verdict is Verdict.WARN
    assert found.counts["keys-not-followed"] == 1


async def test_an_issuer_whose_last_key_ends_soon_is_announced(tmp_path: Path) -> None:
    made = world(tmp_path, SampleIssuer(key=PrivateKey.generate(-7)))

    def ending(old: Policy, previous: str) -> Policy:
        (issuer,) = old.issuers
        soon = Validity(made.issuer.key.public.kid, not_after=NOW + 10 * DAY)
        return old.following(previous, (replace(issuer, validity=(soon,)),))

    async with running(made) as log:
        await log.update_policy(made.next_policy(log, ending))
        await log.register(sign(made.issuer, session("s")))

    found = findings(made)["L3"]

    assert found.verdict is Verdict.WARN
    assert found.counts["ending"] == 1
