"""A process that has imported everything and forks one real server at a time, to be killed: both of its sides.

It speaks lines: ``start`` forks a server, which answers ``ready URL`` or ``failed WHY``; ``reap`` waits for its end and
answers with its status and with what it was doing, which it keeps in shared memory.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


# -- in the process that forks -------------------------------------------------------------------------------------


class Phase:
    """One byte that outlives the process: which of *phases* it is in."""

    def __init__(self, phases: tuple[str, ...]) -> None:
        self._memory = mmap.mmap(-1, 1)
        self._phases = phases

    def set(self, name: str) -> None:
        self._memory[0] = self._phases.index(name)

    def __contains__(self, name: str) -> bool:
        return name in self._phases

    def __str__(self) -> str:
        return self._phases[self._memory[0]]


def fork_servers(phase: Phase, serve: Callable[[], None]) -> None:
    """Obey the lines on standard input. *serve* runs in a child, says ``ready`` by itself, and returns when it ends."""
    child = 0
    for line in sys.stdin:
        if line.strip() == "start":
            phase.set("starting")
            child = os.fork()
            if child == 0:
                os._exit(_run(serve))
            say(f"started {child}")
        elif line.strip() == "reap":
            _, status = os.waitpid(child, 0)
            say(f"reaped {status} {phase}")


def _run(serve: Callable[[], None]) -> int:
    try:
        serve()
    except BaseException as error:  # noqa: BLE001 - the test must hear of it
        say(f"failed {type(error).__name__}: {error}")
        return 1
    return 0


def say(line: str) -> None:
    # One write: lines of parent and child do not mix.
    os.write(1, f"{line}\n".encode())


# -- in the test ---------------------------------------------------------------------------------------------------


class Forks:
    """The process that forks servers, and the server of this round."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def start(self) -> int:
        self._say("start")
        word, pid = (await self._line()).split()
        assert word == "started"
        return int(pid)

    async def ready(self) -> str:
        word, _, rest = (await self._line()).partition(" ")
        assert word == "ready", f"the server did not start after a kill: {rest}"
        return rest

    async def reap(self) -> tuple[int, str]:
        self._say("reap")
        while not (line := await self._line()).startswith("reaped"):
            assert line.startswith("ready"), line
        _, status, phase = line.split(" ", 2)
        return int(status), phase

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def _line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stdout.readline()).decode().strip()


@asynccontextmanager
async def forking(module: str, *arguments: str) -> AsyncIterator[Forks]:
    """*module* run as a program that calls :func:`fork_servers`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Forks(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            await process.wait()
