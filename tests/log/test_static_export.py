"""Exports: what is written when, what a killed one leaves behind, and what two at once do to each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.interop import tlog_client
from tests.interop.grown import Grown, grown_log
from tests.interop.test_static_export import exported, in_folder, run_export
from tests.log import erasing
from transparency.client.client import LogClient
from transparency.client.static_layout import MARKER, Marker
from transparency.errors import FolderOwnedError, LogUnusableError, ServiceRefusedError, StoreError
from transparency.log.checkpoints import CheckpointPublisher
from transparency.log.receipts import Receipts
from transparency.log.static_export import Parts, export
from transparency.log.static_source import FolderExport
from transparency.log.static_target import FolderTarget
from transparency.log.store import StoredEntry
from transparency.merkle.hashing import leaf_hash
from transparency.notes.proof import TlogProof
from transparency.policy.keyset import RECEIPTS
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Entry, Statement, entry_id
from transparency.testing import running

ALL = Parts(statements=True, artifacts=True)


class Recording(FolderTarget):
    """A folder that remembers what was written, in order, and can fail at one of the writes."""

    def __init__(self, folder: Path, fails_at: int | None = None) -> None:
        super().__init__(folder)
        self.log: list[str] = []
        self._fails_at = fails_at

    def put(self, path: str, data: bytes | BinaryIO) -> None:
        self.log.append(path)
        if self._fails_at is not None and len(self.log) >= self._fails_at:
            raise OSError(28, os.strerror(28))
        super().put(path, data)


def recorded(log: Grown, folder: Path, parts: Parts | None = None, fails_at: int | None = None) -> list[str]:
    with closing(FolderExport(log.site.log.data)) as source, closing(Recording(folder, fails_at)) as target:
        export(source, target, parts or Parts())
    return target.log


def made_by(log: Grown, index: int) -> tuple[Entry, bytes]:
    """An entry, and the receipt that the log itself makes for it."""
    store = log.site.log.opened.store
    receipts = Receipts(store, lambda: store.tip().size)
    entry = Entry(store.digests(index, index + 1)[0])
    return entry, receipts.inclusion(index, receipts.head_for(index, log.site.log.service_keys))


async def test_a_run_writes_what_is_new_and_the_checkpoint_after_it(tmp_path: Path) -> None:
    async with grown_log(tmp_path / "log") as log:
        await log.publish(600)
        first = recorded(log, tmp_path / "www")
        assert recorded(log, tmp_path / "www") == []
        await log.publish(1100)
        second = recorded(log, tmp_path / "www")

    assert {"tile/0/000", "tile/0/001", "tile/0/002.p/88", "tile/1/000.p/2", "heads/001"} <= set(first)
    assert not {"tile/0/000", "tile/0/001", "tile/entries/001", "heads/000"} & set(second)
    assert {"tile/0/002", "tile/0/003", "tile/0/004.p/76", "tile/1/000.p/4"} <= set(second)
    for run in (first, second):
        assert [path for path in run if path != MARKER][-1] == "checkpoint"


async def test_wherever_it_fails_a_reader_sees_a_whole_log_and_the_next_run_goes_on(tmp_path: Path) -> None:
    """Each write in turn is the one that the disk has no space for."""
    folder = tmp_path / "www"
    async with grown_log(tmp_path / "log") as log:
        await log.publish(300)
        exported(log, folder, ALL)
        for failure, size in [(1, 310), (2, 320), (3, 330), (4, 340), (5, 350), (6, 360), (9, 900), (14, 1500)]:
            await log.publish(size)
            with pytest.raises(OSError, match="No space"):
                recorded(log, folder, ALL, fails_at=failure)

            assert tlog_client.audit(in_folder(folder), log.keys).checkpoint.size < size
            exported(log, folder, ALL)
            assert tlog_client.audit(in_folder(folder), log.keys).checkpoint.size == size


KILLED = """
import os, sys, time
from pathlib import Path
from transparency.log import static_export
from transparency.log.static_source import FolderExport
from transparency.log.static_target import FolderTarget
from transparency.log.store import StoredEntry

static_export.CHUNK = 4
target = FolderTarget(Path(sys.argv[2]))
put, count = target.put, 0

def counted(path, data):
    global count
    count += 1
    if count >= int(sys.argv[3]):
        (target._folder / ".incoming" / str(count)).write_bytes(data[:5])  # killed in the middle of a write
        os.write(1, b"killed here\\n")
        time.sleep(600)
    put(path, data)

