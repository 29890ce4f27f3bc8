"""Logs on sockets that can be made to lie, and a monitor that looks at them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.notes.world import ORIGIN, log_signers
from transparency.merkle.hashing import HASH_SIZE, leaf_hash
from transparency.merkle.tiles import WIDTH, RightEdge, parse_tile_path
from transparency.notes.bundle import write_bundle
from transparency.notes.checkpoint import Checkpoint, origin_hash
from transparency.notes.note import Note
from transparency.notes.paths import parse_entries_path
from transparency.notes.policy import WitnessPolicy
from transparency.notes.signer import CosignatureSigner
from transparency.testing import FakeClock
from transparency.verifier.evidence import Evidence
from transparency.witness.monitor import Event, Monitor, MonitorSettings, Round
from transparency.witness.monitor_calls import Calls
from transparency.witness.monitor_state import MonitorFolder

KEYS = tuple(signer.vkey for signer in log_signers())
NOW = 1_800_000_000


def entries(branch: str, count: int, common: int = 0) -> list[bytes]:
    """Entries of a log; those below *common* are the same in every branch."""
    return [hashlib.sha256(f"{'' if n < common else branch}{n}".encode()).digest() for n in range(count)]


@dataclass
class Site:
    """A log's public face, or a witness' view of one: what it serves can be changed at any time."""

    content: list[bytes] = field(default_factory=list)
    checkpoint: bytes | None = None
    served: int = 0
    url: str = ""
    spoil: dict[str, bytes] = field(default_factory=dict)

    def publish(
        self, content: Sequence[bytes], *, cosigned_by: Iterable[CosignatureSigner] = (), time: int = 0
    ) -> bytes:
        """Show this tree; earlier ones are forgotten."""
        edge = RightEdge()
        self.tiles = dict(edge.append([leaf_hash(each) for each in content]))
        self.content = list(content)
        note = Note(Checkpoint(ORIGIN, len(content), edge.root()).text)
        for signer in log_signers():
            note = note.with_signature(signer.sign(note.text, time))
        for cosigner in cosigned_by:
            note = note.with_signature(cosigner.sign(note.text, time or NOW))
        self.checkpoint = note.to_bytes()
        return self.checkpoint

    async def answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        self.served += 1
        if path in self.spoil:
            return web.Response(body=self.spoil[path])
        if path in ("checkpoint", f"{origin_hash(ORIGIN)}/checkpoint"):
            return web.Response(status=404) if self.checkpoint is None else web.Response(body=self.checkpoint)
        if path.startswith("tile/entries/"):
            index, width = parse_entries_path(path)
            return web.Response(body=write_bundle(self.content[index * WIDTH : index * WIDTH + width]))
        if not path.startswith("tile/"):
            return web.Response(status=404)
        level, index, width = parse_tile_path(path)
        tile = self.tiles.get((level, index), b"")[: width * HASH_SIZE]
        return web.Response(body=tile) if len(tile) == width * HASH_SIZE else web.Response(status=404)


@asynccontextmanager
async def sites(count: int = 1) -> AsyncIterator[list[Site]]:
    found = [Site() for _ in range(count)]
    runners = []
    try:
        for site in found:
            app = web.Application()
            app.router.add_get("/{path:.+}", site.answer)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            runners.append(runner)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            site.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        yield found
    finally:
        for runner in runners:
            await runner.cleanup()


@dataclass
class Watcher:
    """A monitor with a state folder and a clock; each round is run by a new one, as after a restart."""

    folder: Path
    urls: tuple[str, ...]
    policy: WitnessPolicy | None = None
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))
    more: dict[str, Any] = field(default_factory=dict)
    calls: Calls | None = None
    events: list[Event] = field(default_factory=list)

    async def round(self) -> Round:
        more = {"keys": KEYS, "retries": 0, **self.more}
        settings = MonitorSettings(self.urls, policy=self.policy, **more)
        self.events.clear()
        async with Monitor(settings, MonitorFolder(self.folder), self.clock, self.events.append, self.calls) as monitor:
            return await monitor.round()

    async def codes(self) -> list[str]:
        return [alarm.code for alarm in (await self.round()).alarms]

    @property
    def told(self) -> list[tuple[str, str]]:
        """Of the last round, what was new."""
        return [(event["event"], event.get("code", "")) for event in self.events]

    def evidence(self, place: int = 0) -> Evidence:
        """Of the alarms of the last round, as it lies on the disk."""
        files = [event["evidence"] for event in self.events if "evidence" in event]
        return Evidence.from_bytes(Path(files[place]).read_bytes())
