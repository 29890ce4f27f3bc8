"""The hashes of a tree (RFC 9162 §2.1.1): one SHA-256, whoever computes it."""

from __future__ import annotations

import hashlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.merkle import hashing
from transparency.merkle.hashing import leaf_hash, node_hash, pair_up, pair_up_bytes

HASHES = st.binary(min_size=32, max_size=32)


@given(st.binary(max_size=700))
def test_an_entry_of_any_length_has_the_hash_that_hashlib_gives(entry: bytes) -> None:
    assert leaf_hash(entry) == hashlib.sha256(b"\x00" + entry).digest()


@given(st.lists(HASHES, max_size=9))
def test_rows_are_hashed_as_nodes_are(nodes: list[bytes]) -> None:
    expected = [
        hashlib.sha256(b"\x01" + left + right).digest() for left, right in zip(nodes[::2], nodes[1::2], strict=False)
    ]

    assert [node_hash(*pair) for pair in zip(nodes[::2], nodes[1::2], strict=False)] == expected
    assert pair_up(nodes) == expected
    assert pair_up_bytes(b"".join(nodes[: len(nodes) // 2 * 2])) == expected


def test_a_python_without_a_sha256_of_its_own_takes_openssls(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_sha2", "_sha256"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it could not be imported

    assert hashing._own_sha256() is hashlib.sha256
