"""The state of a witness: what it has cosigned, durable before anybody hears of it, and never taken back.

A change is one transaction (``synchronous=FULL``): a compare-and-swap on ``tip``, then one on (size, root) of each log
it moves. Then the mark, outside the folder, gets the new tip. Only then does a cosignature leave (W-3). So

* killed before the commit: nothing was recorded, nothing was said;
* killed between commit and mark: recorded, not said; the tip is one ahead of the mark and follows it, which is taken;
* an older copy of the folder put back: its tip is behind the mark, and it is refused, for whatever it has forgotten it
  may have said, and a log could get a second history cosigned.

``tip`` counts changes and chains their digests, so one small mark stands for every log at once, and a folder that went
another way after the copy is told from one that did not.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from transparency.errors import LogUnusableError, NotFoundError, RunningElsewhereError, StoreError, TipMovedError
from transparency.log.durable import DurableFile
from transparency.log.folder import Ownership
from transparency.log.mark import Mark, MarkValue
from transparency.witness import schema
from transparency.witness.folder import WitnessConfig, WitnessFolder
from transparency.witness.record import Evidence, Ground, Move, Record

MAX_EVIDENCE: Final = 32
"""Kept of each log and ground. Of forks the first ones stay: they convict. Of the rest the newest: they are leads."""
_BUSY_MS: Final = 5000


@dataclass(frozen=True, slots=True)
class Forgotten:
    origin: str
    size: int
    root: bytes
    time: int
    note: bytes
    forgotten_at: int


def connect(path: Path) -> Any:  # noqa: ANN401 - sqlite3's connection, or a shim that looks like it
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def _connect_for_reading(path: Path) -> Any:  # noqa: ANN401 - as above
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


class WitnessState:
    """Owned by one process by the folder's lock and the mark's, and in it by one thread at a time."""

    def __init__(
        self, path: Path, mark: Mark | None, *, connect: Callable[[Path], Any] = connect, synchronous: str = "FULL"
    ) -> None:
        """*mark* is None for who only reads."""
        if not path.exists():
            raise LogUnusableError(f"there is no state of a witness at {path}")
        self._mark = mark
        try:
            self._connection = connect(path)
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            tip = self._connection.execute("SELECT sequence, digest, previous FROM tip").fetchone()
        except Exception as error:
            raise LogUnusableError(f"{path} cannot be opened as the state of a witness: {error}") from error
        if version != schema.VERSION or tip is None:
            self._connection.close()
            raise LogUnusableError(f"{path} was not written by this version")
        self._sequence, self._digest, self._previous = int(tip[0]), bytes(tip[1]), bytes(tip[2])

    @classmethod
    def for_reading(cls, folder: WitnessFolder) -> WitnessState:
        """Also beside a running witness."""
        return cls(folder.state, None, connect=_connect_for_reading)

    # -- what is recorded ----------------------------------------------------------------------------------------

    def records(self) -> dict[str, Record]:
        rows = self._all("SELECT origin, size, root, time, signed, lines FROM logs")
        return {origin: Record(*values) for origin, *values in rows}

    def evidence(self) -> list[Evidence]:
        rows = self._all("SELECT origin, ground, size, root, time, recorded, request FROM evidence ORDER BY rowid")
        return [Evidence(origin, Ground(ground), *values) for origin, ground, *values in rows]

    def evidence_count(self) -> int:
        return int(self._all("SELECT count(*) FROM evidence")[0][0])

    def forgotten(self) -> list[Forgotten]:
        sql = "SELECT origin, size, root, time, note, forgotten_at FROM forgotten ORDER BY number"
        return [Forgotten(*row) for row in self._all(sql)]

    @property
    def sequence(self) -> int:
        return self._sequence

    # -- changes -------------------------------------------------------------------------------------------------

    def commit(self, moves: Sequence[Move], evidence: Sequence[Evidence] = ()) -> None:
        """Make all of it durable, mark included, or raise StoreError: then it is not known what was kept.

        At most one move an origin. A lead that has meanwhile been shown to be of the one history goes.
        """
        with self._changing(_digest_of(self._digest, moves) if moves else None) as run:
            for move in moves:
                _swap(run, move)
                after = move.after
                run(
                    "DELETE FROM evidence WHERE origin = ? AND ground = ? AND size = ? AND root = ?",
                    (move.origin, str(Ground.UNPROVEN), after.size, after.root),
                )
            for each in evidence:
                _keep(run, each)

    def forget(self, origin: str, now: int) -> Record:
        """Take a log's record away, for good: from now on any tree of it would be cosigned. Say it loudly before."""
        record = self.records().get(origin)
        if record is None:
            raise NotFoundError(f"nothing is recorded for {origin}")
        with self._changing(hashlib.sha256(self._digest + b"forget" + _name(origin)).digest()) as run:
            run("DELETE FROM logs WHERE origin = ? AND size = ? AND root = ?", (origin, record.size, record.root))
            _one_row(run)
            run(
                "INSERT INTO forgotten (origin, size, root, time, note, forgotten_at) VALUES (?, ?, ?, ?, ?, ?)",
                (origin, record.size, record.root, record.time, record.note, now),
            )
        return record

    def close(self) -> None:
        self._connection.close()
        if self._mark is not None:
            self._mark.close()

    # -- the mark ------------------------------------------------------------------------------------------------

    def check_mark(self) -> None:
        """Refuse a state that is not the one the mark saw, or the one change after it."""
        mark = self._owned().value
        if (self._sequence, self._digest) == (mark.size, mark.root):
            return
        if (self._sequence - 1, self._previous) == (mark.size, mark.root):
            # Ended between commit and mark: nobody was told of that change yet.
            self._owned().write(MarkValue(self._sequence, self._digest))
            return
        if self._sequence < mark.size:
            raise LogUnusableError(
                f"the state is {mark.size - self._sequence} changes behind the high-water mark: an older copy was put "
                "back. It has forgotten what it cosigned; put the newest folder in its place, or start a new witness "
                "with a new name"
            )
        raise LogUnusableError(
            "the state is not the one that the high-water mark saw: the folder, or the mark, is of another history"
        )

    def mark_value(self) -> MarkValue:
        return MarkValue(self._sequence, self._digest)

    # -- plumbing ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _changing(self, digest: bytes | None) -> Iterator[Callable[..., Any]]:
        """One transaction, and the mark behind it. With a *digest* the tip moves on to it."""
        run = self._connection.execute
        mark = self._owned()
        try:
            run("BEGIN IMMEDIATE")
            if digest is not None:
                run(
                    "UPDATE tip SET sequence = sequence + 1, digest = ?, previous = digest"
                    " WHERE sequence = ? AND digest = ?",
                    (digest, self._sequence, self._digest),
                )
                _one_row(run)
            yield run
            run("COMMIT")
        except Exception as error:
            # SQLite may have rolled back already; the first error is the one to report.
            with contextlib.suppress(Exception):
                run("ROLLBACK")
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"the state could not be written: {error}") from error
        if digest is not None:
            self._sequence, self._digest, self._previous = self._sequence + 1, digest, self._digest
            mark.write(MarkValue(self._sequence, self._digest))

    def _owned(self) -> Mark:
        if self._mark is None:
            raise StoreError("the state was opened for reading only")
        return self._mark

    def _all(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return [tuple(row) for row in self._connection.execute(sql).fetchall()]
        except Exception as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            raise StoreError(f"the state could not be read ({name})") from error


def _swap(run: Callable[..., Any], move: Move) -> None:
    """Compare-and-swap on (size, root): a record that is another than what was decided on stops the process."""
    before, after = move.before, move.after
    values = (after.size, after.root, after.time, after.signed, after.lines)
    if before is None:
        run("INSERT INTO logs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", (move.origin, *values))
    else:
        run(
            "UPDATE logs SET size = ?, root = ?, time = ?, signed = ?, lines = ?"
            " WHERE origin = ? AND size = ? AND root = ? AND size <= ? AND time <= ?",
            (*values, move.origin, before.size, before.root, after.size, after.time),
        )
    _one_row(run)


def _one_row(run: Callable[..., Any]) -> None:
    if run("SELECT changes()").fetchone()[0] != 1:
        raise TipMovedError("another process has changed this witness' state; this one must stop")


def _keep(run: Callable[..., Any], each: Evidence) -> None:
    key = (each.origin, str(each.ground))
    seen = "SELECT count(*) FROM evidence WHERE origin = ? AND ground = ? AND size = ? AND root = ?"
    if run(seen, (*key, each.size, each.root)).fetchone()[0]:
        return
    count = run("SELECT count(*) FROM evidence WHERE origin = ? AND ground = ?", key).fetchone()[0]
    if count >= MAX_EVIDENCE:
        if each.ground is Ground.FORK:
            return
        run("DELETE FROM evidence WHERE rowid = (SELECT min(rowid) FROM evidence WHERE origin = ? AND ground = ?)", key)
    run(
        "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, each.size, each.root, each.time, each.recorded, each.request),
    )


def _digest_of(digest: bytes, moves: Sequence[Move]) -> bytes:
    chain = hashlib.sha256(digest)
    for move in moves:
        after = move.after
        chain.update(_name(move.origin) + after.size.to_bytes(8, "big") + after.root + after.time.to_bytes(8, "big"))
    return chain.digest()


def _name(origin: str) -> bytes:
    return hashlib.sha256(origin.encode()).digest()


@contextlib.contextmanager
def open_state(
    folder: WitnessFolder,
    *,
    watermark: Path | None = None,
    connect: Callable[[Path], Any] = connect,
    synchronous: str = "FULL",
    open_mark_file: Callable[[Path], DurableFile] = DurableFile,
) -> Iterator[WitnessState]:
    """The state, owned for the time of the block and held against its mark. Raises rather than go on from less."""
    config = WitnessConfig.read(folder.config)
    lock = Ownership(folder.lock)
    try:
        mark = Mark.open(watermark or config.watermark, config.name, open_mark_file)
        try:
            _own(mark)
            state = WitnessState(folder.state, mark, connect=connect, synchronous=synchronous)
        except BaseException:
            mark.close()
            raise
        try:
            state.check_mark()
            yield state
        finally:
            state.close()
    finally:
        lock.release()


def renew_mark(folder: WitnessFolder) -> MarkValue:
    """A new mark in the place of one that is lost, by what the folder says. It vouches for nothing before it."""
    config = WitnessConfig.read(folder.config)
    if config.watermark.exists():
        raise LogUnusableError(f"{config.watermark} is there; only a mark that is lost can be made anew")
    lock = Ownership(folder.lock)
    try:
        state = WitnessState.for_reading(folder)
        value = state.mark_value()
        state.close()
        config.watermark.parent.mkdir(parents=True, exist_ok=True)
        Mark.create(config.watermark, config.name, value).close()
    finally:
        lock.release()
    return value


def _own(mark: Mark) -> None:
    try:
        mark.own()
    except RunningElsewhereError:
        raise RunningElsewhereError(
            f"the high-water mark {mark.path} is held by another process: this witness runs from another folder"
        ) from None
