"""What the operator reads about a witness that gave nothing: words, and the outcome that fits."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from aiohttp import web

from tests.log.test_checkpoints import grow
from tests.log.test_witnessing import outcomes, witnessed_by
from tests.log.witness_peers import Peer, listening
from transparency.log.witnessing import Outcome
from transparency.notes.numbers import MAX_BYTES
from transparency.testing import make_log, running


class Endless(Peer):
    async def add(self, request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=b"x" * (MAX_BYTES + 1))


async def test_an_endless_answer_is_invalid_and_a_dead_witness_is_said_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_log(tmp_path / "log", origin="log.example/tlog")
    endless, dead = Endless("w1"), Peer("w2")
    async with listening(endless, dead), running(made) as log:
        dead.url = "http://127.0.0.1:9"
        await grow(made, log, 1)
        with caplog.at_level(logging.INFO):
            async with witnessed_by(made, log, endless, dead, quorum=1) as publisher:
                assert not await publisher.publish()

                found = outcomes(publisher)
    assert [next(iter(each)) for each in found.values()] == [Outcome.INVALID, Outcome.UNREACHABLE]
    assert "connection refused" in caplog.text
    assert "Error" not in caplog.text
