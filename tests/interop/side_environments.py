"""The side environments of the Makefile, asked by one process for many questions.

A peer is a script under peers/ that runs in its own environment: JSON lines in, one JSON line out for each. A missing
environment is a failure and never a skip, so that CI cannot lose these tests without anybody noticing.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT: Final = Path(__file__).parents[2]
PEERS: Final = Path(__file__).parent / "peers"
LONGEST_SECONDS: Final = 120


def environment(name: str) -> Path:
    """The folder of a side environment, ready to use."""
    folder = ROOT / f".venv-{name}"
    if not (folder / ".stamp").is_file():
        pytest.fail(f"{folder} is missing or half made: run make test", pytrace=False)
    return folder


def site_packages(name: str) -> Path:
    (folder,) = environment(name).glob("lib/python3*/site-packages")
    return folder


def ask(name: str, questions: Iterable[Mapping[str, Any]], *, first_on_path: Path | None = None) -> list[Any]:
    """The peer's answers, in order. `first_on_path` shadows packages of the environment with those of a folder."""
    lines = [json.dumps(question) for question in questions]
    done = subprocess.run(
        [environment(name) / "bin" / "python", "-I", PEERS / f"{name.replace('-', '_')}_peer.py", first_on_path or ""],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines), "the peer did not answer every question"
    return answers
