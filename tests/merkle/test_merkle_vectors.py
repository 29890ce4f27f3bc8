"""Proofs by others: transparency-dev's vectors, nearly all of them wrong on purpose, and this project's own.

They lie in ../shared, beside the repository. What they show is shown without them by test_proofs.py too.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cbor2
import pytest

from transparency.errors import ProofError
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import EMPTY_ROOT, HASH_SIZE, leaf_hash
from transparency.merkle.proofs import (
    consistency_path,
    inclusion_path,
    root_at,
    root_from_consistency,
    root_from_inclusion,
    verify_consistency,
    verify_inclusion,
)
from transparency.merkle.tiles import RightEdge, TileHashes

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors"


def files(kind: str) -> list[Any]:
    found = sorted((VECTORS / "merkle" / kind).rglob("*.json"))
    if not found:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no ../shared/vectors/merkle"))]
    return [pytest.param(path, id=str(path.relative_to(VECTORS / "merkle" / kind))) for path in found]


def unbase64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def outcome(verify: Callable[..., None], *arguments: object) -> bool:
    try:
        verify(*arguments)
    except ProofError:
        return False
    return True


@pytest.mark.parametrize("file", files("inclusion"))
def test_inclusion_vector(file: Path) -> None:
    """RC-9."""
    case = json.loads(file.read_bytes())
    path = [unbase64(node) for node in case["proof"] or []]
    leaf, root = unbase64(case["leafHash"]), unbase64(case["root"])

    held = outcome(verify_inclusion, leaf, case["leafIdx"], case["treeSize"], path, root)

    assert held is not case["wantErr"], case["desc"]


@pytest.mark.parametrize("file", files("consistency"))
def test_consistency_vector(file: Path) -> None:
    """RC-10. Some vectors have a few words ("don't care 1") where a root belongs.

    Those are tried twice: as they are, which must be refused whatever the vector wants, because that is no
    root (stricter than the vectors in one case, equal sizes); and with the words' hash in their place, which
    must come out as the vector wants, so that the placeholder's length is not what refuses it.
    """
    case = json.loads(file.read_bytes())
    path = [unbase64(node) for node in case["proof"] or []]
    sizes = case["size1"], case["size2"]
    given = [unbase64(case["root1"]), unbase64(case["root2"])]
    roots = [root if len(root) == HASH_SIZE else hashlib.sha256(root).digest() for root in given]

    assert outcome(verify_consistency, *sizes, *roots, path) is not case["wantErr"], case["desc"]
    if given != roots:
        assert outcome(verify_consistency, *sizes, *given, path) is False


def test_only_one_vector_is_taken_more_strictly_than_it_wants() -> None:
    found = sorted((VECTORS / "merkle" / "consistency").rglob("*.json"))
    if not found:
        pytest.skip("no ../shared/vectors/merkle")
    stricter = []
    for file in found:
        case = json.loads(file.read_bytes())
        if not case["wantErr"] and any(len(unbase64(case[root])) != HASH_SIZE for root in ("root1", "root2")):
            stricter.append(file.name)
    assert stricter == ["sizes-are-equal-one-and-proof-is-empty.json"]


@pytest.fixture(scope="module")
def scitt() -> dict[str, Any]:
    file = VECTORS / "scitt-vectors.json"
    if not file.exists():
        pytest.skip("no ../shared/vectors/scitt-vectors.json")
    loaded: dict[str, Any] = json.loads(file.read_bytes())
    return loaded


def entries(scitt: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(scitt[f"statement_{index}"]["entry"]) for index in range(5)]


def test_leaves_and_roots_are_those_of_the_scitt_vectors(scitt: dict[str, Any]) -> None:
    """LEAF-2: leaf hash = SHA-256(0x00 || entry)."""
    edge = CompactRange()
    assert scitt["empty_root"] == EMPTY_ROOT.hex()
    for index, entry in enumerate(entries(scitt)):
        assert leaf_hash(entry).hex() == scitt[f"statement_{index}"]["leaf_hash"]
        edge.append(leaf_hash(entry))
        assert edge.root().hex() == scitt["roots"][str(index + 1)]


def test_the_tile_is_that_of_the_scitt_vectors(scitt: dict[str, Any]) -> None:
    """TL-3."""
    changed = RightEdge().append([leaf_hash(entry) for entry in entries(scitt)])

    assert changed == {(0, 0): bytes.fromhex(scitt["c2sp"]["level0_partial_tile_p5"])}


def test_inclusion_proofs_are_those_of_the_scitt_receipts(scitt: dict[str, Any]) -> None:
    """RC-9: and the tile alone gives the same paths."""
    tile = bytes.fromhex(scitt["c2sp"]["level0_partial_tile_p5"])
    read = TileHashes(lambda level, index: tile if (level, index) == (0, 0) else None)
    names = [name for name in scitt if name.startswith("receipt_leaf") and "inclusion_proof_bstr" in scitt[name]]
    assert len(names) >= 4
    for name in names:
        size, index, path = cbor2.loads(bytes.fromhex(scitt[name]["inclusion_proof_bstr"]))
        root = scitt[name]["root_detached_payload"]
        leaf = leaf_hash(entries(scitt)[index])

        assert root_from_inclusion(leaf, index, size, path).hex() == root
        assert inclusion_path(index, size, read) == list(path)
        assert root_at(size, read).hex() == root


def test_the_consistency_proof_is_that_of_the_scitt_receipt(scitt: dict[str, Any]) -> None:
    """RC-10."""
    tile = bytes.fromhex(scitt["c2sp"]["level0_partial_tile_p5"])
    proof = bytes.fromhex(scitt["consistency_receipt_3_5"]["consistency_proof_bstr"])
    old, new, path = cbor2.loads(proof)
    roots = {int(size): bytes.fromhex(root) for size, root in scitt["roots"].items()}

    assert (old, new) == (3, 5)
    assert root_from_consistency(old, new, roots[old], path) == roots[new]
    assert consistency_path(old, new, TileHashes(lambda _level, _index: tile)) == list(path)
