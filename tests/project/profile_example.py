"""The worked example of docs/profile.md, made by this package: the page and `tests/project/test_docs.py` share it.

The private keys are hashes of published words, so they protect nothing; that is what makes the example repeatable.
"""

from __future__ import annotations

import hashlib
import textwrap

from cryptography.hazmat.primitives.asymmetric import ec

from transparency.cose.keys import PrivateKey, encode_key_set
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import leaf_hash, node_hash
from transparency.statements.receipt import consistency_receipt, inclusion_receipt, sign_head
from transparency.statements.statement import Statement, sign_envelope, sign_statement
from transparency.statements.transparent import attach_receipts

ISS = "https://log.example"
ORIGIN = "log.example/agents"
RECORD = b'{"note":"the record itself"}'
OLD_SIZE, SIZE, INDEX = 3, 5, 2
TIME = 1_800_000_000


def example_key(words: str) -> PrivateKey:
    """A P-256 key whose private number is SHA-256 of *words*."""
    secret = int.from_bytes(hashlib.sha256(words.encode()).digest(), "big")
    return PrivateKey(ec.derive_private_key(secret, ec.SECP256R1()))


def tree_hash(leaves: list[bytes]) -> bytes:
    """MTH of leaf hashes, as RFC 9162 §2.1.1 writes it: not the package's own way, on purpose."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return node_hash(tree_hash(leaves[:split]), tree_hash(leaves[split:]))


def profile_example() -> dict[str, str]:
    """Every hex block of the page, by the name it has there."""
    issuer = example_key("agent-transparency profile example: issuer")
    log = example_key("agent-transparency profile example: log")
    statement = sign_statement(
        b'{"hello":"log"}', issuer, iss="https://issuer.example", sub="session-1", content_type="application/json"
    )
    envelope = sign_envelope(
        hashlib.sha256(RECORD).digest(),
        issuer,
        iss="https://issuer.example",
        sub="session-2",
        preimage_content_type="application/json",
    )
    read, read_envelope = Statement.from_bytes(statement), Statement.from_bytes(envelope)
    entries = [hashlib.sha256(bytes([number])).digest() for number in range(SIZE)]
    entries[INDEX], entries[3] = read.entry, read_envelope.entry
    leaves = [leaf_hash(entry) for entry in entries]
    path = [leaves[3], node_hash(leaves[0], leaves[1]), leaves[4]]
    root, old_root = tree_hash(leaves), tree_hash(leaves[:OLD_SIZE])
    tree = CompactRange()
    for leaf in leaves:
        tree.append(leaf)
    assert tree.root() == root
    head = sign_head(log, iss=ISS, origin=ORIGIN, size=SIZE, root=root, time=TIME)
    receipt = inclusion_receipt(head, INDEX, path)
    consistency = consistency_receipt(
        head, OLD_SIZE, [leaves[2], leaves[3], node_hash(leaves[0], leaves[1]), leaves[4]]
    )
    values = {
        "issuer-key": issuer.public.to_cose_key_bytes(),
        "issuer-thumbprint": issuer.public.thumbprint,
        "log-key-set": encode_key_set([log.public]),
        "statement": statement,
        "statement-to-be-signed": read.to_be_signed,
        "entry": read.entry,
        "leaf": leaves[INDEX],
        "envelope": envelope,
        "envelope-entry": read_envelope.entry,
        "leaves": b"".join(leaves),
        "root": root,
        "receipt-protected": head.protected,
        "receipt-to-be-signed": b"\x84\x6aSignature1\x58"
        + bytes([len(head.protected)])
        + head.protected
        + b"\x40\x58\x20"
        + root,
        "receipt": receipt,
        "transparent-statement": attach_receipts(statement, [receipt]),
        "old-root": old_root,
        "consistency-receipt": consistency,
    }
    return {name: value.hex() for name, value in values.items()}


if __name__ == "__main__":
    for name, value in profile_example().items():
        print(f"```hex {name}\n{textwrap.fill(value, 96)}\n```\n")  # noqa: T201 - printed to be pasted into the page
