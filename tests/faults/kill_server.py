"""The server that test_kill.py kills: a process that has imported everything, and forks one real server at a time.

Speaks lines: ``start`` forks a server, which answers ``ready URL`` or ``failed WHY``; ``reap`` waits for its end and
answers with its status and with what it was doing, which it keeps in shared memory.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from transparency.log.durable import DurableFile
from transparency.log.log import Log, system_clock
from transparency.log.opening import open_log
from transparency.server.serve import serve
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore
from transparency.testing import FaultyStore

_T = TypeVar("_T")
PHASES = (
    "starting",
    "serving",
    "take_over",
    "commit",
    "commit done, mark not begun",
    "mark",
    "extend_index",
    "intake_add",
    "intake_remove",
    "intake_forget",
)


class _Phase:
    """One byte that outlives the process."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self, name: str) -> None:
        self._memory[0] = PHASES.index(name)

    def __str__(self) -> str:
        return PHASES[self._memory[0]]


class _PhasedStore(FaultyStore):
    """Passes everything through and says what is being written."""

    phase: _Phase

    def _call(self, method: str, do: Callable[[], _T]) -> _T:
        if method not in PHASES:
            return super()._call(method, do)
        self.phase.set(method)
        try:
            return super()._call(method, do)
        finally:
            self.phase.set("commit done, mark not begun" if method == "commit" else "serving")


def main(data: Path, watermark: Path) -> None:
    phase = _Phase()
    child = 0
    for line in sys.stdin:
        if line.strip() == "start":
            phase.set("starting")
            child = os.fork()
            if child == 0:
                os._exit(_serve(data, watermark, phase))
            _say(f"started {child}")
        elif line.strip() == "reap":
            _, status = os.waitpid(child, 0)
            _say(f"reaped {status} {phase}")


def _serve(data: Path, watermark: Path, phase: _Phase) -> int:
    class Store(_PhasedStore):
        pass

    Store.phase = phase

    class File(DurableFile):
        def write_at(self, offset: int, content: bytes) -> None:
            phase.set("mark")
            super().write_at(offset, content)

        def sync(self) -> None:
            super().sync()
            phase.set("serving")

    try:
        opened = open_log(data, clock=system_clock, watermark=watermark, wrap_store=Store, open_mark_file=File)
        settings = ServerSettings(port=0, open=True, rate_limit=None)
        tokens = TokenStore(data / "access.sqlite")
        asyncio.run(serve(Log(opened, system_clock), settings, tokens, lambda url: _say(f"ready {url}")))
    except BaseException as error:  # noqa: BLE001 - the test must hear of it
        _say(f"failed {type(error).__name__}: {error}")
        return 1
    return 0


def _say(line: str) -> None:
    # One write: lines of parent and child do not mix.
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
