"""What the mark vouches for: the keys of a witness, each log's record, and what was forgotten, in one digest.

A *seal* is a record by its digest; size and time stand in it openly, so that of two seals it is known which is the
later one. The digest of all of them goes into the mark with each change. So a row that is taken away, put back or
changed in one bit is noticed at the next start, and by the table of seals it is known which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from transparency.errors import LogUnusableError, TransparencyError
from transparency.merkle.hashing import HASH_SIZE, MAX_SIZE
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.cosignature import verify_cosignatures
from transparency.notes.vkey import VerifierKey
from transparency.witness.record import Forgotten, Record

NOTHING_FORGOTTEN: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class Seal:
    """Of one record: ``rest`` is the digest of all but size and time."""

    size: int
    time: int
    rest: bytes

    def __post_init__(self) -> None:
        # Each part of what is hashed has one length, so that none is taken for another.
        if not 0 <= self.size <= MAX_SIZE or not 0 <= self.time <= MAX_SIZE or len(self.rest) != HASH_SIZE:
            raise LogUnusableError(f"the state is damaged{_WHAT_NOW}")

    @classmethod
    def of(cls, record: Record) -> Seal:
        parts = (record.root, record.signed, record.lines)
        return cls(record.size, record.time, hashlib.sha256(b"".join(map(_hashed, parts))).digest())

    def to_bytes(self) -> bytes:
        return self.size.to_bytes(8, "big") + self.time.to_bytes(8, "big") + self.rest

    def may_follow(self, before: Seal | None) -> bool:
        """Whether a witness goes from *before* to this one: never to fewer entries, or to an earlier time."""
        return before is None or (self.size >= before.size and self.time >= before.time)


def digest_of(sequence: int, vkeys: Iterable[str], seals: Mapping[str, Seal], forgotten: bytes) -> bytes:
    """Of the whole state after *sequence* changes."""
    whole = hashlib.sha256(b"the state of a witness" + _hashed(b"%d" % sequence) + forgotten)
    whole.update(_hashed(b"".join(_hashed(each.encode()) for each in sorted(vkeys))))
    for origin in sorted(seals):
        whole.update(_hashed(origin.encode()) + seals[origin].to_bytes())
    return whole.digest()


def forgetting(before: bytes, gone: Forgotten) -> bytes:
    """What was forgotten, with one more."""
    numbers = b"%d %d %d" % (gone.size, gone.time, gone.forgotten_at)
    parts = (before, gone.origin.encode(), numbers, gone.root, gone.note)
    return hashlib.sha256(b"".join(map(_hashed, parts))).digest()


def all_forgotten(rows: Iterable[Forgotten]) -> bytes:
    digest = NOTHING_FORGOTTEN
    for row in rows:
        digest = forgetting(digest, row)
    return digest


def check_records(records: Mapping[str, Record], seals: Mapping[str, Seal]) -> None:
    """That each record is the one that was sealed, and its note says what its row says; names the log where not."""
    for origin in sorted({*records, *seals}):
        record = records.get(origin)
        if record is None:
            raise LogUnusableError(f"the record of {origin} is gone, and no command took it away{_WHAT_NOW}")
        if seals.get(origin) != Seal.of(record):
            raise LogUnusableError(f"the record of {origin} was changed by somebody else{_WHAT_NOW}")
        try:
            said = SignedCheckpoint.from_bytes(record.note).checkpoint
        except TransparencyError as error:
            raise LogUnusableError(
                f"the checkpoint recorded for {origin} cannot be read: {error}{_WHAT_NOW}"
            ) from error
        if (said.origin, said.size, said.root) != (origin, record.size, record.root):
            raise LogUnusableError(f"the checkpoint recorded for {origin} is not of the tree in its row{_WHAT_NOW}")


def check_cosigned(origin: str, record: Record, vkeys: Iterable[str]) -> None:
    """That this witness itself signed what is recorded, with its time."""
    try:
        keys = [VerifierKey.parse(each) for each in vkeys]
        times = {each.time for each in verify_cosignatures(SignedCheckpoint.from_bytes(record.note), keys)}
    except TransparencyError as error:
        raise LogUnusableError(f"what is recorded for {origin} was not cosigned here: {error}{_WHAT_NOW}") from error
    if times != {record.time}:
        raise LogUnusableError(f"what is recorded for {origin} was not cosigned here{_WHAT_NOW}")


_WHAT_NOW: Final = (
    ": put the newest folder in its place; if it is lost, start anew with a new name, since what this one has "
    "cosigned is not known"
)


def _hashed(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
