"""A worker's connection: ``POST /entries`` and ``POST /entries/batch`` and nothing else, in as few steps as it takes.

aiohttp spends as long on a request as a signature takes to verify. What submitters send is always the same small thing,
so it is read here (server/lean_head.py), and every connection on which anything else is asked goes to the owner of the
log, as it is and with what was read of it; and one that another worker should have goes there (server/balance.py).
Limits and timeouts are the same as there (server/protocol.py).

One request at a time: what a client sends ahead waits, unparsed. States: awaiting a head; awaiting a body; *busy*
with a statement; in a batch; closing.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import cast

from transparency.server.access import Client
from transparency.server.balance import TO_OWNER, Counted
from transparency.server.connections import LEAST_BYTES_PER_SECOND
from transparency.server.desk import BATCH_ROUTE, ROUTE, Desk
from transparency.server.lean_batch import LeanBatch
from transparency.server.lean_head import BEGINNING, END, Head, read_head
from transparency.server.outcome import Outcome
from transparency.server.problems import ProblemError, late_body, stopping, unavailable

# A larger body is for the owner, who has a budget for those.
MAX_BODY = 128 * 1024
MAX_AHEAD = 256 * 1024
LINGER_SECONDS = 2.0
_SMALL = 16 * 1024


class LeanConnection(asyncio.Protocol):
    """Owner: the worker's event loop."""

    def __init__(self, desk: Desk, address: str) -> None:
        self._desk = desk
        self.address = address
        self.served = False
        self.admission: asyncio.Task[None] | None = None
        self.begun = b""
        # Whether it came from another worker. It is not passed on again.
        self._adopted = False
        self._wire: asyncio.Transport | None = None
        self._held = bytearray()
        self._counted = 0
        self._head: Head | None = None
        self._body_at = 0
        self._client: Client | None = None
        self._busy = False
        # Whether it is one of this worker's, and counts as such: from its first statement on.
        self._settled = False
        self._batch: LeanBatch | None = None
        self._paused = False
        self._reading = True
        self._ended = False
        self._started = 0.0
        # Since when the client owes us a head, a body, or has said nothing; and until when it has to take its answer.
        self._since = asyncio.get_running_loop().time()
        self._unsent_until: float | None = None
        self._closing_since: float | None = None

    # -- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast("asyncio.Transport", transport)
        # Told of every byte that does not leave at once: a connection is handed over only when all have left.
        self._wire.set_write_buffer_limits(high=0)
        self._since = asyncio.get_running_loop().time()
        begun, self.begun = self.begun, b""
        if begun:
            self._adopted = True
            self.data_received(begun)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._wire = None
        self._desk.held -= self._counted
        self._desk.connections.remove(self)
        if self._settled:
            self._desk.share.connections.end()
        if self._batch is not None:
            self._batch.abandon()

    def data_received(self, data: bytes) -> None:
        if self._closing_since is not None:
            return
        if self._batch is not None:
            self._batch.feed(data)
            return
        if not self._held and self._head is None:
            if not self._busy and not self._paused and self._begin_whole(data):
                return
            # The first byte of a head: until now it was idle, which has a time of its own.
            self._since = asyncio.get_running_loop().time()
        self._held += data
        if len(self._held) > MAX_AHEAD:
            self.hold_back(reading=False)
        if not self._busy and not self._paused:
            self._advance()

    def eof_received(self) -> bool:
        """The client will send no more; it may still read."""
        self._ended = True
        if self._batch is not None:
            self._batch.cut_short()
            return True
        if self._busy or (self._paused and self._held):
            return True
        if self._held and self._wire is not None:
            self._hand_over()
        return False

    def pause_writing(self) -> None:
        self._paused = True
        if self._wire is not None:
            unsent = self._wire.get_write_buffer_size()
            wait = self._desk.settings.send_timeout + unsent / LEAST_BYTES_PER_SECOND
            self._unsent_until = asyncio.get_running_loop().time() + wait
            self._desk.connections.holds(self, unsent)

    def resume_writing(self) -> None:
        self._paused = False
        self._unsent_until = None
        self._desk.connections.sent(self)
        if self._batch is not None:
            self._batch.sent()
        elif not self._busy:
            self._advance()

    # -- what the registry of connections asks -------------------------------------------------------------------

    @property
    def owing_since(self) -> float | None:
        if self._batch is not None:
            return self._batch.awaits_since
        return None if self._busy else self._since

    def cut(self) -> None:
        if self._wire is not None:
            self._wire.abort()
        elif self.admission is not None:
            self.admission.cancel()

    def gone(self) -> None:
        self._desk.connections.remove(self)

    def look(self, now: float) -> None:
        """End what has taken too long."""
        if self._wire is None:
            return
        if self._closing_since is not None:
            if now - self._closing_since > LINGER_SECONDS:
                self._wire.abort()
        elif self._unsent_until is not None:
            if now > self._unsent_until:
                self._wire.abort()
        elif self._batch is not None:
            since = self._batch.awaits_since
            if since is not None and self._desk.grace_over:
                self._batch.cut_short(stopping())
            elif since is not None and now - since > self._desk.settings.body_timeout:
                self._batch.cut_short(late_body(self._desk.settings.body_timeout))
        elif not self._busy:
            self._look_at_request(now - self._since)

    def _look_at_request(self, waited: float) -> None:
        settings = self._desk.settings
        if self._desk.grace_over and self._held:
            self.refuse(stopping())
        elif self._head is not None:
            if waited > settings.body_timeout:
                self.refuse(late_body(settings.body_timeout))
        elif self._held:
            if waited > settings.header_timeout:
                self.refuse(ProblemError.of_status(408))
        elif (waited > settings.idle_timeout or self._desk.stopping) and self._wire is not None:
            self._wire.close()

    # -- requests ------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin with the next request, if it is all there."""
        if self._wire is None or self._wire.is_closing() or self._closing_since is not None:
            return
        if self._busy or self._batch is not None or self._paused:
            return
        if self._head is None and not self._read_head():
            return
        head = self._head
        assert head is not None  # noqa: S101 - read just now
        if head.batch:
            self._begin_batch(head)
            return
        end = self._body_at + cast("int", head.length)
        if len(self._held) < end:
            self._hold(len(self._held))
            return
        if not self._stays(head):
            return
        body = bytes(self._held[self._body_at : end])
        del self._held[:end]
        self._hold(0)
        self._begin(head, body)

    def _begin_whole(self, data: bytes) -> bool:
        """Begin with a request that came in one piece, as nearly all do but the first; whether it is one of those."""
        number = self._desk.share.connections
        if not self._settled or (number.insists and number.pass_on() is not None):
            return False
        end = data.find(END)
        if not 0 <= end <= self._desk.settings.max_header_bytes or self._wire is None or self._wire.is_closing():
            return False
        head = read_head(data[:end])
        end += len(END)
        if head is None or head.batch or head.length != len(data) - end or head.length > self._most():
            return False
        self._head = head
        self._begin(head, data[end:])
        return True

    def _stays(self, head: Head) -> bool:
        """Whether it is served here: then it counts as one that is. One for a single request stays where it came."""
        number = self._desk.share.connections
        if (number.insists or not (self._settled or head.close)) and self._goes_elsewhere(number):
            return False
        if not self._settled:
            self._settled = True
            number.begin()
        return True

    def _goes_elsewhere(self, number: Counted) -> bool:
        """Whether the connection was passed on to one who has fewer. One that cannot leave is served here."""
        # More than a packet may hold stays here. The owner sends it at once, and sees for itself whether it does.
        stays = not number.insists and (self._adopted or len(self._held) > MAX_AHEAD)
        if stays or self._desk.stopping:
            return False
        place = number.pass_on()
        return place is not None and self._leaves_for(place)

    def _read_head(self) -> bool:
        held = self._held
        if not held:
            return False
        end = held.find(END)
        most = self._desk.settings.max_header_bytes
        if end < 0 and len(held) <= most and held[: len(BEGINNING)] == BEGINNING[: len(held)]:
            return False
        head = read_head(bytes(held[:end])) if 0 <= end <= most else None
        if head is None or (head.length is not None and not head.batch and head.length > self._most()):
            self._hand_over()
            return False
        self._head, self._body_at = head, end + len(END)
        self._since = asyncio.get_running_loop().time()
        return True

    def _most(self) -> int:
        return min(MAX_BODY, self._desk.registrar.body_limit)

    def _begin(self, head: Head, body: bytes) -> None:
        self._started = time.perf_counter()
        self._busy = True
        desk = self._desk
        try:
            self._client = desk.identify(head.authorization, self.address)
            desk.registrar.submit(body, self._client, self._registered, patient=False)
        except Exception as error:  # noqa: BLE001 - API-8: every error is answered with a problem
            self._answer(*desk.problem(error, close=head.close or _closes(error)), None, close=_closes(error))

    def _registered(self, outcome: Outcome) -> None:
        head = cast("Head", self._head)
        close = head.close or self._desk.stopping
        if isinstance(outcome, Exception):
            status, data = self._desk.problem(outcome, close=close)
            if self._client is not None:
                self._desk.refused(self._client, status)
            self._answer(status, data, None, close=_closes(outcome))
            return
        self._answer(*self._desk.answer(head.host, outcome, close=close), outcome.entry, close=close)

    def _answer(self, status: int, data: bytes, entry: bytes | None, *, close: bool) -> None:
        close = close or cast("Head", self._head).close or self._ended or self._desk.stopping
        name = self._client.name if self._client is not None else self.address
        self._desk.count(ROUTE, status, time.perf_counter() - self._started, len(data), name, entry)
        self.finished(data, close=close)

    def finished(self, data: bytes, *, close: bool) -> None:
        """The request is answered with *data* (the rest of it); what follows has its turn."""
        self._busy = False
        self._head = self._client = self._batch = None
        self._since = asyncio.get_running_loop().time()
        self.served = True
        wire = self._wire
        if wire is None or wire.is_closing():
            return
        if data:
            wire.write(data)
        if close or self._ended:
            self._close()
        elif not self._paused:
            if not self._reading and len(self._held) <= MAX_AHEAD:
                self.hold_back(reading=True)
            if self._held:
                # Not at once: who sends a thousand requests ahead, all of them refused, would have us a thousand deep.
                asyncio.get_running_loop().call_soon(self._advance)

    def refuse(self, problem: ProblemError) -> None:
        """An answer to what never became a request; the connection ends."""
        if self._wire is not None:
            self._wire.write(self._desk.problem(problem, close=True)[1])
            self._close()

    # -- batches -------------------------------------------------------------------------------------------------

    def _begin_batch(self, head: Head) -> None:
        if self._goes_elsewhere(self._desk.share.batches):
            return
        rest = bytes(self._held[self._body_at :])
        self._held.clear()
        self._started = time.perf_counter()
        try:
            client = self._desk.identify(head.authorization, self.address)
        except Exception as error:  # noqa: BLE001 - API-8: every error is answered with a problem
            status, data = self._desk.problem(error, close=True)
            self._desk.count(BATCH_ROUTE, status, time.perf_counter() - self._started, len(data), self.address)
            self.finished(data, close=True)
            return
        self._batch = LeanBatch(self, self._desk, head, client)
        if head.expects:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._batch.feed(rest)

    def write(self, data: bytes) -> None:
        if self._wire is not None and not self._wire.is_closing():
            self._wire.write(data)

    @property
    def writable(self) -> bool:
        return not self._paused

    def hold_back(self, *, reading: bool) -> None:
        """Whether to take more of what the client sends."""
        if self._reading is not reading and self._wire is not None and not self._wire.is_closing():
            self._reading = reading
            (self._wire.resume_reading if reading else self._wire.pause_reading)()

    def put_back(self, data: bytes) -> None:
        """What came behind a batch: the next request."""
        self._held[:0] = data

    # -- reading and ending --------------------------------------------------------------------------------------

    def _hold(self, size: int) -> None:
        """Large incomplete bodies have a budget together."""
        size = max(0, size - _SMALL)
        self._desk.held += size - self._counted
        self._counted = size
        if self._desk.held > self._desk.settings.max_body_bytes:
            self.refuse(unavailable("Too many large requests at once; nothing was accepted", 1.0))

    def _close(self) -> None:
        """The answer leaves first; what the client still sends is read for a while, or a reset would overtake it."""
        self._closing_since = asyncio.get_running_loop().time()
        self._held.clear()
        if self._wire is not None:
            if self._ended or not self._wire.can_write_eof():
                self._wire.close()
            else:
                self.hold_back(reading=True)
                self._wire.write_eof()

    def _hand_over(self) -> None:
        """To the owner; once its answers have left, see resume_writing."""
        if self._wire is not None and not self._paused and not self._leaves_for(TO_OWNER):
            self.refuse(unavailable("Too many connections; nothing was accepted", 1.0))

    def _leaves_for(self, to: int) -> bool:
        """Whether the connection has gone there, as it is and with what was read of it."""
        wire = cast("asyncio.Transport", self._wire)
        try:
            descriptor = os.dup(wire.get_extra_info("socket").fileno())
        except OSError:  # no file is free
            return False
        if not self._desk.hand_over(descriptor, bytes(self._held), to):
            return False
        self._held.clear()
        self.hold_back(reading=False)
        self._closing_since = asyncio.get_running_loop().time()
        # Only this descriptor is closed: the connection lives on with the other.
        wire.close()
        return True


def _closes(error: BaseException | None) -> bool:
    return isinstance(error, ProblemError) and error.close
