"""L9, L10, L13: departures from an agent's history, oversight and reviews, secrets and redactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compliance.log_world import DAY, NOW, findings, report_on, session, sign, world
from transparency.compliance.finding import Verdict
from transparency.compliance.stated import ATTESTATION, REVIEW
from transparency.cose import cbor, labels
from transparency.policy.document import Policy
from transparency.records.disclosure import commit
from transparency.testing import MadeLog, SampleIssuer, running

FEW = "[log]\nbaseline-sessions = 5\nrecent-sessions = 5\nseed = 7\n"


async def registered(made: MadeLog, *records: bytes) -> list[str]:
    async with running(made) as log:
        return [(await log.register(sign(made.issuer, record))).entry_id for record in records]


async def test_sessions_like_those_before_pass(tmp_path: Path) -> None:
    made = world(tmp_path)
    await registered(made, *(session(f"s-{number}", tokens=100 + number) for number in range(8)))

    found = findings(made, settings=FEW)["L9"]

    assert found.verdict is Verdict.PASS
    assert (found.counts["sessions"], found.counts["with-history"], found.counts["new-tools"]) == (8, 1, 0)


async def test_a_tool_and_a_token_count_never_seen_before_are_departures(tmp_path: Path) -> None:
    made = world(tmp_path)
    usual = [session(f"s-{number}", tokens=100 + number) for number in range(6)]
    entries = await registered(made, *usual, session("odd", tool="Bash"), session("large", tokens=90_000))

    found = findings(made, settings=FEW)["L9"]

    assert found.verdict is Verdict.WARN
    assert (found.counts["new-tools"], found.counts["unusual-tokens"]) == (1, 1)
    assert found.counts["tools"] == "Bash"
    assert found.pointers == tuple(entries[-2:])


async def test_calls_that_begin_to_fail_are_a_drift(tmp_path: Path) -> None:
    made = world(tmp_path)
    fine = [session(f"s-{number}") for number in range(25)]
    await registered(made, *fine, *(session(f"f-{number}", failed=True) for number in range(25)))

    found = findings(made, settings="[log]\nbaseline-sessions = 5\nrecent-sessions = 25\n")["L9"]

    assert found.verdict is Verdict.WARN
    assert found.counts["error-drift"] == 1
    assert "100.0 % of calls failed, before 0.0 %" in str(found.counts["first"])


async def test_too_few_sessions_are_no_history(tmp_path: Path) -> None:
    made = world(tmp_path)
    await registered(made, session("a"), session("b", tool="Bash"))

    found = findings(made)["L9"]

    assert found.verdict is Verdict.NOT_APPLICABLE
    assert (found.counts["agents"], found.counts["with-history"]) == (1, 0)


ADA = SampleIssuer("https://ada.example")


def review(entry: str, verdict: str = "accepted", *, by: SampleIssuer = ADA) -> bytes:
    said = {"entry": entry, "verdict": verdict, "note": "looked at it", "reviewer": "Ada", "time": NOW}
    return sign(by, cbor.encode(said), sub=entry, content_type=REVIEW)


async def admit_ada(made: MadeLog) -> None:
    def admitting(old: Policy, entry: str) -> Policy:
        return old.with_issuer(ADA.iss, (ADA.key.public,), previous=entry)

    async with running(made) as log:
        await log.update_policy(made.next_policy(log, admitting))


def autonomous(name: str) -> bytes:
    """A session without any sign of a person's oversight but the first request."""
    return session(name, mode="bypassPermissions")


async def test_a_log_without_sessions_shows_neither_oversight_nor_secrets(tmp_path: Path) -> None:
    found = findings(world(tmp_path))

    assert found["L10"].verdict is Verdict.NOT_APPLICABLE
    assert found["L13"].verdict is Verdict.NOT_APPLICABLE


async def test_sessions_that_nobody_oversaw_or_reviewed_fail(tmp_path: Path) -> None:
    made = world(tmp_path)
    entries = await registered(made, autonomous("a"), autonomous("b"))

    found = findings(made)["L10"]

    assert found.verdict is Verdict.FAIL
    assert found.pointers == tuple(entries)


