"""Receipts read fast under a header that was read before.

All receipts under one tree head share their protected bytes (AMB-5), so in bulk the header is decoded once, and what
is left of a receipt has one plain shape: one inclusion proof of 32-byte hashes, a nil, a signature. Whatever is not
exactly that shape goes to ``Receipt.from_bytes``, which decides; so the two can only ever agree (and a property test
holds them to it).
"""

from __future__ import annotations

from typing import Final

from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.statements.receipt import MAX_PATH, MAX_SIZE, InclusionProof, Receipt

MAX_HEADERS: Final = 4096
# {396: {-1: [ bstr ]}} up to the bstr.
_VDP: Final = b"\xa1\x19\x01\x8c\xa1\x20\x81"
_HASH: Final = b"\x58\x20"
_STEP: Final = 34
_WIDTHS: Final = {0x18: 1, 0x19: 2, 0x1A: 4, 0x1B: 8}
_LEAST: Final = {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}


class ReceiptReader:
    """``Receipt.from_bytes`` with a bounded memory of protected headers."""

    def __init__(self, most: int = MAX_HEADERS) -> None:
        self._most = most
        self._known: dict[bytes, Receipt] = {}

    def read(self, data: bytes) -> Receipt:
        """The receipt, exactly as ``Receipt.from_bytes`` reads it, or its error."""
        # d2 84 58 nn: the header of every receipt with a kid and claims has 24 to 255 bytes.
        start = data[: 4 + data[3]] if len(data) > 4 and data[2] == 0x58 else b""
        known = self._known.get(start)
        if known is not None:
            receipt = _read_under(known, data, len(start))
            if receipt is not None:
                return receipt
        receipt = Receipt.from_bytes(data)
        if known is None and start:
            if len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            self._known[start] = receipt
        return receipt


def _read_under(known: Receipt, data: bytes, pos: int) -> Receipt | None:
    """The receipt whose protected header is ``known``'s; None for any other shape than the plain one."""
    if data[pos : pos + 7] != _VDP:
        return None
    length, start = _head(data, pos + 7, 0x40)
    end = start + length
    proof = _read_proof(data, start, end)
    if proof is None or data[end : end + 1] != b"\xf6":
        return None
    length, pos = _head(data, end + 1, 0x40)
    if length < 0 or pos + length != len(data):
        return None
    message = Sign1(
        known.message.protected,
        known.message.headers,
        {labels.VDP: {labels.VDP_INCLUSION: [data[start:end]]}},
        None,
        data[pos:],
    )
    return Receipt(message, known.alg, known.kid, known.iss, known.sub, known.iat, known.tree_size, (proof,), ())


def _read_proof(data: bytes, pos: int, end: int) -> InclusionProof | None:
    if data[pos : pos + 1] != b"\x83":
        return None
    size, pos = _head(data, pos + 1, 0x00)
    index, pos = _head(data, pos, 0x00)
    count, pos = _head(data, pos, 0x80)
    if not 0 <= index < size <= MAX_SIZE or not 0 <= count <= MAX_PATH or pos + _STEP * count != end:
        return None
    path = data[pos:end]
    if len(path) != end - pos:
        return None
    starts = range(0, len(path), _STEP)
    for at in starts:
        if path[at : at + 2] != _HASH:
            return None
    return InclusionProof(size, index, tuple([path[at + 2 : at + _STEP] for at in starts]))


def _head(data: bytes, pos: int, major: int) -> tuple[int, int]:
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
