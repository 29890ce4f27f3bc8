"""Recording: each use of what is not public gets its line in the access log, before a byte of the answer leaves.

Recorded are requests that the gate let through, whatever became of them; those it turned away (401, 403, 429) have
seen nothing, and a crowd of strangers must not fill the disk. A use that cannot be recorded is refused.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Final

from aiohttp import web

from transparency.errors import LogUnusableError, MalformedError, OverloadedError
from transparency.log.access_log import AccessLog
from transparency.server.access_log import CLIENT, ENTRY
from transparency.server.endpoints import Endpoint
from transparency.server.tokens import Scope

SYNC_SECONDS: Final = 1.0
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_RECORDED: Final = web.RequestKey("recorded", bool)
_logger = logging.getLogger("transparency.server")


class Recorder:
    """Owner: the event loop's thread; files are synced in others."""

    def __init__(self, log: AccessLog) -> None:
        self._log = log
        self._timer: asyncio.TimerHandle | None = None
        self._syncing: asyncio.Task[None] | None = None
        self._failed = False

    async def record(self, request: web.Request, endpoint: Endpoint, status: int) -> None:
        """Write the line of a request, once. What changes the log is on the disk when this returns."""
        if not endpoint.action or request.get(_RECORDED):
            return
        self._append(request[CLIENT], endpoint.action, _what(request, endpoint), status)
        request[_RECORDED] = True
        if endpoint.scope is Scope.ADMIN:
            await self._sync()
            if self._failed:
                raise _unwritable()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SYNC_SECONDS, self._sync_later)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._syncing is not None:
            await self._syncing
        await self._sync()
        self._log.close()

    def _append(self, who: str, action: str, what: str, status: int) -> None:
        if self._failed:
            raise _unwritable()
        try:
            self._log.append(who, action, what, status)
        except (OSError, LogUnusableError, MalformedError) as error:
            _logger.critical("the access log cannot be written (%s): reads are refused", error)
            raise _unwritable() from error

    def _sync_later(self) -> None:
        self._timer = None
        self._syncing = asyncio.ensure_future(self._sync())

    async def _sync(self) -> None:
        try:
            await asyncio.to_thread(self._log.sync)
        except OSError as error:
            # What the disk has is not known any more (as with the store, design §4): nothing is recorded after it.
            self._failed = True
            _logger.critical("the access log cannot be synced (%s): reads are refused until a restart", error)


def _unwritable() -> OverloadedError:
    return OverloadedError("The access log cannot be written, and what is not recorded is not given", 5.0)


def _what(request: web.Request, endpoint: Endpoint) -> str:
    """The entry, the digest, the first index, or which things were searched by: never what a client wrote freely."""
    if ENTRY in request:
        return request[ENTRY]
    digest = request.match_info.get("digest", "")
    if digest:
        return digest if _DIGEST.fullmatch(digest) else ""
    if endpoint.scope is Scope.ADMIN:
        return ""
    known = {parameter.name for parameter in endpoint.parameters if parameter.place == "query"}
    used = sorted(known.intersection(request.query))
    if used == ["from"]:
        value = request.query["from"]
        return f"from={value}" if _NUMBER.fullmatch(value) else ""
    return ",".join(used)[:200]
