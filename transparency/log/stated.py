"""What the service stated about itself, read back from its log: policies, holds, erasures, audits. The only record.

Reads go page by page from the newest down, so that no read keeps the event loop from the store for long. On a log with
many operations they take seconds all the same: whoever serves runs them in a thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from transparency.errors import MalformedError
from transparency.log.answers import PolicyVersion
from transparency.log.documents import PlacedPolicy
from transparency.log.store import Kind, Store, StoredEntry
from transparency.policy import operations
from transparency.policy.audited import Audited
from transparency.policy.erasure import Erasure
from transparency.policy.hold import ENTRY, ISSUER, SESSION, Hold, Release, read_hold
from transparency.statements.statement import Statement, entry_id

POLICIES_BYTES: Final = 4 * 1024 * 1024
_PAGE: Final = 64


@dataclass(frozen=True, slots=True)
class StandingHold:
    """A hold that no release has ended, with the entry id it is released by."""

    entry: str
    hold: Hold

    def about(self, entry: str, iss: str) -> bool:
        return (self.hold.scope, self.hold.value) in ((ENTRY, entry), (ISSUER, iss))


def newest_first(store: Store, subject: str, *, down_to: int = 0) -> Iterator[tuple[int, str, bytes]]:
    """(index, entry id, payload) of the operations with *subject*, from the end of the log down to an index."""
    for row in documents_down(store, Kind.OPERATION, store.tip().size):
        if row.index < down_to:
            return
        statement = Statement.from_bytes(row.statement)
        if statement.sub == subject:
            yield row.index, entry_id(row.entry), statement.payload


def policies_from(store: Store, newest: PlacedPolicy, first: int) -> list[PolicyVersion]:
    """The generations from *first* to the *newest*, the oldest first, as many as fit into a page; at least one.

    The n-th policy on the log is generation n: none is parsed here.
    """
    page: deque[PolicyVersion] = deque()
    size = 0
    rows = documents_down(store, Kind.POLICY, newest.index + 1)
    # What is asked for stands at the end of the walk: of what does not fit the newest goes.
    for generation, row in zip(range(newest.policy.generation, max(first, 1) - 1, -1), rows, strict=False):
        toml = Statement.from_bytes(row.statement).payload
        page.appendleft(PolicyVersion(generation, row.index, entry_id(row.entry), toml))
        size += len(toml)
        while size > POLICIES_BYTES and len(page) > 1:
            size -= len(page.pop().toml)
    return list(page)


def documents_down(store: Store, kind: Kind, before: int) -> Iterator[StoredEntry]:
    """The documents of *kind* below an index, the newest first, a page at a time."""
    while rows := store.newest_documents(kind, before, _PAGE):
        yield from rows
        before = rows[-1].index


def standing_holds(store: Store) -> list[StandingHold]:
    released = set()
    standing = []
    for _, entry, payload in newest_first(store, operations.HOLD):
        try:
            said = read_hold(payload)
        except MalformedError:
            continue  # says nothing that could be kept to; the audit names it
        if isinstance(said, Release):
            released.add(said.hold)
        elif entry not in released:
            standing.append(StandingHold(entry, said))
    return standing[::-1]


def sessions_held(holds: list[StandingHold]) -> dict[str, StandingHold]:
    return {each.hold.value: each for each in holds if each.hold.scope == SESSION}


def erasures(store: Store, *, down_to: int = 0) -> list[tuple[int, Erasure]]:
    """Every erasure with its index, the oldest first."""
    found = []
    for index, _, payload in newest_first(store, operations.ERASURE, down_to=down_to):
        try:
            found.append((index, Erasure.from_bytes(payload)))
        except MalformedError:
            continue
    return found[::-1]


def any_erasure(store: Store) -> bool:
    return next(iter(newest_first(store, operations.ERASURE)), None) is not None


def audited_size(store: Store) -> int:
    """Entries below this index were replayed by an audit that stands on the log."""
    size = 0
    for _, _, payload in newest_first(store, operations.AUDIT):
        try:
            size = max(size, Audited.from_bytes(payload).size)
        except MalformedError:
            continue
    return size
