"""Pushing a log to a mirror, as tlog-mirror says it: the client's side of add-checkpoint and add-entries.

Any tiled log to any such mirror; neither is believed. Entries and proofs are checked against the log's checkpoint when
they are read, and what the mirror answers counts only if it is a cosignature of a key that the caller trusts.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Final

import aiohttp
from yarl import URL

from transparency.client.places import base_url
from transparency.client.problems import refusal
from transparency.client.transport import unreachable
from transparency.errors import MalformedError, ServiceRefusedError, UnreachableError
from transparency.mirror.source import SourceTree
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.cosignature import Cosignature, verify_cosignatures
from transparency.notes.note import read_signatures
from transparency.notes.numbers import MAX_BYTES, read_decimal, read_lines
from transparency.notes.requests import AddCheckpoint
from transparency.notes.upload import MirrorInfo, UploadHead
from transparency.notes.vkey import VerifierKey

MOST_PACKAGES: Final = 32
"""In one request: "clients SHOULD limit each add-entries request to at most 32 entry packages"."""
MOST_TURNS: Final = 8
"""Without progress: others may be pushing too."""
_OK: Final = 200
_ACCEPTED: Final = 202
_FIRST_ERROR: Final = 400
_CONFLICT: Final = 409
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


class MirrorRefusedError(ServiceRefusedError):
    """As ServiceRefusedError, and it was the mirror that refused, not the log."""


class Pusher:
    """One mirror. Answers are bounded; there are neither cookies nor redirects."""

    def __init__(self, url: str, *, timeout: float = 60.0, tls: ssl.SSLContext | None = None) -> None:
        self.url = base_url(url)
        self._tls = tls
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=timeout, sock_read=timeout)

    async def push(
        self, signed: SignedCheckpoint, tree: SourceTree, keys: Collection[VerifierKey]
    ) -> tuple[SignedCheckpoint, list[Cosignature]]:
        """Bring the mirror up to this checkpoint; the checkpoint with its lines, and those of *keys* among them."""
        connector = aiohttp.TCPConnector(ssl=self._tls if self._tls is not None else True)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, timeout=self._timeout) as session:
            following = await self._point(session, signed, tree)
            lines = await self._upload(session, signed, tree, following)
        try:
            for line in read_signatures(lines):
                signed = signed.with_signature(line)
        except MalformedError as error:
            raise UnreachableError(f"{self.url} answered with another thing than cosignatures: {error}") from error
        return signed, verify_cosignatures(signed, keys)

    async def _point(self, session: aiohttp.ClientSession, signed: SignedCheckpoint, tree: SourceTree) -> int:
        """Make it the mirror's pending checkpoint; the size of the one before: entries may be missing from there."""
        old = 0
        for _ in range(MOST_TURNS):
            path = tuple(await tree.consistency_path(old)) if 0 < old < tree.size else ()
            body = AddCheckpoint(old, path, signed.to_bytes()).to_bytes()
            status, answer = await self._post(session, "add-checkpoint", body, {})
            if status == _OK:
                return old
            old = self._size(answer)
            if old > tree.size:
                raise MirrorRefusedError(
                    _CONFLICT, "Ahead", f"it has seen {old} entries, and the log shows {tree.size}"
                )
        raise UnreachableError(f"{self.url} does not settle on a size")

    async def _upload(
        self, session: aiohttp.ClientSession, signed: SignedCheckpoint, tree: SourceTree, start: int
    ) -> bytes:
        origin, ticket, turns = signed.checkpoint.origin.encode(), b"", 0
        while turns < MOST_TURNS:
            head = UploadHead(origin, start, tree.size, ticket)
            headers = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
            status, answer = await self._post(session, "add-entries", _body(head, tree), headers)
            if status == _OK:
                return answer
            info = self._info(answer)
            turns = 0 if info.next_entry > start else turns + 1
            start, ticket = min(info.next_entry, tree.size), info.ticket
            if info.size > tree.size:
                raise MirrorRefusedError(status, "Ahead", f"it goes for {info.size} entries by now")
        raise UnreachableError(f"{self.url} makes no progress at entry {start}")

    async def _post(
        self,
        session: aiohttp.ClientSession,
        what: str,
        body: bytes | AsyncGenerator[bytes, None],
        headers: dict[str, str],
    ) -> tuple[int, bytes]:
        url = URL(f"{str(self.url).rstrip('/')}/{what}")
        try:
            async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
                answer = await response.content.read(MAX_BYTES + 1)
                while not response.content.at_eof() and len(answer) <= MAX_BYTES:
                    answer += await response.content.read(MAX_BYTES + 1)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise unreachable(url, error) from error
        if len(answer) > MAX_BYTES:
            raise UnreachableError(f"{url} answered with more than {MAX_BYTES} bytes")
        status = response.status
        if status in (_OK, _ACCEPTED, _CONFLICT):
            return status, answer
        if status < _FIRST_ERROR:
            raise UnreachableError(f"{url} answered {status}, as no mirror does")
        said = refusal(status, response.headers.get("Content-Type", ""), answer)
        raise MirrorRefusedError(status, said.title, said.detail)

    def _size(self, answer: bytes) -> int:
        try:
            (line,) = read_lines(answer, "size")
            return read_decimal(line, "size")
        except (MalformedError, ValueError) as error:
            raise UnreachableError(f"{self.url} answered 409 without the size it has seen") from error

    def _info(self, answer: bytes) -> MirrorInfo:
        try:
            return MirrorInfo.from_bytes(answer)
        except MalformedError as error:
            raise UnreachableError(f"{self.url} does not say where to go on: {error}") from error


async def _body(head: UploadHead, tree: SourceTree) -> AsyncGenerator[bytes, None]:
    """The head and up to ``MOST_PACKAGES``, compressed as they are read."""
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    yield packer.compress(head.to_bytes()) + packer.flush(zlib.Z_SYNC_FLUSH)
    async with aclosing(tree.packages(head.start, MOST_PACKAGES)) as packages:
        async for package in packages:
            yield packer.compress(package.to_bytes())
    yield packer.flush()
