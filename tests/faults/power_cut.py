"""A model of power loss: what is on the disk if the power goes at a given moment.

A shim under SQLite (an apsw VFS that passes through to the real files) and under the mark (a ``DurableFile``) writes a
journal of every create, write, truncate, sync and delete. From it the disk is rebuilt as of any moment:

* A write or truncate counts only once *that file* was synced afterwards. What was not may be gone (the strict disk),
  there in part and out of order (a disk that reorders), or cut off in the middle of a write (a torn one).
* Creating and deleting a file count at once: file systems that journal their metadata keep those in order, and the
  harsher choice would only test SQLite's own sync of the folder.
* ``-shm`` is never there: it is memory that SQLite rebuilds from the WAL.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from transparency.log.durable import DurableFile
from transparency.witness.folder import WitnessConfig, WitnessFolder


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that was done to a file; ``acknowledge`` is no file's, but the moment a client was answered."""

    name: str
    kind: str
    offset: int = 0
    data: bytes = b""
    acknowledged: object = None


@dataclass(slots=True)
class Journal:
    operations: list[Operation] = field(default_factory=list)

    def note(self, name: str, kind: str, offset: int = 0, data: bytes = b"") -> None:
        self.operations.append(Operation(name, kind, offset, data))

    def acknowledge(self, what: object) -> None:
        self.operations.append(Operation("", "acknowledge", acknowledged=what))

    def count(self, kind: str, name: str | None = None) -> int:
        return sum(1 for one in self.operations if one.kind == kind and name in (None, one.name))


# -- the shim under SQLite -----------------------------------------------------------------------------------------


class _JournalVFS(apsw.VFS):
    def __init__(self, name: str, journal: Journal) -> None:
        self.journal = journal
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - apsw's name
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or not flags[0] & (apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL):
            return apsw.VFSFile("", name, flags)  # temporary files mean nothing after a power cut
        existed = Path(path).exists()
        file = _JournalFile(name, flags, Path(path).name, self.journal)
        if not existed:
            self.journal.note(Path(path).name, "create")
        return file

    def xDelete(self, path: str, sync_folder: bool) -> None:  # noqa: N802
        super().xDelete(path, sync_folder)
        self.journal.note(Path(path).name, "delete")


