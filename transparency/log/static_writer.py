"""Many files at once: a disk flushes several as fast as one, and a bucket is far away."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

from transparency.log.static_target import Target

THREADS: Final = 8
_WAITING: Final = 32


class Writer:
    """Use as a context manager. ``put`` may return before the file is there; ``flush`` returns when all are.

    With *check* a file that is there as it should be is left alone. ``expecting`` is set while what is put should be
    there: what of it was not, or was another, is counted as ``mended``.
    """

    def __init__(self, target: Target, *, check: bool = False) -> None:
        self._target = target
        self._check = check
        self._counting = threading.Lock()
        self.expecting = False
        self.mended = 0
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="export")
        self._under_way: deque[Future[None]] = deque()
        self.written = 0
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def put(self, path: str, data: bytes) -> None:
        """Raises what went wrong with an earlier one, too."""
        if len(self._under_way) >= _WAITING:
            self._under_way.popleft().result()
        self._under_way.append(self._pool.submit(self._put, path, data, expected=self.expecting))

    def _put(self, path: str, data: bytes, *, expected: bool) -> None:
        if self._check and self._target.get(path) == data:
            return
        self._target.put(path, data)
        self.count(len(data), mended=self._check and expected)

    def count(self, length: int, *, mended: bool = False) -> None:
        """One more file, of so many bytes; also one that was written without this."""
        with self._counting:
            self.written += 1
            self.bytes += length
            self.mended += mended

    def flush(self) -> None:
        while self._under_way:
            self._under_way.popleft().result()
