"""The artifacts: records kept beside the log, each in a file named by its SHA-256 (design §6).

DIR/artifacts/ab/cdef…  one record, mode 0600, never changed      DIR/artifacts/incoming/  uploads under way
DIR/artifacts/ab/cdef….gone  empty: that record was erased, and is not taken again (log/erasure.py)

A statement above 64 KiB carries its record's digest; here the record can be had. Nothing in the log depends on this
folder: receipts and proofs hold without it, and a file in it proves itself by its name. So it is kept out of the log's
database, and a full disk stops uploads while there is still room for the log itself.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Self

from transparency.errors import GoneError, MalformedError, NotFoundError, OverloadedError
from transparency.log.durable import create_durably, publish_durably, sync_folder

# What is left to the log on its disk; an upload that would go below it is put off.
RESERVE_BYTES: Final = 256 * 1024 * 1024

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_TRY_AGAIN_SECONDS: Final = 60.0
_CHUNK: Final = 1024 * 1024
_GONE: Final = ".gone"


class ArtifactStore:
    """The folder. Safe for several threads: files appear whole, under a name that only their content can have."""

    def __init__(self, folder: Path, *, reserve: int = RESERVE_BYTES) -> None:
        self.folder = folder
        self._incoming = folder / "incoming"
        self._reserve = reserve

    def clear_incoming(self) -> None:
        """Remove what uploads left behind when the process ended; only the folder's owner may."""
        shutil.rmtree(self._incoming, ignore_errors=True)

    def size(self, digest: str) -> int:
        """How many bytes the artifact has; NotFoundError if it is not here, GoneError if it was erased."""
        try:
            return self._path(digest).stat().st_size
        except FileNotFoundError:
            raise self._missing(digest) from None

    def open(self, digest: str) -> BinaryIO:
        try:
            return self._path(digest).open("rb")
        except FileNotFoundError:
            raise self._missing(digest) from None

    def erase(self, digest: str) -> None:
        """Remove the artifact for good, durably. May be repeated, and be done before it ever arrives.

        The marker comes first: an upload that ends meanwhile finds it and is thrown away, or was there to be removed.
        """
        path = self._path(digest)
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(path.parent.parent)
        marker = _marker(path)
        if not marker.exists():
            create_durably(marker, b"")
        path.unlink(missing_ok=True)
        sync_folder(path.parent)

    def is_gone(self, digest: str) -> bool:
        return _marker(self._path(digest)).exists()

    def gone(self) -> Iterator[str]:
        """Every artifact that was erased, in no particular order."""
        return (name.removesuffix(_GONE) for name in self._names() if name.endswith(_GONE))

    def digests(self) -> Iterator[str]:
        """Every artifact that is whole, in no particular order. What is not named as one is not one."""
        return (name for name in self._names() if not name.endswith(_GONE))

    def _names(self) -> Iterator[str]:
        for shelf in self.folder.glob("[0-9a-f][0-9a-f]"):
            for path in shelf.iterdir():
                if _DIGEST.fullmatch((shelf.name + path.name).removesuffix(_GONE)):
                    yield shelf.name + path.name

    def is_sound(self, digest: str) -> bool:
        """Whether the file still is what its name says."""
        found = hashlib.sha256()
        with self.open(digest) as file:
            while chunk := file.read(_CHUNK):
                found.update(chunk)
        return found.hexdigest() == digest

    def copy_to(self, other: ArtifactStore) -> None:
        """Every artifact, durably, checked on the way: a copy of a damaged one is refused, not made."""
        for digest in self.gone():
            other.erase(digest)
        for digest in self.digests():
            with contextlib.suppress(GoneError):  # meanwhile
                self._copy(digest, other)
        other.clear_incoming()

    def _copy(self, digest: str, other: ArtifactStore) -> None:
        with self.open(digest) as file, other.receive(digest) as incoming:
            while chunk := file.read(_CHUNK):
                incoming.write(chunk)
            incoming.finish()

    def receive(self, digest: str) -> Incoming:
        """Begin an upload; use as a context manager, write all of it, then ``finish``."""
        path = self._path(digest)
        if _marker(path).exists():
            raise _erased(digest)
        if path.exists():
            return Incoming(digest, path, None)  # nothing to keep, but the sender is still told if the bytes are wrong
        with _room():
            self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
            if shutil.disk_usage(self._incoming).free < self._reserve:
                raise OverloadedError("There is no room for artifacts; nothing was kept", _TRY_AGAIN_SECONDS)
            return Incoming(digest, path, self._incoming / secrets.token_hex(16), reserve=self._reserve)

    def _missing(self, digest: str) -> GoneError | NotFoundError:
        if self.is_gone(digest):
            return _erased(digest)
        return NotFoundError(f"There is no artifact with the SHA-256 {digest} here")

    def _path(self, digest: str) -> Path:
        check_digest(digest)
        return self.folder / digest[:2] / digest[2:]


class Incoming:
    """One upload: hashed while it is written, and thrown away unless it is what its name says.

    Writing happens in threads, and the request may be cancelled meanwhile. A descriptor closed under a writer is a
    number that the next file, perhaps the log's own, may get: so closing waits for the writer, under the lock.
    """

    def __init__(self, digest: str, path: Path, temporary: Path | None, *, reserve: int = 0) -> None:
        self._digest = digest
        self._path = path
        self._temporary = temporary
        self._reserve = reserve
        self._hash = hashlib.sha256()
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        if temporary is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(temporary, flags, 0o600)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        with self._lock, _room():
            self._hash.update(chunk)
            if self._descriptor is None:
                return
            view = memoryview(chunk)
            while view:
                view = view[os.write(self._descriptor, view) :]
            free = os.fstatvfs(self._descriptor)
        if free.f_bavail * free.f_frsize < self._reserve:
            raise OverloadedError("There is no room for artifacts; nothing was kept", _TRY_AGAIN_SECONDS)

    def finish(self) -> bool:
        """Keep it, durably; True if it was not here before. MalformedError if the bytes are not those of the digest."""
        if self._hash.hexdigest() != self._digest:
            raise MalformedError("the SHA-256 of the bytes is not the one they were sent under; nothing was kept")
        with self._lock, _room():
            if self._descriptor is None or self._temporary is None:
                return False
            shelf = self._path.parent
            if not shelf.exists():
                shelf.mkdir(mode=0o700, exist_ok=True)
                sync_folder(shelf.parent)
            new = not self._path.exists()  # somebody else may have sent the same meanwhile: the same bytes
            publish_durably(self._descriptor, self._temporary, self._path)
            if _marker(self._path).exists():
                self._path.unlink(missing_ok=True)
                raise _erased(self._digest)
        return new


def check_digest(text: str) -> str:
    """One spelling: 64 lower-case hexadecimal digits. It becomes a path, so nothing else gets through."""
    if not _DIGEST.fullmatch(text):
        raise MalformedError("an artifact is named by its SHA-256: 64 lower-case hexadecimal digits")
    return text


@contextlib.contextmanager
def _room() -> Iterator[None]:
    """A full disk is a reason to come back later, not a fault of the log."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise OverloadedError("There is no room for artifacts; nothing was kept", _TRY_AGAIN_SECONDS) from error
        raise


def _marker(path: Path) -> Path:
    return path.with_name(path.name + _GONE)


def _erased(digest: str) -> GoneError:
    return GoneError(f"The artifact with the SHA-256 {digest} was erased, and is not taken again")
