"""``--watermark`` where it takes a file: a URL is refused before a file of that name, password and all, is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from transparency.cli.exits import Exit

_COMMANDS = [
    ("init", "--data", "log"),
    ("log", "restore", "--from", "backup", "--data", "log"),
    ("witness", "init", "--dir", "w", "--name", "w.example"),
    ("witness", "serve", "--dir", "w"),
    ("witness", "follow", "https://nowhere.invalid", "--dir", "w"),
    ("mirror", "init", "--dir", "m", "--name", "m.example"),
    ("mirror", "serve", "--dir", "m"),
]


@pytest.mark.parametrize("words", _COMMANDS, ids=" ".join)
@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL", "mysql", "file"])
def test_a_mark_that_is_a_url_is_no_file(run: Run, folder: Path, words: tuple[str, ...], scheme: str) -> None:
    before = sorted(folder.rglob("*"))

    result = run(*words, "--watermark", f"{scheme}://log:hush-hush@nowhere.invalid/mark")

    assert result.exit_code == Exit.USAGE
    assert "--watermark is a URL" in result.stderr
    assert "Name a file" in result.stderr
    assert ("`transparency serve --watermark`" in result.stderr) == (words[0] in {"init", "log"})
    assert result.stderr.count("\n") == 1
    assert "hush-hush" not in result.output
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("log", "fsck")], ids=" ".join)
def test_a_mark_in_a_database_of_another_kind_is_no_file_either(run: Run, folder: Path, words: tuple[str, ...]) -> None:
    result = run(*words, "--data", "log", "--watermark", "mysql://log:hush-hush@nowhere.invalid/mark")

    assert result.exit_code == Exit.USAGE
    assert "not one of PostgreSQL's" in result.stderr
    assert "hush-hush" not in result.output
    assert not (folder / "log").exists()


def test_a_file_with_a_colon_in_its_name_is_a_file(good: Run, folder: Path) -> None:
    good("init", "--data", "log", "--watermark", "disk:/mark")

    assert (folder / "disk:" / "mark").exists()
