"""A signed time says "the largest tree as of then": an honest log must never convict itself of a rollback (CP-2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log.test_checkpoints import grow, publishing
from tests.log.test_witnessing import witnessed_by
from tests.log.witness_peers import Peer, listening
from transparency.testing import FakeClock, MadeLog, make_log, running
from transparency.verifier.evidence import Evidence


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log", origin="log.example/tlog")


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_a_clock_that_was_set_back_does_not_make_a_rollback(made: MadeLog, restarted: bool) -> None:
    """CP-2: the time of the checkpoint that is stored is the least for the next."""
    assert isinstance(made.clock, FakeClock)
    async with running(made) as log, publishing(made, log, interval=3600.0) as publisher:
        keys = publisher.vkeys()
        made.clock.advance(1000)
        assert await publisher.publish()
        small = publisher.published.newest
        made.clock.advance(-900)
        if not restarted:
            await grow(made, log, 1)
            assert await publisher.publish()
            large = publisher.published.newest
    if restarted:
        async with running(made) as log:
            await grow(made, log, 1)
            async with publishing(made, log) as publisher:
                large = publisher.published.newest

    assert small is not None
    assert large is not None
    assert large.checkpoint.size == small.checkpoint.size + 1
    assert not Evidence("rollback", (small.to_bytes(), large.to_bytes())).judge(keys).convicts


@pytest.mark.parametrize("served", [False, True], ids=["never-served", "signed-anew"])
async def test_a_time_that_only_a_witness_was_shown_is_not_gone_back_behind(made: MadeLog, served: bool) -> None:
    """CP-2: too few cosigned, so nothing is served; the log ends, the clock is set back, and it goes on."""
    assert isinstance(made.clock, FakeClock)
    asked, gone = Peer("w1"), Peer("w2")
    async with listening(asked, gone):
        async with running(made) as log, witnessed_by(made, log, asked, gone, quorum=2) as publisher:
            keys = publisher.vkeys()
            if served:
                assert await publisher.publish()
            made.clock.advance(1000)
            gone.status = 500
            assert not await publisher.publish()
            small = asked.seen
        made.clock.advance(-900)
        async with running(made) as log, witnessed_by(made, log, asked, gone, quorum=2) as publisher:
            await grow(made, log, 1)
            assert not await publisher.publish()
            large = asked.seen

    assert small is not None
    assert large is not None
    assert large.checkpoint.size == small.checkpoint.size + 1
    assert not Evidence("rollback", (small.to_bytes(), large.to_bytes())).judge(keys).convicts


async def test_a_try_that_failed_is_not_signed_anew(made: MadeLog) -> None:
    """A second later nothing is newer: neither a signature nor a write for every try."""
    asked, gone = Peer("w1"), Peer("w2", status=500)
    waiting = listening(asked, gone)
    async with waiting, running(made) as log, witnessed_by(made, log, asked, gone, quorum=2) as publisher:
        seen = []
        for _ in range(2):
            assert not await publisher.publish()
            assert asked.seen is not None
            ours = {(key.name, key.key_id) for key in publisher.vkeys()}
            lines = asked.seen.note.signatures
            seen.append([line for line in lines if (line.name, line.key_id) in ours])
            made.clock.advance(1)  # type: ignore[attr-defined]

    assert seen[0] == seen[1]
