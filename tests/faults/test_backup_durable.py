"""A backup that returned, and a restored log, are on the disk: each file was synced before its folder was published."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from transparency.log.backup import backup, restore
from transparency.testing import MadeLog

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of open files are read from /proc")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The base names of files that were synced from Python, temporary ones under the name they get."""
    names: set[str] = set()
    real = os.fsync

    def recording(descriptor: int) -> None:
        real(descriptor)
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        names.add(name.removeprefix(".").removesuffix(f".{os.getpid()}.tmp"))

    monkeypatch.setattr(os, "fsync", recording)
    return names


@pytest.mark.sqlite_file
def test_keys_and_config_of_a_backup_and_of_a_restored_log_are_synced(
    made: MadeLog, tmp_path: Path, synced: set[str]
) -> None:
    backup(made.data, tmp_path / "backup", with_keys=True)
    keys = {path.name for path in (tmp_path / "backup" / "keys").iterdir()}
    assert len(keys) == 5
    assert keys | {"config.toml"} <= synced

    synced.clear()
    restore(tmp_path / "backup", tmp_path / "again", clock=made.clock, watermark=made.watermark)
    assert keys | {"config.toml"} <= synced
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "again" / "keys").iterdir())
