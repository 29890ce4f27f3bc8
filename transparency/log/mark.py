"""The high-water mark: the newest (size, root) this log ever released, kept outside the data folder.

A restored old folder does not bring the mark back with it, so start-up sees that the state is behind (design.md §4).
The file has two slots in different sectors, written in turn and synced: a write cut short by power loss spoils one
slot and leaves the other, which holds the mark before it. One ``fdatasync`` a batch. Behind the slots a log has its
journal (journal.py), in which the mark goes on with each batch that is kept there.

    slot = "TLMARK01" · SHA-256(origin) · size (u64) · root (32) · SHA-256 of all before

"TLMARK02" in its place says that the journal is in use: one that is then cut short or empty is not taken for none.

A mark that moves to another place is closed where it was, for good: whoever still names it is refused. Both slots then
say where it went, and whether it has arrived (mark_moving.py):

    slot = "TLMOVED1" · SHA-256(origin) · size (u64) · root (32) · arrived (u8) · length (u16) · where, in UTF-8
           · SHA-256 of all before
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transparency.errors import LogUnusableError, RunningElsewhereError, StoreError, TransparencyError
from transparency.log.durable import DurableFile, create_durably
from transparency.log.journal import Journal, Kept

_MAGIC = b"TLMARK01"
# As the other, and the journal behind the slots is in use.
_WITH_JOURNAL = b"TLMARK02"
_MOVED = b"TLMOVED1"
_BODY = struct.Struct(">8s32sQ32s")
_TAIL = struct.Struct(">BH")
_HASH_BYTES = 32
_SLOT_BYTES = _BODY.size + _HASH_BYTES
_OFFSETS = (0, 4096)
_LONGEST_PLACE = 2000
_logger = logging.getLogger("transparency.log")


@dataclass(frozen=True, slots=True)
class MarkValue:
    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Moved:
    """A mark that is closed here: it went *to* another place, with this *value*; or is on its way and not *arrived*."""

    value: MarkValue
    to: str
    arrived: bool


class Mark:
    """Owned by the sequencer's thread. ``write`` returns only when the value survives power loss."""

    def __init__(self, path: Path, origin: str, file: DurableFile, bound_for: str | None) -> None:
        self.path = path
        self._origin = origin
        self._file = file
        self._bound_for = bound_for
        self._slots: list[MarkValue | Moved | None] = []
        self._journal = Journal(file, origin)
        # Why nothing is kept here though there is room, as it was said last.
        self._trouble = ""
        self._read()

    @classmethod
    def create(cls, path: Path, origin: str, value: MarkValue) -> Mark:
        slot = _encode(origin, value)
        # Both slots start alike, so a first write cut short leaves a whole one.
        create_durably(path, slot.ljust(_OFFSETS[1], b"\0") + slot)
        return cls.open(path, origin)

    @classmethod
    def open(
        cls,
        path: Path,
        origin: str,
        open_file: Callable[[Path], DurableFile] = DurableFile,
        *,
        bound_for: str | None = None,
    ) -> Mark:
        """One that has moved is refused, except for who takes it to where it is *bound for*."""
        try:
            file = open_file(path)
        except OSError as error:
            raise LogUnusableError(f"the high-water mark {path} cannot be opened: {error.strerror}") from error
        try:
            return cls(path, origin, file, bound_for)
        except BaseException:
            file.close()
            raise

    def _read(self) -> None:
        data = [self._file.read_at(offset, _OFFSETS[1]) for offset in _OFFSETS]
        self._slots = [_decode(slot, self._origin, self.path) for slot in data]
        if self._slots == [None, None]:
            raise LogUnusableError(
                f"the high-water mark {self.path} is damaged in both its slots; restore it from a backup"
            )
        newest, moved = self._in_slots(), self.moved
        named = [
            slot.startswith(_WITH_JOURNAL) for slot, value in zip(data, self._slots, strict=True) if value == newest
        ]
        damage = self._journal.read(newest.size, expected=any(named))
        if moved is not None and moved.to != self._bound_for:
            raise moved_away(str(self.path), moved)
        if damage and moved is None:
            raise LogUnusableError(
                f"the journal in the high-water mark {self.path} is damaged: {damage}. It may have held entries that "
                "are nowhere else: put a copy of the file back that is whole, and as new"
            )

    @property
    def moved(self) -> Moved | None:
        """Where it went, if it is closed. One slot that says so is enough: the other may have been cut short."""
        return max(
            (slot for slot in self._slots if isinstance(slot, Moved)), key=lambda slot: slot.arrived, default=None
        )

    @property
    def value(self) -> MarkValue:
        if self._journal.last is None or self.moved is not None:
            return self._in_slots()
        return MarkValue(*self._journal.last)

    def _in_slots(self) -> MarkValue:
        if (moved := self.moved) is not None:
            return moved.value
        return max((slot for slot in self._slots if isinstance(slot, MarkValue)), key=lambda slot: slot.size)

    @property
    def kept(self) -> Sequence[Kept]:
        """Batches that the journal held when it was read: the store may have lost them."""
        return self._journal.kept

    def own(self) -> None:
        """Hold the mark as a folder is held.

        A copy of the folder beside a running log passes every check against the mark they share; only this keeps the
        two from writing two histories.
        """
        if not self._file.lock():
            raise RunningElsewhereError(
                f"the high-water mark {self.path} is held by another process: this log is running from another folder"
            )
        self._read()  # who held it until a moment ago may have gone on, or moved it

    def write(self, value: MarkValue) -> None:
        """All up to *value* is in the store for good: the journal begins anew."""
        sizes = [slot.size if isinstance(slot, MarkValue) else -1 for slot in self._slots]
        self._put(sizes.index(min(sizes)), value)
        self._journal.begin_anew()
        try:
            self._journal.mend()
        except OSError as error:
            raise self._unwritable(error) from error

    @property
    def is_in_place(self) -> bool:
        """Whether the next start will find what is written here. For any thread."""
        return self._file.is_at(self.path)

    @property
    def keeps(self) -> bool:
        """Whether the journal holds a batch that the store may lose."""
        return self._journal.last is not None

    def finish(self, value: MarkValue) -> None:
        """As :meth:`write`, by who goes: the journal is not in use any more."""
        if self._journal.used:
            self._journal.put_away()
            self.write(value)

    def make_journal(self) -> None:
        """Have a journal, if it can be had: without, every batch is synced in the store and here."""
        try:
            if not self._file.private:
                self.forget()  # what it kept is in the store for good by now
                raise PermissionError(errno.EPERM, "others may read it, and it would hold statements; chmod it to 600")
            self._journal.make()
        except OSError as error:
            _logger.warning("%s has no journal, and a registration takes two flushes: %s", self.path, error.strerror)
        else:
            self.write(self.value)  # from now on it says so

    def can_keep(self, length: int) -> bool:
        """Whether the journal has room for a batch of this length, and is where a start finds it, and nobody else.

        Asked for each batch: what is kept in a file that was deleted is lost with the process.
        """
        if not self._journal.has_room(length):
            return False
        trouble = "" if self.is_in_place else "is not the file any more that this log writes: put that one back"
        if not trouble and not self._file.private:
            trouble = "may be read by others: chmod it to 600"
        if not trouble and not self._journal.is_whole:
            trouble = "was cut short by somebody: it is filled again with the next commit"
        if trouble and trouble != self._trouble:
            _logger.error(
                "%s %s. Until then nothing is kept in it, and a registration takes two flushes", self.path, trouble
            )
        self._trouble = trouble
        return not trouble

    def keep(self, batch: Kept) -> None:
        """As :meth:`write`, but that the store may still lose this batch."""
        try:
            self._journal.append(batch)
        except OSError as error:
            raise self._unwritable(error) from error

    def forget(self) -> None:
        """Nothing of what was kept can be read here any more. All of it must be in the store for good."""
        try:
            self._journal.wipe()
        except OSError as error:
            raise self._unwritable(error) from error

    def leave(self, to: str, *, arrived: bool) -> None:
        """Close it here, durably, for one in the place *to*. The slot with the older value is written first.

        Once it has *arrived* nothing that was kept is left here: all of it is in the store for good.
        """
        moved = Moved(self.value, named(to), arrived)
        older = self._slots.index(self.value) ^ 1 if self.value in self._slots else 0
        for place in (older, older ^ 1):
            self._put(place, moved)
        if arrived:
            self.forget()

    def _put(self, place: int, slot: MarkValue | Moved) -> None:
        try:
            self._file.write_at(_OFFSETS[place], _encode(self._origin, slot, journal=self._journal.used))
            self._file.sync()
        except OSError as error:
            raise self._unwritable(error) from error
        self._slots[place] = slot

    def _unwritable(self, error: OSError) -> StoreError:
        error.filename = str(self.path)  # a descriptor has no name
        return StoreError(f"the high-water mark {self.path} could not be written: {error.strerror}")

    def close(self) -> None:
        self._file.close()


