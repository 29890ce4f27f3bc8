"""Stores as a node of a cluster needs them: one that outlives its server, and one that only a leader writes to.

A store of the log fails once and is then done with: who wrote must stop, not guess (log/store.py). A node that reads,
or that writes rows into the intake which it may write again, need not stop: it says "come back" and opens another.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from transparency.errors import LogUnusableError, StoreError, TransparencyError
from transparency.log.cluster_trouble import AwayError
from transparency.log.postgres_connection import passing
from transparency.log.store import Store

_AGAIN_SECONDS: Final = 0.25
_CLOSE_SECONDS: Final = 5.0
# Longer than any statement may take.
_UNUSED_SECONDS: Final = 60.0
_WRITES: Final = frozenset(
    ("commit", "intake_add", "intake_fail", "intake_remove", "intake_forget", "erase", "scrub", "note_erased")
) | {"name_mark"}
OpenStore = Callable[[], Store]
_logger = logging.getLogger("transparency.cluster")


def _away(error: TransparencyError | None) -> AwayError:
    """What is said while a store is opened anew: why the last one failed, or why no other can be opened."""
    if error is None or (isinstance(error, LogUnusableError) and passing(error)):  # which names where it is
        return AwayError(str(error or "it is opened anew"), "the database of this log does not answer")
    return AwayError(str(error), f"the database of this log cannot be used: {error}")


class SteadyStore:
    """A store that is opened anew when it fails. Meanwhile every call is an :class:`AwayError`, at once."""

    def __init__(self, open_store: OpenStore, *, needed: bool = True) -> None:
        """Open it the first time: what that raises is for who starts, if it is *needed*."""
        self._open = open_store
        self._lock = threading.Lock()
        self._unused = threading.Condition(self._lock)
        self._users: Counter[int] = Counter()
        self._closed = threading.Event()
        self._opener: threading.Thread | None = None
        self._store: Store | None = None
        self._error: TransparencyError | None = None
        try:
            self._store = open_store()
        except TransparencyError as error:
            if needed:
                raise
            self._error = error
            self._opener = threading.Thread(target=self._reopen, args=(None,), name="store", daemon=True)
            self._opener.start()

    @classmethod
    def of(cls, open_store: OpenStore) -> Store:
        return cast("Store", cls(open_store))

    @classmethod
    def perhaps(cls, open_store: OpenStore) -> Store:
        """One that may be away, also at first."""
        return cast("Store", cls(open_store, needed=False))

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            store, self._store = self._store, None
            opener = self._opener
        if opener is not None:
            opener.join(_CLOSE_SECONDS)
        self._close(store)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            with self._using() as store:
                result = getattr(store, name)(*arguments, **named)
            return self._guarded(store, result) if isinstance(result, Iterator) else result

        return call

    @contextlib.contextmanager
    def _using(self, same: Store | None = None) -> Iterator[Store]:
        """The store, which is not closed meanwhile: a thread that waits on a session that another closes, waits on."""
        with self._lock:
            store = self._store
            if store is None or (same is not None and same is not store):
                raise _away(self._error)
            self._users[id(store)] += 1
        try:
            yield store
        except StoreError as error:
            self._failed(store, error)
            raise _away(error) from error
        finally:
            with self._lock:
                self._users[id(store)] -= 1
                self._unused.notify_all()

    def _guarded(self, store: Store, rows: Iterator[Any]) -> Iterator[Any]:
        """Rows that are read a page at a time, as long as it is of the same store."""
        end = object()
        while True:
            with self._using(store):
                row = next(rows, end)
            if row is end:
                return
            yield row

    def _failed(self, store: Store, error: StoreError) -> None:
        with self._lock:
            if self._store is not store or self._closed.is_set():
                return
            self._store, self._error = None, error
            self._opener = threading.Thread(target=self._reopen, args=(store,), name="store", daemon=True)
            self._opener.start()

    def _close(self, store: Store | None) -> None:
        """Once nobody uses it. Statements have timeouts, so that ends."""
        if store is None:
            return
        with self._lock:
            if not self._unused.wait_for(lambda: not self._users[id(store)], _UNUSED_SECONDS):
                return
            del self._users[id(store)]
        _close(store)

    def _reopen(self, failed: Store | None) -> None:
        """First another: somebody may be using the failed one for long."""
        while not self._closed.wait(_AGAIN_SECONDS):
            try:
                store = self._open()
            except TransparencyError as error:
                self._error = error
                continue
            except Exception:  # without this thread the node would have no store any more
                _logger.exception("a store could not be opened")
                continue
            with self._lock:
                taken = not self._closed.is_set()
                if taken:
                    self._store = store
            if not taken:
                _close(store)
            break
        self._close(failed)


class LeadersStore:
    """A store that nothing is written to any more as soon as the leader no longer believes in its lease.

    Once another leads, the compare-and-swap refuses commits, and the sessions of this store are ended. This is for the
    time before.
    """

    def __init__(self, store: Store, believes: Callable[[], bool]) -> None:
        self._store = store
        self._believes = believes

    @classmethod
    def of(cls, store: Store, believes: Callable[[], bool]) -> Store:
        return cast("Store", cls(store, believes))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        if name in _WRITES and not self._believes():
            raise StoreError("the lease of this leader has run out")
        return getattr(self._store, name)


def _close(store: Store) -> None:
    with contextlib.suppress(TransparencyError):
        store.close()
