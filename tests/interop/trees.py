"""Statements and logs of any shape, made by us for other implementations to judge, and ways to spoil what was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from transparency.cose.cbor import decode, encode
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1
from transparency.merkle.hashing import leaf_hash, node_hash
from transparency.merkle.proofs import consistency_path, inclusion_path, root_at
from transparency.statements.receipt import SignedHead, consistency_receipt, inclusion_receipt, sign_head
from transparency.statements.statement import Statement, sign_envelope, sign_statement
from transparency.statements.transparent import attach_receipts

VECTORS: Final = Path(__file__).parents[3] / "shared" / "vectors"
ALGORITHMS: Final = {
    "ES256": -7,
    "ES384": -35,
    "ES512": -36,
    "EdDSA": -8,
    "Ed25519": -19,
    "ESP256": -9,
    "ESP384": -51,
    "ESP512": -52,
    "PS256": -37,
    "ML-DSA-44": -48,
}
VDP: Final = 396
RECEIPTS: Final = 394
INCLUSION: Final = -1
ISS: Final = "https://issuer.example"
LOG_ISS: Final = "https://log.example"
ORIGIN: Final = "log.example/tlog"
TIME: Final = 1_772_355_600


def private_key(name: str, owner: str = "issuer") -> PrivateKey:
    """One key for each algorithm and owner, made once: RSA keys take their time."""
    return _made_once(name, owner)


@cache
def _made_once(name: str, _owner: str) -> PrivateKey:
    return PrivateKey.generate(ALGORITHMS[name])


def pem(key: PrivateKey) -> str:
    return key.public.to_pem().decode()


def statement(number: int = 0, alg: str = "ES256", *, detached: bool = False, owner: str = "issuer") -> bytes:
    return sign_statement(
        payload(number),
        private_key(alg, owner),
        iss=ISS,
        sub=f"urn:example:session:{number}",
        content_type="application/json",
        detached=detached,
        iat=TIME,
    )


def envelope(digest: bytes, alg: str = "ES256", hash_alg: int = -16) -> bytes:
    return sign_envelope(
        digest,
        private_key(alg),
        iss=ISS,
        sub="urn:example:envelope",
        hash_alg=hash_alg,
        preimage_content_type="application/json",
        location="https://store.example/session.json",
    )


def payload(number: int = 0) -> bytes:
    return b'{"session":%d}' % number


@dataclass(frozen=True)
class Tree:
    """A log in memory that was given its entries at once and signs a head of any size."""

    entries: tuple[bytes, ...]
    key: PrivateKey = field(default_factory=lambda: private_key("ES256", "log"))

    @cached_property
    def _levels(self) -> list[list[bytes]]:
        levels = [[leaf_hash(entry) for entry in self.entries]]
        while len(levels[-1]) > 1:
            pairs = list(pairwise(levels[-1]))[::2]
            levels.append([node_hash(left, right) for left, right in pairs])
        return levels

    def read(self, level: int, index: int) -> bytes:
        return self._levels[level][index]

    def root(self, size: int) -> bytes:
        return root_at(size, self.read)

    def head(self, size: int) -> SignedHead:
        return sign_head(self.key, iss=LOG_ISS, origin=ORIGIN, size=size, root=self.root(size), time=TIME)

    def path(self, index: int, size: int | None = None) -> list[bytes]:
        return inclusion_path(index, size or len(self.entries), self.read)

    def receipt(self, index: int, size: int | None = None) -> bytes:
        size = size or len(self.entries)
        return inclusion_receipt(self.head(size), index, self.path(index, size))

    def consistency_path(self, old: int, new: int) -> list[bytes]:
        return consistency_path(old, new, self.read)

    def consistency_receipt(self, old: int, new: int) -> bytes:
        return consistency_receipt(self.head(new), old, self.consistency_path(old, new))


def tree_around(entry: bytes, index: int, size: int, key: PrivateKey | None = None) -> Tree:
    """A tree of `size` entries that has `entry` at `index`; all others are made up."""
    entries = tuple(entry if place == index else place.to_bytes(4, "big") * 8 for place in range(size))
    return Tree(entries, key or private_key("ES256", "log"))


def transparent(
    signed: bytes, index: int, size: int, *, key: PrivateKey | None = None, content: bytes | None = None
) -> bytes:
    """The statement with a receipt for its place in a tree."""
    entry = Statement.from_bytes(signed, content).entry
    return attach_receipts(signed, [tree_around(entry, index, size, key).receipt(index)])


def flip(data: bytes, bit: int = 0) -> bytes:
    spoiled = bytearray(data)
    spoiled[bit // 8] ^= 1 << bit % 8
    return bytes(spoiled)


def rebuilt(message: bytes, **parts: Any) -> bytes:
    """The message with its protected, unprotected, payload or signature replaced, and nothing else checked."""
    sign1 = Sign1.from_bytes(message)
    known: dict[str, Any] = {"protected": sign1.protected, "unprotected": dict(sign1.unprotected)}
    known |= {"payload": sign1.payload, "signature": sign1.signature}
    return b"\xd2" + encode(list((known | parts).values()))


def receipt_of(message: bytes) -> bytes:
    (receipt,) = Sign1.from_bytes(message).unprotected[RECEIPTS]
    return bytes(receipt)


def with_receipt(message: bytes, receipt: bytes) -> bytes:
    return rebuilt(message, unprotected={**Sign1.from_bytes(message).unprotected, RECEIPTS: [receipt]})


def with_proof(receipt: bytes, size: int, index: int, path: list[bytes]) -> bytes:
    return rebuilt(receipt, unprotected={VDP: {INCLUSION: [encode([size, index, path])]}})


def proof_of(receipt: bytes) -> tuple[int, int, list[bytes]]:
    (proof,) = Sign1.from_bytes(receipt).unprotected[VDP][INCLUSION]
    size, index, path = decode(proof)
    return size, index, list(path)


def spoiled(message: bytes) -> dict[str, bytes]:
    """Each way in which a good transparent statement (of an index and size with a path) must not pass."""
    receipt = receipt_of(message)
    size, index, path = proof_of(receipt)
    sign1, signed_head = Sign1.from_bytes(message), Sign1.from_bytes(receipt)
    foreign = sign_head(private_key("ES256", "log"), iss=LOG_ISS, origin=ORIGIN, size=size, root=bytes(32), time=TIME)
    receipts = {
        "path flipped": with_proof(receipt, size, index, [flip(path[0]), *path[1:]]),
        "path truncated": with_proof(receipt, size, index, path[:-1]),
        "path lengthened": with_proof(receipt, size, index, [*path, bytes(32)]),
        "path turned round": with_proof(receipt, size, index, [*path[1:], flip(path[0])]),
        "path without a byte": with_proof(receipt, size, index, [path[0][:-1], *path[1:]]),
        "neighbour's place": with_proof(receipt, size, index ^ 1, path),
        "place past the end": with_proof(receipt, size, size, path),
        "empty tree": with_proof(receipt, 0, 0, []),
        "signature flipped": rebuilt(receipt, signature=flip(signed_head.signature, 77)),
        "signature zeroed": rebuilt(receipt, signature=bytes(len(signed_head.signature))),
        "head's header flipped": rebuilt(
            receipt, protected=flip(signed_head.protected, 8 * len(signed_head.protected) - 1)
        ),
        "head of another root": rebuilt(receipt, signature=foreign.signature, protected=foreign.protected),
        "no proofs": rebuilt(receipt, unprotected={}),
        "payload in the receipt": rebuilt(receipt, payload=bytes(32)),
        "trailing byte": receipt + b"\x00",
    }
    whole = {
        "statement's signature flipped": rebuilt(message, signature=flip(sign1.signature, 99)),
        "statement's signature zeroed": rebuilt(message, signature=bytes(len(sign1.signature))),
        "no receipt": rebuilt(message, unprotected={}),
        "trailing byte after all": message + b"\x00",
    }
    if sign1.payload:
        whole["payload flipped"] = rebuilt(message, payload=flip(sign1.payload, 8))
    return {name: with_receipt(message, bad) for name, bad in receipts.items()} | whole


def relabelled() -> list[bytes]:
    """RC-18: receipts whose size (and place) were changed to others that lead to the same root."""
    messages = []
    for index, size, other_index, other_size in ((4, 5, 1, 2), (0, 3, 0, 4), (2, 6, 2, 8)):
        message = transparent(statement(), index, size)
        _, _, path = proof_of(receipt_of(message))
        messages.append(with_receipt(message, with_proof(receipt_of(message), other_size, other_index, path)))
    return messages
