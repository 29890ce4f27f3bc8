"""Admission manifests, made by the owner of the log: every 4,096 entries, once a day, at its stop, and when asked.

What was covered last is read from the log itself, so a crash at any moment costs nothing: the next manifest begins
where the last registered one ends. A stretch in which nobody registered anything makes none: else a quiet log would
go on covering its own manifests.

Ownership: the event loop's. One manifest is made at a time; its rows are read by a thread of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from transparency.errors import MalformedError, StoreError, TransparencyError
from transparency.log.answers import Registered
from transparency.log.appender import Clock
from transparency.log.stated import documents_down
from transparency.log.store import Kind, Store
from transparency.log.waiting import is_set_within
from transparency.policy.manifest import MAX_ENTRIES, Admission, Manifest
from transparency.policy.operations import MANIFEST
from transparency.statements.statement import Statement, entry_id

MANIFEST_EVERY_SECONDS: Final = 86_400
LOOK_EVERY_SECONDS: Final = 60.0

_logger = logging.getLogger("transparency.manifests")
Operate = Callable[[str, bytes], Awaitable[Registered]]


class Manifests:
    """*published* is how many entries may be spoken of; *operate* registers what the service states."""

    def __init__(self, store: Store, origin: str, published: Callable[[], int], operate: Operate, clock: Clock) -> None:
        self._store = store
        self._origin = origin
        self._published = published
        self._operate = operate
        self._clock = clock
        self._lock = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._covered, self._previous, self._made = newest_manifest(store, published())
        self.every = MAX_ENTRIES

    @property
    def covered(self) -> int:
        """Entries below this index are in a manifest."""
        return self._covered

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="manifests")

    async def stop(self, *, cover: bool) -> None:
        """End the task; then *cover* what is left, so that a log at rest is covered whole."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if cover:
            await self._try()

    def grown(self, size: int) -> None:
        """The log has *size* entries: called after every batch."""
        if size - self._covered > self.every:
            self._wanted.set()

    async def make(self) -> list[Registered]:
        """Cover everything that is published, in as many manifests as it takes; none if nothing was registered."""
        made = []
        async with self._lock:
            upto = self._published()
            while self._covered < upto:
                stop = min(self._covered + MAX_ENTRIES, upto)
                manifest, statements = await asyncio.to_thread(self._build, stop)
                if not statements and stop == upto:
                    break
                registered = await self._operate(MANIFEST, manifest.to_bytes())
                self._covered, self._previous, self._made = stop, registered.entry_id, self._clock()
                made.append(registered)
        return made

    async def _run(self) -> None:
        while True:
            wanted = await is_set_within(self._wanted, LOOK_EVERY_SECONDS)
            self._wanted.clear()
            if wanted or self._clock() - self._made >= MANIFEST_EVERY_SECONDS:
                await self._try()

    async def _try(self) -> None:
        """Without a manifest the log goes on: the next one, at the latest after the next start, covers more."""
        try:
            await self.make()
        except TransparencyError as error:
            _logger.warning("no admission manifest could be made: %s", error)

    def _build(self, stop: int) -> tuple[Manifest, int]:
        admissions: list[Admission] = []
        rows = self._store.admitted(self._covered, stop)
        for head in self._store.heads(self._covered):
            if len(admissions) >= len(rows):
                break
            # All that one head covers were admitted at its time.
            some = rows[len(admissions) : head.size - self._covered]
            admissions += [
                Admission(kind, generation, head.time, collateral) for _, kind, generation, collateral in some
            ]
        if len(admissions) != stop - self._covered:
            missing = self._covered + len(admissions)
            raise StoreError(f"entry {missing}, or the head that covers it, is missing; run `transparency log fsck`")
        manifest = Manifest.of(self._origin, self._covered, self._previous, admissions)
        return manifest, sum(run[0] for run in manifest.runs if run[1] == Kind.STATEMENT)


def newest_manifest(store: Store, size: int) -> tuple[int, str, int]:
    """Up to where the newest manifest on the log covers it, its entry id, and its time."""
    for row in documents_down(store, Kind.OPERATION, size):
        statement = Statement.from_bytes(row.statement)
        # One that cannot be read must not stop the log; an audit names it.
        with contextlib.suppress(MalformedError):
            if statement.sub == MANIFEST:
                return Manifest.from_bytes(statement.payload).end, entry_id(row.entry), statement.claims.iat or 0
    return 0, "", 0