target.put = counted
static_export.export(FolderExport(Path(sys.argv[1])), target, static_export.Parts(statements=True, artifacts=True))
"""


async def test_an_export_that_is_killed_leaves_a_whole_log_behind(tmp_path: Path) -> None:
    """SIGKILL in the middle of its writes, a reader after each, then another export."""
    folder = tmp_path / "www"
    async with grown_log(tmp_path / "log") as log:
        await log.publish(300)
        exported(log, folder, ALL)
        await log.publish(6000)
        for writes in (1, 40, 25):
            killed = subprocess.Popen(  # noqa: ASYNC220 - nothing else is to happen meanwhile
                [sys.executable, "-c", KILLED, log.site.log.data, folder, str(writes)],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert killed.stdout is not None
            assert killed.stdout.readline() == "killed here\n"
            killed.send_signal(signal.SIGKILL)
            killed.stdout.close()
            assert killed.wait() == -signal.SIGKILL

            assert tlog_client.audit(in_folder(folder), log.keys).checkpoint.size == 300
        done = Marker.from_bytes((folder / MARKER).read_bytes()).tiles
        exported(log, folder, ALL)
        assert tlog_client.audit(in_folder(folder), log.keys).checkpoint.size == 6000

    assert done > 300, "what was written is not written again"
    assert not list(folder.rglob("*.tmp"))
    assert not (folder / ".incoming").exists()


async def test_of_a_folder_there_is_one_writer(tmp_path: Path) -> None:
    async with grown_log(tmp_path / "log") as log:
        held = FolderTarget(tmp_path / "www")
        with pytest.raises(FolderOwnedError):
            exported(log, tmp_path / "www")
        held.close()
        exported(log, tmp_path / "www")


async def test_an_exporter_that_is_late_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "www"
    async with grown_log(tmp_path / "log") as log:
        await log.publish(300)
        late = FolderExport(log.site.log.data)
        await log.publish(700)
        exported(log, folder)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

        with closing(late), closing(FolderTarget(folder)) as target:
            result = export(late, target, Parts())

    assert result.ahead
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("sizes", [(300, 700), (700, 300)])
async def test_another_history_is_not_written_over(tmp_path: Path, sizes: tuple[int, int]) -> None:
    """Two logs under one name: neither the longer nor the shorter takes the other's place."""
    folder = tmp_path / "www"
    async with grown_log(tmp_path / "one") as one, grown_log(tmp_path / "two") as two:
        await one.publish(sizes[0])
        await two.publish(sizes[1])
        exported(one, folder)
        before = (folder / "checkpoint").read_bytes()

        with pytest.raises(LogUnusableError, match="another history"):
            exported(two, folder)

        assert (folder / "checkpoint").read_bytes() == before


async def test_what_is_no_export_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "checkpoint").write_bytes(b"of somebody else")
    async with grown_log(tmp_path / "other") as log:
        with pytest.raises(StoreError, match="left as it is"):
            exported(log, tmp_path / "www")


async def test_every_receipt_is_computed_from_heads_and_tiles(tmp_path: Path) -> None:
    """REG-14: byte for byte what the log itself gives, from the head that first covered the entry."""
    async with grown_log(tmp_path / "log") as log:
        for size in (3, 7, 255, 256, 258, 700, 701):
            await log.publish(size)
        exported(log, tmp_path / "www")
        keys = log.site.log.service_keys.ever(RECEIPTS)
        async with LogClient(log.site.url) as live, LogClient(str(tmp_path / "www")) as static:
            assert await static.keys() == await live.keys()
            assert await static.key(keys[0].kid or b"") == keys[0]
            assert await static.service_keys() == await live.service_keys()
            assert await static.policy() == await live.policy()
            for index in (0, 1, 2, 3, 6, 7, 254, 255, 256, 257, 258, 699, 700):
                entry, receipt = made_by(log, index)
                assert await static.receipt(entry_id(entry)) == receipt
                assert Receipt.from_bytes(await static.receipt(entry_id(entry), size=701)).tree_size == 701
                Receipt.from_bytes(receipt).verify_inclusion(entry, keys[0])
                proof = TlogProof.from_bytes(await static.proof(entry_id(entry)))
                assert proof.verify(leaf_hash(entry), log.publisher.vkeys()).checkpoint.size == 701
            for old, new in ((3, 7), (7, 701), (256, None)):
                assert await static.consistency(old, new) == await live.consistency(old, new)


async def test_receipts_are_files_of_their_own_where_that_is_asked_for(tmp_path: Path) -> None:
    async with grown_log(tmp_path / "log") as log:
        await log.publish(300)
        exported(log, tmp_path / "www", Parts(receipts=True))
        for index in (0, 255, 299):
            entry, receipt = made_by(log, index)
            assert (tmp_path / "www" / "entries" / entry_id(entry) / "receipt").read_bytes() == receipt

    assert sum(1 for _ in (tmp_path / "www" / "entries").iterdir()) == 300