async def test_reviews_stand_for_oversight_and_say_who(tmp_path: Path) -> None:
    made = world(tmp_path)
    await admit_ada(made)
    first, second = await registered(made, autonomous("a"), autonomous("b"))
    async with running(made) as log:
        await log.register(review(first))

    # Also in a report about records of another issuer than the reviewer.
    half = findings(made, issuer=made.issuer.iss)["L10"]
    assert half.verdict is Verdict.WARN
    assert (half.counts["reviewed-instead"], half.counts["percent"], half.counts["reviews"]) == (1, 50, 1)
    assert half.counts["reviewers"] == f"Ada ({ADA.iss})"

    async with running(made) as log:
        await log.register(review(second))
    whole = findings(made)["L10"]
    assert whole.verdict is Verdict.PASS
    assert whole.counts["reviewed-instead"] == 2


async def test_who_signed_a_record_does_not_oversee_it_by_reviewing_it(tmp_path: Path) -> None:
    made = world(tmp_path)
    (entry,) = await registered(made, autonomous("a"))
    async with running(made) as log:
        await log.register(review(entry, by=made.issuer))

    found = findings(made)["L10"]

    assert found.verdict is Verdict.FAIL
    assert (found.counts["reviewed-instead"], found.counts["reviewed-by-own-key"], found.counts["reviews"]) == (0, 1, 1)
    assert found.summary.endswith("none was reviewed by another key than its own")


async def test_a_concern_of_a_reviewer_is_a_warning_that_leads_to_the_record(tmp_path: Path) -> None:
    made = world(tmp_path)
    await admit_ada(made)
    (entry,) = await registered(made, autonomous("a"))
    async with running(made) as log:
        await log.register(review(entry, "concern"))

    found = findings(made)["L10"]

    assert found.verdict is Verdict.WARN
    assert found.pointers == (entry,)


async def test_clean_records_and_redactions_with_commitments_pass(tmp_path: Path) -> None:
    made = world(tmp_path)
    redacted = session("r", said="The key is [REDACTED:api-key:1].")
    header = [["api-key", "1:11:/message/content", commit(b"s" * 32, "secret")]]
    async with running(made) as log:
        await log.register(sign(made.issuer, session("clean")))
        await log.register(sign(made.issuer, redacted, headers={labels.REDACTIONS: header}))

    found = findings(made)["L13"]

    assert found.verdict is Verdict.PASS
    assert (found.counts["sessions"], found.counts["redacted-records"], found.counts["commitments"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("said", "verdict", "counted"),
    [
        ("My card is 4111 1111 1111 1111.", Verdict.FAIL, "card-numbers"),
        (f"It was [REDACTED sha256 {'0a' * 32}].", Verdict.FAIL, "bare-hashes"),
        ("Write to ada@acme.test please.", Verdict.WARN, "open"),
        ("It was [REDACTED].", Verdict.WARN, "marks-without-commitment"),
    ],
)
async def test_what_is_open_or_badly_redacted_is_named(
    tmp_path: Path, said: str, verdict: Verdict, counted: str
) -> None:
    made = world(tmp_path)
    (entry,) = await registered(made, session("s", said=said))

    found = findings(made)["L13"]

    assert found.verdict is verdict
    assert found.counts[counted] == 1
    assert found.pointers == (entry,)


async def test_an_attestation_fills_what_no_data_shows_until_it_expires(tmp_path: Path) -> None:
    """It may come after the records that it speaks of; who made it is named."""
    made = world(tmp_path)
    said = {"subject": "human-identity", "checks": ["R3.2", "L3"], "scope": {}, "statement": "Known staff only.",
            "by": "Ada", "expires": NOW + DAY}  # fmt: skip
    await registered(made, session("a"), session("b"))
    async with running(made) as log:
        await log.register(sign(made.issuer, cbor.encode(said), content_type=ATTESTATION))

    report = report_on(made)

    (attested,) = report.attested
    assert (attested.subject, attested.by) == ("human-identity", f"Ada ({made.issuer.iss})")
    assert (report.tallies["R3.2"].get("attested"), report.tallies["R3.2"].get("attest")) == (2, 0)
    assert report.tallies["L3"].get("attested") == 1
    later = report_on(made, now=(NOW + 2 * DAY) * 1000)
    assert later.attested == ()
    assert [each.subject for each in later.lapsed] == ["human-identity"]
    assert later.tallies["R3.2"].get("attest") == 2
