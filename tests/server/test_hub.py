"""The owner's end of what it says with a worker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from transparency.log.log import Log
from transparency.policy.judge import FOREVER, Judgement
from transparency.server import frames
from transparency.server.frames import FrameReader
from transparency.server.handing import Alike, Kind, Receipts, Said, Sheaf
from transparency.server.hub import Hub, Link
from transparency.server.limits import RateLimiter
from transparency.server.service import Service
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.testing import make_log, running


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


class Limited:
    """A service with a log, whose clients may send so many and no more."""

    def __init__(self, log: Log, number: int) -> None:
        self.log = log
        self.limiter = RateLimiter(number, 3600.0, max_clients=1, clock=lambda: 0.0)
        self.settings = SimpleNamespace(slow_after=60.0)


async def test_of_what_is_handed_over_together_each_number_is_told_of_its_own_statement(tmp_path: Path) -> None:
    """New ones, one that is known, copies, and those that the client may not send any more."""
    made = make_log(tmp_path / "log")
    some = [Statement.from_bytes(made.issuer.sign(b"%d" % number)) for number in range(5)]
    order = [some[0], some[1], some[2], some[1], some[3], some[4]]
    async with running(made) as log:
        await log.register(some[1].normalised)
        wire, link = Wire(), Hub(cast("Service", Limited(log, 5))).link(lambda: None)
        link.connection_made(cast("asyncio.Transport", wire))
        alike = Alike(log.policy.generation, b"", unique=False, patient=False, client="a", rate=None)
        rows = [(number, each, each.tbs_digest) for number, each in enumerate(order, 100)]
        link.data_received(frames.frame(Kind.HANDED, [Sheaf.of(alike, [Judgement(1, 0, FOREVER)], rows)]))
        while link._waiting:  # noqa: ASYNC110 - told and sent in one turn of the loop
            await asyncio.sleep(0.01)

        told = list(FrameReader().feed(bytes(wire.sent)))
        answers = [each for kind, value in told if kind == Kind.ANSWERS for each in value]
        receipts = {number: receipt for number, said, receipt, *_ in answers if said == Said.REGISTERED}
        receipts |= dict(row for kind, value in told if kind == Kind.RECEIPTS for row in Receipts._make(value).rows())
        assert [(number, status) for number, said, status, *_ in answers if said == Said.PROBLEM] == [(105, 429)]
        assert sorted(receipts) == [100, 101, 102, 103, 104]
        roots = {head.root for head in log.opened.store.heads(0)}
        for number, receipt in receipts.items():
            assert Receipt.from_bytes(receipt).root_for(order[number - 100].entry) in roots
        assert log.newest_head().size == 6
