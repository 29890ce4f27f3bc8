"""The one place that makes bytes survive power loss.

A new file:  write temporary, fsync it, rename over the name, fsync the folder: the name refers to nothing or to all.
In place:    pwrite, fdatasync: the caller keeps a second copy elsewhere, because a torn write spoils what was there.
Known hole:  a disk that acknowledges a sync before it is done. No software above it can tell.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

# macOS has no fdatasync; fsync is never weaker.
_datasync = getattr(os, "fdatasync", os.fsync)


class DurableFile:
    """An open file whose writes count only after ``sync``."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def read_at(self, offset: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, offset)

    def write_at(self, offset: int, data: bytes) -> None:
        written = os.pwrite(self._descriptor, data, offset)
        if written != len(data):
            raise OSError(28, "short write")

    @property
    def private(self) -> bool:
        """Whether nobody but its owner may read it."""
        return not os.fstat(self._descriptor).st_mode & 0o077

    @property
    def length(self) -> int:
        return os.fstat(self._descriptor).st_size

    def is_at(self, path: Path) -> bool:
        """Whether *path* still names this file: it may have been deleted, or another put in its place."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), path.stat())
        except OSError:
            return False

    def lock(self) -> bool:
        """Whether the file is now held by this object, until it is closed or its process ends, however that ends."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def sync(self) -> None:
        _datasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def create_durably(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put *data* at *path*, whole or not at all, and not before it is on the disk. Replaces what was there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def create_private(path: Path) -> None:
    """An empty file that nobody else may read, for SQLite to fill: its -wal and -shm take the mode over."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def publish_durably(descriptor: int, temporary: Path, path: Path) -> None:
    """As ``create_durably`` for a file too large for memory: *temporary*, open as *descriptor*, is complete."""
    os.fsync(descriptor)
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