class _JournalFile(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], short: str, journal: Journal) -> None:
        super().__init__("", name, flags)
        self._short = short
        self._journal = journal

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._journal.note(self._short, "write", offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        self._journal.note(self._short, "truncate", size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._journal.note(self._short, "sync")


class _Connection:
    """apsw's connection with the few methods of sqlite3's that the store uses. Rows are fetched at once."""

    def __init__(self, path: Path, vfs: str) -> None:
        self._connection = apsw.Connection(str(path), vfs=vfs)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> _Rows:
        return _Rows(list(self._connection.execute(sql, tuple(parameters))))

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(sql, rows)

    def close(self) -> None:
        self._connection.close()


class _Rows:
    def __init__(self, rows: list[Any]) -> None:
        self._rows = iter(rows)

    def fetchone(self) -> Any:
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def close(self) -> None:
        """Everything was read already."""


class Recorder:
    """Journals one log: its database through :meth:`connect`, its mark through :meth:`open_mark_file`."""

    def __init__(self) -> None:
        self.journal = Journal()
        self._name = f"journal-{id(self)}"
        self._vfs = _JournalVFS(self._name, self.journal)

    def connect(self, path: Path) -> _Connection:
        return _Connection(path, self._name)

    def open_mark_file(self, path: Path) -> DurableFile:
        return _RecordedFile(path, self.journal)

    def close(self) -> None:
        self._vfs.unregister()


class _RecordedFile(DurableFile):
    def __init__(self, path: Path, journal: Journal) -> None:
        super().__init__(path)
        self._name = path.name
        self._journal = journal

    def write_at(self, offset: int, data: bytes) -> None:
        super().write_at(offset, data)
        self._journal.note(self._name, "write", offset, data)

    def sync(self) -> None:
        super().sync()
        self._journal.note(self._name, "sync")


# -- the disk, rebuilt ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Disk:
    """What is surely there (*durable*) and what was written since and may be gone (*unsynced*), for each file."""

    durable: dict[str, bytearray]
    unsynced: dict[str, list[Operation]] = field(default_factory=dict)

    def apply(self, operation: Operation) -> None:
        name = operation.name
        match operation.kind:
            case "create":
                self.durable[name] = bytearray()
                self.unsynced[name] = []
            case "delete":
                self.durable.pop(name, None)
                self.unsynced.pop(name, None)
            case "write" | "truncate":
                self.unsynced.setdefault(name, []).append(operation)
            case "sync":
                for kept in self.unsynced.pop(name, []):
                    _carry_out(self.durable[name], kept)

    def after_power_loss(self, survivors: Survivors) -> dict[str, bytes]:
        """The files, with those unsynced operations that *survivors* lets through."""
        files = {name: bytearray(content) for name, content in self.durable.items()}
        for name, operations in self.unsynced.items():
            for operation in survivors(name, operations):
                _carry_out(files[name], operation)
        return {name: bytes(content) for name, content in files.items()}


Survivors = Callable[[str, list[Operation]], list[Operation]]
Model = Callable[[int], Survivors]
"""By the number of the moment, which is the seed of its chance."""
Check = Callable[[dict[str, bytes], list[object], str], None]
"""A start on the files that are left, held against what had been acknowledged; the last is a name for the moment."""


def strict(_name: str, _operations: list[Operation]) -> list[Operation]:
    """Nothing that was not synced is there."""
    return []


def reordering(seed: int) -> Survivors:
    """Any part of it is there, whatever the order it was written in."""
    chance = random.Random(seed)
    return lambda _name, operations: [one for one in operations if chance.random() < 0.5]


def torn(seed: int) -> Survivors:
    """The beginning of it is there, and the last write of that only in part."""
    chance = random.Random(seed)

    def survivors(_name: str, operations: list[Operation]) -> list[Operation]:
        kept = operations[: chance.randrange(len(operations) + 1)]
        if kept and kept[-1].kind == "write":
            last = kept[-1]
            part = last.data[: chance.randrange(len(last.data))]
            kept = [*kept[:-1], Operation(last.name, "write", last.offset, part)]
        return kept

    return survivors


every_model = pytest.mark.parametrize(
    "model", [lambda _: strict, reordering, torn], ids=["strict", "reordering", "torn"]
)


def rebuild_all(base: dict[str, bytes], journal: Journal, model: Model, check: Check) -> int:
    """Every moment there is; how many."""
    points = 0
    for disk, acknowledged in moments(base, journal):
        check(disk.after_power_loss(model(points)), acknowledged, f"{points}")
        points += 1
    return points


def moments(base: dict[str, bytes], journal: Journal) -> Iterator[tuple[Disk, list[object]]]:
    """The disk just before each sync and at the end, with everything acknowledged up to that moment.

    Between two syncs nothing becomes durable, so the moment just before the later one is the hardest in between: it
    has the most acknowledgements to answer for.
    """
    disk = Disk({name: bytearray(content) for name, content in base.items()})
    acknowledged: list[object] = []
    for operation in journal.operations:
        if operation.kind == "sync":
            yield disk, acknowledged
        if operation.kind == "acknowledge":
            acknowledged.append(operation.acknowledged)
        else:
            disk.apply(operation)
    yield disk, acknowledged


def _carry_out(content: bytearray, operation: Operation) -> None:
    if operation.kind == "truncate":
        del content[operation.offset :]
        return
    end = operation.offset + len(operation.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[operation.offset : end] = operation.data


# -- a cosigner, of any kind -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class CosignerRun:
    """What a witness or a mirror did to its databases and its mark, which lies outside its folder."""

    folder: WitnessFolder
    base: dict[str, bytes]
    journal: Journal

    @property
    def mark(self) -> str:
        return WitnessConfig.read(self.folder.config).watermark.name

    def put_back(self, files: dict[str, bytes], place: Path) -> Path:
        """A copy of the folder with these files, its mark beside it."""
        again = place / "cosigner"
        shutil.copytree(self.folder.path, again, ignore=shutil.ignore_patterns("*.sqlite*", "lock"))
        for name, content in files.items():
            (place / name if name == self.mark else again / name).write_bytes(content)
        return again
