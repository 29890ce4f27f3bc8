"""MurmurHash3, x86, 32 bits: the hash in Agent Trace's examples (``murmur3:9f2e8a1b``, seed 000 §6.6).

It finds code again; it proves nothing, because anyone can make another text with the same 32 bits. The specification
does not say which of the Murmur family is meant: eight hexadecimal digits are 32 bits, and the seed is taken as 0.
"""

from __future__ import annotations

import struct
from typing import Final

_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593
_MASK: Final = 0xFFFFFFFF


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """The 32-bit hash of *data*."""
    state = seed & _MASK
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", memoryview(data)[:whole]):
        state ^= _mixed(word)
        state = (state << 13 | state >> 19) & _MASK
        state = (state * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        state ^= _mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data) & _MASK
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _MASK
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _MASK
    return state ^ state >> 16


def murmur3_hex(data: bytes) -> str:
    """As Agent Trace writes it: eight lower-case digits, seed 0."""
    return f"{murmur3_32(data):08x}"


def _mixed(word: int) -> int:
    word = (word * _C1) & _MASK
    return ((word << 15 | word >> 17) * _C2) & _MASK
