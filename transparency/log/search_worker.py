"""The worker: a process beside the server that keeps the search index up with the log.

A process and not a thread: reading records is Python that holds the interpreter's lock, and an event loop that gives
it up at every system call would wait for it each time (docs/search.md has the figures). It also runs at low priority,
in bounded memory, and what a hostile record does to it happens to nobody else. It reads the log's database as any
reader does and writes search.sqlite only.

It lives as long as its standard input is open, so it ends with its server however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import select
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from transparency.errors import TransparencyError
from transparency.log.artifacts import ArtifactStore
from transparency.log.folder import Folder
from transparency.log.search import SearchIndex
from transparency.log.search_schema import DamagedIndexError
from transparency.log.store import Store
from transparency.log.stores import open_for_reading

_logger = logging.getLogger("transparency.search")
POLL_SECONDS: Final = 0.2
# A folder that takes long to look through is looked through less often: at most a tenth of the time.
RECORDS_SECONDS: Final = 1.0
RECORDS_SHARE: Final = 10
# Room for the largest record and what parsing makes of it; beyond it a record has no facts.
MEMORY_BYTES: Final = 4 * 1024 * 1024 * 1024
# Registrations a second from which on the log is busy; for how long that is waited for, and then for how long not.
BUSY_RATE: Final = 1000
LONGEST_WAIT_SECONDS: Final = 5.0
TURN_SECONDS: Final = 5.0
RESTART_SECONDS: Final = (1.0, 60.0)
_STOP_SECONDS: Final = 5.0
_NICE: Final = 10
_WORDS: Final = 4096


class Courtesy:
    """Whether to wait, because the log is busy: a burst of registrations has the machine to itself, for a while.

    A log that stays busy is waited for by turns: with a slice after each wait the index would never catch up with it.
    """

    def __init__(self) -> None:
        self._seen: tuple[float, int] | None = None
        self._waits_since: float | None = None
        self._turn_until = 0.0

    def waits(self, now: float, size: int) -> bool:
        """Asked before each slice of entries; *size* is the log's."""
        before, self._seen = self._seen, (now, size)
        busy = before is not None and size - before[1] > BUSY_RATE * (now - before[0])
        if not busy or now < self._turn_until:
            self._waits_since = None
            return False
        if self._waits_since is None:
            self._waits_since = now
        elif now - self._waits_since > LONGEST_WAIT_SECONDS:
            self._waits_since, self._turn_until = None, now + TURN_SECONDS
            return False
        return True


class Follower:
    """What the worker does, one step at a time: catch up with the log, and with records that arrived late."""

    def __init__(
        self, index: SearchIndex, store: Store, artifacts: ArtifactStore, between: Callable[[], None] = lambda: None
    ) -> None:
        """*between* is called between two slices of entries, and may take its time."""
        self._index = index
        self._store = store
        self._artifacts = artifacts
        self._between = between
        self._shelves: dict[str, int] = {}
        self._next_look = 0.0

    def step(self, now: float) -> None:
        self._index.catch_up(self._store, self._artifacts, lambda _done, _size: self._between())
        self._index.renew_erased(self._store, self._artifacts)
        if now >= self._next_look:
            began = time.monotonic()
            self.look()
            took = time.monotonic() - began
            self._next_look = now + max(RECORDS_SECONDS, RECORDS_SHARE * took)

    def look(self) -> None:
        """Look for records in the shelves that changed since the last look; at first in all of them."""
        for shelf in self._artifacts.folder.glob("[0-9a-f][0-9a-f]"):
            changed = shelf.stat().st_mtime_ns
            if self._shelves.get(shelf.name) != changed:
                self._index.look_for_records(self._store, self._artifacts, shelf.name)
                self._shelves[shelf.name] = changed


def main(data: Path) -> None:
    """Follow the log in *data* until standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # terminals and systemd tell the whole group; the server tells us
    _step_back()
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    folder = Folder(data)
    store = open_for_reading(folder)
    with contextlib.closing(store), SearchIndex(folder.search) as index:
        courtesy = Courtesy()

        def let_pass() -> None:
            _rest(0.0)  # also in the middle of a long way behind a log: the next server has a worker of its own
            while courtesy.waits(time.monotonic(), store.tip().size):
                _rest()

        follower = Follower(index, store, ArtifactStore(folder.artifacts), let_pass)
        with contextlib.suppress(EOFError):
            while True:
                try:
                    let_pass()
                    follower.step(time.monotonic())
                except DamagedIndexError:
                    index.clear()
                _rest()


def _rest(seconds: float = POLL_SECONDS) -> None:
    """Raises EOFError when the server has gone."""
    ready, _, _ = select.select([0], [], [], seconds)
    if ready and not os.read(0, _WORDS):
        raise EOFError


def _step_back() -> None:
    """Run when nobody else wants to: the index may lag, a registration may not.

    At a low priority alone it took a third of the rate of batches on two cores: it kept a core that a worker had just
    left, and the next to wake went behind the others. A processor that runs what is idle by policy counts as idle.
    """
    os.nice(_NICE)
    if hasattr(os, "SCHED_IDLE"):  # Linux
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class SearchWorker:
    """The server's end: starts the process, starts it again when it ends, ends it."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._end()

    async def _keep(self) -> None:
        pause, longest = RESTART_SECONDS
        complaint = ""
        while True:
            began = time.monotonic()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", __name__, str(self._data), stdin=PIPE, stderr=PIPE
            )
            said = await _last_words(self._process)
            code = await self._process.wait()
            if time.monotonic() - began > longest:
                pause, complaint = RESTART_SECONDS[0], ""
            reason = f"ended ({code})" + (f": {said}" if said else "")
            if reason != complaint:  # once, not at each start
                _logger.warning("the search index's process %s; it is started again, nothing is lost", reason)
            complaint = reason
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()  # inside a large record: what it was doing is done again next time
            await process.wait()


async def _last_words(process: asyncio.subprocess.Process) -> str:
    """The end of what *process* says until it ends: one line, or of a fault of ours where it was."""
    said = b""
    while process.stderr is not None and (some := await process.stderr.read(_WORDS)):
        said = (said + some)[-_WORDS:]
    return said.decode(errors="replace").strip()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except TransparencyError as error:
        sys.exit(str(error))
