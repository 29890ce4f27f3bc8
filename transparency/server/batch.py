"""The batch: statements in a CBOR sequence, results in one, in their order (``POST /entries/batch``). Sans I/O.

Each result is what a request of its own would have got: a receipt (a COSE_Sign1, tag 18), or that in an array of one if
the log has erased the statement since, or a problem (a map, RFC 9290, with its status). Only so many are under way at
once, and a result leaves as soon as those before it have left: memory is bounded whatever the length of the sequence,
and a client that does not read its results is not read from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from transparency.cose.sequence import item_end
from transparency.errors import MalformedError
from transparency.log.answers import Accepted
from transparency.server.access import Client
from transparency.server.problems import ProblemError, problem_of
from transparency.server.protocol import log_unexpected
from transparency.server.registrar import Outcome, Registrar

MAX_UNDER_WAY = 1_024
MAX_BYTES_UNDER_WAY = 8 * 1024 * 1024
# Statements that are read, and so judged, in one turn of the event loop: others have theirs in between.
AT_ONCE = 32

Admit = Callable[[], None]
"""Counts one statement of this client against its limit; raises 429."""
_ARRAY_OF_ONE = b"\x81"
_SERVER_FAULT = 500


class Batch:
    """One request. Fed with its body; whoever feeds it sends :meth:`results` and waits while it is :attr:`full`."""

    def __init__(
        self,
        registrar: Registrar,
        client: Client,
        admit: Admit,
        on_result: Callable[[], None],
        on_refused: Callable[[ProblemError], None],
    ) -> None:
        """*on_result* is called when the next result may have come, *on_refused* for each that is a problem."""
        self._registrar = registrar
        self._client = client
        self._admit = admit
        self._on_result = on_result
        self._on_refused = on_refused
        self._held = bytearray()
        self._at = 0
        self._under_way: deque[tuple[int, asyncio.Future[Outcome]]] = deque()
        self._bytes_under_way = 0
        self._no_more = False

    @property
    def full(self) -> bool:
        return len(self._under_way) >= MAX_UNDER_WAY or self._bytes_under_way >= MAX_BYTES_UNDER_WAY

    @property
    def done(self) -> bool:
        """All of the body was given, and every result taken."""
        return self._no_more and not self._under_way

    @property
    def broken(self) -> bool:
        """Nothing more of the body can be read."""
        return self._no_more

    def feed(self, data: bytes) -> None:
        if not self._no_more:
            self._held += data

    def advance(self) -> bool:
        """Submit some of what is held; whether there may be more to do at once: then it wants no more bytes yet."""
        for _ in range(AT_ONCE):
            if self.full or self._no_more:
                return False
            try:
                end = item_end(self._held, self._at, self._registrar.body_limit)
            except MalformedError as error:
                self._give_up(ProblemError.malformed(f"{error}; the statements behind it were not looked at"))
                return False
            if end is None:
                del self._held[: self._at]
                self._at = 0
                return False
            self._submit(bytes(self._held[self._at : end]))
            self._at = end
        return True

    def end(self, why: ProblemError | None = None) -> None:
        """No more of the body comes. *why*, if that is not the client's doing, is what a statement cut by it gets."""
        if self._no_more:
            return
        if len(self._held) > self._at:
            self._give_up(why or ProblemError.malformed("the sequence ends inside a statement"))
        self._no_more = True
        self._held.clear()

    def break_off(self, reason: str) -> None:
        """The rest of the body cannot be read."""
        if not self._no_more:
            self._give_up(ProblemError.malformed(reason))

    def results(self) -> bytes:
        """Those that are next, as far as they have come."""
        ready = []
        while self._under_way and self._under_way[0][1].done():
            size, future = self._under_way.popleft()
            self._bytes_under_way -= size
            ready.append(self._result(future))
        return b"".join(ready)

    def abandon(self) -> None:
        """The client is gone. What was handed over is registered all the same."""
        self._no_more = True
        self._held.clear()
        for _, future in self._under_way:
            future.add_done_callback(_look_away)
        self._under_way.clear()

    def _submit(self, statement: bytes) -> None:
        try:
            self._admit()
            future = self._registrar.submit(statement, self._client, patient=True)
        except Exception as error:  # noqa: BLE001 - API-8: every error is answered with a problem
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
        self._add(len(statement), future)

    def _give_up(self, problem: ProblemError) -> None:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        future.set_exception(problem)
        self._no_more = True
        self._held.clear()
        self._add(0, future)

    def _add(self, size: int, future: asyncio.Future[Outcome]) -> None:
        self._under_way.append((size, future))
        self._bytes_under_way += size
        future.add_done_callback(self._came)

    def _came(self, future: asyncio.Future[Outcome]) -> None:
        if self._under_way and self._under_way[0][1] is future:
            self._on_result()

    def _result(self, future: asyncio.Future[Outcome]) -> bytes:
        error = future.exception()
        if error is None:
            outcome = future.result()
            # A patient one is never answered 202.
            assert not isinstance(outcome, Accepted)  # noqa: S101
            receipt = outcome.registered.receipt
            return _ARRAY_OF_ONE + receipt if outcome.erased else receipt
        problem = problem_of(error if isinstance(error, Exception) else ProblemError.of_status(_SERVER_FAULT))
        if problem.status == _SERVER_FAULT:
            log_unexpected("a batch", error)
        self._on_refused(problem)
        return problem.to_result()


def _look_away(future: asyncio.Future[Outcome]) -> None:
    """So that asyncio does not complain that nobody asked."""
    if not future.cancelled():
        future.exception()
