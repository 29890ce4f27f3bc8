"""The digests of the access log, registered by the owner of the log: every hour in which somebody used it, at its stop.

What was registered last is read from the log itself, so a crash costs nothing: the next digest covers more. The end of
every closed segment is registered too, so that a segment can be checked when those before it are gone.

Ownership: the event loop's; files are read and synced in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from transparency.errors import MalformedError, TransparencyError
from transparency.log.access_log import AccessLog, Position, segment_end, segments
from transparency.log.answers import Registered
from transparency.log.folder import Config, Folder
from transparency.log.stated import newest_first
from transparency.log.store import Store
from transparency.log.stores import open_for_reading
from transparency.policy.access_digest import AccessDigest
from transparency.policy.operations import ACCESS_LOG

REGISTER_EVERY_SECONDS: Final = 3600.0

_logger = logging.getLogger("transparency.access")
Operate = Callable[[str, bytes], Awaitable[Registered]]


@dataclass(frozen=True, slots=True)
class RegisteredDigest:
    index: int
    entry_id: str
    digest: AccessDigest


class AccessDigests:
    """Registers the digest of the access log in *data* by *operate*."""

    def __init__(self, data: Path, origin: str, operate: Operate, *, every: float = REGISTER_EVERY_SECONDS) -> None:
        self._folder = Folder(data)
        self._origin = origin
        self._log = AccessLog(self._folder.access_log, origin)
        self._operate = operate
        self._every = every
        self._registered = Position(0, 0, b"")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._registered = await asyncio.to_thread(self._newest)
        try:
            here = await asyncio.to_thread(self._log.position)
            if self._registered.count > (0 if here is None else here.count):
                _logger.warning(
                    "the access log has lost lines that were registered: run `transparency log access --verify`"
                )
        except (TransparencyError, OSError) as error:
            # Reads will be refused, one by one, with that reason; statements are registered all the same.
            _logger.critical("the access log cannot be continued: %s", error)
        self._task = asyncio.create_task(self._run(), name="access digests")

    async def stop(self) -> None:
        """End the task, and register what is left: the access log of a log at rest is covered whole."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            await self._try()
        await asyncio.to_thread(self._log.close)

    async def register(self) -> list[Registered]:
        """Register the end of each segment that was closed since, and the end of the log; none if nobody used it."""
        made = []
        for end in await asyncio.to_thread(self._unregistered):
            digest = AccessDigest(self._origin, end.segment, end.count, end.chain)
            made.append(await self._operate(ACCESS_LOG, digest.to_bytes()))
            self._registered = end
        return made

    def _unregistered(self) -> list[Position]:
        here = self._log.position()
        # A digest speaks of lines that stay: they are on the disk before it is on the log.
        self._log.sync()
        if here is None or here.count <= self._registered.count:
            return []
        closed = [number for number in segments(self._folder.access_log) if number < here.segment]
        ends = [segment_end(self._folder.access_log, number) for number in closed if number >= self._registered.segment]
        return [end for end in (*ends, here) if end.count > self._registered.count]

    def _newest(self) -> Position:
        store = open_for_reading(self._folder)
        try:
            for found in registered_digests(store, self._origin):
                return Position(found.digest.segment, found.digest.count, found.digest.chain)
        finally:
            store.close()
        return Position(0, 0, b"")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self._try()

    async def _try(self) -> None:
        """Without a digest the log goes on: the next one, at the latest after the next start, covers more."""
        try:
            await self.register()
        except (TransparencyError, OSError) as error:
            _logger.warning("no digest of the access log could be registered: %s", error)


def registered_digests(store: Store, origin: str) -> Iterator[RegisteredDigest]:
    """Every digest that stands on the log, the newest first. Their signatures are for fsck and audit."""
    for index, entry, payload in newest_first(store, ACCESS_LOG):
        with contextlib.suppress(MalformedError):
            digest = AccessDigest.from_bytes(payload)
            if digest.log == origin:
                yield RegisteredDigest(index, entry, digest)


def digests_in(folder: Folder) -> list[RegisteredDigest]:
    """The digests on the log in *folder*, the oldest first, read beside its owner."""
    store = open_for_reading(folder)
    try:
        return list(registered_digests(store, Config.read(folder.config).origin))[::-1]
    finally:
        store.close()
