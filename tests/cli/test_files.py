"""Files in and out: bounded, atomic, never lost by accident."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import read_input, refuse_existing, write_output


def test_a_file_is_written_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_output(tmp_path / "a", b"data")

    assert (tmp_path / "a").read_bytes() == b"data"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_existing_file_stays_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")

    with pytest.raises(CommandError) as caught:
        write_output(tmp_path / "a", b"new")
    assert caught.value.code is Exit.CANNOT_WRITE
    assert (tmp_path / "a").read_bytes() == b"old"

    write_output(tmp_path / "a", b"new", force=True)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CommandError):
        refuse_existing(tmp_path / "a", force=False)
    with pytest.raises(CommandError):
        write_output(tmp_path / "a", b"x")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_a_private_file_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_output(tmp_path / "key", b"x", mode=0o600)
        write_output(tmp_path / "public", b"x")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "public").stat().st_mode) == 0o644 & ~umask


def test_a_folder_that_is_not_there_is_73(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        write_output(tmp_path / "no" / "such" / "a", b"x")

    assert caught.value.code is Exit.CANNOT_WRITE


def test_a_missing_file_is_66_an_empty_one_65(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    with pytest.raises(CommandError) as missing:
        read_input(tmp_path / "missing")
    with pytest.raises(CommandError) as empty:
        read_input(tmp_path / "empty")
    with pytest.raises(CommandError) as folder:
        read_input(tmp_path)

    assert [caught.value.code for caught in (missing, empty, folder)] == [66, 65, 66]


def test_a_file_that_cannot_be_read_is_65(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"x")
    if os.geteuid() == 0:  # root may read every file: let the system say what it says to others
        monkeypatch.setattr(Path, "open", _forbidden)
    else:
        (tmp_path / "a").chmod(0)

    with pytest.raises(CommandError, match="Permission denied") as caught:
        read_input(tmp_path / "a")

    assert caught.value.code is Exit.BAD_INPUT


def _forbidden(path: Path, *_: object) -> NoReturn:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def test_a_huge_file_is_refused_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)  # sparse: a tebibyte that takes no space

    with pytest.raises(CommandError, match="larger than") as caught:
        read_input(tmp_path / "huge")

    assert caught.value.code is Exit.BAD_INPUT


def test_a_stream_without_end_is_cut(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="larger than"):
        read_input("/dev/zero", most=100_000)
