"""`make test` is all that CI runs, it pins what it installs, and the environments it needs are really there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE
from tests.project.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PIN = re.compile(r"^[A-Za-z0-9_.-]+==[A-Za-z0-9_.!+-]+$")
CONSTRAINTS = ROOT / "constraints.txt"
SIDE = {"pycose": ["pycose.messages", "merkle_json"], "scitt-cose": ["scitt_cose"]}


def pins(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def make(*words: str) -> subprocess.CompletedProcess[str]:
    # A make that runs this suite passes its own flags down by the environment; they are not meant for this one.
    environment = {key: value for key, value in os.environ.items() if key not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
    return subprocess.run(
        ["make", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_continuous_integration_runs_make_test_and_stops_at_the_first_failure() -> None:
    run = ROOT / ".ci" / "run"
    lines = run.read_text().splitlines()

    assert os.access(run, os.X_OK)
    assert "set -euo pipefail" in lines
    assert "make test" in lines


def test_make_test_runs_linters_types_and_tests_in_that_order() -> None:
    plan = make("--dry-run", "test").stdout
    steps = ["ruff check .", "ruff format --check .", "bin/mypy", "bin/pytest"]

    assert [plan.find(step) for step in steps] == sorted(plan.find(step) for step in steps)
    assert all(step in plan for step in steps)


def test_make_refuses_an_old_python_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = (3, 9, 18); $2"\n')
    old.chmod(0o700)

    done = make(f"PYTHON={old}", "python")

    assert done.returncode != 0
    assert done.stderr.splitlines()[0].startswith("Python 3.11 or newer is needed")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("path", [CONSTRAINTS, *sorted((ROOT / "tests" / "interop").glob("requirements-*.txt"))])
def test_every_line_is_an_exact_pin(path: Path) -> None:
    lines = pins(path.read_text())

    assert lines
    assert [line for line in lines if not PIN.match(line)] == []


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    pinned = {canonical(line.partition("==")[0]) for line in pins(CONSTRAINTS.read_text())}
    names = {canonical(re.split(r"[\[<>=!~ ;]", requirement)[0]) for requirement in wanted}

    assert names - pinned == {"agent-transparency"}


@pytest.mark.parametrize("name", SIDE)
def test_the_side_environment_is_there_so_that_no_interop_test_is_skipped(name: str) -> None:
    python = ROOT / f".venv-{name}" / "bin" / "python"
    assert python.exists(), "run `make environments`"

    code = "; ".join(f"import {module}" for module in SIDE[name])
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert done.returncode == 0, done.stderr
