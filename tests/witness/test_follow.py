"""The compliance witness against a log that lies: what holds the log to something, and what does not."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.log.erasing import envelope
from tests.witness.followed import ISS, NAME, follower_of, fronted, make_follower
from transparency.compliance.examined import HASH_ONLY
from transparency.compliance.period import SUBJECT, Period
from transparency.compliance.stated import PERIOD
from transparency.cose.algorithms import ES256
from transparency.cose.keys import PrivateKey
from transparency.log.export import read_entries, write_entries
from transparency.statements.statement import sign_statement
from transparency.testing import FakeClock, SampleIssuer
from transparency.witness import examining
from transparency.witness.examiner import Examiner
from transparency.witness.findings_pages import FindingsPages
from transparency.witness.follow_alerts import Event
from transparency.witness.follow_periods import DAY, NEWS
from transparency.witness.monitor_calls import Calls


def claiming(note: bytes, size: int, *, signed: bool) -> bytes:
    """The checkpoint with another size, which nobody signed: with the lines of the log, or with a stranger's."""
    origin, _, rest = note.split(b"\n", 2)
    said = b"\n".join((origin, b"%d" % size, rest))
    return said if signed else said.replace("— ".encode() + origin, "— ".encode() + b"stranger.example")


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("known", [True, False])
async def test_a_checkpoint_that_the_log_did_not_sign_holds_it_to_nothing(
    tmp_path: Path, signed: bool, known: bool
) -> None:
    """Whoever answers at its address: more entries than there are is not *missing* unless the log has said so."""
    async with fronted(tmp_path) as front:
        folder = make_follower(front, tmp_path)
        size = await front.grow(3)
        async with follower_of(front, folder, FakeClock()) as witness:
            if known:
                assert (await witness.round()).what == "cosigned"
            front.spoil["/checkpoint"] = claiming(await front.checkpoint(), size + 100, signed=signed)
            lied = await witness.round()
            standing = await witness.follower.work(witness.follower.findings.standing)
            front.spoil.clear()
            size = await front.grow()
            honest = await witness.round()

    assert lied.what == "bad-checkpoint"
    assert standing == []
    assert (honest.what, honest.size) == ("cosigned", size)


async def test_what_goes_wrong_is_told_in_words_and_not_by_the_names_of_classes(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        folder = make_follower(front, tmp_path)
        await front.grow()
        export = (await front.site.get("/export/entries?from=0")).body
        first, *others = read_entries(export)
        front.spoil["/export/entries"] = write_entries([replace(first, statement=b"no statement"), *others])
        async with follower_of(front, folder, FakeClock()) as witness:
            found = await witness.round()

    assert found.what == "unreachable"
    assert found.detail
    assert "Error" not in found.detail


async def test_a_record_that_is_too_large_to_be_read_is_not_available_and_withholds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever may upload a large one could stop the log's cosignatures."""
    most, record = 64, b"x" * 65
    monkeypatch.setattr(examining, "MAX_RECORD", most)
    defaults = Examiner.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "max_record", most)
    async with fronted(tmp_path) as front:
        folder = make_follower(front, tmp_path)
        site = front.site
        reply = await site.ask("PUT", f"/artifacts/{hashlib.sha256(record).hexdigest()}", data=record)
        assert reply.status == 201
        stated = await site.log.register(envelope(SampleIssuer(key=site.issuer), record, sub="large"))
        await front.publish()
        async with follower_of(front, folder, FakeClock()) as witness:
            found = await witness.round()
            entry = FindingsPages(folder.findings).entry(stated.index)

    assert found.what == "cosigned"
    assert entry is not None
    assert entry["availability"] == HASH_ONLY
    assert "larger than the 64 bytes" in entry["reason"]


async def test_a_period_that_another_key_signed_is_not_taken_for_its_own(tmp_path: Path) -> None:
    """Which keys are an issuer's is what the log says: a log could end a witness' attestations with one of its own."""
    forger = PrivateKey.generate(ES256.id)
    async with fronted(tmp_path) as front:
        folder = make_follower(front, tmp_path)
        await front.admit(ISS, forger.public)
        forged = Period(front.site.log.policy.log, NAME, 10**6, "", 0, 10**9, b"", cosigned=True, time=1, software="x")
        await front.site.log.register(
            sign_statement(forged.to_bytes(), forger, iss=ISS, sub=SUBJECT, content_type=PERIOD)
        )
        size = await front.grow()
        async with follower_of(front, folder, FakeClock()) as witness:
            assert (await witness.round()).what == "cosigned"
            last = await witness.follower.work(witness.follower.findings.last_period)

    assert last is not None
    assert (last[0].number, last[0].first, last[0].end) == (1, 0, size)


