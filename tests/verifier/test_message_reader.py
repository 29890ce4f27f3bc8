"""The fast readers of messages and paths never differ from the strict ones."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verifier.world import ISSUER, LOG_KEY, Log, statement
from transparency.cose import labels
from transparency.cose.cbor import encode
from transparency.cose.sign1 import Sign1, sign1
from transparency.errors import ProofError, TransparencyError
from transparency.merkle.hashing import leaf_hash, node_hash
from transparency.merkle.proofs import inclusion_path, root_at, root_from_inclusion
from transparency.statements.receipt import inclusion_receipt, sign_head
from transparency.statements.transparent import attach_receipts
from transparency.verifier import HeadCache
from transparency.verifier.climb import Climber, split
from transparency.verifier.message_reader import read_message

REGISTERED = Log().register(statement(b"x" * 300))


def both(data: bytes) -> None:
    """The same message, or the same error in the same words."""
    try:
        expected: Sign1 | str = Sign1.from_bytes(data)
    except TransparencyError as error:
        expected = f"{type(error)}: {error}"
    try:
        found: Sign1 | str = read_message(data)
    except TransparencyError as error:
        found = f"{type(error)}: {error}"
    assert found == expected


def test_every_flipped_bit_and_every_cut_is_read_alike() -> None:
    data = REGISTERED
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        both(bytes(changed))
    for length in range(len(data)):
        both(data[:length])
    both(data + b"\x00")


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.one_of(st.integers(-300, 400), st.text(max_size=3)), st.integers(0, 9), max_size=4),
    st.one_of(st.none(), st.binary(max_size=300)),
    st.lists(st.binary(max_size=300), max_size=3),
)
def test_any_headers_payload_and_receipts_are_read_alike(
    headers: dict[int | str, int], payload: bytes | None, receipts: list[bytes]
) -> None:
    headers = {label: value for label, value in headers.items() if label not in (1, 2, 394)}
    message = sign1(headers, payload or b"", ISSUER, detached=payload is None)
    both(message.to_bytes())
    both(message.with_unprotected({labels.RECEIPTS: receipts}).to_bytes())
    if receipts:
        both(attach_receipts(message.to_bytes(), receipts))


def test_receipts_in_both_headers_and_crit_are_refused_alike() -> None:
    unprotected = {labels.RECEIPTS: [b"x"]}
    shapes: list[dict[Any, Any]] = [{labels.RECEIPTS: 1}, {labels.CRIT: [1]}, {labels.CRIT: []}, {b"x": 1}]
    for headers in shapes:
        message = Sign1(encode(headers), headers, unprotected, b"", b"")
        both(message.to_bytes())


# --- paths -----------------------------------------------------------------------------------------------------------


class Tree:
    def __init__(self, size: int) -> None:
        self.leaves = [leaf_hash(number.to_bytes(4, "big")) for number in range(size)]

    def read(self, level: int, index: int) -> bytes:
        if not level:
            return self.leaves[index]
        return node_hash(self.read(level - 1, 2 * index), self.read(level - 1, 2 * index + 1))


def packed(path: list[bytes]) -> bytes:
    return b"".join(b"\x58\x20" + node for node in path)


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 63, 64, 65, 100, 129])
def test_every_leaf_climbs_to_the_root_also_where_neighbours_climbed_before(size: int) -> None:
    tree, climber = Tree(size), Climber()
    root = root_at(size, tree.read)

    for index, leaf in enumerate(tree.leaves):
        path = inclusion_path(index, size, tree.read)
        assert climber.root(leaf, index, size, packed(path)) == root


@settings(max_examples=300, deadline=None)
@given(st.integers(33, 300), st.data())
def test_a_climber_that_has_seen_the_genuine_path_answers_any_other_as_the_strict_function(
    size: int, draw: st.DataObject
) -> None:
    tree, climber = Tree(size), Climber()
    index = draw.draw(st.integers(0, size - 1))
    path = inclusion_path(index, size, tree.read)
    climber.root(tree.leaves[index], index, size, packed(path))
    other_index = draw.draw(st.integers(0, size - 1))
    other_size = draw.draw(st.sampled_from([size, size + 1, max(other_index + 1, size - 1)]))
    changed = list(path)
    for _ in range(draw.draw(st.integers(0, 2))):
        place = draw.draw(st.integers(0, len(changed) - 1))
        action = draw.draw(st.sampled_from(["flip", "drop", "add"]))
        if action == "flip":
            changed[place] = bytes([changed[place][0] ^ 1]) + changed[place][1:]
        elif action == "drop" and len(changed) > 1:
            del changed[place]
        else:
            changed.insert(place, bytes(32))
    arguments = (tree.leaves[index], other_index, other_size)

    try:
        expected = root_from_inclusion(*arguments, changed)
    except ProofError:
        with pytest.raises(ProofError):
            climber.root(*arguments, packed(changed))
    else:
        assert climber.root(*arguments, packed(changed)) == expected
    assert split(packed(changed)) == tuple(changed)


def test_memories_are_bounded() -> None:
    climber, tree = Climber(most=2), Tree(200)
    for index in range(200):
        climber.root(tree.leaves[index], index, 200, packed(inclusion_path(index, 200, tree.read)))

    assert len(climber._near) <= 2
    assert len(climber._far) <= 2


def test_a_receipt_with_megabytes_that_nobody_signed_is_not_kept() -> None:
    """A hundred receipts of 1 MiB, each under a header of its own."""
    cache = HeadCache()
    tracemalloc.start()

    for number in range(1, 101):
        head = sign_head(LOG_KEY, iss="https://l.example", origin="l", size=number, root=bytes(32), time=number)
        receipt = Sign1.from_bytes(inclusion_receipt(head, 0, []))
        large = receipt.with_unprotected({**receipt.unprotected, 99: bytes(1024 * 1024)}).to_bytes()
        cache.reader.read(large)

    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(cache.reader._known) == 100
    assert kept < 4 * 1024 * 1024
