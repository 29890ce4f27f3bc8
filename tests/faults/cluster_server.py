"""One node of a cluster as a process: what test_postgres_leader.py kills, stops and cuts off.

SIGUSR1 makes it stop itself (SIGSTOP) in the middle of its next transaction, with the tip's row locked.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import LiteralString

from transparency.log.cluster import ClusterLog
from transparency.log.cluster_lead import ClusterSettings, Vouching
from transparency.log.postgres import PostgresStore
from transparency.server.serve import serve
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore


class StoppingStore(PostgresStore):
    """As it is told, stops the whole process between the compare-and-swap and the commit."""

    wanted = False

    def _copy(self, statement: LiteralString, rows: bytes) -> None:
        if type(self).wanted:
            type(self).wanted = False
            os.kill(os.getpid(), signal.SIGSTOP)
        super()._copy(statement, rows)


def _stop_in_transaction(*_: object) -> None:
    StoppingStore.wanted = True


def main(data: Path, name: str, url: str, mark_url: str, role: str) -> None:
    signal.signal(signal.SIGUSR1, _stop_in_transaction)
    vouching = Vouching(data.parent / "mark", mark_url or None)
    settings = ClusterSettings(url, vouching, name, candidate=role == "candidate")
    log = ClusterLog.join(data, settings, StoppingStore)
    serving = ServerSettings(port=0, open=True, rate_limit=None, search=False)
    tokens = TokenStore(data / "access.sqlite")
    asyncio.run(serve(log, serving, tokens, lambda url: print(url, flush=True)))  # noqa: T201 - to the test


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:6])