async def test_an_entry_that_is_withheld_is_attested_and_given_after_all_it_is_no_misbehaviour_any_more(
    tmp_path: Path,
) -> None:
    """Wherever in the replay the log stops: the period ends at the last checkpoint that was cosigned."""
    clock = FakeClock()
    async with fronted(tmp_path) as front:
        folder = make_follower(front, tmp_path)
        size = await front.grow(3)
        async with follower_of(front, folder, clock) as witness:
            assert (await witness.round()).what == "cosigned"
            front.withheld = size + 2
            await front.grow(4)
            clock.advance(NEWS)
            withheld = await witness.round()
            told = await witness.follower.work(witness.follower.findings.last_period)
            front.withheld = None
            given = await witness.round()
            recorded = witness.follower.recorded

    assert withheld.what == "withheld"
    assert told is not None
    assert (told[0].number, told[0].first, told[0].end, told[0].cosigned) == (2, size, size, True)
    assert [(each.code, each.index) for each in told[0].misbehaviour] == [("missing", size + 2)]
    assert (given.what, given.size) == ("cosigned", size + 4)
    assert recorded is not None
    assert recorded.size == size + 4


async def test_news_of_the_logs_conduct_is_attested_soon_and_not_again_and_again(tmp_path: Path) -> None:
    clock = FakeClock()
    attested = []
    async with fronted(tmp_path) as front:
        folder = make_follower(front, tmp_path)
        await front.grow()
        async with follower_of(front, folder, clock) as witness:
            findings = witness.follower.findings

            def found() -> None:
                with findings.batch():
                    findings.find("tiles", -1, "", "a tile is another", 3, clock())

            def ended() -> None:
                with findings.batch():
                    findings.end(1, clock())

            def nothing() -> None:
                """The log goes on as it did."""

            for seconds, happens in (
                (0, nothing), (10, found), (NEWS - 10, nothing), (10, ended), (NEWS, nothing), (DAY, nothing),
            ):  # fmt: skip
                clock.advance(seconds)
                await witness.follower.work(happens)
                await witness.round()
                last = await witness.follower.work(findings.last_period)
                assert last is not None
                attested.append((last[0].number, last[0].misbehaviours))

    assert attested == [(1, 0), (1, 0), (2, 1), (2, 1), (3, 0), (3, 0)]


async def test_what_nobody_could_be_told_is_shown_to_the_person_watching_at_once_and_once(tmp_path: Path) -> None:
    said: list[Event] = []
    async with fronted(tmp_path) as front:
        folder = make_follower(front, tmp_path)
        await front.grow(2)
        front.withheld = 3
        async with follower_of(front, folder, FakeClock(), say=said.append, calls=Calls(command="false")) as witness:
            for _ in range(3):
                await witness.round()

    assert [each["code"] for each in said if each["event"] == "misbehaviour"] == ["missing"]
    assert sum(each["event"] == "not-told" for each in said) >= 3


async def test_a_record_that_is_deleted_from_the_disk_is_not_called_one_that_was_never_there(tmp_path: Path) -> None:
    """Nothing that is signed tells the two apart, so neither is said."""
    record = b"a record that somebody deletes"
    digest = hashlib.sha256(record).hexdigest()
    async with fronted(tmp_path) as front:
        folder, site = make_follower(front, tmp_path), front.site
        assert (await site.ask("PUT", f"/artifacts/{digest}", data=record)).status == 201
        stated = await site.log.register(envelope(SampleIssuer(key=site.issuer), record))
        await front.publish()
        (front.data / "artifacts" / digest[:2] / digest[2:]).unlink()
        async with follower_of(front, folder, FakeClock()) as witness:
            await witness.round()
            entry = FindingsPages(folder.findings).entry(stated.index)

    assert entry is not None
    assert entry["availability"] == HASH_ONLY
    assert "never given to the log, or is not there any more" in entry["reason"]
