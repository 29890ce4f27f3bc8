"""Artifacts through the client, against a real log on a real socket."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.server.served import Served, served
from transparency.client.client import LogClient
from transparency.errors import MalformedError, ProofError, ServiceRefusedError

RECORD = b"a session too large for a statement\n" * 10_000
DIGEST = hashlib.sha256(RECORD).hexdigest()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as running:
        yield running


async def test_a_record_is_kept_once_and_read_back(site: Served) -> None:
    async with LogClient(site.url) as log:
        assert await log.put_artifact(RECORD) is True
        assert await log.put_artifact(RECORD) is False
        assert await log.artifact(DIGEST) == RECORD


async def test_other_bytes_than_were_asked_for_are_not_handed_out(site: Served) -> None:
    async with LogClient(site.url) as log:
        await log.put_artifact(RECORD)
        (site.log.data / "artifacts" / DIGEST[:2] / DIGEST[2:]).write_bytes(RECORD[:-1] + b"!")

        with pytest.raises(ProofError, match="another record"):
            await log.artifact(DIGEST)


async def test_what_is_not_there_is_the_logs_word(site: Served) -> None:
    async with LogClient(site.url) as log:
        with pytest.raises(ServiceRefusedError, match="no artifact"):
            await log.artifact(DIGEST)
        with pytest.raises(MalformedError):
            await log.artifact("../config.toml")


async def test_a_large_record_may_take_longer_than_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a timeout far too short for any exchange, the size of the record still buys it time."""
    monkeypatch.setattr("transparency.client.client._SLOWEST_BYTES_PER_SECOND", len(RECORD) / PATIENCE)
    async with served(tmp_path) as site, LogClient(site.url, timeout=0.001, retries=0) as log:
        assert await log.put_artifact(RECORD) is True
