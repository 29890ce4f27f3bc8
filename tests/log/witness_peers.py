"""Small real witnesses for tests of the log's side: they speak tlog-witness over HTTP, honestly or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from transparency.cose.algorithms import ED25519
from transparency.cose.private_key import PrivateKey
from transparency.errors import ProofError
from transparency.merkle.proofs import verify_consistency
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint, origin_hash
from transparency.notes.note import Signature
from transparency.notes.policy import WitnessPolicy
from transparency.notes.requests import AddCheckpoint
from transparency.notes.signer import CosignatureSigner

NOW: Final = 1_700_000_000
"""The time of a FakeClock, which the logs of these tests have."""


@dataclass
class Peer:
    """One witness. What it keeps is one checkpoint, as for one log; *lie* replaces the lines it answers with."""

    name: str = "w1"
    alg: int = ED25519.id
    time: int = NOW
    lie: Callable[[Peer, Checkpoint], list[Signature]] | None = None
    # Answers wait for this.
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0
    seen: SignedCheckpoint | None = None
    status: int | None = None
    url: str = ""
    key_name: str = ""

    def __post_init__(self) -> None:
        self.signer = CosignatureSigner(self.key_name or f"{self.name}.example", PrivateKey.generate(self.alg))
        self.ready.set()

    @property
    def line(self) -> str:
        return f"witness {self.name} {self.signer.vkey.text} {self.url}\n"

    @property
    def size(self) -> int:
        return 0 if self.seen is None else self.seen.checkpoint.size

    async def add(self, request: web.Request) -> web.Response:
        self.asked += 1
        body = AddCheckpoint.from_bytes(await request.read())
        await self.ready.wait()
        if self.status is not None:
            return web.Response(status=self.status)
        signed = SignedCheckpoint.from_bytes(body.checkpoint)
        new = signed.checkpoint
        if body.old != self.size:
            return web.Response(status=409, text=f"{self.size}\n", content_type="text/x.tlog.size")
        if self.seen is not None:
            try:
                verify_consistency(body.old, new.size, self.seen.checkpoint.root, new.root, body.path)
            except ProofError:
                return web.Response(status=422)
        elif body.path:
            return web.Response(status=422)
        lines = [self.signer.sign(new.text, self.time)] if self.lie is None else self.lie(self, new)
        self.seen = signed.with_signature(lines[0])
        return web.Response(text="".join(line.line for line in lines))

    async def monitor(self, request: web.Request) -> web.Response:
        if self.status is not None:
            return web.Response(status=self.status)
        if self.seen is None or request.match_info["origin"] != origin_hash(self.seen.checkpoint.origin):
            return web.Response(status=404)
        return web.Response(body=self.seen.to_bytes(), content_type="text/plain")


@asynccontextmanager
async def listening(*peers: Peer) -> AsyncIterator[None]:
    """The witnesses on sockets of their own; each learns its URL."""
    runners = []
    try:
        for peer in peers:
            app = web.Application()
            app.router.add_post("/add-checkpoint", peer.add)
            app.router.add_get("/{origin}/checkpoint", peer.monitor)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            runners.append(runner)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            peer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield
    finally:
        for peer in peers:
            peer.ready.set()
        for runner in runners:
            await runner.cleanup()


def policy_of(*peers: Peer, quorum: int | None = None) -> WitnessPolicy:
    """A quorum of so many of these; of all by default."""
    names = " ".join(peer.name for peer in peers)
    lines = "".join(peer.line for peer in peers)
    return WitnessPolicy.from_text(f"{lines}group all {quorum or len(peers)} {names}\nquorum all\n".encode())
