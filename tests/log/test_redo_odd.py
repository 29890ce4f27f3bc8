"""Starts, restores and journals out of order: whatever comes first, what was kept can still be brought back."""

from __future__ import annotations

from pathlib import Path

import pytest

from transparency.log import create
from transparency.log.journal import BEGIN, CAPACITY
from transparency.log.mark import Mark
from transparency.testing import FakeClock, MadeLog, SampleIssuer, make_log

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log")


async def test_a_head_with_a_long_signature_does_not_write_beyond_the_journal(tmp_path: Path) -> None:
    """One that was acknowledged and cannot be read again would be lost to a power cut, and nobody would know."""
    clock, issuer = FakeClock(), SampleIssuer()
    created = create.create_log(
        tmp_path / "log", clock=clock, issuers=(issuer.as_policy_issuer(),), receipt_alg="ML-DSA-65"
    )
    made = MadeLog(tmp_path / "log", created.watermark, issuer, clock)
    log = made.open()
    await log.start()
    for number in range(300):
        # Of two and three blocks, so that the journal comes to its end in every way.
        await log.register(issuer.sign(bytes(5500 if number % 7 else 2000) + b"%d" % number))
        mark = Mark.open(made.watermark, made.origin)
        mark.close()
        assert mark.value.size == log.newest_head().size, "what was acknowledged is in the journal, and can be read"
    await log.stop()
    assert made.watermark.stat().st_size == BEGIN + CAPACITY
