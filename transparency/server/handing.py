"""What workers and the owner of the log say to each other (server/frames.py).

A worker reads and judges statements and hands them over with their judgement; the owner, who alone sequences, answers
with receipts. The owner tells every worker what is in force. Answers name the number that the worker gave.

Statements and receipts go in columns (:class:`Sheaf`, :class:`Receipts`): what many share is said once, the rest stands
side by side in one string for each column. A value for each would take longer to write and to read than all else that
the owner does with a statement.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import accumulate, pairwise, repeat
from typing import Any, NamedTuple

from transparency.log.store import Kind as EntryKind
from transparency.log.store import NewEntry
from transparency.policy.judge import Judgement
from transparency.statements.statement import ENTRY_BYTES, Statement


class Kind(IntEnum):
    # From the owner.
    IN_FORCE = 1  # [policy document, key set document, time of the newest head]
    ANSWERS = 2  # [answer, …]
    STOP = 3  # nil: answer what is under way, then end
    RECEIPTS = 4  # a Receipts: for each number that it is registered
    # From a worker.
    READY = 16  # nil: it accepts connections
    HANDED = 17  # [Sheaf, …]
    ASKED = 18  # [[number, entry], …]: is this entry registered, though it would be refused now?
    COUNTED = 19  # what it has answered since it last said so (server/metrics.py), and for whom it refused
    NO_MORE = 20  # nil: who is patient has nobody left to wait for


class Alike(NamedTuple):
    """What the statements of a sheaf have in common."""

    generation: int
    collateral: bytes
    unique: bool
    # They wait for their receipts, however slow the log is: they are never answered 202.
    patient: bool
    # Who sent them, and that client's own rate, where requests are limited.
    client: str | None
    rate: int | None


class Sheaf(NamedTuple):
    """Statements on their way to the sequencer, judged alike. Their judgement holds while each of theirs does."""

    generation: int
    collateral: bytes
    unique: bool
    patient: bool
    client: str | None
    rate: int | None
    not_before: int
    not_after: int
    numbers: bytes
    entries: bytes
    tbs_digests: bytes
    lengths: bytes
    statements: bytes

    @classmethod
    def of(cls, alike: Alike, judgements: Iterable[Judgement], rows: Sequence[tuple[int, Statement, bytes]]) -> Sheaf:
        """*rows* are numbers, statements and digests of what they sign."""
        bounds = [(each.not_before, each.not_after) for each in judgements]
        whole = [statement.normalised for _, statement, _ in rows]
        return cls(
            *alike,
            max(low for low, _ in bounds),
            min(high for _, high in bounds),
            _packed("Q", [number for number, _, _ in rows]),
            b"".join([statement.entry for _, statement, _ in rows]),
            b"".join([digest for _, _, digest in rows]),
            _packed("I", [len(each) for each in whole]),
            b"".join(whole),
        )

    @property
    def judgement(self) -> Judgement:
        return Judgement(self.generation, self.not_before, self.not_after, self.collateral, self.unique)

    def numbered(self) -> tuple[Sequence[int], list[NewEntry]]:
        """The numbers, and what the statement of each is to become."""
        columns = zip(
            _digests(self.entries),
            repeat(EntryKind.STATEMENT),
            repeat(self.generation),
            _digests(self.tbs_digests),
            _split(self.lengths, self.statements),
            repeat(self.collateral),
            strict=False,  # what is repeated has no end
        )
        numbers, rows = _unpacked("Q", self.numbers), list(map(NewEntry._make, columns))
        if len(numbers) != len(rows):
            raise ValueError("a sheaf has as many numbers as statements")
        return numbers, rows


class Receipts(NamedTuple):
    """That statements are registered, and new."""

    numbers: bytes
    lengths: bytes
    receipts: bytes

    @classmethod
    def of(cls, numbers: Sequence[int], receipts: Sequence[bytes]) -> Receipts:
        return cls(_packed("Q", numbers), _packed("I", [len(each) for each in receipts]), b"".join(receipts))

    def rows(self) -> Iterator[tuple[int, bytes]]:
        return zip(_unpacked("Q", self.numbers), _split(self.lengths, self.receipts), strict=True)


class Said(IntEnum):
    """How an answer begins, after its number; and what follows."""

    REGISTERED = 0  # receipt, whether the statement was erased since
    ACCEPTED = 1  # nothing
    STALE = 2  # the time to judge at: policy or time have moved on
    UNKNOWN = 3  # nothing: what was asked for is not registered
    PROBLEM = 4  # status, title, detail, headers, whether the connection should close


def _packed(form: str, numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{len(numbers)}{form}", *numbers)


def _unpacked(form: str, data: bytes) -> tuple[Any, ...]:
    return struct.unpack(f">{len(data) // struct.calcsize(form)}{form}", data)


def _digests(data: bytes) -> list[bytes]:
    return [data[at : at + ENTRY_BYTES] for at in range(0, len(data), ENTRY_BYTES)]


def _split(lengths: bytes, data: bytes) -> list[bytes]:
    ends = accumulate(_unpacked("I", lengths), initial=0)
    return [data[start:end] for start, end in pairwise(ends)]
