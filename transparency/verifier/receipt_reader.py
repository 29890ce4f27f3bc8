"""Receipts read fast under a header that was read before.

All receipts under one tree head share their protected bytes (AMB-5), so in bulk the header is decoded once, and what
is left of a receipt has one plain shape: one inclusion proof of 32-byte hashes, a nil, a signature. Whatever is not
exactly that shape goes to ``Receipt.from_bytes``, which decides; so the two can only ever agree (and a property test
holds them to it).

Of a header only what it says is remembered, never the receipt it came in: that may carry megabytes that nobody signed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.statements.receipt import MAX_PATH, MAX_SIZE, InclusionProof, Receipt
from transparency.verifier.climb import STEP, split

# A header of at most 255 bytes has at most some 250 items: all of them together stay below 32 MiB, in use below one.
MAX_HEADERS: Final = 1024
# {396: {-1: [ bstr ]}} up to the bstr.
VDP: Final = b"\xa1\x19\x01\x8c\xa1\x20\x81"
HASH_HEADS: Final = tuple(b"\x58" * count for count in range(MAX_PATH + 1))
HASH_SIZES: Final = tuple(b"\x20" * count for count in range(MAX_PATH + 1))
_WIDTHS: Final = {0x18: 1, 0x19: 2, 0x1A: 4, 0x1B: 8}
_LEAST: Final = {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}


class Plain(NamedTuple):
    """A receipt of the plain shape: what its header says (``head``), its one proof, its signature."""

    head: Receipt
    size: int
    leaf_index: int
    path: bytes
    """Hashes of 32 bytes, each after its head: see ``climb``."""
    proof: bytes
    signature: bytes

    def receipt(self) -> Receipt:
        """The same as ``Receipt.from_bytes`` makes it."""
        message = Sign1(
            self.head.message.protected,
            self.head.message.headers,
            {labels.VDP: {labels.VDP_INCLUSION: [self.proof]}},
            None,
            self.signature,
        )
        proof = InclusionProof(self.size, self.leaf_index, split(self.path))
        return replace(self.head, message=message, inclusion=(proof,), consistency=())


class ReceiptReader:
    """``Receipt.from_bytes`` with a bounded memory of protected headers."""

    def __init__(self, most: int = MAX_HEADERS) -> None:
        self._most = most
        self._known: dict[bytes, Receipt] = {}

    def read(self, data: bytes) -> Receipt:
        """The receipt, exactly as ``Receipt.from_bytes`` reads it, or its error."""
        plain = self.plain(data)
        return plain.receipt() if isinstance(plain, Plain) else plain

    def plain(self, data: bytes) -> Plain | Receipt:
        """The same, as it is where its header is known and its shape plain."""
        # d2 84 58 nn: the header of every receipt with a kid and claims has 24 to 255 bytes.
        start = data[: 4 + data[3]] if len(data) > 4 and data[2] == 0x58 else b""
        known = self._known.get(start)
        if known is not None:
            plain = _read_under(known, data, len(start))
            if plain is not None:
                return plain
        receipt = Receipt.from_bytes(data)
        if known is None and start:
            if len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            bare = Sign1(receipt.message.protected, receipt.message.headers, {}, None, b"")
            known = self._known[start] = replace(receipt, message=bare, inclusion=(), consistency=())
            return _read_under(known, data, len(start)) or receipt
        return receipt


def _read_under(known: Receipt, data: bytes, pos: int) -> Plain | None:
    """The receipt whose protected header is ``known``'s; None for any other shape than the plain one."""
    if data[pos : pos + 7] != VDP:
        return None
    length, start = read_head(data, pos + 7, 0x40)
    end = start + length
    # 83, two numbers, an array of hashes.
    if data[start : start + 1] != b"\x83":
        return None
    size, pos = read_head(data, start + 1, 0x00)
    index, pos = read_head(data, pos, 0x00)
    count, pos = read_head(data, pos, 0x80)
    if not 0 <= index < size <= MAX_SIZE or not 0 <= count <= MAX_PATH or pos + STEP * count != end:
        return None
    path = data[pos:end]
    if len(path) != STEP * count or path[::STEP] != HASH_HEADS[count] or path[1::STEP] != HASH_SIZES[count]:
        return None
    length, pos = read_head(data, end + 1, 0x40)
    if data[end : end + 1] != b"\xf6" or length < 0 or pos + length != len(data):
        return None
    return Plain(known, size, index, path, data[start:end], data[pos:])


def read_head(data: bytes, pos: int, major: int) -> tuple[int, int]:
    """The argument of a head of this major type in its shortest form and where it ends; (-1, pos) for others."""
    first = data[pos] - major if pos < len(data) else -1
    if 0 <= first < 24:
        return first, pos + 1
    width = _WIDTHS.get(first)
    if width is None:
        return -1, pos
    end = pos + 1 + width
    value = int.from_bytes(data[pos + 1 : end], "big")
    return (value, end) if end <= len(data) and value >= _LEAST[width] else (-1, pos)
