"""The hub: the owner's end of what it says with its workers (server/handing.py). Statements in, receipts out.

One link for each worker, over a pair of sockets. Everything here belongs to the event loop that owns the log, so what a
worker hands over is decided on as if it had come in this process: duplicates, stale judgements, a full queue, a batch
that is slow. What was handed over is answered (where a 202 is followed by how it ended, the worker heeds the first),
unless the link is lost before: then nobody waits any more, and what was queued is registered all the same.

Back-pressure: a worker has a bounded number of bytes under way (server/registrar.py), so neither direction of a link
can pile up; the sequencer's own bound is what answers 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, cast

from transparency.errors import JudgementStaleError, MalformedError, StoreError, TransparencyError
from transparency.log.candidate import Batch, Candidate, Lot, Place, Sequenced, Standing
from transparency.log.store import IntakeRow, NewEntry
from transparency.policy.judge import Judgement
from transparency.server.frames import FrameReader, frame
from transparency.server.handing import Kind, Receipts, Said, Sheaf
from transparency.server.problems import ProblemError, problem_of
from transparency.server.service import Service
from transparency.server.unexpected import log_unexpected
from transparency.statements.statement import Entry

# Answers in a frame. Copies of a statement are told with the first, however many: all of them could be more than a
# frame may hold, and what goes wrong when receipts leave goes wrong in the sequencer.
MOST_AT_ONCE: Final = 4_096
# Statements that are sequenced as one: so many more than a batch is meant to have it may have.
MOST_TOGETHER: Final = 256


class Hub:
    """What all links share. Owner: the event loop's thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._links: set[Link] = set()
        service.log.on_in_force = self._tell_in_force
        # Receipts leave when their commit is released, and not a turn of the event loop later.
        service.log.sequencer.on_published.append(self._flush)

    def link(self, on_ready: Callable[[], None]) -> Link:
        return Link(self, on_ready, self._service.settings.slow_after)

    @property
    def service(self) -> Service:
        return self._service

    def joined(self, link: Link) -> None:
        self._links.add(link)
        link.say(Kind.IN_FORCE, self._in_force())

    def left(self, link: Link) -> None:
        self._links.discard(link)

    def _flush(self, _size: int) -> None:
        for link in self._links:
            link.flush()

    def _tell_in_force(self) -> None:
        for link in self._links:
            link.say(Kind.IN_FORCE, self._in_force())

    def _in_force(self) -> list[object]:
        log = self._service.log
        return [log.policy_document, log.service_keys_document, log.newest_head().time]

    # -- what workers hand over ----------------------------------------------------------------------------------

    def take(self, link: Link, sheaf: Sheaf) -> None:
        """Sequence statements and have *link* told how each ended."""
        numbers, rows = sheaf.numbered()
        if sheaf.client is not None:
            admitted = self._admitted(link, numbers, sheaf.client, sheaf.rate)
            numbers, rows = numbers[:admitted], rows[:admitted]
        for start in range(0, len(rows), MOST_TOGETHER):
            some = slice(start, start + MOST_TOGETHER)
            self._take_lot(link, numbers[some], rows[some], sheaf)

    def _take_lot(self, link: Link, numbers: Sequence[int], rows: Sequence[NewEntry], sheaf: Sheaf) -> None:
        judgement = sheaf.judgement
        if not sheaf.patient:
            # Before they are handed over: who is refused at once does not wait.
            link.wait(numbers, rows, judgement)
        lot = Lot(
            rows,
            judgement,
            partial(self._together, link, numbers),
            lambda place: partial(self._ended, link, numbers[place]),
            patient=sheaf.patient,
        )
        self._service.log.sequencer.enqueue_lot(lot)

    def take_one(self, link: Link, number: int, new: NewEntry, judgement: Judgement, *, patient: bool) -> None:
        """As :meth:`take`, for a statement by itself that was not sent over a link, and was counted."""
        if not patient:
            link.wait((number,), (new,), judgement)
        candidate = Candidate(new, judgement, patient=patient)
        told = partial(self._ended, link, number)
        sequencer = self._service.log.sequencer
        try:
            sequencer.enqueue(candidate, told)
        except TransparencyError as error:
            told(error)
        else:
            sequencer.flush_at_once()

    def _admitted(self, link: Link, numbers: Sequence[int], client: str, rate: int | None) -> int:
        """How many of them the client may still send; the others are refused."""
        for place in range(len(numbers)):
            try:
                self._service.limiter.admit(client, rate)
            except ProblemError as error:
                for refused in numbers[place:]:
                    link.problem(refused, error)
                return place
        return len(numbers)

    def find(self, link: Link, number: int, entry: Entry) -> None:
        """Tell a worker, who would refuse it, whether an entry is registered all the same (LEAF-7)."""
        try:
            index = self._service.log.sequencer.find(entry)
            if index is None:
                link.answer(number, Said.UNKNOWN)
            else:
                self._tell_known(link, number, index)
        except TransparencyError as error:
            self._refuse(link, number, error)

    def count(self, told: list[Any]) -> None:
        tally, spent = told
        self._service.metrics.tally.add(tally)
        for client, number, rate in spent:
            self._service.limiter.spend(client, number, rate)

    def slow(self, link: Link, waiting: list[tuple[int, Judgement, NewEntry]]) -> None:
        """These wait for too long: make them durable, and say so (design §5)."""
        for number, judgement, new in waiting:
            task = asyncio.ensure_future(self._accept(link, number, judgement, new))
            self._service.background.add(task)
            task.add_done_callback(self._service.background.discard)

    def _tell_known(self, link: Link, number: int, index: int) -> None:
        log = self._service.log
        link.answer(number, Said.REGISTERED, log.receipt(index), log.stored(index).erased)

    def _together(self, link: Link, numbers: Sequence[int], index: int, batch: Batch) -> None:
        link.registered(numbers, self._service.log.receipts_of(batch, index, len(numbers)))

    def _ended(self, link: Link, number: int, outcome: Place | TransparencyError) -> None:
        if isinstance(outcome, Sequenced):
            self._together(link, (number,), outcome.index, outcome.batch)
        elif isinstance(outcome, Standing):
            self._tell_standing(link, number, outcome.index)
        elif isinstance(outcome, JudgementStaleError):
            link.answer(number, Said.STALE, self._service.log.sequencer.decision_time())
        else:
            self._refuse(link, number, outcome)

    def _tell_standing(self, link: Link, number: int, index: int) -> None:
        try:
            self._tell_known(link, number, index)
        except TransparencyError as error:
            self._refuse(link, number, error)

    async def _accept(self, link: Link, number: int, judgement: Judgement, new: NewEntry) -> None:
        log = self._service.log
        try:
            if not log.intake.holds(new.entry):
                now = log.sequencer.decision_time()
                await log.intake.take_in(IntakeRow(new.entry, new.statement, judgement, now))
        except TransparencyError:
            return  # the intake has no room: the answer is what becomes of the registration, however long it takes
        link.answer(number, Said.ACCEPTED)

    def _refuse(self, link: Link, number: int, error: TransparencyError) -> None:
        if isinstance(error, StoreError):
            self._service.stop_for(error)
        link.problem(number, problem_of(error))


