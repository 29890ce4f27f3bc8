"""The high-water mark: the newest (size, root) this log ever released, kept outside the data folder.

A restored old folder does not bring the mark back with it, so start-up sees that the state is behind (design.md §4).
The file has two slots in different sectors, written in turn and synced: a write cut short by power loss spoils one
slot and leaves the other, which holds the mark before it. One ``fdatasync`` a batch.

    slot = "TLMARK01" · SHA-256(origin) · size (u64) · root (32) · SHA-256 of all before
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transparency.errors import LogUnusableError, RunningElsewhereError, StoreError
from transparency.log.durable import DurableFile, create_durably

_MAGIC = b"TLMARK01"
_BODY = struct.Struct(">8s32sQ32s")
_SLOT_BYTES = _BODY.size + 32
_OFFSETS = (0, 4096)


@dataclass(frozen=True, slots=True)
class MarkValue:
    size: int
    root: bytes


class Mark:
    """Owned by the sequencer's thread. ``write`` returns only when the value survives power loss."""

    def __init__(self, path: Path, origin: str, file: DurableFile, slots: list[MarkValue | None]) -> None:
        self.path = path
        self._origin = origin
        self._file = file
        self._slots = slots

    @classmethod
    def create(cls, path: Path, origin: str, value: MarkValue) -> Mark:
        slot = _encode(origin, value)
        # Both slots start alike, so a first write cut short leaves a whole one.
        create_durably(path, slot.ljust(_OFFSETS[1], b"\0") + slot)
        return cls.open(path, origin)

    @classmethod
    def open(cls, path: Path, origin: str, open_file: Callable[[Path], DurableFile] = DurableFile) -> Mark:
        try:
            file = open_file(path)
        except OSError as error:
            raise LogUnusableError(f"the high-water mark {path} cannot be opened: {error.strerror}") from error
        try:
            slots = [_decode(file.read_at(offset, _SLOT_BYTES), origin, path) for offset in _OFFSETS]
        except BaseException:
            file.close()
            raise
        if slots == [None, None]:
            file.close()
            raise LogUnusableError(f"the high-water mark {path} is damaged in both its slots; restore it from a backup")
        return cls(path, origin, file, slots)

    @property
    def value(self) -> MarkValue:
        return max((slot for slot in self._slots if slot), key=lambda slot: slot.size)

    def own(self) -> None:
        """Hold the mark as a folder is held.

        A copy of the folder beside a running log passes every check against the mark they share; only this keeps the
        two from writing two histories.
        """
        if not self._file.lock():
            raise RunningElsewhereError(
                f"the high-water mark {self.path} is held by another process: this log is running from another folder"
            )

    def write(self, value: MarkValue) -> None:
        sizes = [slot.size if slot else -1 for slot in self._slots]
        place = sizes.index(min(sizes))
        try:
            self._file.write_at(_OFFSETS[place], _encode(self._origin, value))
            self._file.sync()
        except OSError as error:
            raise StoreError(f"the high-water mark {self.path} could not be written: {error.strerror}") from error
        self._slots[place] = value

    def close(self) -> None:
        self._file.close()


def default_path(data: Path, origin: str) -> Path:
    """Beside the data folder, never in it; the origin's hash in its name, so that a new log gets a new mark."""
    data = Path(os.path.abspath(data))  # noqa: PTH100 - resolve() would follow a link, and the mark with it
    return data.with_name(f"{data.name}.{hashlib.sha256(origin.encode()).hexdigest()[:8]}.mark")


Bearer = Literal["this log", "another log", "nobody"]


def bearer_of(path: Path, origin: str) -> Bearer:
    """Whose mark the file *path* is, if it is one at all."""
    with path.open("rb") as file:
        data = file.read(_OFFSETS[1] + _SLOT_BYTES)
    try:
        slots = [_decode(data[offset : offset + _SLOT_BYTES], origin, path) for offset in _OFFSETS]
    except LogUnusableError:
        return "another log"
    return "this log" if any(slots) else "nobody"


def marks_beside(data: Path) -> list[Path]:
    """Files with the name that the mark of a log in *data* has by default."""
    data = Path(os.path.abspath(data))  # noqa: PTH100 - as above
    named = re.compile(re.escape(data.name) + r"\.[0-9a-f]{8}\.mark")
    return sorted(path for path in data.parent.iterdir() if named.fullmatch(path.name)) if data.parent.is_dir() else []


def check_outside(mark: Path, data: Path) -> None:
    """Refuse a mark inside the folder it protects, by whatever name: it would be rolled back with it."""
    if mark.parent.resolve().is_relative_to(data.resolve()):
        raise LogUnusableError(f"the watermark {mark} must lie outside the data folder, or it protects nothing")


def _encode(origin: str, value: MarkValue) -> bytes:
    body = _BODY.pack(_MAGIC, hashlib.sha256(origin.encode()).digest(), value.size, value.root)
    return body + hashlib.sha256(body).digest()


def _decode(slot: bytes, origin: str, path: Path) -> MarkValue | None:
    if len(slot) != _SLOT_BYTES or hashlib.sha256(slot[: _BODY.size]).digest() != slot[_BODY.size :]:
        return None
    magic, origin_hash, size, root = _BODY.unpack(slot[: _BODY.size])
    if magic != _MAGIC:
        return None
    if origin_hash != hashlib.sha256(origin.encode()).digest():
        raise LogUnusableError(f"the high-water mark {path} belongs to another log; name this log's with --watermark")
    return MarkValue(size, root)
