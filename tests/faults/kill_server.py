"""The server that test_kill.py kills, forked by the means of forks.py."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.faults.forks import Phase, fork_servers, say
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
    "settle",
    "mark",
    "extend_index",
    "index_some",
    "intake_add",
    "intake_remove",
    "intake_forget",
)


class _PhasedStore(FaultyStore):
    """Passes everything through and says what is being written."""

    phase: Phase

    def _call(self, method: str, do: Callable[[], _T]) -> _T:
        if method not in self.phase:
            return super()._call(method, do)
        self.phase.set(method)
        try:
            return super()._call(method, do)
        finally:
            self.phase.set("commit done, mark not begun" if method == "commit" else "serving")


def main(data: Path, watermark: Path) -> None:
    phase = Phase(PHASES)
    fork_servers(phase, lambda: _serve(data, watermark, phase))


def _serve(data: Path, watermark: Path, phase: Phase) -> None:
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

    opened = open_log(data, clock=system_clock, watermark=watermark, wrap_store=Store, open_mark_file=File)
    # Two hundred starts: the process that indexes would cost more than all the rest, and writes nothing of the log.
    settings = ServerSettings(port=0, open=True, rate_limit=None, search=False)
    tokens = TokenStore(data / "access.sqlite")
    asyncio.run(serve(Log(opened, system_clock), settings, tokens, lambda url: say(f"ready {url}")))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
