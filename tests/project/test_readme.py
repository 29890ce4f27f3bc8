"""The README is true to the letter: its commands and its Python are run as they stand, against a real server."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def free_port() -> int:
    """One that is not given to whoever asks for any: other tests do, before the server here is there to take it."""
    while True:
        port = random.randrange(10_240, 32_768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def test_the_first_block_is_a_target_of_the_makefile() -> None:
    assert blocks("sh")[0] == "make demo\n"
    assert re.search(r"^demo:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_five_minutes_by_hand_and_the_python_work_as_written(tmp_path: Path) -> None:
    """Only the port is another, because 8080 may be taken; and the script waits for the server as a person would."""
    by_hand = blocks("sh")[1]
    (python,) = blocks("python")
    # A newcomer stands in the checkout, after `make demo`.
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "transparency").symlink_to(ROOT / "transparency")
    connect = "import socket; socket.create_connection(('127.0.0.1', 8080))"
    wait = f'until python -c "{connect}" 2> /dev/null; do sleep 0.1; done'
    assert "--open &\n" in by_hand
    script = "set -e\n" + by_hand.replace("--open &\n", f"--open &\n{wait}\n") + "python program.py\nkill %1\nwait %1\n"
    port = str(free_port())

    done = run(script.replace("8080", port), tmp_path, python.replace("8080", port))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ Verified" in done.stdout
    assert "verified - " in done.stdout
    assert "Traceback" not in done.stderr


def run(script: str, folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(python)
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(folder)},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=3 * PATIENCE)
    finally:
        # Whatever the script left behind, the server above all, is in its own session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(script, process.returncode, out, err)
