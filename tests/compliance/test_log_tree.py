"""L5 and L6 on a folder: checkpoints, witnesses, records verified again. L8 asks a running log (tests/cli)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.compliance.log_world import NOW, envelope, findings, report_on, session, sign, world
from tests.log.audited import tampering
from tests.log.test_checkpoints import publishing, until_published
from tests.log.witness_peers import Peer, listening, policy_of
from transparency.compliance.finding import Verdict
from transparency.log.folder import Folder
from transparency.log.stores import open_for_reading
from transparency.testing import MadeLog, running


async def test_a_log_that_published_nothing_has_no_checkpoints_to_compare(tmp_path: Path) -> None:
    found = findings(world(tmp_path))["L5"]

    assert found.verdict is Verdict.NOT_APPLICABLE
    assert found.counts["heads"] == 1


async def published(made: MadeLog, *peers: Peer) -> None:
    """Two checkpoints of a log that grows, cosigned by *peers*."""
    settings = {"policy": policy_of(*peers)} if peers else {}
    async with running(made) as log, publishing(made, log, **settings) as publisher:
        await until_published(publisher, 2)
        await log.register(sign(made.issuer, session("s")))
        await publisher.publish()
        await until_published(publisher, 3)


async def test_checkpoints_of_one_tree_that_nobody_cosigned_are_a_warning(tmp_path: Path) -> None:
    made = world(tmp_path)
    await published(made)

    found = findings(made)["L5"]

    assert found.verdict is Verdict.WARN
    assert (found.counts["cosigned"], found.counts["newest-size"]) == (0, 3)


async def test_checkpoints_that_the_quorum_cosigned_pass(tmp_path: Path) -> None:
    made = world(tmp_path)
    peer = Peer(time=NOW)
    async with listening(peer):
        await published(made, peer)

    found = findings(made, witness_policy=policy_of(peer))

    assert found["L5"].verdict is Verdict.PASS
    assert (found["L5"].counts["checkpoints"], found["L5"].counts["cosigned"]) == (2, 2)
    assert found["L5"].counts["witnesses"] == "w1"
    assert found["L2"].counts["witness-lag-seconds"] == 0


def included(made: MadeLog, **more: Any) -> dict[int | None, tuple[Verdict, object]]:
    """R7.3 of each record by its index: the verdict, and who cosigned."""
    return {
        record.index: (finding.verdict, finding.counts["witnesses"])
        for record in report_on(made, **more).records
        for finding in record.findings
        if finding.check == "R7.3"
    }


async def test_a_record_counts_the_witnesses_of_the_checkpoint_that_covers_it(tmp_path: Path) -> None:
    made, peer = world(tmp_path), Peer(time=NOW)
    async with listening(peer):
        await published(made, peer)
    async with running(made) as log:
        await log.register(sign(made.issuer, session("later")))

    assert included(made, witness_policy=policy_of(peer)) == {
        2: (Verdict.PASS, "1 of 1"), 3: (Verdict.WARN, "0 of 1"),
    }  # fmt: skip
    assert included(made) == {2: (Verdict.WARN, "not looked"), 3: (Verdict.WARN, "not looked")}


async def test_a_cosigned_checkpoint_over_another_tree_counts_for_no_record(tmp_path: Path) -> None:
    made, other, peer = world(tmp_path / "a"), world(tmp_path / "b"), Peer(time=NOW)
    await published(made)
    async with listening(peer):
        await published(other, peer)
    with tampering(made.data) as database:
        database.execute("UPDATE checkpoints SET note = ? WHERE size = 3", (checkpoints_of(other)[3],))

    assert included(made, witness_policy=policy_of(peer)) == {2: (Verdict.WARN, "0 of 1")}


async def test_a_quorum_that_is_missing_is_a_warning(tmp_path: Path) -> None:
    made = world(tmp_path)
    await published(made)
    absent = Peer(name="absent")
    absent.url = "http://127.0.0.1:9"

    found = findings(made, witness_policy=policy_of(absent))["L5"]

    assert found.verdict is Verdict.WARN
    assert (found.counts["cosigned"], found.counts["newest-size"]) == (0, 3)


async def test_a_checkpoint_over_another_tree_fails(tmp_path: Path) -> None:
    """A split view: the note is signed by the log's key, and over entries that are not these."""
    made, other = world(tmp_path / "a"), world(tmp_path / "b")
    await published(made)
    await published(other)
    note = checkpoints_of(other)[3]
    with tampering(made.data) as database:
        database.execute("UPDATE checkpoints SET note = ? WHERE size = 3", (note,))

    found = findings(made)["L5"]

    assert found.verdict is Verdict.FAIL
    assert found.counts["problems"] == 1
    assert "checkpoint of size 3" in found.summary


def checkpoints_of(made: MadeLog) -> dict[int, bytes]:
    store = open_for_reading(Folder(made.data))
    try:
        return dict(store.checkpoints())
    finally:
        store.close()


async def test_a_replaced_statement_fails_the_tree_and_names_its_entry(tmp_path: Path) -> None:
    made = world(tmp_path)
    await published(made)
    async with running(made) as log:
        entry = (await log.register(sign(made.issuer, session("victim")))).entry_id
    with tampering(made.data) as database:
        (statement,) = database.execute("SELECT statement FROM entries WHERE idx = 3").fetchone()
        database.execute("UPDATE entries SET statement = ? WHERE idx = 3", (statement.replace(b"Fix", b"Fax"),))

    report = report_on(made)
    found = {finding.check: finding for finding in report.log}

    assert found["L5"].verdict is Verdict.FAIL
    assert found["L5"].pointers == (entry,)
    assert report.outcomes == {"reproduced": 1, "failed": 1}
    assert found["L6"].verdict is Verdict.FAIL
    assert found["L6"].pointers == (entry,)


async def test_records_verify_again_end_to_end_and_the_seed_is_named(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        for number in range(5):
            await log.register(sign(made.issuer, session(f"s-{number}")))

    found = findings(made, settings="[log]\nseed = 42\nsample = 3\n")["L6"]

    assert found.verdict is Verdict.PASS
    assert (found.counts["seed"], found.counts["drawn"], found.counts["verified"]) == ("42", 3, 3)


async def test_a_record_of_which_only_the_digest_is_here_is_not_a_pass(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        await log.register(sign(made.issuer, session("here")))
        await log.register(envelope(made.issuer, session("elsewhere")))

    found = findings(made)["L6"]

    assert found.verdict is Verdict.WARN
    assert (found.counts["verified"], found.counts["without-record"]) == (1, 1)


async def test_a_log_without_records_has_none_to_draw(tmp_path: Path) -> None:
    found = findings(world(tmp_path))

    assert found["L6"].verdict is Verdict.NOT_APPLICABLE
    assert found["L8"].verdict is Verdict.NOT_APPLICABLE
