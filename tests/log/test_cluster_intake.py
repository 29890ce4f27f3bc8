"""A leader takes from the intake what it can sequence soon, however much lies there, and the rest as there is room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.patience import until
from transparency.errors import TransparencyError
from transparency.log import cluster_intake
from transparency.log.candidate import Candidate, Place, Standing, Told
from transparency.log.cluster_intake import SharedIntake
from transparency.log.pending_intake import PendingIntake
from transparency.log.store import IntakeRow, NewEntry
from transparency.policy.judge import Judgement
from transparency.statements.statement import Statement
from transparency.testing import MemoryStore, SampleIssuer

JUDGEMENT = Judgement(1, 0, 2**53)


class Slow:
    """A sequencer that gets no further until it is told to; then it commits what was queued."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.failed: BaseException | None = None
        self.pending_intake = PendingIntake()
        self.keeper: object = None
        self.queued: list[tuple[NewEntry, Told]] = []

    def enqueue(self, candidate: Candidate, told: Told) -> None:
        self.queued.append((candidate.new, told))

    async def write(self, job: Callable[[], None]) -> None:
        job()

    def fail(self, error: BaseException) -> None:
        self.failed = error

    def commit(self, count: int) -> None:
        done, self.queued = self.queued[:count], self.queued[count:]
        self.store.intake_remove([new.entry for new, _ in done])
        for new, told in done:
            self.pending_intake.discard(new.entry)
            told(Standing(7))

    @property
    def bytes(self) -> int:
        return sum(len(new.statement) for new, _ in self.queued)


class Silent:
    def ring(self, bell: str, said: str = "") -> None:
        """Nobody listens."""


def rows(count: int, size: int) -> list[IntakeRow]:
    issuer = SampleIssuer("https://issuer.example")
    statements = [Statement.from_bytes(issuer.sign(b"%d" % number + bytes(size))) for number in range(count)]
    return [IntakeRow(each.entry, each.normalised, JUDGEMENT, 0) for each in statements]


async def never(_statement: Statement, _judgement: Judgement) -> Place:
    raise TransparencyError("nothing has to be judged again here")


@asynccontextmanager
async def leading(store: MemoryStore) -> AsyncIterator[tuple[SharedIntake, Slow]]:
    slow = Slow(store)
    intake = SharedIntake(
        store,
        slow,  # type: ignore[arg-type]
        never,
        lambda: 0,
        store.intake_pending,
        Candidate.of,
        Silent(),
    )
    await intake.start()
    try:
        yield intake, slow
        assert slow.failed is None
    finally:
        slow.fail(asyncio.CancelledError())  # nothing that was begun is waited for
        await intake.stop()


@pytest.mark.parametrize(("count", "size"), [(120, 10), (120, 3000)])
async def test_no_more_is_taken_than_there_is_room_for_and_the_rest_without_another_bell(
    monkeypatch: pytest.MonkeyPatch, count: int, size: int
) -> None:
    """The sequencer stands still, and with every bell the leader looks again: all of it would end in its memory."""
    monkeypatch.setattr(cluster_intake, "MAX_BATCH_BYTES", 60_000)
    monkeypatch.setattr(cluster_intake, "MOST_ROWS", 40)
    monkeypatch.setattr(cluster_intake, "MAX_BATCH", 16)
    monkeypatch.setattr(cluster_intake, "LOOK_SECONDS", 3600)
    store = MemoryStore()
    store.intake_add(waiting := rows(count, size))
    largest = max(row.size for row in waiting)

    async with leading(store) as (intake, slow):
        for _ in range(20):
            intake.look()
            await asyncio.sleep(0.005)
        assert 10 <= len(slow.queued) <= 40
        assert slow.bytes < 60_000 + largest

        taken: list[bytes] = []
        while len(taken) < count:
            await until(lambda: bool(slow.queued))
            assert len(slow.queued) <= 40
            assert slow.bytes < 60_000 + largest
            taken += [new.entry for new, _ in slow.queued]
            slow.commit(len(slow.queued))

    assert taken == [row.entry for row in waiting]
    assert store.intake_sizes() == {}
