"""Carrying out what registered erasures say, and what a crash at any line leaves (REG-20).

The erasure stands on the log and ``erased_upto`` of the store is not past it, so every start, and every later erasure,
begins here again. Each step may be repeated:
1. Artifacts: a marker that they are gone, then their files.
2. Statements are emptied in the store, in one transaction.
3. The search index forgets them; its file is written anew.
4. If statements went: the store's file is written anew and its write-ahead log emptied.
5. ``erased_upto`` moves past it.

What is erased is said by the log alone, and by nobody's word about it. An artifact goes with an erasure that names an
entry of it if every entry before that erasure which refers to it is named, by that erasure or an earlier one: whoever
asked may have overlooked some, and more may have come in meanwhile. Both were registered before the erasure, so what
goes is settled the moment it stands on the log, the same for everybody who reads it. A copy from the middle of it, or
one whose artifacts are older than its log, is brought up to date by doing everything again from index 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from transparency.errors import OverloadedError, StoreError
from transparency.log import sqlite_erasing
from transparency.log.artifacts import ArtifactStore
from transparency.log.folder import Folder
from transparency.log.retention import artifact_of, references_to
from transparency.log.search import SearchIndex
from transparency.log.sqlite import connect
from transparency.log.stated import erasures
from transparency.log.store import Kind, Store
from transparency.policy.erasure import PAYLOAD, Erasure
from transparency.statements.statement import Statement, entry_id

_TRIES: Final = 3
_NOTE_EVERY: Final = 4_096
_BUSY_MS: Final = 10_000

Write = Callable[[Callable[[], Any]], Any]
"""Runs one write to the store where writes are run, and gives its result."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the erasure at index *at* comes to: artifacts, statements, and entries of the search index."""

    at: int
    digests: tuple[str, ...]
    payloads: tuple[int, ...]
    indexes: tuple[int, ...]


def carry_out(store: Store, folder: Folder, origin: str, write: Write, forget: Callable[[], None]) -> str:
    """Do whatever registered erasures have left to do; why it is not all done, or "".

    *forget* overwrites what is kept of statements outside the store. It is run as a write.
    """
    upto, done = store.tip().size, store.erased_upto()
    pending = erasures(store, down_to=done)
    works = works_of(store, origin, since=done) if pending else []
    payloads = [index for work in works for index in work.payloads]
    artifacts = ArtifactStore(folder.artifacts)
    try:
        for work in works:
            for digest in work.digests:
                artifacts.erase(digest)
        if payloads:
            write(lambda: store.erase(payloads))
        unfinished = _forget(store, folder, works)
        if payloads:
            unfinished = str(write(store.scrub)) or unfinished
            write(forget)
    except OSError as error:
        return f"{error.strerror or error}"
    if not unfinished and (pending or upto - done >= _NOTE_EVERY):
        write(lambda: store.note_erased(upto))
    return unfinished


def works_of(store: Store, origin: str, *, since: int = 0) -> list[Work]:
    """What each erasure from index *since* on takes away. The log is read once, if any of them names an artifact."""
    named: dict[str, dict[int, int]] = {}  # of each artifact: the entries that were named, and where first
    parts = []
    for at, erasure in erasures(store):
        if erasure.log != origin:
            continue
        digests, payloads = _read(store, at, erasure)
        for digest, indexes in digests.items():
            for index in indexes:
                named.setdefault(digest, {}).setdefault(index, at)
        if at >= since:
            parts.append((at, digests, payloads))
    last = max((at for at, _, _ in parts), default=0)
    wanted = {digest for _, digests, _ in parts for digest in digests}
    referring: dict[str, list[int]] = {}
    for index, digest in references_to(store, wanted, 0, last) if wanted else ():
        referring.setdefault(digest, []).append(index)

    def goes(digest: str, at: int) -> bool:
        return all(named[digest].get(index, last + 1) <= at for index in referring.get(digest, ()) if index < at)

    works = []
    for at, digests, payloads in parts:
        going = {digest: indexes for digest, indexes in digests.items() if goes(digest, at)}
        indexes = {*payloads, *(index for group in going.values() for index in group)}
        works.append(Work(at, tuple(going), tuple(payloads), tuple(sorted(indexes))))
    return works


def _read(store: Store, at: int, erasure: Erasure) -> tuple[dict[str, set[int]], list[int]]:
    """The artifacts that an erasure names, each with the entries by which it does; and the payloads."""
    digests: dict[str, set[int]] = {}
    payloads = []
    for item in erasure.items:
        row = store.entry(item.index) if item.index < at else None
        if row is None or row.kind is not Kind.STATEMENT or entry_id(row.entry) != item.entry:
            continue  # fsck and the audit name it
        if item.what == PAYLOAD:
            payloads.append(item.index)
        elif not row.erased and (digest := artifact_of(Statement.from_bytes(row.statement))) is not None:
            digests.setdefault(digest, set()).add(item.index)
    return digests, payloads


def _forget(store: Store, folder: Folder, works: Sequence[Work]) -> str:
    """Clear the search index of it. Entries that name an artifact and came after its erasure may be in it, too."""
    if not folder.search.exists() or not works:
        return ""
    digests = {digest for work in works for digest in work.digests}
    indexes = {index for work in works for index in work.indexes}
    newest = max(indexes, default=0)
    indexes |= {index for index, _ in references_to(store, digests, newest, store.tip().size)}
    try:
        with SearchIndex(folder.search) as search:
            for index in sorted(indexes):
                _erase(search, index)
        with contextlib.closing(connect(folder.search)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            reason = sqlite_erasing.scrub(connection)
    except (OverloadedError, StoreError) as error:
        reason = str(error)
    return f"search index: {reason}" if reason else ""


def _erase(search: SearchIndex, index: int) -> None:
    """Once more where a reader was in the way, each time after having waited for it."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(OverloadedError):
            search.erase(index)
            return
    search.erase(index)
