"""Many entries examined, on several processes, in the log's order, with bounded memory.

Work goes out in chunks of at most CHUNK entries or CHUNK_BYTES, and at most WINDOW chunks are out at a time; results
come back in the order in which they went. What is usual for an agent (R9.4) is what the log showed up to WINDOW chunks
before: that depends on the log alone, never on how many processes there are or how fast they run.

Each process opens the artifacts by itself; records of hash envelopes never pass through the one that hands out work.
"""

from __future__ import annotations

import multiprocessing
import os
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from transparency.compliance.baseline import AgentKey, TokenBaseline
from transparency.compliance.examined import Examined
from transparency.compliance.settings import DEFAULT, Settings
from transparency.errors import AnswerTooLargeError, NotFoundError, ProofError
from transparency.log.artifacts import ArtifactStore
from transparency.log.folder import Folder
from transparency.log.store import Kind, StoredEntry
from transparency.statements.receipt import SignedHead
from transparency.witness.examiner import MAX_RECORD, Artifact, Examiner, Known

if TYPE_CHECKING:
    from transparency.client.sync import SyncLogClient

CHUNK: Final = 64
CHUNK_BYTES: Final = 1024 * 1024
WINDOW: Final = 16
# A few chunks are examined sooner than a process has started.
_WORTH_PROCESSES: Final = 4


@dataclass(frozen=True, slots=True)
class Reach:
    """Where records that do not stand in their statements can be had: a data folder, or a log. Neither: nowhere."""

    data: Path | None = None
    url: str | None = None
    token: str | None = None
    cacert: str | None = None

    @contextmanager
    def artifacts(self) -> Iterator[Artifact]:
        if self.data is not None:
            store = ArtifactStore(Folder(self.data.absolute()).artifacts)
            yield lambda digest: _read(store, digest.hex())
        elif self.url is not None:
            # Here, and not above: whoever reads a folder needs no aiohttp.
            from transparency.client.sync import SyncLogClient  # noqa: PLC0415

            with SyncLogClient(self.url, token=self.token, tls=self._tls()) as client:
                yield served(client)
        else:
            yield lambda _: None

    def _tls(self) -> ssl.SSLContext | None:
        if self.cacert is None:
            return None
        tls = ssl.create_default_context()
        tls.load_verify_locations(self.cacert)
        return tls


def served(client: SyncLogClient) -> Artifact:
    """From a log that is asked for them. No more is read than is examined, whatever it sends."""

    def artifact(digest: bytes) -> bytes | None:
        try:
            return client.artifact(digest.hex(), most=MAX_RECORD)
        except AnswerTooLargeError:
            return bytes(MAX_RECORD + 1)  # as of a folder: the examiner sees that it is too long
        except ProofError:
            return b""  # another record than was asked for: the examiner sees that it is not the one

    return artifact


def _read(store: ArtifactStore, digest: str) -> bytes | None:
    try:
        with store.open(digest) as file:
            return file.read(MAX_RECORD + 1)
    except NotFoundError:
        return None


class Work(NamedTuple):
    """One entry to be examined, and what is known of it."""

    row: StoredEntry
    head: SignedHead
    outcome: str
    retention: tuple[str, int] | None
    witnesses: tuple[int, int] | None = None


class _Job(NamedTuple):
    """Statements, for another process. What the service states is read here: its keys do not travel."""

    work: Sequence[Work]
    baselines: dict[AgentKey, TokenBaseline]
    now: int | None


class _Worker:
    """An examiner with its way to the artifacts: one in each process."""

    def __init__(self, reach: Reach, settings: bytes | None) -> None:
        self._stack = ExitStack()
        self._artifact = self._stack.enter_context(reach.artifacts())
        self._examiner = Examiner(DEFAULT if settings is None else Settings.from_toml(settings))

    def run(self, job: _Job) -> list[Examined]:
        return [
            self._examiner.examine(
                each.row,
                each.head,
                self._artifact,
                Known(each.outcome, each.retention, job.baselines, each.witnesses, now=job.now),
            )
            for each in job.work
        ]

    def close(self) -> None:
        self._stack.close()


_worker: _Worker | None = None


def _begin(reach: Reach, settings: bytes | None) -> None:
    global _worker  # noqa: PLW0603 - one for each process of the pool, made when it starts
    _worker = _Worker(reach, settings)


def _run(job: _Job) -> list[Examined]:
    assert _worker is not None  # noqa: S101 - _begin ran first
    return _worker.run(job)


class Examining:
    """Feed it with ``add``; whatever is ready comes out of ``add`` and, at the end, of ``finish``, in order.

    *settings* is TOML, as each process reads it.
    """

    def __init__(
        self,
        reach: Reach,
        settings: bytes | None = None,
        *,
        processes: int | None = None,
        baselines: Callable[[], dict[AgentKey, TokenBaseline]] = dict,
        now: int | None = None,
    ) -> None:
        self._reach = reach
        self._settings = settings
        self.processes = processes or os.cpu_count() or 1
        self._baselines = baselines
        self._now = now
        self._chunk: list[Work] = []
        # In the place of each statement of the chunk None, else what was read of it here.
        self._order: list[Examined | None] = []
        self._bytes = 0
        # What waits for its turn: jobs until it is worth starting processes, then their futures.
        self._waiting: deque[tuple[list[Examined | None], _Job | Future[list[Examined]]]] = deque()
        self._examiner = Examiner()
        self._pool: ProcessPoolExecutor | None = None
        self._own: _Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        if self._own is not None:
            self._own.close()

    def add(self, work: Work) -> Iterator[Examined]:
        """Take one more; results that are due come out."""
        if work.row.kind is Kind.STATEMENT:
            self._chunk.append(work)
            self._order.append(None)
        else:
            known = Known(work.outcome, now=self._now)
            self._order.append(self._examiner.examine(work.row, work.head, _nowhere, known))
        self._bytes += len(work.row.statement)
        if len(self._order) >= CHUNK or self._bytes >= CHUNK_BYTES:
            yield from self._hand_out()

    def finish(self) -> Iterator[Examined]:
        """Everything that is still out."""
        if self._order:
            yield from self._hand_out()
        while self._waiting:
            yield from self._take()

    def _hand_out(self) -> Iterator[Examined]:
        if len(self._waiting) >= WINDOW:
            yield from self._take()
        job = _Job(self._chunk, self._baselines(), self._now)
        self._waiting.append((self._order, job if self._pool is None else self._pool.submit(_run, job)))
        self._chunk, self._order, self._bytes = [], [], 0
        if self._pool is None and self.processes > 1 and len(self._waiting) >= _WORTH_PROCESSES:
            self._start()

    def _start(self) -> None:
        # Not forked: an event loop and its threads may be running here.
        context = multiprocessing.get_context("spawn")
        given = (self._reach, self._settings)
        self._pool = pool = ProcessPoolExecutor(self.processes, context, _begin, given)
        self._waiting = deque(
            (order, pool.submit(_run, each) if isinstance(each, _Job) else each) for order, each in self._waiting
        )

    def _take(self) -> Iterator[Examined]:
        order, oldest = self._waiting.popleft()
        if isinstance(oldest, _Job):
            if self._own is None:
                self._own = _Worker(self._reach, self._settings)
            examined = iter(self._own.run(oldest))
        else:
            examined = iter(oldest.result())
        for each in order:
            yield next(examined) if each is None else each


def _nowhere(_: bytes) -> None:
    """Documents and operations name no artifact."""
