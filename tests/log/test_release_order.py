"""design.md §4, step 6: nothing signed leaves before the commit is durable *and* the mark is written."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from transparency.errors import NotFoundError, StoreError
from transparency.log.durable import DurableFile
from transparency.statements.statement import Statement
from transparency.testing import Fault, FaultyFile, make_log


class _SlowFile(DurableFile):
    """The mark's file, whose syncs wait until a test lets them."""

    held = threading.Event()
    go = threading.Event()

    def sync(self) -> None:
        type(self).held.set()
        assert type(self).go.wait(PATIENCE)
        super().sync()


async def test_no_head_is_shown_between_its_commit_and_its_mark(tmp_path: Path) -> None:
    """A head shown earlier could be contradicted by an old copy that the mark still lets in."""
    made = make_log(tmp_path / "log")
    _SlowFile.go.set()
    log = made.open(open_mark_file=_SlowFile)
    await log.start()
    _SlowFile.go.clear()
    _SlowFile.held.clear()
    data = made.issuer.sign(b"x")
    registering = asyncio.create_task(log.register(data))
    assert await asyncio.to_thread(_SlowFile.held.wait, PATIENCE)
    assert log._store.tip().size == 3, "the commit is done, the mark is not"

    assert log.newest_head().size == 2
    assert log.status().size == 2
    assert log.lookup(Statement.from_bytes(data).entry) is None
    with pytest.raises(NotFoundError):
        log.receipt(2)
    with pytest.raises(NotFoundError):
        log.receipt(0, size=3)
    with pytest.raises(NotFoundError):
        log.consistency(2)
    with pytest.raises(NotFoundError):
        log.consistency(2, 3)

    _SlowFile.go.set()
    await registering
    assert log.newest_head().size == 3
    await log.stop()


@pytest.mark.parametrize("fault", list(Fault))
async def test_no_head_is_shown_whose_mark_failed(tmp_path: Path, fault: Fault) -> None:
    made = make_log(tmp_path / "log")
    files: list[FaultyFile] = []

    def remembered(path: Path) -> FaultyFile:
        files.append(FaultyFile(path))
        return files[-1]

    log = made.open(open_mark_file=remembered)
    await log.start()
    files[-1].fail(fault)
    with pytest.raises(StoreError):
        await log.register(made.issuer.sign(b"x"))

    assert log.newest_head().size == 2
    with pytest.raises(NotFoundError):
        log.receipt(2)
    await log.stop()
