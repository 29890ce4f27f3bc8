"""Whom a monitor tells: a webhook, a command, both or nobody. Whatever could not be told is told again next round."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import ssl
from collections.abc import Mapping
from typing import Any, Final

from yarl import URL

from transparency.client.retry import Backoff
from transparency.client.transport import Request, Transport
from transparency.errors import MalformedError, TransparencyError, UnreachableError

PATIENCE: Final = 60.0


class Calls:
    """The webhook and command of one monitor."""

    def __init__(
        self, webhook: str | None = None, command: str | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._url = None if webhook is None else _url(webhook)
        self._words = [] if command is None else _words(command)
        self._transport = Transport(timeout=PATIENCE / 2, backoff=Backoff(retries=2), tls=tls)

    async def tell(self, event: Mapping[str, Any]) -> str:
        """Tell one event; what went wrong, or nothing."""
        body = json.dumps(event, ensure_ascii=True).encode() + b"\n"
        try:
            if self._url is not None:
                await self._transport.send(Request("POST", self._url, {"Content-Type": "application/json"}, body))
            if self._words:
                await _run(self._words, body)
        except TransparencyError as error:
            return str(error)
        return ""

    async def close(self) -> None:
        await self._transport.close()


async def _run(words: list[str], body: bytes) -> None:
    """The command gets the event on its standard input. No shell: a log's words reach no command line."""
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE)
    except OSError as error:
        raise UnreachableError(f"--exec {words[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(PATIENCE):
            await process.communicate(body)
    except TimeoutError:
        raise UnreachableError(f"--exec {words[0]}: not done after {PATIENCE:.0f} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise UnreachableError(f"--exec {words[0]}: ended with {process.returncode}")


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise MalformedError(f"--exec: {error}") from error
    if not words:
        raise MalformedError("--exec: no command")
    return words


def _url(text: str) -> URL:
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise MalformedError("--webhook: not a URL of the form https://host/path")
    return url
