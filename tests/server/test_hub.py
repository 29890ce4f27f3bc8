"""The owner's end of what it says with a worker."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from transparency.server import frames
from transparency.server.frames import FrameReader
from transparency.server.handing import Kind, Receipts, Said
from transparency.server.hub import Hub, Link


class Links:
    """As much of a hub as a link needs that nobody hands anything over."""

    def joined(self, link: Link) -> None: ...


class Wire:
    def __init__(self) -> None:
        self.sent = bytearray()

    def write(self, data: bytes) -> None:
        self.sent += data


async def test_however_many_are_told_together_no_frame_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of one statement, for instance: each gets a receipt, and they do not count in the queue."""
    monkeypatch.setattr(frames, "MAX_FRAME", 1024 * 1024)
    wire, link = Wire(), Link(cast("Hub", Links()), lambda: None, 2.0)
    link.connection_made(cast("asyncio.Transport", wire))

    for number in range(10_000):
        link.registered([number], [b"%0200d" % number])
        link.answer(10_000 + number, Said.PROBLEM, 429, "Too Many Requests", 100 * "x", {}, False)
    link.flush()

    told = list(FrameReader().feed(bytes(wire.sent)))
    receipts = [row for kind, value in told if kind == Kind.RECEIPTS for row in Receipts._make(value).rows()]
    answers = [answer[0] for kind, value in told if kind == Kind.ANSWERS for answer in value]
    assert receipts == [(number, b"%0200d" % number) for number in range(10_000)]
    assert answers == list(range(10_000, 20_000))
