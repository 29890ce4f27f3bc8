"""The folder that an export writes is a C2SP tiled log: a client that was written from C2SP's texts alone reads it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.interop import tlog_client
from tests.interop.grown import Grown, grown_log
from tests.interop.tlog_client import Get, TlogError
from transparency.log.static_export import Exported, Parts, export
from transparency.log.static_source import FolderExport
from transparency.log.static_target import FolderTarget


def in_folder(folder: Path) -> Get:
    def get(path: str) -> bytes:
        try:
            return (folder / path).read_bytes()
        except OSError as error:
            raise TlogError(f"{path}: not there") from error

    return get


def exported(log: Grown, folder: Path, parts: Parts | None = None) -> Exported:
    return run_export(log.site.log.data, folder, parts)


def run_export(data: Path, folder: Path, parts: Parts | None = None) -> Exported:
    with closing(FolderExport(data)) as source, closing(FolderTarget(folder)) as target:
        return export(source, target, parts or Parts())


@pytest.mark.parametrize("sizes", [(2, 3, 255, 256, 257), (300, 512, 1000), (65_536, 65_600)])
async def test_the_independent_client_reads_what_each_run_has_written(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """TL-1 to TL-5, of files: after each run, and under each checkpoint that there was."""
    folder = tmp_path / "www"
    async with grown_log(tmp_path / "log") as log:
        for size in sizes:
            await log.publish(size)

            exported(log, folder)

            audited = tlog_client.audit(in_folder(folder), log.keys)
            assert audited.checkpoint.size == size
            assert audited.tree.mth(0, size) == audited.checkpoint.root
        assert exported(log, folder).written == 0
