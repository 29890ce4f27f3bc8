"""Many statements: verified in batches, on all cores, in bounded memory.

    for report in verify_many(files, TrustStore.from_file(path)):

Reports come in the order of the items. Workers send back what the checks say; the facts of a report (claims, summary)
are made here when they are asked for, from the item, which the report keeps.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from transparency.errors import TransparencyError
from transparency.verifier.report import Facts, Report
from transparency.verifier.verify import Options, Verifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from transparency.verifier.report import Check
    from transparency.verifier.trust import TrustStore

Item: TypeAlias = "bytes | tuple[bytes, bytes | None]"
"""A (transparent) statement, or one with its detached payload or the record of its envelope."""

# One batch: few enough to stay in the processor's caches, or no more than this many bytes.
BATCH_ITEMS: Final = 64
BATCH_BYTES: Final = 1 << 20
# With fewer items than this the processes are not worth starting.
WORTH_PROCESSES: Final = 256
_AHEAD: Final = 3
"""Batches handed out to each process before the oldest is waited for."""

_DEFAULT: Final = Options()
_PAIR: Final = 2
_Pair: TypeAlias = "tuple[bytes, bytes | None]"
_T = TypeVar("_T")
_R = TypeVar("_R")
_worker: list[Callable[[list[Any]], Any]] = []
"""What this process does, where it is a worker."""


def verify_many(
    items: Iterable[Item], trust: TrustStore, processes: int | None = None, *, options: Options = _DEFAULT
) -> Iterator[Report]:
    """A report for each item, in order, as ``verify`` would give it.

    ``processes``: how many to use; by default one for each core, if there are enough items and no threads here, since
    workers are forked (where that is not possible, all is done in this process).
    """
    verifier = Verifier(trust, options)
    batches = _batches(items)
    first = list(islice(batches, -(-WORTH_PROCESSES // BATCH_ITEMS)))
    many = sum(map(len, first)) >= WORTH_PROCESSES
    count = (processes_here() if many else 1) if processes is None else processes
    batches = chain(first, batches)
    if count <= 1 or not _can_fork():
        for batch in batches:
            yield from verifier.verify_batch(batch)
        return
    for batch, answers in in_processes(partial(_answers, verifier), batches, count):
        for (data, payload), (checks, required) in zip(batch, answers, strict=True):
            yield Report(checks, required, partial(_facts, verifier, data, payload))


def processes_here() -> int:
    """How many processes are worth it: one a core that may be used, and one alone where forking is not safe."""
    if not _can_fork() or threading.active_count() > 1:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(
    work: Callable[[list[_T]], _R], batches: Iterable[list[_T]], processes: int
) -> Iterator[tuple[list[_T], _R]]:
    """Each batch with what ``work`` gives for it in one of the processes (forked), in order; a few are under way."""
    # Not before it is needed: of all commands few start processes.
    import multiprocessing  # noqa: PLC0415
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415

    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _become, (work,))
    waiting: deque[tuple[list[_T], Future[_R]]] = deque()
    try:
        for batch in batches:
            waiting.append((batch, pool.submit(_run, batch)))
            if len(waiting) > _AHEAD * processes:
                oldest, future = waiting.popleft()
                yield oldest, future.result()
        while waiting:
            oldest, future = waiting.popleft()
            yield oldest, future.result()
    except BrokenProcessPool as error:
        raise TransparencyError("a process that verified has ended: too little memory, or it was killed") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(items: Iterable[Item]) -> Iterator[list[_Pair]]:
    batch: list[_Pair] = []
    size = 0
    for number, item in enumerate(items):
        pair = item if isinstance(item, tuple) else (item, None)
        if not _is_pair(pair):
            raise TypeError(f"item {number} is neither bytes nor bytes with their payload: {type(item).__name__}")
        batch.append(pair)
        size += len(pair[0]) + (0 if pair[1] is None else len(pair[1]))
        if len(batch) >= BATCH_ITEMS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _is_pair(value: tuple[object, ...]) -> bool:
    return len(value) == _PAIR and isinstance(value[0], bytes) and isinstance(value[1], bytes | None)


def _answers(verifier: Verifier, batch: Sequence[_Pair]) -> list[tuple[tuple[Check, ...], frozenset[str]]]:
    return [(report.checks, report.required) for report in verifier.verify_batch(batch)]


def _facts(verifier: Verifier, data: bytes, payload: bytes | None) -> Facts:
    return verifier.verify(data, payload).facts()


def _can_fork() -> bool:
    return hasattr(os, "fork")


def _become(work: Callable[[list[Any]], Any]) -> None:
    # Whoever started this process is interrupted too, and ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker.append(work)


def _run(batch: list[Any]) -> Any:  # noqa: ANN401 - what the work gives
    return _worker[-1](batch)
