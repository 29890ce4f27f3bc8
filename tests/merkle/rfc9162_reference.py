"""MTH, PATH and PROOF as RFC 9162 §2.1 writes them, call for call: what the package is held against.

It shares nothing with `transparency.merkle`. The only liberty is a memory of ranges already hashed.
"""

from __future__ import annotations

import hashlib


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class ReferenceTree:
    """D[n] for every n up to the number of entries."""

    def __init__(self, entries: list[bytes]) -> None:
        self.entries = entries
        self._memory: dict[tuple[int, int], bytes] = {}

    def leaf(self, index: int) -> bytes:
        return self.mth(index, index + 1)

    def leaves(self, begin: int, end: int) -> list[bytes]:
        return [self.leaf(index) for index in range(begin, end)]

    def root(self, size: int) -> bytes:
        return self.mth(0, size)

    def path(self, index: int, size: int) -> list[bytes]:
        return self._path(index, 0, size)

    def proof(self, old: int, new: int) -> list[bytes]:
        return self._subproof(old, 0, new, whole=True)

    def tile(self, level: int, index: int, size: int) -> bytes:
        """Tlog-tiles: hash j of level l covers entries [j * 256^l, (j + 1) * 256^l)."""
        span = 256**level
        last = min((index + 1) * 256, size // span)
        return b"".join(self.mth(j * span, (j + 1) * span) for j in range(index * 256, last))

    def mth(self, begin: int, end: int) -> bytes:
        """§2.1.1: MTH(D[begin:end])."""
        known = self._memory.get((begin, end))
        if known is None:
            count = end - begin
            if count == 0:
                known = sha256(b"")
            elif count == 1:
                known = sha256(b"\x00" + self.entries[begin])
            else:
                k = split(count)
                known = sha256(b"\x01" + self.mth(begin, begin + k) + self.mth(begin + k, end))
            self._memory[begin, end] = known
        return known

    def _path(self, m: int, begin: int, end: int) -> list[bytes]:
        """§2.1.3.1: PATH(m, D[begin:end])."""
        count = end - begin
        if count == 1:
            return []
        k = split(count)
        if m < k:
            return [*self._path(m, begin, begin + k), self.mth(begin + k, end)]
        return [*self._path(m - k, begin + k, end), self.mth(begin, begin + k)]

    def _subproof(self, m: int, begin: int, end: int, *, whole: bool) -> list[bytes]:
        """§2.1.4.1: SUBPROOF(m, D[begin:end], b)."""
        count = end - begin
        if m == count:
            return [] if whole else [self.mth(begin, end)]
        k = split(count)
        if m <= k:
            return [*self._subproof(m, begin, begin + k, whole=whole), self.mth(begin + k, end)]
        return [*self._subproof(m - k, begin + k, end, whole=False), self.mth(begin, begin + k)]


def split(count: int) -> int:
    """The largest power of two smaller than ``count``."""
    k = 1
    while k * 2 < count:
        k *= 2
    return k
