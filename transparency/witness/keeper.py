"""The keeper: takes submissions, decides them one after another, and lets an answer go when its record is durable.

Group commit: what arrives while one batch is being flushed is the next batch. A log alone waits for its own flush,
many share one. Within a batch each decision sees the ones before it, so two branches of a fork in one batch are
decided as if one had come later. If the state cannot be written nothing is answered 200 any more, and the process
must stop: a new start reads what was kept.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from transparency.display import safe_text
from transparency.errors import OverloadedError, StoreError
from transparency.notes.checkpoint_text import origin_hash
from transparency.server.limits import RateLimiter
from transparency.server.problems import ProblemError
from transparency.server.unexpected import log_unexpected
from transparency.witness.decide import Answer, Approved, Cosign, Submission, judge, read_submission
from transparency.witness.keys import WitnessKeys
from transparency.witness.logs import LogList
from transparency.witness.record import Evidence, Ground, Move, Record

MAX_WAITING: Final = 1024
MAX_BATCH: Final = 128
_CORES: Final = os.cpu_count() or 1
_SHARES: Final = 4
"""Of a batch for each core: a signature takes longer or shorter by chance, and nobody waits long for the last."""
_MINUTE: Final = 60.0
_MAX_BUCKETS: Final = 100_000
_MAX_SEEN: Final = 4096
_logger = logging.getLogger("transparency.witness")

_KEPT: Final = {
    Ground.FORK: "%s signed another history, at size %d: kept as evidence",
    Ground.UNPROVEN: "%s signed a tree of size %d that is not shown to extend the recorded one; kept",
}
Outcome = Answer | Exception
_In = TypeVar("_In")
_Out = TypeVar("_Out")
Clock = Callable[[], float]


class Recorded(Protocol):
    """What a keeper asks of its state: a witness' (state.py), or the pending checkpoints of a mirror."""

    def records(self) -> dict[str, Record]: ...
    def evidence_count(self) -> int: ...
    def commit(self, moves: Sequence[Move], evidence: Sequence[Evidence] = ()) -> None: ...


