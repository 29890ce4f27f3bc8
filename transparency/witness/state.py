"""The state of a witness: what it has cosigned, durable before anybody hears of it, and never taken back.

A change is one transaction (``synchronous=FULL``): a compare-and-swap on ``tip``, then one on (size, root) of each log
it moves. Then the mark, outside the folder, gets the new tip. Only then does a cosignature leave (W-3). So

* killed before the commit: nothing was recorded, nothing was said;
* killed between commit and mark: recorded, not said; the tip is one ahead of the mark and follows it, which is taken;
* an older copy of the folder put back: its tip is behind the mark, and it is refused, for whatever it has forgotten it
  may have said, and a log could get a second history cosigned.

``tip`` counts changes and has the digest of all that is recorded (seals.py), so one small mark stands for every log at
once: a folder that went another way after the copy is told from one that did not, and so is a row that somebody took
away, rewound or changed. A state that is one change ahead of its mark has to show that change: with what it replaced
put back it is the state that the mark saw, no log went back by it, and this witness has cosigned it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from transparency.errors import LogUnusableError, NotFoundError, RunningElsewhereError, StoreError, TipMovedError
from transparency.log.durable import DurableFile
from transparency.log.folder import Ownership
from transparency.log.mark import Mark, MarkValue
from transparency.witness import schema
from transparency.witness.folder import WitnessConfig, WitnessFolder
from transparency.witness.record import Evidence, Forgotten, Ground, Move, Record
from transparency.witness.seals import Seal, all_forgotten, check_cosigned, check_records, digest_of, forgetting

MAX_EVIDENCE: Final = 32
"""Kept of each log and ground. Of forks the first ones stay: they convict. Of the rest the newest: they are leads."""
_BUSY_MS: Final = 5000


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
            raise LogUnusableError(f"there is no state at {path}: put the newest folder in its place")
        self._mark = mark
        try:
            self._connection = connect(path)
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
            if mark is None:
                # One moment for all that is read: a running witness goes on meanwhile.
                self._connection.execute("BEGIN")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            tip = self._connection.execute("SELECT sequence, digest FROM tip").fetchone()
        except Exception as error:
            raise LogUnusableError(f"{path} cannot be opened as the state of a cosigner: {error}") from error
        if version != schema.VERSION or tip is None:
            self._connection.close()
            raise LogUnusableError(f"{path} was not written by this version")
        self._sequence, self._digest = int(tip[0]), bytes(tip[1])
        self.vkeys = tuple(str(vkey) for (vkey,) in self._all("SELECT vkey FROM identity"))
        rows = self._all("SELECT origin, size, time, rest FROM seals")
        self._seals = {origin: Seal(*values) for origin, *values in rows}
        self._forgotten = all_forgotten(self.forgotten())

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
        seals = self._seals | {move.origin: Seal.of(move.after) for move in moves}
        with self._changing(seals if moves else None, self._forgotten) as run:
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
        gone = Forgotten(origin, record.size, record.root, record.time, record.note, now)
        seals = {other: seal for other, seal in self._seals.items() if other != origin}
        with self._changing(seals, forgetting(self._forgotten, gone)) as run:
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

    def check_rows(self) -> None:
        """Refuse records that are not those the tip has the digest of. Says which log, if it can."""
        check_records(self.records(), self._seals)
        if digest_of(self._sequence, self.vkeys, self._seals, self._forgotten) != self._digest:
            raise LogUnusableError(
                "the state is not the one that its own tip has the digest of: it was changed by somebody else. Put "
                "the newest folder in its place, or start anew with a new name"
            )

    def check_keys(self, vkeys: Collection[str]) -> None:
        """Refuse other keys than the witness was made with: they would sign as a witness that has seen nothing."""
        if set(vkeys) != set(self.vkeys):
            raise LogUnusableError(
                "the keys in the folder are not those that it was made with: put those back; other keys are another "
                "cosigner's, with a name and a folder of its own"
            )

    def check_mark(self, mark: MarkValue) -> bool:
        """Refuse a state that is not the one the mark saw, or the one change after it; whether it is that one."""
        if (self._sequence, self._digest) == (mark.size, mark.root):
            return False
        if self._sequence < mark.size:
            raise LogUnusableError(
                f"the state is {mark.size - self._sequence} changes behind the high-water mark: an older copy was put "
                "back. It has forgotten what it cosigned; put the newest folder in its place, or start anew with a "
                "new name"
            )
        if self._sequence != mark.size + 1 or self._digest_before() != mark.root:
            raise LogUnusableError(
                "the state is not the one that the high-water mark saw: the folder, or the mark, is of another history"
            )
        return True

    def catch_up(self) -> None:
        """Hold the state against its mark, which follows if the last change was not told to it.

        Ended between commit and mark: nobody was told of that change yet.
        """
        mark = self._owned()
        self.check_rows()
        if self.check_mark(mark.value):
            mark.write(self.mark_value())

    def mark_value(self) -> MarkValue:
        return MarkValue(self._sequence, self._digest)

    # -- plumbing ------------------------------------------------------------------------------------------------

    def _digest_before(self) -> bytes | None:
        """What the digest was before the last change, if that was one this witness makes."""
        records, seals, forgotten = self.records(), dict(self._seals), self.forgotten()
        for origin, *values in self._all("SELECT origin, size, time, rest FROM undo"):
            before = None if None in values else Seal(*values)
            after = seals.pop(origin, None)
            if before is not None:
                seals[origin] = before
            if after is not None:
                if not after.may_follow(before):
                    return None
                check_cosigned(origin, records[origin], self.vkeys)
            elif not forgotten or forgotten.pop().origin != origin:
                return None
        return digest_of(self._sequence - 1, self.vkeys, seals, all_forgotten(forgotten))

    @contextlib.contextmanager
    def _changing(self, seals: dict[str, Seal] | None, forgotten: bytes) -> Iterator[Callable[..., Any]]:
        """One transaction, and the mark behind it. With *seals*, all that there are then, the tip moves on."""
        run = self._connection.execute
        mark = self._owned()
        after = None if seals is None else digest_of(self._sequence + 1, self.vkeys, seals, forgotten)
        try:
            run("BEGIN IMMEDIATE")
            if seals is not None:
                run(
                    "UPDATE tip SET sequence = sequence + 1, digest = ? WHERE sequence = ? AND digest = ?",
                    (after, self._sequence, self._digest),
                )
                _one_row(run)
                _reseal(run, self._seals, seals)
            yield run
            run("COMMIT")
        except Exception as error:
            # SQLite may have rolled back already; the first error is the one to report.
            with contextlib.suppress(Exception):
                run("ROLLBACK")
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"the state could not be written: {error}") from error
        if seals is not None and after is not None:
            self._sequence, self._digest, self._seals, self._forgotten = self._sequence + 1, after, seals, forgotten
            mark.write(self.mark_value())

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
        raise TipMovedError("another process has changed the state; this one must stop")


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


def _reseal(run: Callable[..., Any], before: Mapping[str, Seal], after: Mapping[str, Seal]) -> None:
    """From the seals before to those after, and what that replaced."""
    run("DELETE FROM undo")
    for origin in sorted({*before, *after}):
        old, new = before.get(origin), after.get(origin)
        if old == new:
            continue
        run("INSERT INTO undo VALUES (?, ?, ?, ?)", (origin, *(_values(old) or (None, None, None))))
        if new is None:
            run("DELETE FROM seals WHERE origin = ?", (origin,))
        else:
            run("INSERT OR REPLACE INTO seals VALUES (?, ?, ?, ?)", (origin, *(_values(new) or ())))


def _values(seal: Seal | None) -> tuple[int, int, bytes] | None:
    return None if seal is None else (seal.size, seal.time, seal.rest)


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
            state.catch_up()
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
        with contextlib.closing(WitnessState.for_reading(folder)) as state:
            state.check_rows()
            value = state.mark_value()
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
            f"the high-water mark {mark.path} is held by another process, which runs from another folder"
        ) from None
