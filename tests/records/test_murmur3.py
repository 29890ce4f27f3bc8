"""MurmurHash3 (x86, 32 bits) gives the values that its other implementations give."""

from __future__ import annotations

import pytest

from transparency.records.murmur3 import murmur3_32, murmur3_hex


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0x00000000),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"test", 0, 0xBA6BD213),
        (b"aaa", 0x9747B28C, 0x283E0130),
        (b"aa", 0x9747B28C, 0x5D211726),
        (b"a", 0x9747B28C, 0x7FA09EA6),
        (b"Hello, world!", 0, 0xC0363E43),
        (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x00\x00\x00\x00", 0, 0x2362F9DE),
    ],
)
def test_known_values(data: bytes, seed: int, expected: int) -> None:
    assert murmur3_32(data, seed) == expected


def test_agent_trace_writes_eight_lower_case_digits() -> None:
    assert murmur3_hex(b"") == "00000000"
    assert murmur3_hex(b"test") == "ba6bd213"
