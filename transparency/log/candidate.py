"""The candidate: a judged statement on its way into the tree, and what it is when it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from transparency.errors import TransparencyError
from transparency.log.appender import SignerAt
from transparency.log.store import Kind, NewEntry
from transparency.policy.judge import FOREVER, Judgement
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry


class Submitted(Protocol):
    """What is sequenced of a statement. It was read and judged; by whom makes no difference."""

    @property
    def entry(self) -> Entry: ...
    @property
    def tbs_digest(self) -> bytes: ...
    @property
    def normalised(self) -> bytes: ...


class Candidate(NamedTuple):
    """A statement, as the row it is to become, with its judgement, which many may share.

    A document carries what to check and do at its place in the order. A tuple, as everything here that is made for each
    statement: a frozen data class takes five times as long.
    """

    new: NewEntry
    judgement: Judgement
    # Called at sequencing with the time of its head; raises if it may not stand at this place.
    check: Callable[[int], None] | None = None
    # Called after the commit, before anything else is sequenced.
    took_effect: Callable[[int, SignedHead], None] | None = None
    signer_at: SignerAt | None = None
    # It may wait a moment for others to share a commit with.
    patient: bool = False

    @classmethod
    def of(
        cls,
        statement: Submitted,
        judgement: Judgement,
        kind: Kind = Kind.STATEMENT,
        *,
        check: Callable[[int], None] | None = None,
        took_effect: Callable[[int, SignedHead], None] | None = None,
        signer_at: SignerAt | None = None,
        patient: bool = False,
    ) -> Candidate:
        new = NewEntry(
            statement.entry,
            kind,
            judgement.generation,
            statement.tbs_digest,
            statement.normalised,
            judgement.collateral,
        )
        return cls(new, judgement, check, took_effect, signer_at, patient)

    @property
    def kind(self) -> Kind:
        return self.new.kind

    @property
    def size(self) -> int:
        return len(self.new.statement) + len(self.new.collateral)


@dataclass(slots=True)
class Batch:
    """Entries that share a head. Their receipts are made together, when the first is asked for (log/receipts.py)."""

    first: int
    head: SignedHead
    # The hashes of its entries as leaves.
    leaves: Sequence[bytes]
    # The complete subtrees that stood left of it, by level: what its receipts need of the tree before it.
    left: Sequence[bytes | None]
    receipts: list[bytes] | None = None


class Sequenced:
    """Where a candidate came to stand."""

    __slots__ = ("batch", "index")

    def __init__(self, index: int, batch: Batch) -> None:
        self.index = index
        self.batch = batch

    @property
    def head(self) -> SignedHead:
        return self.batch.head


class Standing:
    """Where a candidate has stood already."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


Place = Sequenced | Standing
Told = Callable[[Place | TransparencyError], None]
"""Called once, by the event loop, when it is known what became of a candidate. It returns at once."""


class Lot:
    """Statements that were judged alike, and wait and are told together unless something sets one of them apart.

    What is done once for a lot is not done for each of its statements: that is most of what sequencing costs.
    """

    __slots__ = ("apart", "judgement", "patient", "rows", "together")

    def __init__(
        self,
        rows: Sequence[NewEntry],
        judgement: Judgement,
        together: Callable[[int, Batch], None],
        apart: Callable[[int], Told],
        *,
        patient: bool,
    ) -> None:
        """*together* is told at which index the first of them came to stand in which batch, the others behind it.

        *apart* says who is told of the one with a number, counted from 0, where they do not stay together.
        """
        self.rows = rows
        self.judgement = judgement
        self.together = together
        self.apart = apart
        self.patient = patient

    def each(self) -> Iterator[tuple[Candidate, Told]]:
        """Its statements by themselves, and who is told of each."""
        for number, new in enumerate(self.rows):
            yield Candidate(new, self.judgement, patient=self.patient), self.apart(number)


def enqueue_apart(enqueue: Callable[[Candidate, Told], None], lot: Lot) -> None:
    """Put each statement of a lot in a queue by *enqueue*; who is refused there is told so."""
    for candidate, told in lot.each():
        try:
            enqueue(candidate, told)
        except TransparencyError as error:
            told(error)


async def settled(enqueue: Callable[[Candidate, Told], None], candidate: Candidate) -> Place:
    """Put *candidate* in a queue by *enqueue*, and wait for what is told of it."""
    # A future of its own: a client that goes away does not take its entry, or a duplicate's waiter, with it.
    future: asyncio.Future[Place] = asyncio.get_running_loop().create_future()

    def told(outcome: Place | TransparencyError) -> None:
        if future.done():
            return
        if isinstance(outcome, TransparencyError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    enqueue(candidate, told)
    return await future


def document_judgement(generation: int) -> Judgement:
    """Documents of the service hold at any time: their place in the sequence is what is checked."""
    return Judgement(generation, 0, FOREVER)
