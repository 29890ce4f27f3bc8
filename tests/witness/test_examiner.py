"""The examiner: what is available, what is not and why, and that several processes see what one sees."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.compliance.log_world import NOW, envelope, report_on, session, sign, upload, world
from tests.log.erasing import Erasing, by_order, state_audit
from transparency.compliance.examined import ERASED, HASH_ONLY, NOT_PERMITTED, OPERATION, READ, Examined
from transparency.compliance.finding import Verdict
from transparency.compliance.record_checks import RECORD_CHECKS
from transparency.compliance.stated import ATTESTATION, REVIEW, Attestation
from transparency.cose import cbor
from transparency.errors import GoneError, NotFoundError, ServiceRefusedError
from transparency.log.folder import Folder
from transparency.log.store import Store, StoredEntry
from transparency.log.stores import open_for_reading
from transparency.policy.document import Policy
from transparency.policy.hold import Hold
from transparency.policy.keyset import ServiceKeys
from transparency.statements.receipt import SignedHead
from transparency.testing import FakeClock, MadeLog, running
from transparency.witness import examining
from transparency.witness.examiner import Artifact, Examiner, Known

REPRODUCED = Known("reproduced", now=NOW)


@contextmanager
def stored(made: MadeLog) -> Iterator[Store]:
    store = open_for_reading(Folder(made.data))
    try:
        yield store
    finally:
        store.close()


def rows(made: MadeLog) -> list[tuple[StoredEntry, SignedHead]]:
    with stored(made) as store:
        head = store.newest_head()
        assert head is not None
        return [(row, head) for row in store.entries(0, head.size)]


def nowhere(_: bytes) -> None:
    """No artifact is anywhere."""


def examine(made: MadeLog, index: int, artifact: Artifact = nowhere, known: Known = REPRODUCED) -> Examined:
    row, head = rows(made)[index]
    return Examiner().examine(row, head, artifact, known)


def verdicts(examined: Examined) -> dict[str, Verdict]:
    return {finding.check: finding.verdict for finding in examined.findings}


async def test_an_attached_record_is_read_and_every_check_runs(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        entry = await log.register(sign(made.issuer, session("s-1", tokens=300)))

    found = examine(made, entry.index)

    assert (found.availability, found.entry, found.iss, found.time) == (READ, entry.entry_id, made.issuer.iss, NOW)
    assert [finding.check for finding in found.findings] == [check.id for check in RECORD_CHECKS]
    (one,) = found.sessions
    assert (one.session, one.agent, one.tools, one.calls, one.errors, one.tokens) == (
        "s-1", "claude-code", ("Edit",), 1, 0, 300,
    )  # fmt: skip
    assert verdicts(found)["R7.1"] is Verdict.PASS


async def test_a_record_beside_its_envelope_is_read_and_held_against_the_digest(tmp_path: Path) -> None:
    made = world(tmp_path)
    record = session("s-1")
    async with running(made) as log:
        entry = await log.register(envelope(made.issuer, record))

    found = examine(made, entry.index, lambda digest: record if digest == hashlib.sha256(record).digest() else None)
    assert (found.availability, found.digest, found.size) == (
        READ, hashlib.sha256(record).hexdigest(), len(record),
    )  # fmt: skip
    other = examine(made, entry.index, lambda _: record + b"\n")
    assert (other.availability, other.reason) == (HASH_ONLY, "what is kept is not the record whose digest was signed")


def refused(status: int) -> ServiceRefusedError:
    return ServiceRefusedError(status, "No", "")


@pytest.mark.parametrize(
    ("error", "availability"),
    [
        (None, HASH_ONLY), (NotFoundError("x"), HASH_ONLY), (refused(404), HASH_ONLY), (GoneError("x"), ERASED),
        (refused(410), ERASED), (refused(401), NOT_PERMITTED), (refused(403), NOT_PERMITTED),
    ],
)  # fmt: skip
async def test_what_cannot_be_had_says_why_and_passes_no_check_of_content(
    tmp_path: Path, error: Exception | None, availability: str
) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        entry = await log.register(envelope(made.issuer, session("s")))

    def artifact(_: bytes) -> bytes | None:
        if error is not None:
            raise error
        return None

    found = examine(made, entry.index, artifact)

    assert found.availability == availability
    assert found.reason
    said = verdicts(found)
    assert said["R7.1"] is Verdict.PASS
    assert {said[check] for check in ("R1.1", "R2.1", "R5.1", "R9.3", "R10.1", "R11.1")} == {Verdict.NOT_APPLICABLE}


async def test_a_log_that_answers_otherwise_is_an_error_and_no_availability(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        entry = await log.register(envelope(made.issuer, session("s")))

    def artifact(_: bytes) -> bytes | None:
        raise refused(500)

    with pytest.raises(ServiceRefusedError):
        examine(made, entry.index, artifact)


async def test_an_erased_statement_is_counted_apart(tmp_path: Path) -> None:
    made = world(tmp_path)
    assert isinstance(made.clock, FakeClock)
    async with running(made) as log:
        gone = await log.register(sign(made.issuer, session("gone")))
        await state_audit(Erasing(made, made.clock), log)
        await by_order(log, gone.index)

    found = examine(made, gone.index, known=Known("erased"))

    assert (found.availability, found.findings, found.sessions, found.outcome) == (ERASED, (), (), "erased")


async def test_what_the_service_states_is_an_operation_and_no_record(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        hold = Hold(made.origin, "issuer", made.issuer.iss, "counsel", "case", NOW)
        entry = await log.operate("hold", hold.to_bytes())

    found = [examine(made, index) for index in (0, 1, entry.index)]

    assert [each.availability for each in found] == [OPERATION] * 3
    assert [type(each.stated) for each in found] == [Policy, ServiceKeys, Hold]
    assert [each.kind for each in found] == ["policy", "keys", "operation"]
    assert not any(each.findings for each in found)


async def test_our_own_statements_are_read_and_are_no_records(tmp_path: Path) -> None:
    made = world(tmp_path)
    said = {"subject": "clock-sync", "checks": ["L2"], "scope": {"iss": "https://a.example"}, "statement": "NTP.",
            "by": "Ada", "expires": NOW + 1}  # fmt: skip
    async with running(made) as log:
        entry = await log.register(sign(made.issuer, cbor.encode(said), content_type=ATTESTATION))
        broken = await log.register(sign(made.issuer, b"\xff", content_type=REVIEW))

    found = examine(made, entry.index)

    assert found.stated == Attestation("clock-sync", ("L2",), "NTP.", "Ada", NOW + 1, "https://a.example")
    assert (found.sessions, found.findings) == ((), ())
    assert examine(made, broken.index).stated is None


async def test_an_entry_whose_admission_was_not_reproduced_is_not_called_signed(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        entry = await log.register(sign(made.issuer, session("s")))

    found = examine(made, entry.index, known=Known("failed"))

    assert found.outcome == "failed"
    assert verdicts(found)["R7.1"] is not Verdict.PASS


async def test_several_processes_give_the_report_that_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Order, history and sample depend on the log alone."""
    made = world(tmp_path)
    monkeypatch.setattr(examining, "CHUNK", 4)
    async with running(made) as log:
        for number in range(40):
            record = session(f"s-{number}", tokens=100 + number)
            if number % 4 == 1:
                upload(made, record)
            await log.register((envelope if number % 4 == 1 else sign)(made.issuer, record))
    settings = "[log]\nseed = 7\nbaseline-sessions = 5\n[checks]\nleast-history = 5\n"

    alone = report_on(made, settings=settings, jobs=1).to_json()
    together = report_on(made, settings=settings, jobs=2).to_json()

    assert alone["total"] == 40
    assert _timeless(alone) == _timeless(together)


def _timeless(report: dict[str, object]) -> str:
    """How long a fetch took is all that may differ."""
    log = [
        {**finding, "counts": {name: value for name, value in finding["counts"].items() if name != "slowest-ms"}}
        for finding in report["log"]  # type: ignore[attr-defined]
    ]
    return json.dumps({**report, "log": log}, sort_keys=True)


def test_a_refusal_comes_out_of_another_process_as_it_was() -> None:
    there = pickle.loads(pickle.dumps(ServiceRefusedError(403, "No", "not you", 2.0)))  # noqa: S301 - our own

    assert (there.status, there.title, there.detail, there.retry_after, str(there)) == (
        403, "No", "not you", 2.0, "No: not you",
    )  # fmt: skip
