"""The guard in tests/conftest.py is itself tested: what it looks for, it finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import leaks_in

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("log line\nTraceback (most recent call last):\n  File", ["a traceback"]),
        ("-----BEGIN PRIVATE " + "KEY-----\nMIG", ["a private key"]),
        ("-----BEGIN ENCRYPTED PRIVATE " + "KEY-----", ["a private key"]),
        ("Authorization: Bearer tl_ab12_" + "x" * 43, ["a token"]),
        ("error: one line that says what to do; -----BEGIN PUBLIC KEY-----; tl_ab12", []),
    ],
)
def test_what_must_not_be_printed_is_recognised(text: str, what: list[str]) -> None:
    assert leaks_in(text) == what


def test_a_test_whose_program_prints_a_traceback_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_planted.py").write_text(
        "import sys\n"
        "def test_planted():\n"
        "    print('Traceback (most recent ' + 'call last):', file=sys.stderr)\n"
        "def test_clean():\n"
        "    print('all is well')\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip

    assert "1 failed, 1 passed" in done.stdout
    assert "let a traceback into its output" in done.stdout