def default_path(data: Path, origin: str) -> Path:
    """Beside the data folder, never in it; the origin's hash in its name, so that a new log gets a new mark."""
    data = Path(os.path.abspath(data))  # noqa: PTH100 - resolve() would follow a link, and the mark with it
    return data.with_name(f"{data.name}.{hashlib.sha256(origin.encode()).hexdigest()[:8]}.mark")


Bearer = Literal["this log", "another log", "nobody"]


def bearer_of(path: Path, origin: str) -> Bearer:
    """Whose mark the file *path* is, if it is one at all."""
    with path.open("rb") as file:
        data = file.read(2 * _OFFSETS[1])
    try:
        slots = [_decode(data[offset : offset + _OFFSETS[1]], origin, path) for offset in _OFFSETS]
    except LogUnusableError:
        return "another log"
    return "this log" if any(slots) else "nobody"


def marks_beside(data: Path) -> list[Path]:
    """Files with the name that the mark of a log in *data* has by default."""
    data = Path(os.path.abspath(data))  # noqa: PTH100 - as above
    named = re.compile(re.escape(data.name) + r"\.[0-9a-f]{8}\.mark")
    return sorted(path for path in data.parent.iterdir() if named.fullmatch(path.name)) if data.parent.is_dir() else []


def check_outside(mark: Path, data: Path) -> None:
    """Refuse a mark inside the folder it protects, by whatever name: it would be rolled back with it."""
    places = (mark.parent.resolve(), Path(os.path.realpath(mark)))  # the file's, and that of what it may link to
    if any(place.is_relative_to(data.resolve()) for place in places):
        raise LogUnusableError(f"the watermark {mark} must lie outside the data folder, or it protects nothing")


