"""The bytes a cosigner signs, and how time and signature stand in its line (C2SP tlog-cosignature, CS-1, CS-2)."""

from __future__ import annotations

from typing import Final

from transparency.errors import NoteError
from transparency.merkle.hashing import HASH_SIZE
from transparency.notes.numbers import is_number

SUBTREE_LABEL: Final = b"subtree/v1\n\0"
_TIME_SIZE: Final = 8
_LONGEST: Final = 255


def cosignature_v1_message(text: bytes, time: int) -> bytes:
    """What an Ed25519 cosignature (0x04) signs: the whole text of the checkpoint, under a header and the time."""
    _check_number(time, "time")
    return b"cosignature/v1\ntime %d\n%b" % (time, text)


def subtree_message(cosigner: str, time: int, origin: str, start: int, end: int, root: bytes) -> bytes:
    """The ``cosigned_message`` that an ML-DSA-44 cosignature (0x06) signs; of a checkpoint ``start`` is 0.

    "If `start` is not zero, `timestamp` MUST be zero."
    """
    for number, what in ((time, "time"), (start, "start"), (end, "end")):
        _check_number(number, what)
    if start > end:
        raise NoteError("cosigned message: its start is after its end")
    if start and time:
        raise NoteError("cosigned message: of a subtree that does not start at 0 the time is 0")
    if type(root) is not bytes or len(root) != HASH_SIZE:
        raise NoteError(f"cosigned message: not a hash of {HASH_SIZE} bytes")
    return b"".join((
        SUBTREE_LABEL,
        _opaque(cosigner, "cosigner name"),
        time.to_bytes(8, "big"),
        _opaque(origin, "origin"),
        start.to_bytes(8, "big"),
        end.to_bytes(8, "big"),
        root,
    ))  # fmt: skip


def join_time(time: int, signature: bytes) -> bytes:
    """The ``timestamped_signature`` that stands in the line."""
    _check_number(time, "time")
    return time.to_bytes(_TIME_SIZE, "big") + signature


def split_time(blob: bytes) -> tuple[int, bytes]:
    """Time and signature of a ``timestamped_signature``.

    The time "MUST NOT exceed 2^63 - 1": no message with a later one can be built.
    """
    if len(blob) <= _TIME_SIZE:
        raise NoteError("cosignature: too short for a time and a signature")
    return int.from_bytes(blob[:_TIME_SIZE], "big"), blob[_TIME_SIZE:]


def _opaque(text: str, what: str) -> bytes:
    """``opaque <1..2^8-1>`` (RFC 8446 §3.4)."""
    data = text.encode()
    if not 1 <= len(data) <= _LONGEST:
        raise NoteError(f"cosigned message: its {what} has {len(data)} bytes, not 1 to {_LONGEST}")
    return bytes([len(data)]) + data


def _check_number(value: object, what: str) -> None:
    if not is_number(value):
        raise NoteError(f"cosigned message: its {what} is not a number from 0 to 2^63-1")
