"""What the service stated is read back page by page, and nobody who registers waits for it."""

from __future__ import annotations

import asyncio
import functools
import threading
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from transparency.errors import RefusedError
from transparency.log import stated
from transparency.log.log import Log
from transparency.log.store import Kind, Store, StoredEntry
from transparency.policy.document import Policy
from transparency.policy.hold import ISSUER
from transparency.testing import MadeLog, make_log, running
from transparency.testing.faults import FaultyStore


class _SlowReading(FaultyStore):
    """A scan of the documents lasts until the test lets it go, as on a log with very many of them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.slow = False
        self.begun, self.go_on = threading.Event(), threading.Event()

    def newest_documents(self, kind: Kind, before: int, most: int) -> list[StoredEntry]:
        if self.slow:
            self.begun.set()
            assert self.go_on.wait(2 * PATIENCE), "the scan kept everybody else waiting"
        return super().newest_documents(kind, before, most)


async def _register_meanwhile(made: MadeLog, log: Log, store: _SlowReading) -> None:
    try:
        while not store.begun.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.001)
        async with asyncio.timeout(PATIENCE):
            assert (await log.register(made.issuer.sign(b"meanwhile"))).new
    finally:
        store.go_on.set()


async def test_while_holds_are_looked_through_for_a_release_others_register(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    stores: list[_SlowReading] = []

    def slow(store: Store) -> _SlowReading:
        stores.append(_SlowReading(store))
        return stores[0]

    log = made.open(wrap_store=slow)
    await log.start()
    try:
        hold = await log.erasures.hold(ISSUER, made.issuer.iss, "legal", "case 17")
        stores[0].slow = True
        release = asyncio.create_task(log.erasures.release(hold.entry_id, "legal", "closed"))
        await _register_meanwhile(made, log, stores[0])

        assert (await release).index == hold.index + 2, "the release came after what was registered meanwhile"
        assert stated.standing_holds(stores[0]) == []
        with pytest.raises(RefusedError, match="no hold"):
            await log.erasures.release(hold.entry_id, "legal", "again")
    finally:
        await log.stop()


async def test_the_policies_come_in_pages_the_oldest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        for number in range(2, 8):
            await log.update_policy(made.next_policy(log, functools.partial(_with_issuer, number=number, made=made)))
            await log.register(made.issuer.sign(b"%d" % number))

        whole = log.policy_history()
        monkeypatch.setattr(stated, "_PAGE", 2)
        monkeypatch.setattr(stated, "POLICIES_BYTES", len(whole[0].toml) + len(whole[1].toml))
        pages = [log.policy_history(), log.policy_history(3), log.policy_history(7), log.policy_history(8)]
        large = log.policy_history(6)

    assert [version.generation for version in whole] == [1, 2, 3, 4, 5, 6, 7]
    assert [version.index for version in whole] == [0, 2, 4, 6, 8, 10, 12]
    assert pages == [whole[:2], whole[2:3], whole[6:], []]
    assert large == whole[5:6], "at least one, however large"


def _with_issuer(policy: Policy, entry: str, *, number: int, made: MadeLog) -> Policy:
    return policy.with_issuer(f"https://{number}.example", (made.issuer.key.public,), previous=entry)
