"""What is wrong with a log at the moment it is looked at: entries that are gone without an order, or not to be had."""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from transparency.errors import TransparencyError
from transparency.log.audit_sources import RemoteSource
from transparency.log.store import Kind
from transparency.policy import operations
from transparency.policy.erasure import Erasure
from transparency.statements.statement import Entry, Statement, entry_id
from transparency.witness.findings import Findings
from transparency.witness.follow_replay import FollowReplay, Reading

TILES: Final = frozenset({"tiles"})
MISSING: Final = TILES | {"missing"}
ENDING: Final = MISSING | {"gone"}
"""What may be put right: an order is registered after all, an entry or a tile is there again. In the order in which it
is looked for: who has found an entry missing has not asked what is gone."""
# Looked at in one round, the first of each kind: none of them is cosigned over, and the others have their turn.
_MOST: Final = 1_000
_NO_ORDER: Final = "its statement is gone, and no order to erase it stands on the log"
_NO_RECORD_ORDER: Final = "the log says that it has erased its record, and no order to erase it stands on the log"


class Condition(NamedTuple):
    code: str
    at: int
    entry: str
    what: str


def gone_entries(findings: Findings, replay: FollowReplay, reading: Reading, size: int) -> tuple[list[Condition], bool]:
    """What is gone without an order before *size*; and whether anything waits for one that stands beyond it.

    An order is registered before anything goes, and this reads on from *size* after it was seen to be gone: so an order
    that is not found here was not there.
    """
    missing = {index: (entry_id(Entry(entry)), _NO_ORDER) for index, entry in islice(replay.replay.gone(), _MOST)}
    for index, entry in findings.artifacts_gone(_MOST):
        missing.setdefault(index, (entry_id(Entry(entry)), _NO_RECORD_ORDER))
    if not missing:
        return [], False
    ordered = _ordered_beyond(reading, size, {(index, entry) for index, (entry, _) in missing.items()})
    gone = [
        Condition("gone", index, entry, what)
        for index, (entry, what) in missing.items()
        if (index, entry) not in ordered
    ]
    return gone, len(gone) < len(missing)


def _ordered_beyond(reading: Reading, size: int, gone: set[tuple[int, str]]) -> set[tuple[int, str]]:
    """Which of *gone* are named by orders that stand on the log, and not yet under the checkpoint.

    They are replayed in their turn.
    """
    found: set[tuple[int, str]] = set()
    for row in RemoteSource(reading.fetch).entries(size):
        if row.kind is not Kind.OPERATION:
            continue
        try:
            statement = Statement.from_bytes(row.statement)
            if statement.sub == operations.ERASURE:
                found |= gone & {(item.index, item.entry) for item in Erasure.from_bytes(statement.payload).items}
        except TransparencyError:
            continue  # the replay says so when a checkpoint covers it
        if found == gone:
            break
    return found
