"""Clusters for tests: one log in a PostgreSQL, and as many nodes over it as a test wants, each with its own folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from transparency.log.appender import Clock
from transparency.log.cluster import ClusterLog
from transparency.log.cluster_lead import Accepted, ClusterSettings, Vouching
from transparency.log.cluster_open import open_store
from transparency.log.log import system_clock
from transparency.testing import MadeLog, make_log
from transparency.testing.postgres import PostgresServer, shared_server


@dataclass(frozen=True, slots=True)
class MadeCluster:
    """A log with its own two entries in the database at *url*; *made* is the folder that every node has a copy of."""

    url: str
    made: MadeLog
    mark_url: str | None = None

    def folder(self, name: str) -> Path:
        """The data folder of one machine, and its mark beside it."""
        path = self.made.data.parent / name / "log"
        if not path.exists():
            shutil.copytree(self.made.data, path)
            shutil.copy(self.made.watermark, path.parent / "mark")
        return path

    def node(
        self, name: str, *, accepted: Accepted | None = None, read_url: str | None = None, candidate: bool = True
    ) -> ClusterLog:
        """A node as ``serve`` makes it, not started."""
        data = self.folder(name)
        vouching = Vouching(data.parent / "mark", self.mark_url, accepted)
        settings = ClusterSettings(self.url, vouching, name, candidate, read_url)
        return ClusterLog.join(data, settings, open_store, clock=self.made.clock)


def make_cluster(path: Path, url: str, *, mark_url: str | None = None, clock: Clock = system_clock) -> MadeCluster:
    """A new log in the empty database at *url*."""
    return MadeCluster(url, make_log(path / "made", clock=clock, db=url), mark_url)


@contextmanager
def database(server: PostgresServer | None = None) -> Iterator[str]:
    server = server or shared_server()
    url = server.new_database()
    try:
        yield url
    finally:
        server.drop_database(url)