class Link(asyncio.Protocol):
    """One worker. Answers are collected for a turn of the loop, so that a batch goes out in one write."""

    def __init__(self, hub: Hub, on_ready: Callable[[], None], slow_after: float) -> None:
        self._hub = hub
        self._on_ready = on_ready
        self._slow_after = slow_after
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._answers: list[list[object]] = []
        # Of those that are registered and new, numbers and receipts.
        self._numbers: list[int] = []
        self._receipts: list[bytes] = []
        # Those that are answered 202 if they take too long, and since when they wait, the oldest first.
        self._waiting: dict[int, tuple[float, Judgement, NewEntry]] = {}
        self._looking = False
        # Whether it has said anything since somebody last looked; it says something twice a second (worker.count).
        self.heard = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._hub.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self._waiting.clear()
        self._hub.left(self)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        try:
            for kind, value in self._reader.feed(data):
                self.take_up(kind, value)
        except (MalformedError, TypeError, ValueError) as error:
            # Not a worker of ours any more. It is ended, and another takes its place.
            log_unexpected("what a worker sent", error)
            self.abort()

    def take_up(self, kind: int, value: object) -> None:
        """What its worker said."""
        match kind:
            case Kind.HANDED:
                for sheaf in cast("list[list[Any]]", value):
                    self._hub.take(self, Sheaf._make(sheaf))
            case Kind.ASKED:
                for number, entry in cast("list[tuple[int, bytes]]", value):
                    self._hub.find(self, number, Entry(entry))
            case Kind.NO_MORE:
                self._hub.service.log.sequencer.hurry()
            case Kind.COUNTED:
                self._hub.count(cast("list[Any]", value))
            case Kind.READY:
                self._on_ready()
            case _:
                raise MalformedError("a kind of frame that workers do not send")

    @property
    def alive(self) -> bool:
        """Whether somebody waits for answers at the other end."""
        return self._transport is not None

    def stop(self) -> None:
        self.say(Kind.STOP)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def say(self, kind: Kind, value: object = None) -> None:
        if self._transport is not None:
            self._transport.write(frame(kind, value))

    # -- answers -------------------------------------------------------------------------------------------------

    def wait(self, numbers: Sequence[int], rows: Sequence[NewEntry], judgement: Judgement) -> None:
        loop = asyncio.get_running_loop()
        self._waiting.update(zip(numbers, zip(repeat(loop.time()), repeat(judgement), rows), strict=False))
        if not self._looking:
            self._looking = True
            loop.call_later(self._slow_after, self._look)

    def _look(self) -> None:
        """One timer for all: that each has one would cost more than what it is for."""
        loop = asyncio.get_running_loop()
        late = loop.time() - self._slow_after
        slow: list[tuple[int, Judgement, NewEntry]] = []
        for number, (since, judgement, new) in self._waiting.items():
            if since > late:
                break
            slow.append((number, judgement, new))
        for number, _, _ in slow:
            del self._waiting[number]
        self._looking = bool(self._waiting)
        if self._waiting:
            oldest = next(iter(self._waiting.values()))[0]
            loop.call_later(max(oldest - late, 0.0), self._look)
        if slow and self.alive:
            self._hub.slow(self, slow)

    def registered(self, numbers: Sequence[int], receipts: Sequence[bytes]) -> None:
        if self._waiting:
            for number in numbers:
                self._waiting.pop(number, None)
        self._flush_later()
        self._numbers += numbers
        self._receipts += receipts

    def problem(self, number: int, problem: ProblemError) -> None:
        self.answer(number, Said.PROBLEM, problem.status, problem.title, problem.detail, problem.headers, problem.close)

    def answer(self, number: int, said: Said, *more: object) -> None:
        self._waiting.pop(number, None)
        self._flush_later()
        self._answers.append([number, int(said), *more])

    def _flush_later(self) -> None:
        if not self._answers and not self._numbers:
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        numbers, receipts, answers = self._numbers, self._receipts, self._answers
        self._numbers, self._receipts, self._answers = [], [], []
        for start in range(0, len(numbers), MOST_AT_ONCE):
            stop = start + MOST_AT_ONCE
            self.say(Kind.RECEIPTS, Receipts.of(numbers[start:stop], receipts[start:stop]))
        for start in range(0, len(answers), MOST_AT_ONCE):
            self.say(Kind.ANSWERS, answers[start : start + MOST_AT_ONCE])
