"""The files of the repository, as git tracks them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def tracked(pattern: str = "*") -> list[Path]:
    """Tracked files that exist, by a git pattern; skips where the tree is no clone (an unpacked archive)."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone: nothing says which files belong to the project")
    done = subprocess.run(
        ["git", "ls-files", "-z", "--", pattern], cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE
    )
    paths = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]
