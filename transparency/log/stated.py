"""What the service stated about itself, read back from its log: holds, erasures, audits. The log is the only record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from transparency.errors import MalformedError
from transparency.log.store import Kind, Store
from transparency.policy import operations
from transparency.policy.audited import Audited
from transparency.policy.erasure import Erasure
from transparency.policy.hold import ENTRY, ISSUER, SESSION, Hold, Release, read_hold
from transparency.statements.statement import Statement, entry_id

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
    before = store.tip().size
    while rows := store.newest_documents(Kind.OPERATION, before, _PAGE):
        for row in rows:
            if row.index < down_to:
                return
            statement = Statement.from_bytes(row.statement)
            if statement.sub == subject:
                yield row.index, entry_id(row.entry), statement.payload
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


def audited_size(store: Store) -> int:
    """Entries below this index were replayed by an audit that stands on the log."""
    size = 0
    for _, _, payload in newest_first(store, operations.AUDIT):
        try:
            size = max(size, Audited.from_bytes(payload).size)
        except MalformedError:
            continue
    return size
