"""What the fault tests share: one template of a log that is copied for each case, because making keys is slow."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from transparency.testing import FakeClock, MadeLog, make_log


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> MadeLog:
    return make_log(tmp_path_factory.mktemp("template") / "log")


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[MadeLog, str], MadeLog]:
    """A copy of a closed log, mark and all, under a new name, with a clock of its own."""

    def copy(made: MadeLog, name: str) -> MadeLog:
        target = tmp_path / name
        target.mkdir(parents=True)
        shutil.copytree(made.data, target / "log")
        shutil.copy(made.watermark, target / "mark")
        return MadeLog(target / "log", target / "mark", made.issuer, FakeClock(made.clock()))

    return copy


@pytest.fixture
def made(template: MadeLog, copy_of: Callable[[MadeLog, str], MadeLog]) -> MadeLog:
    """A log with its own two entries and one issuer."""
    return copy_of(template, "made")
