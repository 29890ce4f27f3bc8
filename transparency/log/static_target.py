"""Where an export is written: a folder, or a bucket (client/objects.py). A file appears whole or not at all.

Of a folder there is one writer at a time: it is locked. Of a bucket there may be several, so that the few files that
change are compared and swapped; the others are the same whoever writes them.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from transparency.client.places import FOLDER, log_url
from transparency.errors import FolderOwnedError, StoreError
from transparency.log.durable import publish_durably, sync_folder

_INCOMING: Final = ".incoming"
_LOCK: Final = ".lock"
_MODE: Final = 0o644


class TargetError(StoreError):
    """What is at the target is nothing that an export goes on with. It is left as it is, and another run says the same.

    The message says what to do.
    """


class Target(Protocol):
    """Paths are those of static_layout.py. Every method but ``close`` may be called from several threads at once."""

    name: str

    def get(self, path: str) -> bytes | None: ...
    def put(self, path: str, data: bytes | BinaryIO) -> None: ...
    def swap(self, path: str, data: bytes, keeps: Callable[[bytes | None], bool]) -> bool:
        """Replace a file unless *keeps* says of what is there that it stays; True if it was replaced."""
        ...

    def delete(self, path: str) -> None: ...
    def paths(self, prefix: str) -> Iterator[str]: ...
    def close(self) -> None: ...


def open_target(text: str) -> Target:
    """A folder, which is made if it is not there, or a bucket's URL."""
    if "://" not in text:
        return FolderTarget(Path(text))
    url = log_url(text)
    if url.scheme == FOLDER:
        return FolderTarget(Path(url.path))
    if url.scheme in ("http", "https"):
        raise TargetError(f"{url} is read over HTTP, not written: name the folder or the bucket behind it")
    from transparency.client.objects import Bucket  # noqa: PLC0415 - the extra `export`

    return Bucket(url)


class FolderTarget:
    """A folder. What is put there is on the disk before anything that is put later."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder.absolute()
        self._made: set[Path] = set()
        self._making = threading.Lock()
        self._make(self._folder)
        self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise FolderOwnedError(f"another export is writing {folder}") from error
        # What an export left behind that was killed.
        shutil.rmtree(self._folder / _INCOMING, ignore_errors=True)
        self._make(self._folder / _INCOMING)

    @property
    def is_empty(self) -> bool:
        return {item.name for item in self._folder.iterdir()} <= {_INCOMING, _LOCK}

    def get(self, path: str) -> bytes | None:
        try:
            return (self._folder / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def put(self, path: str, data: bytes | BinaryIO) -> None:
        try:
            self._put(path, data)
        except OSError as error:
            raise StoreError(f"{self.name}: {path} could not be written: {error.strerror}") from error

    def _put(self, path: str, data: bytes | BinaryIO) -> None:
        place = self._folder / path
        self._make(place.parent)
        temporary = self._folder / _INCOMING / secrets.token_hex(8)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            if isinstance(data, bytes):
                file.write(data)
            else:
                shutil.copyfileobj(data, file)
            file.flush()
            publish_durably(file.fileno(), temporary, place)

    def swap(self, path: str, data: bytes, keeps: Callable[[bytes | None], bool]) -> bool:
        if keeps(self.get(path)):
            return False
        self.put(path, data)
        return True

    def delete(self, path: str) -> None:
        (self._folder / path).unlink(missing_ok=True)

    def paths(self, prefix: str) -> Iterator[str]:
        for item in (self._folder / prefix).rglob("*"):
            if item.is_file():
                yield item.relative_to(self._folder).as_posix()

    def close(self) -> None:
        shutil.rmtree(self._folder / _INCOMING, ignore_errors=True)
        os.close(self._lock)

    def _make(self, folder: Path) -> None:
        """The folder and those above it, each in the one above before anything is put there."""
        with self._making:
            if folder in self._made:
                return
            missing = []
            while not folder.is_dir():
                if folder.exists():
                    raise TargetError(f"{folder} is no folder; name one, or one that is not there yet")
                missing.append(folder)
                folder = folder.parent
            for each in reversed(missing):
                each.mkdir(exist_ok=True)
                sync_folder(each.parent)
            self._made.update(missing or [folder])
