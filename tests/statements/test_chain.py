"""The headers of a session that grew, and the earlier record found by its digest."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.statements.chain import checkpoint_of, prefix_length, stated_digest, supersedes_of

DIGEST = hashlib.sha256(b"x").digest()


@given(st.lists(st.binary(max_size=5).map(lambda line: line.replace(b"\n", b"") + b"\n"), min_size=1), st.data())
def test_a_number_of_lines_is_found_by_its_hash(lines: list[bytes], data: st.DataObject) -> None:
    record = b"".join(lines)
    count = data.draw(st.integers(1, len(lines)))
    prefix = b"".join(lines[:count])

    assert prefix_length(record, hashlib.sha256(prefix).digest()) == len(prefix)
    assert prefix_length(record, hashlib.sha256(prefix[:-1]).digest()) == len(prefix) - 1
    assert prefix_length(record, hashlib.sha256(record + b"more").digest()) is None


@pytest.mark.parametrize("value", [None, True, 0, -1, 2**60, "2", b"\x02"])
def test_a_checkpoint_is_a_number_from_1(value: object) -> None:
    assert checkpoint_of({labels.SESSION_CHECKPOINT: value}) is None


@pytest.mark.parametrize("value", [None, "x" * 32, b"x" * 31, [b"x" * 32]])
def test_a_link_is_an_entry(value: object) -> None:
    assert supersedes_of({labels.SUPERSEDES: value}) is None


@pytest.mark.parametrize(
    ("stated", "found"),
    [(DIGEST.hex(), DIGEST), (DIGEST.hex().upper(), DIGEST), ("g" * 64, None), (" " * 64, None), ("٣" * 64, None),
     (DIGEST.hex()[:-1], None), (DIGEST, None)],
)  # fmt: skip
def test_a_digest_is_stated_in_hexadecimal_or_not_at_all(stated: Any, found: bytes | None) -> None:
    message = Sign1(b"", {labels.TRACE_METADATA_SIGNED: {"content-hash": stated}}, {}, None, b"")

    assert stated_digest(message) == found
