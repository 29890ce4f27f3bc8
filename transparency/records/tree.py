"""A session that is a folder of files, packed into one record: OpenCode's storage tree, Claude Code's sub-agents.

What is signed is one string of bytes, so the files are put one after another in the order of their paths
(formats.md 9.1). Paths say what belongs to what (an OpenCode part may name its message nowhere else), so each file is
preceded by a line of ours that gives its path and size:

    {"transparency-tree":1,"path":"message/ses_1/msg_1.json","size":221}

The bytes of every file follow unchanged, then one line feed. So the pack is itself a sequence of JSON values, every
file can be taken out again exactly, and the same files always give the same pack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from transparency.errors import MalformedError
from transparency.records import strict_json

MAX_FILES: Final = 1_000_000
MAX_PATH: Final = 4096

_MARK: Final = b'{"transparency-tree":1,"path":'
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file: its path from the folder's root, with ``/``, and its exact bytes."""

    path: str
    data: bytes


def pack(files: Mapping[str, bytes]) -> bytes:
    """All files as one record, in the order of their paths' UTF-8; MalformedError for a path that leaves the folder."""
    if not files:
        raise MalformedError("the folder holds no file that belongs to a session")
    if len(files) > MAX_FILES:
        raise MalformedError(f"the folder holds more than {MAX_FILES} files")
    pieces: list[bytes] = []
    for path in sorted(files, key=lambda name: name.encode("utf-8", "surrogatepass")):
        _check_path(path)
        pieces += (_header(path, len(files[path])), files[path], b"\n")
    return b"".join(pieces)


def is_packed(data: bytes) -> bool:
    return data.startswith(_MARK)


def unpack(data: bytes) -> Iterator[PackedFile]:
    """The files of a pack, in order. Strict: only what ``pack`` writes is read, so there is one pack for one tree."""
    position, previous = 0, b""
    while position < len(data):
        end = data.find(b"\n", position, position + MAX_PATH * 6 + 128)
        if end < 0:
            raise MalformedError(f"byte {position}: not a line that announces a packed file")
        path, size = _read_header(data[position : end + 1], position)
        order = path.encode()
        if order <= previous:
            raise MalformedError(f"byte {position}: the packed files are not in the order of their paths")
        start, stop = end + 1, end + 1 + size
        if data[stop : stop + 1] != b"\n":
            raise MalformedError(f"byte {start}: the packed file does not end where its size says")
        yield PackedFile(path, data[start:stop])
        position, previous = stop + 1, order


def _header(path: str, size: int) -> bytes:
    return _MARK + json.dumps(path, ensure_ascii=False).encode() + b',"size":%d}\n' % size


def _read_header(line: bytes, position: int) -> tuple[str, int]:
    try:
        value = strict_json.loads(line)
    except MalformedError:
        value = None
    path, size = (value.get("path"), value.get("size")) if isinstance(value, dict) else (None, None)
    if not isinstance(path, str) or type(size) is not int or size < 0:
        raise MalformedError(f"byte {position}: not a line that announces a packed file")
    _check_path(path)
    # Written again it must be the same line: nothing else may stand in it.
    if _header(path, size) != line:
        raise MalformedError(f"byte {position}: not a line that announces a packed file")
    return path, size


def _check_path(path: str) -> None:
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise MalformedError("the path of a packed file is not UTF-8") from None
    if not 0 < length <= MAX_PATH or _UNSAFE.search(path) or any(step in ("", ".", "..") for step in path.split("/")):
        raise MalformedError("the path of a packed file is not a plain relative path")
