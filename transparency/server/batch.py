"""The batch: statements in a CBOR sequence, results in one, in their order (``POST /entries/batch``). Sans I/O.

Each result is what a request of its own would have got: a receipt (a COSE_Sign1, tag 18), or that in an array of one if
the log has erased the statement since, or a problem (a map, RFC 9290, with its status). Only an item whose end cannot
be found gets 400 whatever it is, and ends the batch: where the next begins, nobody can tell. Only so many are under way
at once, and a result leaves as soon as those before it have left: memory is bounded whatever the length of the
sequence, and a client that does not read its results is not read from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from transparency.cose.sequence import item_end
from transparency.errors import MalformedError
from transparency.server.access import Client
from transparency.server.outcome import Outcome, Receipted
from transparency.server.problems import ProblemError, problem_of
from transparency.server.registrar import Registrar
from transparency.server.unexpected import log_unexpected

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
        self._under_way: deque[_Place] = deque()
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

    def end(self, why: ProblemError | None = None, *, whole: bool = True) -> None:
        """No more of the body comes. *why*, if that is not the client's doing, is what a statement cut by it gets.

        Of a body that is not *whole* nobody knows what else it had, also where it breaks off between two statements.
        """
        if self._no_more:
            return
        if not whole and len(self._held) == self._at:
            self._give_up(why or ProblemError.malformed("the body breaks off before its end"))
        elif len(self._held) > self._at:
            self._give_up(why or ProblemError.malformed("the sequence ends inside a statement"))
        else:
            self._ended()

    def break_off(self, reason: str) -> None:
        """The rest of the body cannot be read."""
        if not self._no_more:
            self._give_up(ProblemError.malformed(reason))

    def results(self) -> bytes:
        """Those that are next, as far as they have come."""
        ready = []
        while self._under_way and self._under_way[0].outcome is not None:
            place = self._under_way.popleft()
            self._bytes_under_way -= place.size
            ready.append(self._result(place.outcome))
        return b"".join(ready)

    def abandon(self) -> None:
        """The client is gone. What was handed over is registered all the same."""
        self._no_more = True
        self._held.clear()
        self._under_way.clear()

    def _submit(self, statement: bytes) -> None:
        place = self._add(len(statement))
        try:
            self._admit()
            self._registrar.submit(statement, self._client, place.take, patient=True)
        except Exception as error:  # noqa: BLE001 - API-8: every error is answered with a problem
            place.take(error)

    def _give_up(self, problem: ProblemError) -> None:
        self._ended()
        self._add(0).take(problem)

    def _ended(self) -> None:
        self._no_more = True
        self._held.clear()
        if self._under_way:
            self._registrar.no_more()

    def _add(self, size: int) -> _Place:
        place = _Place(size, self._came)
        self._under_way.append(place)
        self._bytes_under_way += size
        return place

    def _came(self, place: _Place) -> None:
        if self._under_way and self._under_way[0] is place:
            self._on_result()

    def _result(self, outcome: Outcome | None) -> bytes:
        if type(outcome) is Receipted:
            return _ARRAY_OF_ONE + outcome.receipt if outcome.erased else outcome.receipt
        # A patient one is never answered 202.
        assert isinstance(outcome, Exception)  # noqa: S101
        problem = problem_of(outcome)
        if problem.status == _SERVER_FAULT:
            log_unexpected("a batch", outcome)
        self._on_refused(problem)
        return problem.to_result()


class _Place:
    """Where a result goes in the order of the statements."""

    __slots__ = ("_came", "outcome", "size")

    def __init__(self, size: int, came: Callable[[_Place], None]) -> None:
        self.size = size
        self._came = came
        self.outcome: Outcome | None = None

    def take(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._came(self)
