"""The leaves of every C2SP text: decimals, base64, hashes, names, lines. Each has one spelling, and only that is read.

Python is more lenient at each of them: ``int`` takes spaces, signs, underscores and every script's digits,
``splitlines`` splits at U+2028.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from transparency.cose import base64std
from transparency.errors import MalformedError, NoteError
from transparency.merkle.hashing import HASH_SIZE, MAX_SIZE

MAX_BYTES: Final = 1 << 20
"""The longest note, and the longest file or request around one."""

MAX_PATH: Final = 63
"""The longest proof: a tree has up to 2^63-1 leaves (tlog-witness: not more than 63 consistency proof lines)."""

# [0-9], not \d. Nineteen digits hold 2^63-1.
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_CONTROL: Final = re.compile(rb"[\x00-\x09\x0b-\x1f]")


def read_decimal(text: str, what: str) -> int:
    """An ASCII decimal without leading zeros, from 0 to 2^63-1."""
    if not _DECIMAL.fullmatch(text):
        raise NoteError(f"{what}: not a decimal number without leading zeros, up to 2^63-1")
    number = int(text)
    if number > MAX_SIZE:
        raise NoteError(f"{what}: more than 2^63-1")
    return number


def read_base64(text: str, what: str) -> bytes:
    """The bytes of standard base64 in its one spelling (RFC 4648 §4)."""
    try:
        return base64std.decode(text)
    except MalformedError as error:
        raise NoteError(f"{what}: {error}") from None


def write_base64(data: bytes) -> str:
    return base64std.encode(data)


def read_hash(text: str, what: str) -> bytes:
    """The base64 of a SHA-256 hash."""
    data = read_base64(text, what)
    if len(data) != HASH_SIZE:
        raise NoteError(f"{what}: {len(data)} bytes, not a hash of {HASH_SIZE}")
    return data


def read_path(lines: Sequence[str], what: str) -> tuple[bytes, ...]:
    """The hashes of a proof, one a line."""
    if len(lines) > MAX_PATH:
        raise NoteError(f"{what}: {len(lines)} hashes, more than {MAX_PATH}")
    return tuple(read_hash(line, what) for line in lines)


def read_lines(data: bytes, what: str) -> list[str]:
    """The lines of a text in UTF-8 without control characters, each ended by a newline, also the last."""
    check_text(data, what)
    return data.decode().split("\n")[:-1]


def check_text(data: bytes, what: str) -> None:
    """Refuse what the text of a note cannot be (signed-note, "Format")."""
    if len(data) > MAX_BYTES:
        raise NoteError(f"{what}: {len(data)} bytes, more than {MAX_BYTES}")
    if not data.endswith(b"\n"):
        raise NoteError(f"{what}: does not end in a newline")
    if _CONTROL.search(data):
        raise NoteError(f"{what}: has a control character other than newline")
    try:
        data.decode()
    except UnicodeDecodeError:
        raise NoteError(f"{what}: not valid UTF-8") from None


def check_name(name: str) -> None:
    """Refuse what is not the name of a key: empty, or with a space of any script, a plus or a control character."""
    if not name:
        raise NoteError("key name: empty")
    # `isspace` is true of every character with Unicode's White_Space.
    if any(character.isspace() or character == "+" or character < " " for character in name):
        raise NoteError("key name: has a space, a plus or a control character")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise NoteError("key name: has no UTF-8 form") from None


def is_number(value: object) -> bool:
    """Whether ``value`` is what ``read_decimal`` gives. `type is int`: True would otherwise be 1."""
    return type(value) is int and 0 <= value <= MAX_SIZE
