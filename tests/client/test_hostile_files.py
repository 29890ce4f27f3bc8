"""An export that somebody else wrote: whatever its files are and say, the answer is an error that names them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.interop.grown import grown_log
from tests.interop.test_static_export import exported
from transparency.client.client import LogClient
from transparency.client.static_layout import heads_path, read_heads, receipt_path, write_heads
from transparency.client.tiles import TileClient
from transparency.errors import UnreachableError
from transparency.log.static_export import Parts
from transparency.notes.proof import TlogProof
from transparency.statements.receipt import SignedHead, consistency_receipt, inclusion_receipt
from transparency.statements.statement import Entry, entry_id

SIZE = 300
AT = 7
Forge = Callable[[SignedHead], bytes]


class Export:
    def __init__(self, folder: Path, entry: Entry) -> None:
        self.folder = folder
        self.name = entry_id(entry)
        self.receipt = folder / receipt_path(self.name)
        self.heads = folder / heads_path(0)
        self.head = read_heads(self.heads.read_bytes())[0]


@pytest.fixture
async def export(tmp_path: Path) -> Export:
    """An export with receipts, and one of its entries."""
    async with grown_log(tmp_path / "log") as log:
        await log.publish(SIZE)
        exported(log, tmp_path / "www", Parts(receipts=True))
        entry = Entry(log.site.log.opened.store.digests(AT, AT + 1)[0])
    return Export(tmp_path / "www", entry)


async def test_a_pipe_or_a_device_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "checkpoint")
    async with TileClient(str(tmp_path)) as client:
        with pytest.raises(UnreachableError, match="something else than a file"):
            await client.checkpoint()
        (tmp_path / "checkpoint").unlink()
        (tmp_path / "checkpoint").symlink_to("/dev/zero")
        with pytest.raises(UnreachableError, match="something else than a file"):
            await client.checkpoint()


async def test_a_link_to_a_file_is_the_file(tmp_path: Path) -> None:
    """People publish that way: a folder for each run, and a link to the newest."""
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1" / "checkpoint").write_bytes(b"a note")
    (tmp_path / "www").symlink_to("run-1")
    async with TileClient(str(tmp_path / "www")) as client:
        assert await client.checkpoint() == b"a note"


@pytest.mark.parametrize(
    "forge",
    [
        lambda head: inclusion_receipt(replace(head, size=10**10), 10**9, []),
        lambda head: inclusion_receipt(replace(head, size=10**10), SIZE, []),
        lambda head: inclusion_receipt(head, AT + 1, []),
        lambda head: consistency_receipt(head, 1, []),
        lambda _: b"no receipt",
    ],
    ids=["far beyond", "just beyond", "of another", "of consistency", "of nothing"],
)
async def test_receipts_are_computed_whatever_their_files_say(export: Export, forge: Forge) -> None:
    """They are for clients that compute nothing; heads and tiles are whole, and so is what comes of them."""
    sound = export.receipt.read_bytes()
    export.receipt.write_bytes(forge(export.head))

    async with LogClient(str(export.folder)) as log:
        assert await log.receipt(export.name) == sound
        assert TlogProof.from_bytes(await log.proof(export.name, wait=False)).index == AT


async def test_a_receipt_that_is_a_file_tells_where_its_entry_is(export: Export) -> None:
    """So that nobody has to go through all entries to find an old one."""
    (export.folder / "tile" / "entries" / "001.p" / str(SIZE - 256)).unlink()

    async with LogClient(str(export.folder)) as log:
        assert await log.receipt(export.name) == export.receipt.read_bytes()


async def test_tree_heads_beyond_the_checkpoint_are_passed_over(export: Export) -> None:
    """They would need tiles that the tree does not have; a full file may hold some for a reader who is behind."""
    sound = export.receipt.read_bytes()
    export.receipt.unlink()
    beyond = replace(export.head, size=10**6)
    export.heads.write_bytes(write_heads([beyond, *read_heads(export.heads.read_bytes())]))

    async with LogClient(str(export.folder)) as log:
        assert await log.receipt(export.name) == sound