class Keeper:
    """Owner of the state. ``add`` and ``note_of`` belong to the event loop, everything with a ``_`` to the worker.

    *cosign* is what it signs with, its *keys* unless told otherwise: a mirror signs nothing at this point.
    """

    def __init__(
        self,
        state: Recorded,
        logs: LogList,
        keys: WitnessKeys,
        clock: Clock,
        monotonic: Clock,
        cosign: Cosign | None = None,
    ) -> None:
        self.logs = logs
        self.keys = keys
        self._cosign = cosign or keys.cosign
        self.failed = asyncio.Event()
        self.failure: StoreError | None = None
        self._state = state
        self._clock = clock
        # How often each log may move; what others replay in its name does not count.
        self._limiter = RateLimiter(None, _MINUTE, max_clients=_MAX_BUCKETS, clock=monotonic)
        self._records = state.records()
        self.evidence_count = state.evidence_count()
        # What was kept lately, so that the same thing sent again and again is not a write each time.
        self._seen: set[tuple[str, str, int, bytes]] = set()
        self._released = {origin_hash(origin): record for origin, record in self._records.items()}
        self._waiting: deque[tuple[bytes, asyncio.Future[Answer]]] = deque()
        self._arrived = asyncio.Event()
        self._worker = ThreadPoolExecutor(1, "keeper")
        self._crypto = ThreadPoolExecutor(_CORES, "keeper-crypto")
        self._task: asyncio.Task[None] | None = None

    # -- the event loop's side -----------------------------------------------------------------------------------

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Nobody adds any more. What is being flushed ends; what still waits was promised nothing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._worker.shutdown(wait=True)
        self._crypto.shutdown(wait=True)

    async def add(self, body: bytes) -> Answer:
        """The answer to an add-checkpoint request; its record, if it has one, is durable."""
        if self.failure is not None:
            raise self.failure
        if len(self._waiting) >= MAX_WAITING:
            raise OverloadedError("Too many checkpoints at once; this one was not looked at")
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, answered))
        self._arrived.set()
        return await answered

    def note_of(self, hashed: str) -> bytes | None:
        """The last checkpoint cosigned for the origin with this hash, with the cosignatures that were given out."""
        record = self._released.get(hashed)
        return None if record is None else record.note

    @property
    def records(self) -> dict[str, Record]:
        """By origin, for metrics."""
        return dict(self._records)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
                bodies = [body for body, _ in batch]
                outcomes: Sequence[Outcome]
                try:
                    # Shielded: a batch that is under way is always brought to its end.
                    outcomes = await asyncio.shield(loop.run_in_executor(self._worker, self._process, bodies))
                except Exception as error:  # noqa: BLE001 - whatever it was: nobody knows what was kept
                    log_unexpected("the keeper", error)
                    outcomes = [StoreError(f"the state is in doubt ({type(error).__name__})")] * len(batch)
                self._release([answered for _, answered in batch], outcomes)

    def _release(self, waiting: Sequence[asyncio.Future[Answer]], outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Answer) and outcome.record is not None:
                self._released[origin_hash(outcome.origin)] = outcome.record
            if isinstance(outcome, StoreError) and self.failure is None:
                self.failure = outcome
                self.failed.set()
        for answered, outcome in zip(waiting, outcomes, strict=True):
            if answered.done():  # the client went away
                continue
            if isinstance(outcome, Answer):
                answered.set_result(outcome)
            else:
                answered.set_exception(outcome)

    # -- the worker's side ---------------------------------------------------------------------------------------

    def _process(self, bodies: Sequence[bytes]) -> list[Outcome]:
        self.logs.refresh()
        # Checking and signing are most of the work and need no order: on all cores. Judging is quick and has one.
        pending: dict[str, Record] = {}
        judged = [self._judged(each, pending) for each in self._spread(self._read, bodies)]
        outcomes = self._spread(self._signed, judged)
        # The last one of each log; those before it are within it.
        after = {each.origin: each.record for each in outcomes if isinstance(each, Answer) and each.record is not None}
        moves = [Move(origin, self._records.get(origin), record) for origin, record in after.items()]
        found = [each.evidence for each in outcomes if isinstance(each, Answer) and each.evidence is not None]
        evidence = [each for each in found if _tree(each) not in self._seen]
        if not moves and not evidence:
            return outcomes
        try:
            if self.failure is not None:
                raise self.failure  # a batch that was waiting when the one before it failed
            self._state.commit(moves, evidence)
        except StoreError as error:
            return [error] * len(outcomes)
        self._records.update(after)
        if evidence:
            if len(self._seen) > _MAX_SEEN:
                self._seen.clear()
            self._seen.update(map(_tree, evidence))
            for each in evidence:
                _logger.warning(_KEPT[each.ground], safe_text(each.origin, 100), each.size)
            self.evidence_count = self._state.evidence_count()
        return outcomes

    def _spread(self, function: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
        """*function* of each, on all cores, by shares: handing over one at a time costs a tenth of the work itself."""
        share = -(-len(items) // (_SHARES * _CORES))
        shares = [items[at : at + share] for at in range(0, len(items), share)]
        if len(shares) == 1:
            return [function(item) for item in items]
        return [each for done in self._crypto.map(lambda some: list(map(function, some)), shares) for each in done]

    def _read(self, body: bytes) -> Submission | Outcome:
        try:
            return read_submission(body, self.logs.keys_of)
        except Exception as error:  # noqa: BLE001 - a fault of ours about one request is that request's
            return error

    def _judged(self, read: Submission | Outcome, pending: dict[str, Record]) -> Approved | Outcome:
        if not isinstance(read, Submission):
            return read
        origin = read.checkpoint.origin
        known = pending.get(origin) or self._records.get(origin)
        try:
            judged = judge(read, known, int(self._clock()))
            if isinstance(judged, Approved):
                if known is None or not known.has_text(read.signed.note.text):
                    self._admit(origin)
                pending[origin] = judged.record
        except Exception as error:  # noqa: BLE001 - as above, and the log's rate limit
            return error
        return judged

    def _signed(self, judged: Approved | Outcome) -> Outcome:
        if not isinstance(judged, Approved):
            return judged
        try:
            return judged.cosigned(self._cosign)
        except Exception as error:  # noqa: BLE001 - as above
            return error

    def _admit(self, origin: str) -> None:
        log = self.logs.find(origin)
        if log is None or log.per_minute is None:
            return
        try:
            self._limiter.admit(origin, log.per_minute)
        except ProblemError as error:
            words = f"Only {log.per_minute} new checkpoints per minute are cosigned for a log."
            raise ProblemError(error.status, error.title, words, headers=error.headers) from error


def _tree(evidence: Evidence) -> tuple[str, str, int, bytes]:
    return evidence.origin, str(evidence.ground), evidence.size, evidence.root
