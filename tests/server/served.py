"""A real log on a real socket for one test, and the few things a test says about it again and again."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.patience import PATIENCE
from transparency.cose.algorithms import algorithm
from transparency.cose.cbor import decode
from transparency.cose.keys import PrivateKey, Signer
from transparency.log.checkpoints import PublishSettings
from transparency.log.create import create_log
from transparency.log.documents import sign_document
from transparency.log.log import Log, system_clock
from transparency.policy import keyset
from transparency.policy.document import Issuer, Policy
from transparency.policy.keyset import ServiceKeys
from transparency.server.serve import listening
from transparency.server.service import Service
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore
from transparency.statements.statement import sign_statement

ISS = "https://issuer.example"
SUB = "urn:example:session:1"
PROBLEM = "application/concise-problem-details+cbor"
COSE = {"Content-Type": "application/cose"}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def title(self) -> str:
        return str(self.problem[-1])

    @property
    def detail(self) -> str:
        return str(self.problem[-2])

    @property
    def problem(self) -> dict[int, Any]:
        """The body as problem details; fails unless it is exactly that (RFC 9290, API-8)."""
        assert self.headers["Content-Type"] == PROBLEM
        value = decode(self.body)
        assert set(value) == {-1, -2}
        assert all(isinstance(text, str) and text for text in value.values())
        return dict(value)


@dataclass
class Served:
    log: Log
    service: Service
    tokens: TokenStore
    url: str
    issuer: PrivateKey
    session: aiohttp.ClientSession

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def statement(self, payload: bytes = b'{"n":1}', **options: Any) -> bytes:
        options = {"iss": ISS, "sub": SUB, "content_type": "application/json", **options}
        return sign_statement(payload, options.pop("signer", self.issuer), **options)

    async def ask(self, method: str, path: str, **options: Any) -> Reply:
        """Send one request. Whatever is answered must be what /openapi.json says can be answered."""
        url = path if path.startswith("http") else self.url + path
        async with self.session.request(method, url, allow_redirects=False, **options) as response:
            reply = Reply(response.status, response.headers, await response.read())
        check_documented(json.loads(self.service.openapi), method, url.removeprefix(self.url), reply)
        return reply

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def post(self, data: bytes, path: str = "/entries", **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask("POST", path, data=io.BytesIO(data), headers={**COSE, **named})

    def policy_key(self) -> Signer:
        return self.log._opened.folder.load_key(keyset.POLICY, self.log.policy.policy_key)

    def document(self, doc: Policy | ServiceKeys) -> bytes:
        """A policy or key set as its operator registers it."""
        return sign_document(doc, self.policy_key(), self.log.iss)

    async def remove_issuer(self) -> None:
        policy = self.log.policy.without_issuer(ISS, previous=self.log.policy_entry_id)
        await self.log.update_policy(self.document(policy))

    def bearer(self, *scopes: str) -> str:
        return f"Bearer {self.tokens.create(scopes)[1]}"

    async def raw(self, data: bytes, *, end: bool = False) -> bytes:
        """Bytes in, bytes out, until the server hangs up."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            if end:
                writer.write_eof()
            return await to_the_end(reader)
        finally:
            writer.close()


@asynccontextmanager
async def served(
    tmp_path: Path,
    *,
    clock: Callable[[], float] | None = None,
    token_clock: Callable[[], float] | None = None,
    publish: PublishSettings | None = None,
    **settings: Any,
) -> AsyncIterator[Served]:
    """A new log with one registered issuer, open unless the test says otherwise.

    What is slow is answered 202 only where a test is about that: any registration is slow on a busy machine.
    """
    issuer = PrivateKey.generate(algorithm("ES256").id)
    data = tmp_path / "log"
    create_log(
        data,
        clock=system_clock,
        origin="log.example/test",
        watermark=tmp_path / "mark",
        issuers=(Issuer(ISS, (issuer.public,)),),
    )
    log = Log.open(data, watermark=tmp_path / "mark")
    tokens = TokenStore(data / "access.sqlite", **({"clock": token_clock} if token_clock else {}))
    options = ServerSettings(**{"port": 0, "open": True, "slow_after": PATIENCE, **settings})
    try:
        # As `serve` does where there are workers.
        await log.start(in_place=bool(options.workers))
        async with (
            listening(log, options, tokens, publish=publish, **({"clock": clock} if clock else {})) as (service, url),
            aiohttp.ClientSession(auto_decompress=False) as session,
        ):
            yield Served(log, service, tokens, url, issuer, session)
            await session.close()
    finally:
        await log.stop()
        tokens.close()


class SlowDisk:
    """Each append to the log's store waits until the test lets it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._append = log.opened.appender.append
        self._turns = threading.Semaphore(0)
        log.opened.appender.append = self._slow  # type: ignore[method-assign]
        log.sequencer._writer._in_place = False  # the event loop must not wait for what it has to let pass

    def _slow(self, *arguments: Any, **options: Any) -> Any:
        assert self._turns.acquire(timeout=PATIENCE)
        return self._append(*arguments, **options)

    def let_one_pass(self) -> None:
        self._turns.release()

    async def until_waiting(self, count: int) -> None:
        """Until so many statements wait to be kept in the intake, which happens between two appends."""
        async with asyncio.timeout(PATIENCE):
            while len(self._log.intake._waiting) < count:  # noqa: ASYNC110 - a count, not an event
                await asyncio.sleep(0.01)


async def to_the_end(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server hangs up. Who is still sending then meets a reset, behind what was answered."""
    came = b""
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65_536):
                came += piece
    return came


def parse_raw(answer: bytes) -> Reply:
    """One HTTP answer from a raw socket."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    return Reply(int(lines[0].split(" ")[1]), headers, body)


def check_documented(document: dict[str, Any], method: str, target: str, reply: Reply) -> None:
    path = target.partition("?")[0]
    item = next((item for template, item in document["paths"].items() if _fits(template, path)), None)
    if item is None or method.lower() not in item:
        assert reply.status in (404, 405, 429), f"{method} {path} is answered {reply.status} and not documented"
        return
    responses = item[method.lower()]["responses"]
    assert str(reply.status) in responses, f"{method} {path}: {reply.status} is not documented"
    answer = responses[str(reply.status)]
    if "$ref" in answer:
        answer = document["components"]["responses"]["Problem"]
    if reply.body:
        assert reply.headers["Content-Type"].partition(";")[0] in answer["content"]
    for name in answer.get("headers", {}):
        assert name in reply.headers


def _fits(template: str, path: str) -> bool:
    parts, pattern = path.split("/"), template.split("/")
    if pattern[-1] == "{path}":
        parts[len(pattern) - 1 :] = ["/".join(parts[len(pattern) - 1 :])]
    return len(parts) == len(pattern) and all(
        want == have or want.startswith("{") for want, have in zip(pattern, parts, strict=True)
    )


async def until_found(site: Served, location: str) -> Reply:
    async with asyncio.timeout(PATIENCE):
        while (reply := await site.get(location)).status != 200:
            assert reply.status in (204, 404)
            await asyncio.sleep(0.02)
    return reply
