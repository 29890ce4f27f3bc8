"""merkle-json, which is not used: why its hashes cannot carry evidence (decision record)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tests.interop.side_environments import ask

if TYPE_CHECKING:
    from collections.abc import Sequence


def hashes_of(documents: Sequence[object]) -> list[str]:
    return [
        answer["value"] for answer in ask("pycose", [{"do": "merkle_hash", "document": each} for each in documents])
    ]


def test_merkle_json_hashes_by_md5_calls_reordered_lists_the_same_and_believes_a_hash_written_in_the_document() -> None:
    claimed = "not a hash at all"

    text, one_order, other_order, honest, forged = hashes_of(
        ["evidence", ["a", "b"], ["b", "a"], {"tool": "read"}, {"tool": "delete everything", "merkleHash": claimed}],
    )

    assert text == hashlib.md5(b"evidence", usedforsecurity=False).hexdigest()
    assert one_order == other_order
    assert len(honest) == 32
    assert forged == claimed


def test_merkle_json_lets_a_document_take_the_hash_of_another_one() -> None:
    honest = {"approved": False}
    (taken,) = hashes_of([honest])

    same, different = hashes_of([honest, {"approved": True, "merkleHash": taken}])

    assert same == different
