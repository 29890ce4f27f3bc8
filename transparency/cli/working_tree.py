"""Files of a working tree, opened by paths that a record names: step by step, so that none of them leads out of it."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from transparency.records.paths import is_outside

MAX_FILE: Final = 64 * 1024 * 1024


class NotOpenedError(Exception):
    """A path that is not opened, and why."""


def read_inside(root: Path, path: str) -> bytes | None:
    """The bytes of the file *path* under *root*; None if there is none. NotOpenedError for what must not be opened.

    Every step is opened from the one before, and no symbolic link is followed: a link may lead out of the tree, and
    could be exchanged between a check of where it leads and the reading.
    """
    if is_outside(path):
        raise NotOpenedError("the path leads out of the repository")
    steps = [step for step in re.split(r"/+", path) if step not in ("", ".")]
    if not steps:
        raise NotOpenedError("the path names no file")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps[:-1]:
            inner = _open(step, os.O_DIRECTORY, folder)
            if inner is None:
                return None
            os.close(folder)
            folder = inner
        # O_NONBLOCK: a named pipe must not keep us waiting.
        file = _open(steps[-1], os.O_NONBLOCK, folder)
    finally:
        os.close(folder)
    return None if file is None else _read(file)


def _open(step: str, flags: int, folder: int) -> int | None:
    try:
        return os.open(step, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if _is_link(step, folder):
            raise NotOpenedError("a symbolic link is not followed") from error
        if isinstance(error, NotADirectoryError):
            return None
        raise NotOpenedError(error.strerror or "it cannot be opened") from error


def _is_link(step: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(step, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _read(file: int) -> bytes:
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise NotOpenedError("it is no regular file")
        if found.st_size > MAX_FILE:
            raise NotOpenedError(f"it is larger than {MAX_FILE >> 20} MB")
        return opened.read(MAX_FILE)