Check = Callable[[MarkValue], None]
"""Refuses a value that the tree is behind of, or has another root at."""


def is_left(old: Path, origin: str, new: Path) -> bool:
    """Whether a mark of this log is in the file *old*, which is another than *new*."""
    return old.exists() and not old.samefile(new) and bearer_of(old, origin) == "this log"


def retire(old: Path, origin: str, new: Path, check: Check, *, vouched: bool = False) -> None:
    """Close the mark *old*, if it is left there: the log goes on with *new*, which it owns and was compared with.

    Else a copy of the folder that names *old* could go on from it.
    """
    if not is_left(old, origin, new):
        return
    try:
        mark = Mark.open(old, origin, bound_for=named(str(new)))
    except LogUnusableError as error:
        do_without(error, vouched=vouched)
        return
    with contextlib.closing(mark):
        if mark.moved is None:
            mark.own()
            check(mark.value)
            mark.leave(str(new), arrived=True)


def do_without(error: TransparencyError, *, vouched: bool) -> None:
    """An old mark that cannot be closed: refused, unless the operator *vouched* for the tree."""
    if not vouched:
        raise error
    _logger.warning("going on by the operator's word, although %s", error)


def named(to: str) -> str:
    """A place as a mark that went there keeps it."""
    return to.encode()[:_LONGEST_PLACE].decode(errors="ignore")


def moved_away(place: str, moved: Moved) -> LogUnusableError:
    if not moved.arrived:
        return LogUnusableError(
            f"the high-water mark of this log was being moved from {place} to {moved.to}, and that was cut short at "
            f"size {moved.value.size}. Finish it: start the log that was being moved with --watermark {moved.to}"
        )
    return LogUnusableError(
        f"the high-water mark of this log has moved from {place} to {moved.to}: the log goes on where that is used. "
        f"If it is this one, start it with --watermark {moved.to}; if this is another copy, put it out of reach"
    )


def _encode(origin: str, slot: MarkValue | Moved, *, journal: bool = False) -> bytes:
    plain = _WITH_JOURNAL if journal else _MAGIC
    magic, value = (_MOVED, slot.value) if isinstance(slot, Moved) else (plain, slot)
    body = _BODY.pack(magic, hashlib.sha256(origin.encode()).digest(), value.size, value.root)
    if isinstance(slot, Moved):
        to = slot.to.encode()
        body += _TAIL.pack(slot.arrived, len(to)) + to
    return body + hashlib.sha256(body).digest()


def _decode(slot: bytes, origin: str, path: Path) -> MarkValue | Moved | None:
    """A slot, which begins *slot*; None if it is not whole."""
    if len(slot) < _SLOT_BYTES:
        return None
    magic, origin_hash, size, root = _BODY.unpack(slot[: _BODY.size])
    if magic not in (_MAGIC, _WITH_JOURNAL, _MOVED):
        return None
    end = _BODY.size
    if magic == _MOVED:
        arrived, length = _TAIL.unpack_from(slot, end)
        end += _TAIL.size + length
    if hashlib.sha256(slot[:end]).digest() != slot[end : end + _HASH_BYTES]:
        return None
    if origin_hash != hashlib.sha256(origin.encode()).digest():
        raise LogUnusableError(f"the high-water mark {path} belongs to another log; name this log's with --watermark")
    value = MarkValue(size, root)
    if magic != _MOVED:
        return value
    return Moved(value, slot[_BODY.size + _TAIL.size : end].decode(errors="replace"), bool(arrived))
