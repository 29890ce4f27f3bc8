"""Entry bundles: the entries under one tile of level 0, each after its length (C2SP tlog-tiles, TL-5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from transparency.errors import NoteError
from transparency.merkle.tile_paths import WIDTH

MAX_ENTRY: Final = (1 << 16) - 1
_LENGTH: Final = 2


def write_bundle(entries: Sequence[bytes]) -> bytes:
    """Each entry after its length, a big-endian uint16."""
    if not 1 <= len(entries) <= WIDTH:
        raise NoteError(f"entry bundle: {len(entries)} entries, not 1 to {WIDTH}")
    if any(len(entry) > MAX_ENTRY for entry in entries):
        raise NoteError(f"entry bundle: an entry of more than {MAX_ENTRY} bytes")
    return b"".join(len(entry).to_bytes(_LENGTH, "big") + entry for entry in entries)


def read_bundle(data: bytes, width: int) -> list[bytes]:
    """Exactly ``width`` entries; what is accepted prints back the same."""
    entries: list[bytes] = []
    at = 0
    while at < len(data) and len(entries) < width:
        begin = at + _LENGTH
        at = begin + int.from_bytes(data[at:begin], "big")
        if at > len(data):
            raise NoteError("entry bundle: it ends within an entry")
        entries.append(data[begin:at])
    if at != len(data) or len(entries) != width:
        raise NoteError(f"entry bundle: not exactly {width} entries")
    return entries
