"""Paths in records: written by agents on other machines, so they are texts here and are never opened as they are."""

from __future__ import annotations

import re
from typing import Final

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
# A drive, with or without its root (``C:x`` is where C: is at the moment), or a URL.
_ELSEWHERE: Final = re.compile(r"[A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]*+://")


def relative_path(path: str, working_dir: str | None) -> str:
    """*path* relative to the working directory, with ``/``; kept as given where it is not plainly inside it."""
    if working_dir is None or not working_dir.strip("/\\"):
        return path
    windows = _DRIVE.match(path) is not None
    given, folder = (path.replace("\\", "/"), working_dir.replace("\\", "/")) if windows else (path, working_dir)
    inside = given.removeprefix(folder.rstrip("/") + "/")
    if inside == given or not inside or is_outside(inside):
        return path
    return inside


def is_outside(path: str) -> bool:
    """Whether a path leads, or may lead, out of the folder it is taken to be in: absolute, or with a step up."""
    if path.startswith(("/", "\\", "~")) or _ELSEWHERE.match(path) or "\0" in path:
        return True
    return ".." in re.split(r"[\\/]", path)
