"""Our bytes against ../shared/vectors/scitt-vectors.json, made with another encoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from transparency.cose.keys import PublicKey
from transparency.errors import ProofError
from transparency.merkle.hashing import leaf_hash
from transparency.statements.receipt import Receipt, SignedHead, consistency_receipt, inclusion_receipt
from transparency.statements.statement import Statement, parse_entry_id
from transparency.statements.transparent import attach_receipts

FILE = Path(__file__).resolve().parents[3] / "shared" / "vectors" / "scitt-vectors.json"
pytestmark = pytest.mark.skipif(not FILE.exists(), reason="../shared/vectors is not here")


@pytest.fixture(scope="module")
def vectors() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FILE.read_text())
    return loaded


def log_key(vectors: dict[str, Any]) -> PublicKey:
    return PublicKey.from_cose_key_bytes(bytes.fromhex(vectors["ts_cose_key"]))


@pytest.mark.parametrize("number", range(5))
def test_statements_normalise_to_their_entries(vectors: dict[str, Any], number: int) -> None:
    """LEAF-1, LEAF-2, LEAF-6."""
    vector = vectors[f"statement_{number}"]
    statement = Statement.from_bytes(bytes.fromhex(vector["submitted"]))

    assert statement.normalised.hex() == vector["normalised"]
    assert statement.entry.hex() == vector["entry"]
    assert statement.entry_id == vector["entry_id_b64url"]
    assert parse_entry_id(vector["entry_id_b64url"]) == statement.entry
    assert leaf_hash(statement.entry).hex() == vector["leaf_hash"]
    statement.verify(PublicKey.from_cose_key_bytes(bytes.fromhex(vectors["issuer_cose_key"])))


RECEIPTS = {"receipt_leaf0_size1": 0, "receipt_leaf0_size2": 0, "receipt_leaf2_size5": 2, "receipt_leaf4_size5": 4}


@pytest.mark.parametrize(("name", "leaf"), RECEIPTS.items())
def test_receipts_verify_and_are_assembled_to_the_same_bytes(vectors: dict[str, Any], name: str, leaf: int) -> None:
    """RC-9, and our writer gives byte for byte what the other encoder gave."""
    data = bytes.fromhex(vectors[name]["receipt"])
    receipt = Receipt.from_bytes(data)
    entry = bytes.fromhex(vectors[f"statement_{leaf}"]["entry"])

    root = receipt.verify_inclusion(entry, log_key(vectors))

    assert root.hex() == vectors[name]["root_detached_payload"]
    assert inclusion_receipt(head_of(receipt, root), leaf, receipt.inclusion[0].path) == data


def test_the_consistency_receipt_verifies_and_is_assembled_to_the_same_bytes(vectors: dict[str, Any]) -> None:
    data = bytes.fromhex(vectors["consistency_receipt_3_5"]["receipt"])
    receipt = Receipt.from_bytes(data)

    root = receipt.verify_consistency(3, bytes.fromhex(vectors["roots"]["3"]), log_key(vectors))

    assert root.hex() == vectors["roots"]["5"]
    assert consistency_receipt(head_of(receipt, root), 3, receipt.consistency[0].path) == data


def test_the_relabelled_receipt_is_refused(vectors: dict[str, Any]) -> None:
    """RC-18."""
    receipt = Receipt.from_bytes(bytes.fromhex(vectors["receipt_leaf4_relabelled_size2"]["receipt"]))

    with pytest.raises(ProofError, match="signed header says 5"):
        receipt.verify_inclusion(bytes.fromhex(vectors["statement_4"]["entry"]), log_key(vectors))


def test_the_transparent_statement_is_assembled_to_the_same_bytes(vectors: dict[str, Any]) -> None:
    """TSt-1, LEAF-5: attached and detached give one entry."""
    receipt = bytes.fromhex(vectors["receipt_leaf2_size5"]["receipt"])
    normalised = bytes.fromhex(vectors["statement_2"]["normalised"])
    detached = bytes.fromhex(vectors["transparent_statement_2_detached"])

    assert attach_receipts(normalised, [receipt]).hex() == vectors["transparent_statement_2"]
    again = Statement.from_bytes(detached, bytes.fromhex(vectors["payload_2"]))
    assert again.entry.hex() == vectors["statement_2"]["entry"]


def head_of(receipt: Receipt, root: bytes) -> SignedHead:
    proof_size = receipt.inclusion[0].size if receipt.inclusion else receipt.consistency[0].new_size
    return SignedHead(
        proof_size, root, receipt.iat or 0, receipt.kid or b"", receipt.message.protected, receipt.message.signature
    )
