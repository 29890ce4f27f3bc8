"""Erasure: content goes from everywhere and stays gone; the tree, its heads and its receipts are what they were."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.log import erasing
from tests.log.erasing import MARKER, Erasing, files_with
from transparency.errors import GoneError, RefusedError
from transparency.log.audit import Outcome, audit
from transparency.log.audit_sources import FolderSource
from transparency.log.backup import backup
from transparency.log.erasure import Request
from transparency.log.folder import Config
from transparency.log.log import Log
from transparency.log.store import Kind
from transparency.policy.erasure import Erasure
from transparency.statements.statement import Statement
from transparency.testing import running


def tree_of(log: Log, upto: int) -> list[bytes]:
    """Everything a holder was ever given: receipts, and the heads as they are exported."""
    return [*(log.receipt(index) for index in range(upto)), log.export_heads(0)]


@pytest.mark.sqlite_file
async def test_an_erased_artifact_is_in_no_file_and_every_receipt_stays_as_it_was(tmp_path: Path) -> None:
    """REG-20: only the artifact goes; statement, tree and receipts are the same to the byte."""
    made = erasing.make(tmp_path)
    data = erasing.record()
    digest = erasing.upload(made, data)
    async with running(made.made) as log:
        await erasing.shorten(made, log)
        statement = erasing.envelope(made.issuer, data)
        registered = await log.register(statement)
        made.index()
        before = [log.receipt(index) for index in range(log.status().size)]
        assert files_with(MARKER, [made.made.data])
        made.clock.advance(erasing.WEEK)

        outcome = await erasing.by_term(log, made.plan())

        assert outcome.unfinished == ""
        assert [log.receipt(index) for index in range(len(before))] == before
        assert log.transparent_statement(registered.index)
        with pytest.raises(GoneError, match="was erased"):
            made.artifacts.open(digest)
        backup(made.made.data, tmp_path / "copy")
        made.index()
        assert files_with(MARKER, [made.made.data, tmp_path / "copy"]) == []
    assert made.made.fsck().findings == []


@pytest.mark.sqlite_file
async def test_an_erased_payload_is_in_no_file_and_the_holder_of_the_original_can_still_prove_it(
    tmp_path: Path,
) -> None:
    """REG-20: by order, after an audit; the 202's row, the write-ahead log and free pages are emptied, too."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        others = [await log.register(made.issuer.sign(b"%d" % number * 3000)) for number in range(20)]
        sent = made.issuer.sign(erasing.record())
        await log.accept(sent)
        registered = await log.register(sent)
        await erasing.state_audit(made, log)
        made.index()
        _free_pages(made, sent)
        upto = log.status().size
        before = tree_of(log, upto)
        tile = log._store.tile(0, 0)
        assert tile is not None
        assert set(files_with(MARKER, [made.made.data])) & {"log.sqlite", "log.sqlite-wal"}

        outcome = await erasing.by_order(log, registered.index)

        assert outcome.unfinished == ""
        assert tree_of(log, upto)[:-1] == before[:-1]
        assert log.export_heads(0).startswith(before[-1])
        # The erasure stands on the log too, so the tile has grown; what was in it is as it was.
        assert (log._store.tile(0, 0) or b"").startswith(tile)
        with pytest.raises(GoneError):
            log.statement(registered.index)
        assert log.siblings(registered.index) == []
        assert log.statement(others[-1].index)
        backup(made.made.data, tmp_path / "copy")
        made.index()
        assert files_with(MARKER, [made.made.data, tmp_path / "copy"]) == []
    assert made.made.fsck().findings == []
    assert registered.receipt == before[registered.index]
    with FolderSource(made.made.data) as source:
        report = audit(source, Config.read(made.folder.config).policy_key)
    assert (report.findings, report.entries[Outcome.ERASED]) == ([], 1)


