"""A compliance witness beside a real log: what records look like never withholds its cosignature (design section 9)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

from tests.compliance.cases import CASES
from tests.faults.bad_record import bad, failing, failing_records
from tests.faults.ensemble import registered
from tests.faults.following import ISS, NAME, Followed, followed
from tests.log.erasing import envelope
from tests.patience import PATIENCE
from transparency.compliance.finding import Verdict
from transparency.statements.statement import Statement

# Checks of who signed and who keeps it; and a type that nobody knows makes a record that cannot be read.
NOT_BY_A_RECORD = {"R2.5", "R3.4", "R4.1", "R6.1", "R7.1", "R7.2", "R7.3"}


async def register(found: Followed, statement: bytes) -> str:
    await registered(found.group.session, found.log.url, statement)
    return Statement.from_bytes(statement).entry_id


async def size_of(found: Followed) -> int:
    return int(await found.group.metric(found.log, "entries"))


async def test_records_that_fail_every_check_are_cosigned_and_the_findings_are_attested(tmp_path: Path) -> None:
    """The next checkpoint is cosigned, and the attestation on the log names the entry and the checks."""
    async with followed(tmp_path) as found:
        records = failing_records()
        entries = [await register(found, found.group.made.issuer.sign(record)) for record in records]
        await found.group.published(found.log, await size_of(found))
        size = await size_of(found)
        await found.follow()

        assert await found.cosigned(size) >= size
        (period, *_) = await found.periods()
        _, metrics = await found.get("/metrics")
        listed = await found.page("/findings?verdict=fail", "findings")

    expected = {"R7.4"}.union(*map(failing, records))
    assert expected == {case.check for case in CASES if case.verdict is Verdict.FAIL} - NOT_BY_A_RECORD
    assert {check for check, counts in period.checks.items() if counts.get("fail")} >= expected
    worst = next(each for each in period.failed if each.entry == entries[0])
    assert set(worst.checks) >= failing(bad())
    assert (period.cosigned, period.first, period.end, period.misbehaviours) == (True, 0, size, 0)
    assert (period.witness, period.log) == (NAME, found.group.made.origin)
    assert sum(period.entries.values()) == sum(period.outcomes.values()) == size
    assert {(each["entry"], each["check"]) for each in listed} >= {(entries[0], check) for check in failing(bad())}
    assert all(each["verdict"] == Verdict.FAIL for each in listed)
    assert b"transparency_follower_misbehaviours 0.0" in metrics


async def test_its_attestations_and_those_of_others_are_cosigned_and_cause_no_new_ones(tmp_path: Path) -> None:
    async with followed(tmp_path) as found:
        await found.group.register(found.log)
        await found.follow()
        await found.periods(1)
        with_attestation = await size_of(found)
        await found.cosigned(with_attestation)
        # A policy is what the service says of itself: the log grows, and nobody has registered anything.
        await asyncio.to_thread(
            found.group.command, "issuer", "add", "--data", found.group.made.data, "--iss", "https://other.example",
            "--key", "compliance/issuer.pub.pem",
        )  # fmt: skip
        await found.cosigned(with_attestation + 1)
        quiet = await found.page("/periods", "periods")
        await found.group.register(found.log)
        periods = await found.periods(2)
        size = await size_of(found)

    assert len(quiet) == 1
    assert [each.number for each in periods] == [1, 2]
    # The second takes up where the first ended: the attestation and the policy are in it.
    assert (periods[1].first, periods[1].end) == (periods[0].end, with_attestation + 2)
    assert periods[1].entries == {"policy": 1, "statement": 2}
    assert periods[1].policies == (2, 3)
    assert size == with_attestation + 3


async def test_what_is_erased_by_order_or_only_a_digest_is_cosigned_and_counted_as_not_available(
    tmp_path: Path,
) -> None:
    """REG-20: a statement and a record that were erased by orders, and one that was never here."""
    async with followed(tmp_path) as found:
        issuer, group = found.group.made.issuer, found.group
        attached = await register(found, issuer.sign(b"attached"))
        await register(found, envelope(issuer, b"never uploaded", sub="private"))
        for record in (b"kept beside", b"to be erased"):
            digest = hashlib.sha256(record).hexdigest()
            async with group.session.put(f"{found.log.url}/artifacts/{digest}", data=record) as response:
                assert response.status == 201
        await register(found, envelope(issuer, b"kept beside", sub="kept"))
        erased = await register(found, envelope(issuer, b"to be erased", sub="erased"))
        for entry in (attached, erased):
            await asyncio.to_thread(
                group.command, "retention", "apply", "--data", group.made.data, "--entry", entry, "--order", "case 17",
                "--authoriser", "A. Counsel",
            )  # fmt: skip
        size = await size_of(found)
        await found.follow()

        assert await found.cosigned(size) >= size
        (period, *_) = await found.periods()
        gone = await found.page("/entries?availability=erased", "entries")
        hidden = await found.page("/entries?availability=hash-only", "entries")

    assert period.cosigned
    assert period.misbehaviours == 0
    assert period.not_available == {"erased": 2, "hash-only": 1}
    assert {each["entry"] for each in gone} == {attached, erased}
    assert len(hidden) == 1
    # Of what could not be read nothing passes but what its signature and its place show.
    assert {check for check, counts in period.checks.items() if counts.get("pass")} <= {"R3.4", "R6.1", "R7.1", "R7.2"}


async def test_an_erasure_between_the_checkpoint_and_the_reading_of_it_is_waited_for(tmp_path: Path) -> None:
    """The order stands on the log and not yet under a checkpoint: no misbehaviour, and no cosignature yet either."""
    async with followed(tmp_path) as found:
        group = found.group
        entry = await register(found, group.made.issuer.sign(b"attached"))
        size = await size_of(found)
        await group.published(found.log, size)
        await found.log.end()
        # From now on the checkpoint that was published stays as it is.
        found.log = await group.start_log("--checkpoint-interval", "3600")
        frozen, _, _ = await group.published(found.log, size)
        await asyncio.to_thread(
            group.command, "retention", "apply", "--data", group.made.data, "--entry", entry, "--order", "case 17",
            "--authoriser", "A. Counsel",
        )  # fmt: skip
        await found.follow()
        await found.until("waiting", frozen.size)
        waiting = await found.page("/misbehaviour", "misbehaviour")
        before = await found.cosigned_size()
        assert found.witness is not None
        await found.witness.end()
        await found.log.end()
        found.log = await group.start_log()
        await found.follow()
        after = await found.cosigned(await size_of(found))

    assert (waiting, before) == ([], 0)
    assert after > frozen.size


async def test_a_checkpoint_key_that_was_changed_is_followed_from_the_pinned_policy_key(tmp_path: Path) -> None:
    async with followed(tmp_path) as found:
        group = found.group
        await group.register(found.log)
        await found.follow()
        await found.cosigned(await size_of(found))
        await asyncio.to_thread(group.command, "log", "rotate-key", "--data", group.made.data, "--role", "checkpoints")
        await group.register(found.log)
        size = await size_of(found)
        group.log_vkeys = (await asyncio.to_thread(group.command, "log", "vkey", "--data", group.made.data)).split()
        cosigned = await found.cosigned(size)

    assert cosigned >= size


async def test_a_second_log_gets_the_attestations_too(tmp_path: Path) -> None:
    """``--also``: what is said about a log does not depend on that log alone."""
    async with followed(tmp_path / "one") as found, followed(tmp_path / "two") as other:
        await asyncio.to_thread(
            other.group.command, "issuer", "add", "--data", other.group.made.data, "--iss", ISS, "--key",
            found.folder / "issuer.pub.pem",
        )  # fmt: skip
        await found.group.register(found.log)
        await found.follow("--also", other.log.url)
        await found.periods(1)
        _, statement = await found.get("/periods/1")
        entry = Statement.from_bytes(statement).entry_id
        async with asyncio.timeout(PATIENCE):
            while True:
                async with other.group.session.get(f"{other.log.url}/entries/{entry}") as response:
                    if response.status == 200:
                        break
                await asyncio.sleep(0.05)


async def test_what_goes_wrong_is_told_to_a_command(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    script = tmp_path / "hear.sh"
    script.write_text(f'#!/bin/sh\ncat >> "{heard}"\n')
    script.chmod(0o755)
    async with followed(tmp_path / "log") as found:
        await register(found, found.group.made.issuer.sign(bad()))
        await found.follow("--exec", str(script), "--alerts-per-hour", "1")
        await found.cosigned(await size_of(found))
        await found.periods(1)
        await register(found, found.group.made.issuer.sign(bad() + b" "))
        await found.cosigned(await size_of(found))

    # One an hour, and not a second one.
    (line,) = heard.read_text().splitlines()
    event = json.loads(line)
    assert event["event"] == "records"
    assert event["failing"] == 1
    assert set(event["checks"]) >= failing(bad())
