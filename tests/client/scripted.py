"""A log that answers from a script, for the flows a healthy one seldom shows. Its receipts are real, of a tree of one.

Also ``AppConnector``: the same client against an application in memory, with no network at all.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.client_proto import ResponseHandler

from transparency.client import LogClient
from transparency.cose.cbor import encode
from transparency.cose.keys import PrivateKey, encode_key_set
from transparency.merkle.hashing import leaf_hash, node_hash
from transparency.statements.receipt import inclusion_receipt, sign_head
from transparency.statements.statement import Statement, sign_statement

ORIGIN = "log.example/test"
LOG_KEY = PrivateKey.generate(-7)
OTHER_KEY = PrivateKey.generate(-7)
ISSUER_KEY = PrivateKey.generate(-7)
STATEMENT = sign_statement(
    b"hello", ISSUER_KEY, iss="https://issuer.example", sub="greeting", content_type="text/plain"
)
NOW = 1_800_000_000.0

Reply = Callable[[web.Request], web.StreamResponse]


def receipt_for(statement: bytes, key: PrivateKey = LOG_KEY, payload: bytes | None = None) -> bytes:
    """A receipt for *statement* as entry 1 of a tree of two."""
    leaf = leaf_hash(Statement.from_bytes(statement, payload).entry)
    other = leaf_hash(bytes(32))
    head = sign_head(key, iss="https://log.example", origin=ORIGIN, size=2, root=node_hash(other, leaf), time=int(NOW))
    return inclusion_receipt(head, 1, [other])


def entry_id(statement: bytes = STATEMENT) -> str:
    return Statement.from_bytes(statement).entry_id


def created(body: bytes | None = None, **headers: str) -> Reply:
    """201 with Location and receipt (API-1)."""
    receipt = receipt_for(STATEMENT) if body is None else body
    sent = {"Location": f"/entries/{entry_id()}", **headers}
    return lambda _: web.Response(status=201, body=receipt, content_type="application/cose", headers=sent)


def accepted(location: str | None = None, **headers: str) -> Reply:
    """202 with Location and no body (API-2)."""
    sent = {"Location": location or f"/entries/{entry_id()}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return lambda _: web.Response(status=202, headers=sent)


def pending(**headers: str) -> Reply:
    sent = {k.replace("_", "-"): v for k, v in headers.items()}
    return lambda _: web.Response(status=204, headers=sent)


def found(body: bytes | None = None) -> Reply:
    receipt = receipt_for(STATEMENT) if body is None else body
    return lambda _: web.Response(status=200, body=receipt, content_type="application/cose")


def problem(status: int, title: str, detail: str = "", **headers: str) -> Reply:
    sent = {k.replace("_", "-"): v for k, v in headers.items()}
    return lambda _: web.Response(
        status=status,
        body=encode({-1: title, -2: detail}),
        content_type="application/concise-problem-details+cbor",
        headers=sent,
    )


def answer(status: int, body: bytes = b"", content_type: str = "text/html", **headers: str) -> Reply:
    return lambda _: web.Response(status=status, body=body, content_type=content_type, headers=headers)


def key_set() -> Reply:
    return lambda _: web.Response(body=encode_key_set([LOG_KEY.public]), content_type="application/cbor")


@dataclass
class Script:
    """Answers in order, the last one for ever; remembers what was asked."""

    replies: list[Reply]
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append((request.method, request.path_qs, dict(request.headers), body))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply(request)

    @property
    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.asked]

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class AppConnector(aiohttp.BaseConnector):
    """Connects to an application in this process through a pair of sockets that no network sees."""

    def __init__(self, server: web.Server) -> None:
        super().__init__()
        self._server = server

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> ResponseHandler:  # noqa: ASYNC109
        loop = asyncio.get_running_loop()
        mine, theirs = socket.socketpair()
        await loop.connect_accepted_socket(self._server, theirs)
        _, protocol = await loop.create_connection(lambda: ResponseHandler(loop=loop), sock=mine)
        return protocol


@asynccontextmanager
async def in_memory(app: web.Application) -> AsyncIterator[aiohttp.ClientSession]:
    """A session whose every request reaches *app*, whatever host it names."""
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    async with aiohttp.ClientSession(connector=AppConnector(runner.server)) as session:
        yield session
    await runner.cleanup()


@asynccontextmanager
async def scripted(*replies: Reply, **options: Any) -> AsyncIterator[tuple[LogClient, Script]]:
    """A client and the scripted log it talks to; pauses are recorded, not slept, and chance is always one half."""
    script = Script(list(replies))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    options = {"sleep": script.sleep, "random": lambda: 0.5, "clock": lambda: NOW, **options}
    async with in_memory(app) as session:
        url = options.pop("url", "http://log.example")
        yield LogClient(url, session=session, **options), script
