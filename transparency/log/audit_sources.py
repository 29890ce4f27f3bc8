"""Where an audit reads a log: a copy of its data folder, or the log itself over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self, TypeVar

from transparency.errors import LogUnusableError, MalformedError, UnreachableError
from transparency.log.export import read_entries, read_heads
from transparency.log.folder import Folder
from transparency.log.store import StoredEntry
from transparency.log.stores import open_for_reading
from transparency.statements.receipt import SignedHead

_T = TypeVar("_T")
Fetch = Callable[[str, int], bytes]
"""``fetch("entries", 7)`` gives the page of the export that begins there; an empty one is the end."""


class FolderSource:
    """A data folder, read only. Of all that lies in it only the database is needed, or config.toml, which names it.

    It may be in use: what is audited is the state at the moment it was opened.
    """

    def __init__(self, data: Path) -> None:
        folder = Folder(data.absolute())
        if not folder.exists():
            raise LogUnusableError(f"there is no log in {data}")
        self._store = open_for_reading(folder)
        self._size = self._store.tip().size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def size(self) -> int:
        return self._size

    def entries(self) -> Iterator[StoredEntry]:
        return self._store.entries(0, self._size)

    def heads(self) -> Iterator[SignedHead]:
        for head in self._store.heads():
            if head.size > self._size:
                return
            yield head


class RemoteSource:
    """A log that is asked page by page."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    def size(self) -> None:
        return None

    def entries(self, start: int = 0) -> Iterator[StoredEntry]:
        while page := _read(read_entries, self._fetch("entries", start)):
            yield from page
            if page[-1].index < start:
                raise UnreachableError("the log gives the same entries again and again")
            start = page[-1].index + 1

    def heads(self, after: int = 0) -> Iterator[SignedHead]:
        while page := _read(read_heads, self._fetch("heads", after)):
            yield from page
            if page[-1].size <= after:
                raise UnreachableError("the log gives the same tree heads again and again")
            after = page[-1].size


def _read(reader: Callable[[bytes], list[_T]], page: bytes) -> list[_T]:
    try:
        return reader(page)
    except MalformedError as error:
        raise UnreachableError(f"the log's export is not one ({error})") from error