async def test_partial_tiles_go_when_nobody_can_need_them(tmp_path: Path) -> None:
    """TL-4: while the checkpoint before may still be read, its partial tiles are there."""
    folder = tmp_path / "www"
    there: dict[int, list[str]] = {}
    async with grown_log(tmp_path / "log") as log:
        for size in (100, 200, 300, 306):
            await log.publish(size - 5)
            if size == 200:  # killed when all but the checkpoint was there
                with pytest.raises(OSError, match="No space"):
                    recorded(log, folder, Parts(statements=True), fails_at=8)
                assert (folder / "statements" / "000.p" / "195").exists()
            await log.publish(size)
            exported(log, folder, Parts(statements=True))
            # Left by a desktop; it is nobody's width.
            (folder / "tile" / "0" / "000.p" / ".DS_Store").touch()
            there[size] = sorted(path.name for path in (folder / "tile" / "0" / "000.p").glob("*"))
            assert len(list((folder / "statements").rglob("*.p/*"))) == 1, "what may be erased is kept once"

    others = [".DS_Store"]
    assert there == {
        100: [*others, "100"],
        200: [*others, "100", "195", "200"],
        300: [*others, "100", "195", "200"],
        306: others,
    }


async def test_what_the_log_erases_is_in_no_file_of_the_export_after_the_next_run(tmp_path: Path) -> None:
    """REG-20, of exports: a statement in a full bundle, one with a file of its own, one at the edge, an artifact."""
    made, folder = erasing.make(tmp_path), tmp_path / "www"
    data = erasing.record()
    async with running(made.made) as log:
        erasing.upload(made, data)
        await erasing.shorten(made, log)
        sent = [await log.register(erasing.envelope(made.issuer, data))]
        sent += [await log.register(made.issuer.sign(erasing.MARKER)), await log.register(made.issuer.sign(data))]
        for number in range(260):
            await log.register(made.issuer.sign(b"%d" % number))
        sent.append(await log.register(made.issuer.sign(erasing.MARKER + b" again")))
        await erasing.state_audit(made, log)
        await CheckpointPublisher(log).publish()
        run_export(made.made.data, folder, ALL)
        there = erasing.files_with(erasing.MARKER, [folder])
        async with LogClient(str(folder)) as static:
            before = [await static.receipt(entry_id(each.entry)) for each in sent]
            assert Statement.from_bytes(await static.statement(entry_id(sent[2].entry))).payload == data

        made.clock.advance(erasing.WEEK)
        await erasing.by_order(log, *(each.index for each in sent[1:]))
        await erasing.by_term(log, made.plan())
        await CheckpointPublisher(log).publish()
        result = run_export(made.made.data, folder)  # what a target has once is kept up to date

        assert len(there) == 4
        assert erasing.files_with(erasing.MARKER, [folder]) == []
        assert (result.erased, result.awaited) == (3, ()), "the bundle at the edge was new anyway"
        async with LogClient(str(folder)) as static:
            assert [await static.receipt(entry_id(each.entry)) for each in sent] == before
            with pytest.raises(ServiceRefusedError, match="erased"):
                await static.statement(entry_id(sent[2].entry))


async def test_an_erasure_that_the_log_has_not_carried_out_yet_is_looked_at_again(tmp_path: Path) -> None:
    """Its order is on the log before its content is gone; whoever reads in between comes back."""
    made, folder = erasing.make(tmp_path), tmp_path / "www"
    async with running(made.made) as log:
        sent = await log.register(made.issuer.sign(erasing.MARKER))
        await erasing.state_audit(made, log)
        stored = log.opened.store.entry(sent.index)
        assert stored is not None
        await erasing.by_order(log, sent.index)
        await CheckpointPublisher(log).publish()
        with closing(NotYet(made.made.data, stored)) as source, closing(FolderTarget(folder)) as target:
            result = export(source, target, ALL)

        assert result.awaited == (sent.index,)
        assert erasing.files_with(erasing.MARKER, [folder])
        again = run_export(made.made.data, folder)

    assert (again.erased, again.awaited) == (1, ())
    assert erasing.files_with(erasing.MARKER, [folder]) == []


class NotYet(FolderExport):
    """A log that has not carried out the erasure of one entry."""

    def __init__(self, data: Path, kept: StoredEntry) -> None:
        super().__init__(data)
        self._kept = kept

    def rows(self, start: int, stop: int) -> Iterator[StoredEntry]:
        return (self._kept if row.index == self._kept.index else row for row in super().rows(start, stop))
