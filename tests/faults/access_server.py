"""The server that test_access_kill.py kills: tokens are asked for, segments are small, digests are registered often."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from tests.faults.forks import Phase, fork_servers, say
from transparency.log.access_digests import AccessDigests
from transparency.log.access_log import AccessLog
from transparency.log.log import Log
from transparency.server.serve import serve
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore

_P = ParamSpec("_P")
_T = TypeVar("_T")
PHASES = ("starting", "serving", "append", "new segment", "sync", "register digest")
SEGMENT_BYTES = 8 * 1024
EVERY_SECONDS = 0.05


def main(data: Path, watermark: Path) -> None:
    phase = Phase(PHASES)
    fork_servers(phase, lambda: _serve(data, watermark, phase))


def _serve(data: Path, watermark: Path, phase: Phase) -> None:
    _make_small()
    AccessLog.append = _within(phase, "append", AccessLog.append)  # type: ignore[method-assign]
    AccessLog._create = _within(phase, "new segment", AccessLog._create)  # type: ignore[method-assign]
    AccessLog.sync = _within(phase, "sync", AccessLog.sync)  # type: ignore[method-assign]
    registering = AccessDigests.register

    async def register(digests: AccessDigests) -> object:
        phase.set("register digest")
        try:
            return await registering(digests)
        finally:
            phase.set("serving")

    AccessDigests.register = register  # type: ignore[assignment,method-assign]
    log = Log.open(data, watermark=watermark)
    settings = ServerSettings(port=0, rate_limit=None, search=False)
    tokens = TokenStore(data / "access.sqlite")

    def ready(url: str) -> None:
        phase.set("serving")
        say(f"ready {url}")

    asyncio.run(serve(log, settings, tokens, ready))


def _make_small() -> None:
    """What takes hours on a real log happens several times before each kill: only the sizes are others."""
    for made, name, value in (
        (AccessLog.__init__, "segment_bytes", SEGMENT_BYTES),
        (AccessDigests.__init__, "every", EVERY_SECONDS),
    ):
        defaults = made.__kwdefaults__
        assert defaults is not None
        assert name in defaults
        defaults[name] = value


def _within(phase: Phase, name: str, do: Callable[_P, _T]) -> Callable[_P, _T]:
    @functools.wraps(do)
    def done(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        phase.set(name)
        try:
            return do(*args, **kwargs)
        finally:
            phase.set("serving")

    return done


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
