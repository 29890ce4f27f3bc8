"""The boundary of every command: what it says when it fails, and what it says it with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_who_cannot_be_told_why_still_gets_the_exit_code(tmp_path: Path) -> None:
    """A service manager goes by it, and its journal may be what has no space."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        command = [sys.executable, "-m", "transparency", "log", "status", "--data", str(tmp_path / "none")]
        done = subprocess.run(command, stderr=full, stdout=subprocess.PIPE, timeout=PATIENCE, check=False)

    assert (done.returncode, done.stdout) == (66, b"")
