"""A batch on a worker's connection: the body comes in as it can be used, results go out as they come."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from transparency.server import media
from transparency.server.batch import Batch
from transparency.server.chunked import LAST_CHUNK, Body, chunk
from transparency.server.desk import BATCH_ROUTE, http_date

if TYPE_CHECKING:
    from transparency.server.access import Client
    from transparency.server.desk import Desk
    from transparency.server.lean import LeanConnection
    from transparency.server.lean_head import Head
    from transparency.server.problems import ProblemError

_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {media.CBOR_SEQUENCE}\r\nTransfer-Encoding: chunked\r\n".encode()
_CLOSE = b"Connection: close\r\n"
# Content that was read and not split yet; beyond it the client has to wait.
_MAX_HELD = 256 * 1024


class LeanBatch:
    """Between the connection, whose bytes it is given, and the batch, whose results it sends."""

    def __init__(self, connection: LeanConnection, desk: Desk, head: Head, client: Client) -> None:
        self._connection = connection
        self._desk = desk
        self._head = head
        self._client = client
        self._body = Body(head.length)
        self._batch = Batch(desk.registrar, client, lambda: desk.admit(client), self._turn_later, self._refused)
        self._waiting: list[bytes] = []
        self._held = 0
        self._scheduled = False
        # There is still something to split of what the batch was given: it gets no more for now.
        self._busy = False
        self._begun = False
        self._cut = False
        self._why: ProblemError | None = None
        self._over = False
        self._size = 0
        self._started = time.perf_counter()
        desk.share.batches.begin()
        # Since when the client owes us more of the body.
        self.awaits_since: float | None = asyncio.get_running_loop().time()

    def feed(self, data: bytes) -> None:
        if self._over or self._cut:
            return
        content, rest = self._body.feed(data)
        if content:
            self._waiting.append(content)
            self._held += len(content)
        if self._body.broken:
            self.cut_short()
            return
        if rest:
            self._connection.put_back(rest)
        self._turn()

    def sent(self) -> None:
        """The client has taken what was written."""
        self._turn()

    def cut_short(self, why: ProblemError | None = None) -> None:
        """Nothing more will come, or nothing that can be read; what came is answered, and the connection ends."""
        self._cut = True
        self._why = self._why or why
        self._turn()

    def abandon(self) -> None:
        """The client is gone."""
        if not self._over:
            self._is_over()
            self._batch.abandon()

    def _is_over(self) -> None:
        self._over = True
        self._desk.share.batches.end()

    def _turn_later(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Send what has come, take in what there is room for. Called for every event; once is enough for a turn."""
        self._scheduled = False
        if self._over:
            return
        if self._connection.writable:
            self._send(self._batch.results())
        if self._waiting and not self._busy and not self._batch.full and self._connection.writable:
            self._batch.feed(b"".join(self._waiting))
            self._waiting.clear()
            self._held = 0
        more = self._batch.advance()
        room = not self._batch.full and self._connection.writable
        if more or (self._waiting and room):
            self._turn_later()
        elif not self._waiting and not self._batch.full and (self._body.complete or self._cut):
            if self._body.broken:
                self._batch.break_off(self._body.broken)
            self._batch.end(self._why, whole=self._body.complete)
        if self._batch.done and self._connection.writable:
            self._end()
            return
        self._busy = more
        crowded = more or self._batch.full or not self._connection.writable or self._held > _MAX_HELD
        done_reading = self._body.complete or self._cut or self._batch.broken
        self._connection.hold_back(reading=not crowded and not self._body.complete)
        self.awaits_since = None if crowded or done_reading else asyncio.get_running_loop().time()

    def _refused(self, problem: ProblemError) -> None:
        self._desk.tally.refused(problem.title)
        self._desk.refused(self._client, problem.status)

    def _send(self, results: bytes) -> None:
        if not results:
            return
        self._begin()
        self._size += len(results)
        self._connection.write(chunk(results))

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            date = f"Date: {http_date(int(time.time()))}\r\n".encode()
            self._connection.write(_HEAD + date + (_CLOSE if self._closes else b"") + b"\r\n")

    @property
    def _closes(self) -> bool:
        return self._head.close or self._desk.stopping

    def _end(self) -> None:
        self._send(self._batch.results())
        self._begin()
        self._is_over()
        desk = self._desk
        desk.count(BATCH_ROUTE, 200, time.perf_counter() - self._started, self._size, self._client.name)
        unread = not self._body.complete
        self._connection.finished(LAST_CHUNK, close=self._closes or self._cut or unread)
