"""What the fault tests share: one template of a log that is copied for each case, because making keys is slow."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.on_postgres import copy_folder, making, store_wanted
from transparency.testing import FakeClock, MadeLog, make_log


@pytest.fixture(scope="session")
def template_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], MadeLog]:
    """By where its tree is: tests about SQLite's file have it in one, whatever the others have."""

    @functools.cache
    def make(store: str) -> MadeLog:
        with making("session"):
            return make_log(tmp_path_factory.mktemp(f"template-{store}") / "log")

    return make


@pytest.fixture(scope="module")
def template(template_in: Callable[[str], MadeLog]) -> MadeLog:
    """For what a module makes of it once."""
    return template_in(store_wanted())


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[MadeLog, str], MadeLog]:
    """A copy of a closed log, mark and all, under a new name, with a clock of its own."""

    def copy(made: MadeLog, name: str) -> MadeLog:
        return copied(made, tmp_path / name)

    return copy


def copied(made: MadeLog, target: Path) -> MadeLog:
    target.mkdir(parents=True, exist_ok=True)
    copy_folder(made.data, target / "log", target / "mark")
    shutil.copy(made.watermark, target / "mark")
    return MadeLog(target / "log", target / "mark", made.issuer, FakeClock(made.clock()))


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder for what is opened hundreds of times and whose own syncs show nothing: in memory where there is one."""
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def made(template_in: Callable[[str], MadeLog], copy_of: Callable[[MadeLog, str], MadeLog]) -> MadeLog:
    """A log with its own two entries and one issuer."""
    return copy_of(template_in(store_wanted()), "made")
