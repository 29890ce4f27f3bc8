"""The manifest of a bundle: the SHA-256 and size of every other file in it, in one form that has no room for more."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from transparency.compliance.incident import read_json
from transparency.compliance.incident_timeline import to_bytes
from transparency.errors import MalformedError

NAME: Final = "manifest.json"
KIND: Final = "transparency-bundle/1"
MAX_FILES: Final = 200_000
MAX_BYTES: Final = 64 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
# No path that leaves the folder, none that two systems read differently.
_PATH: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}/){0,3}[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """``files`` by path: (size, SHA-256 in hexadecimal)."""

    files: Mapping[str, tuple[int, str]]

    def to_bytes(self) -> bytes:
        files = {name: {"size": size, "sha-256": digest} for name, (size, digest) in self.files.items()}
        return to_bytes({"kind": KIND, "files": files})

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read one; MalformedError for whatever ``to_bytes`` does not write."""
        said = read_json(data, MAX_BYTES)
        if not isinstance(said, dict) or said.keys() != {"kind", "files"} or said["kind"] != KIND:
            raise MalformedError(f"it is not the manifest of a bundle ({KIND})")
        files = said["files"]
        if not isinstance(files, dict) or len(files) > MAX_FILES:
            raise MalformedError(f"a manifest lists at most {MAX_FILES} files")
        manifest = cls({_path(name): _file(value) for name, value in files.items()})
        if manifest.to_bytes() != data:
            raise MalformedError("it is not written in the one form it has")
        return manifest

    @classmethod
    def of(cls, folder: Path) -> Manifest:
        """The manifest of what lies in *folder*."""
        return cls({name: measure(folder / name) for name in files_in(folder) if name != NAME})

    def problems(self, folder: Path) -> Iterator[tuple[str, str]]:
        """(file, what is wrong with it): each that differs, is missing, or should not be there."""
        there = set(files_in(folder))
        for name in sorted(self.files.keys() - there):
            yield name, f"it is missing: {NAME} lists it"
        for name in sorted(there - self.files.keys() - {NAME}):
            yield name, f"it should not be here: {NAME} does not list it"
        for name in sorted(self.files.keys() & there):
            if measure(folder / name) != self.files[name]:
                yield name, f"it was changed: its size or SHA-256 is not what {NAME} says"


def files_in(folder: Path) -> Iterator[str]:
    """Everything in a folder that is no folder, by its path; links are not followed. Empty folders are named too."""
    found = 0
    for place, folders, files in os.walk(folder):
        here = Path(place)
        inside = here.relative_to(folder).as_posix()
        names = files + [name for name in folders if (here / name).is_symlink()]
        if not names and not folders and here != folder:
            yield f"{inside}/"
        for name in sorted(names):
            found += 1
            if found > 2 * MAX_FILES:
                raise MalformedError(f"{folder} holds more files than a bundle has")
            yield name if inside == "." else f"{inside}/{name}"


def measure(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a regular file; of anything else, what no manifest lists."""
    digest, size = hashlib.sha256(), 0
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return -1, ""
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError:
        return -1, ""
    return size, digest.hexdigest()


def _path(name: object) -> str:
    if not isinstance(name, str) or not _PATH.fullmatch(name) or name == NAME:
        raise MalformedError("it names a file as no bundle does")
    return name


def _file(value: Any) -> tuple[int, str]:  # noqa: ANN401 - JSON
    if not isinstance(value, dict) or value.keys() != {"size", "sha-256"}:
        raise MalformedError("a file of a manifest has size and sha-256")
    size, digest = value["size"], value["sha-256"]
    if type(size) is not int or size < 0 or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise MalformedError("a file's size is a number, its sha-256 64 hexadecimal digits")
    return size, digest
