"""A log that was loaded is the log that registration makes: same tree, receipts that verify, nothing for fsck."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.log.stores import batch_of
from tests.patience import PATIENCE
from transparency.errors import FolderOwnedError, LogUnusableError, StoreError
from transparency.log import bulk
from transparency.log.candidate import Candidate, document_judgement
from transparency.log.folder import Config, Folder
from transparency.log.fsck import fsck
from transparency.log.log import Log
from transparency.log.store import Kind, NewEntry, Store
from transparency.log.stores import open_for_reading
from transparency.policy import keyset
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.testing import FakeClock, MadeLog, make_log, running

pytestmark = pytest.mark.sqlite_file
COUNT, BATCH = 700, 100


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log", clock=FakeClock())


def new_entry(signed: bytes, kind: Kind = Kind.STATEMENT) -> NewEntry:
    return Candidate.of(Statement.from_bytes(signed), document_judgement(1), kind).new


def batches(made: MadeLog, count: int = COUNT) -> Iterator[list[NewEntry]]:
    for start in range(0, count, BATCH):
        yield [new_entry(made.issuer.sign(b"%d" % n)) for n in range(start, min(start + BATCH, count))]


def twin_of(made: MadeLog, at: Path) -> MadeLog:
    """The same log, before anybody used it, with a mark of its own."""
    shutil.copytree(made.data, at)
    mark = at.with_suffix(".mark")
    shutil.copyfile(made.watermark, mark)
    config = Folder(at).config
    named = replace(Config.read(config), watermark=mark)
    config.unlink()
    named.write(config)
    return replace(made, data=at, watermark=mark)


def rows_of(data: Path) -> tuple[object, ...]:
    store = open_for_reading(Folder(data))
    try:
        tip = store.tip()
        rows = list(store.entries(0, tip.size))
        places = [store.find(row.entry) for row in rows]
        siblings = [store.siblings(row.tbs_digest, 2) for row in rows]
        return tip.size, tip.root, rows, places, siblings, [store.tile(0, n) for n in range(4)], store.tile(1, 0)
    finally:
        store.close()


async def test_a_loaded_log_equals_one_that_was_registered(made: MadeLog, tmp_path: Path) -> None:
    loaded = twin_of(made, tmp_path / "loaded")
    async with running(made) as log:
        for start in range(0, COUNT, BATCH):
            await asyncio.gather(*(log.register(made.issuer.sign(b"%d" % n)) for n in range(start, start + BATCH)))

    assert bulk.load(loaded.data, batches(loaded), clock=loaded.clock) == COUNT + 2

    assert rows_of(loaded.data) == rows_of(made.data)
    report = fsck(loaded.data, watermark=loaded.watermark)
    assert (report.findings, report.size, report.heads) == ([], COUNT + 2, 1 + COUNT // BATCH)
    async with running(loaded) as log:
        assert all(receipt_verifies(log, index) for index in range(0, COUNT + 2, 7))
        again = await log.register(made.issuer.sign(b"5"))
        assert (again.index, again.new) == (7, False)
        assert (await log.register(made.issuer.sign(b"more"))).index == COUNT + 2
    assert fsck(loaded.data, watermark=loaded.watermark).clean
    assert not (loaded.data / "loading").exists()


def receipt_verifies(log: Log, index: int) -> bool:
    receipt = Receipt.from_bytes(log.receipt(index))
    key = next(key for key in log.service_keys.ever(keyset.RECEIPTS) if key.kid == receipt.kid)
    receipt.verify_signature(key, receipt.root_for(log.stored(index).entry))
    return receipt.inclusion[0].index == index


def test_serve_opens_a_loaded_log(made: MadeLog) -> None:
    bulk.load(made.data, batches(made), clock=made.clock)

    words = [sys.executable, "-m", "transparency", "serve", "--data", str(made.data), "--port", "0", "--workers", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline()
        server.terminate()
        _, said = server.communicate(timeout=PATIENCE)
    assert url.startswith("http://127.0.0.1:")
    assert server.returncode == 0, said


async def test_a_log_that_is_served_or_was_used_is_not_loaded(made: MadeLog) -> None:
    async with running(made) as log:
        await log.register(made.issuer.sign(b"used"))
        with pytest.raises(FolderOwnedError, match="in use"):
            bulk.load(made.data, batches(made), clock=made.clock)

    with pytest.raises(LogUnusableError, match="3 entries; only a log that nobody has used"):
        bulk.load(made.data, batches(made), clock=made.clock)


def test_a_load_that_was_killed_leaves_the_log_as_it_was_and_is_begun_again(made: MadeLog) -> None:
    child = os.fork()
    if child == 0:  # pragma: no cover - killed

        def killed() -> Iterator[list[NewEntry]]:
            yield from batches(made, 300)
            os.kill(os.getpid(), signal.SIGKILL)

        bulk.load(made.data, killed(), clock=made.clock)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert fsck(made.data, watermark=made.watermark).size == 2

    assert bulk.load(made.data, batches(made), clock=made.clock) == COUNT + 2
    assert fsck(made.data, watermark=made.watermark).clean


def test_an_entry_that_comes_twice_ends_the_load(made: MadeLog) -> None:
    twice = [*batches(made), [new_entry(made.issuer.sign(b"5"))]]

    with pytest.raises(StoreError, match="in the log twice"):
        bulk.load(made.data, twice, clock=made.clock)
    assert fsck(made.data, watermark=made.watermark).size == 2


def test_what_rules_a_log_is_registered_and_not_loaded(made: MadeLog) -> None:
    with pytest.raises(LogUnusableError, match="registered, not loaded"):
        bulk.load(made.data, [[new_entry(made.issuer.sign(b"policy"), Kind.POLICY)]], clock=made.clock)


def test_every_store_can_be_filled_while_it_is_empty(store: Store) -> None:
    batch = batch_of(store.tip(), 300)

    tip = bulk.fill(store, [(batch.entries, lambda size, root: replace(batch.head, size=size, root=root))])

    assert (tip.size, tip.root) == (300, batch.head.root)
    assert [store.find(new.entry) for new in batch.entries] == list(range(300))
    with pytest.raises(LogUnusableError, match="300 entries in the store already"):
        bulk.fill(store, [])
