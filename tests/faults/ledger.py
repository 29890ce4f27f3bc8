"""The client's side of a fault test: everything the log ever promised, held against the log that is there afterwards.

No acknowledged entry is lost; every receipt ever released still verifies; no two heads of one size differ, and each
leads to the next by a consistency proof (design.md §12).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.patience import PATIENCE
from transparency.cose.keys import PublicKey
from transparency.log.log import Failed, Found, Log, Pending, Registered
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Entry, Statement


@dataclass(slots=True)
class Ledger:
    """What clients were told. Filled while faults strike, checked afterwards."""

    receipts: list[tuple[Statement, bytes]] = field(default_factory=list)
    accepted: list[Statement] = field(default_factory=list)
    # Accepted with 202 and then rightly refused: these may be recorded as failed.
    may_fail: set[Entry] = field(default_factory=set)

    def registered(self, data: bytes, result: Registered) -> None:
        statement = Statement.from_bytes(data)
        assert statement.entry == result.entry
        self.receipts.append((statement, result.receipt))

    def taken_in(self, data: bytes) -> None:
        self.accepted.append(Statement.from_bytes(data))

    async def check(self, log: Log) -> None:
        """Hold all of it against *log*, which was reopened and started."""
        roots = self.check_receipts(log, log.receipt_keys())
        newest = log.newest_head()
        assert roots.setdefault(newest.size, newest.root) == newest.root
        check_consistent(log, roots)
        for statement in self.accepted:
            found = await settled(log, statement.entry)
            if statement.entry in self.may_fail:
                assert isinstance(found, Failed | Found)
            else:
                assert isinstance(found, Found), f"a 202 was lost: {found}"
                assert log.statement(found.index) == statement.normalised

    def check_receipts(self, log: Log, keys: Sequence[PublicKey]) -> dict[int, bytes]:
        """Every receipt verifies, and its entry is where it says. Returns the root of each size that was released."""
        by_kid = {key.kid: key for key in keys}
        roots: dict[int, bytes] = {}
        for statement, data in self.receipts:
            receipt = Receipt.from_bytes(data)
            assert receipt.kid is not None
            root = receipt.verify_inclusion(statement.entry, by_kid[receipt.kid])
            (proof,) = receipt.inclusion
            assert log.lookup(statement.entry) == Found(proof.index), "an acknowledged entry is not at its place"
            assert log.statement(proof.index) == statement.normalised
            assert roots.setdefault(proof.size, root) == root, f"two released heads of size {proof.size} differ"
        return roots


def check_consistent(log: Log, roots: dict[int, bytes]) -> None:
    """The stored head of each released size has its root, and each leads to the next."""
    keys = {key.kid: key for key in log.receipt_keys()}
    sizes = sorted(roots)
    for size in sizes:
        assert log._receipts.head_of_size(size).root == roots[size], f"the head of size {size} was replaced"
    for old, new in itertools.pairwise(sizes):
        receipt = Receipt.from_bytes(log.consistency(old, new))
        assert receipt.kid is not None
        assert receipt.verify_consistency(old, roots[old], keys[receipt.kid]) == roots[new]


async def settled(log: Log, entry: Entry, seconds: float = PATIENCE) -> object:
    """What became of an accepted entry, once it is no longer pending."""
    async with asyncio.timeout(seconds):
        while isinstance(found := log.lookup(entry), Pending):  # noqa: ASYNC110 - as a client polls
            await asyncio.sleep(0.002)
    return found