@pytest.mark.sqlite_file
async def test_an_erased_payload_is_not_in_the_mark_s_journal_either(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        registered = await log.register(made.issuer.sign(b"said by " + MARKER))
        assert MARKER in made.made.watermark.read_bytes(), "a small batch is kept there"
        await erasing.state_audit(made, log)

        await erasing.by_order(log, registered.index)

        assert MARKER not in made.made.watermark.read_bytes()
        further = await log.register(made.issuer.sign(b"the journal goes on"))
        assert b"the journal goes on" in made.made.watermark.read_bytes()
    async with running(made.made) as log:
        assert log.receipt(further.index) == further.receipt
    assert made.made.fsck().findings == []


async def test_an_erased_statement_that_is_sent_again_is_known_and_not_kept(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        sent = made.issuer.sign(erasing.record())
        registered = await log.register(sent)
        await erasing.state_audit(made, log)
        await erasing.by_order(log, registered.index)

        again = await log.register(sent)
        taken_in = await log.accept(sent)

        assert (again.index, again.new) == (registered.index, False)
        assert taken_in == again
        assert log.stored(registered.index).erased
    assert files_with(MARKER, [made.made.data]) == []


async def test_an_erased_artifact_is_not_taken_again(tmp_path: Path) -> None:
    made, log_data = await _one_erased(tmp_path)
    with pytest.raises(GoneError, match="not taken again"):
        erasing.upload(made, log_data)
    assert list(made.artifacts.digests()) == []


async def test_an_upload_that_was_under_way_when_its_artifact_was_erased_is_thrown_away(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    data = erasing.record()
    async with running(made.made) as log:
        registered = await log.register(erasing.envelope(made.issuer, data))
        digest = erasing.upload(made, b"other") and Statement.from_bytes(log.statement(registered.index)).payload.hex()
        with made.artifacts.receive(digest) as incoming:
            incoming.write(data)
            await erasing.by_order(log, registered.index)
            with pytest.raises(GoneError):
                incoming.finish()
    assert files_with(MARKER, [made.made.data]) == []


async def test_the_erasure_names_index_entry_rule_and_authoriser_and_no_digest(tmp_path: Path) -> None:
    """REG-20: a digest of a short record would let anybody prove a guess."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        registered = await log.register(made.issuer.sign(b"yes"))
        await erasing.state_audit(made, log)
        outcome = await erasing.by_order(log, registered.index)

        assert outcome.registered is not None
        row = log.stored(outcome.registered.index)
        (item,) = Erasure.from_bytes(Statement.from_bytes(row.statement).payload).items

    assert row.kind is Kind.OPERATION
    assert (item.index, item.entry, item.what) == (registered.index, registered.entry_id, "payload")
    assert (item.rule, item.authoriser, item.time) == ("order 4711", "data protection officer", made.clock())


async def test_nothing_of_the_services_own_is_erased(tmp_path: Path) -> None:
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        for index in (0, 1, 99):
            with pytest.raises(RefusedError, match="nothing of it is ever erased"):
                await erasing.by_order(log, index)


async def test_a_payload_goes_by_order_only_and_after_an_audit(tmp_path: Path) -> None:
    """REG-20: an attached payload is erased only by order, after an audit covering its index is on the log.

    And after a manifest: else its kind would stand nowhere once it is gone.
    """
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        registered = await log.register(made.issuer.sign(b"text"))
        made.clock.advance(1000 * erasing.WEEK)

        with pytest.raises(RefusedError, match="by order only"):
            await log.erasures.erase(Request(log.status().size, [registered.index]))
        with pytest.raises(RefusedError, match="no manifest that covers"):
            await erasing.by_order(log, registered.index)
        await log.manifests.make()
        with pytest.raises(RefusedError, match="no audit that covers"):
            await erasing.by_order(log, registered.index)
        await erasing.state_audit(made, log)
        assert (await erasing.by_order(log, registered.index)).unfinished == ""


def _free_pages(made: Erasing, content: bytes) -> None:
    """A row of the intake that came and went where SQLite does not overwrite by itself, as most are built."""
    with closing(sqlite3.connect(made.folder.database, isolation_level=None)) as other:
        other.execute("PRAGMA secure_delete = OFF")
        other.execute("INSERT INTO intake VALUES (x'00', ?, 1, 0, 0, 0, NULL, NULL, x'', 0)", (content,))
        other.execute("DELETE FROM intake WHERE entry = x'00'")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert other.execute("PRAGMA freelist_count").fetchone()[0] > 0


async def _one_erased(tmp_path: Path) -> tuple[Erasing, bytes]:
    made = erasing.make(tmp_path)
    data = erasing.record()
    erasing.upload(made, data)
    async with running(made.made) as log:
        registered = await log.register(erasing.envelope(made.issuer, data))
        await erasing.by_order(log, registered.index)
    return made, data
