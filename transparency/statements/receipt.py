"""The receipt (RFC 9942, vds 1): a signed tree head plus a path, as a COSE_Sign1 with a detached root.

One signature per tree head: the protected header (alg, kid, iss, sub = origin, iat, tree-size, vds) depends on the
head alone, so it is signed once and every receipt under that head shares those bytes. The size stands in the signed
header because RFC 9942 signs only the root, and a path can be relabelled to another size and index (RC-18).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transparency.cose import labels
from transparency.cose.cbor import bstr, bstr_head, decode, encode
from transparency.cose.keys import PublicKey, Signer
from transparency.cose.sign1 import Sign1, sig_structure
from transparency.errors import MalformedError, ProofError, UnsupportedAlgorithmError
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import root_from_consistency, root_from_inclusion
from transparency.statements.member import member

HASH_BYTES = 32
MAX_SIZE = 2**63 - 1
MAX_PATH = 64
_OPEN = b"\xd2\x84"
# {396: {-1: [ bstr ]}} and {396: {-2: [ bstr ]}} up to the bstr: exactly one key, one proof.
_INCLUSION_VDP = b"\xa1\x19\x01\x8c\xa1\x20\x81"
_CONSISTENCY_VDP = b"\xa1\x19\x01\x8c\xa1\x21\x81"
_NIL = b"\xf6"
PATH_MARK = b"\x58\x20"
"""What stands before each hash of a path: a byte string of 32."""


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A committed tree head and the receipt-key signature over its root. Stored for ever."""

    size: int
    root: bytes
    time: int
    kid: bytes
    protected: bytes
    signature: bytes

    def verify(self, key: PublicKey, *, iss: str, origin: str) -> None:
        """Check that the signed header says this log and these fields, and that *key* signed it over this root."""
        headers = decode(self.protected, max_depth=4)
        claims = headers.get(labels.CWT_CLAIMS) if isinstance(headers, dict) else None
        if not isinstance(claims, dict):
            raise MalformedError("the tree head's signed header has no claims")
        said = (
            claims.get(labels.CLAIM_ISS),
            claims.get(labels.CLAIM_SUB),
            claims.get(labels.CLAIM_IAT),
            claims.get(labels.CLAIM_TREE_SIZE),
            headers.get(labels.KID),
            headers.get(labels.VDS),
        )
        if said != (iss, origin, self.time, self.size, self.kid, labels.VDS_RFC9162_SHA256):
            raise MalformedError("the tree head's signed header does not say this log, size, time and key")
        key.verify(headers.get(labels.ALG), sig_structure(self.protected, self.root), self.signature)


@dataclass(frozen=True, slots=True)
class InclusionProof:
    size: int
    index: int
    path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    old_size: int
    new_size: int
    path: tuple[bytes, ...]


def sign_head(signer: Signer, *, iss: str, origin: str, size: int, root: bytes, time: int) -> SignedHead:
    """Sign a tree head. RFC 9943 §6 asks for iss, sub and kid; iat is the head's time, -70110 its size (AMB-5)."""
    before, between, behind = _head_parts(signer.alg, signer.public.kid, iss, origin)
    protected = b"".join((before, encode(time), between, encode(size), behind))
    signature = signer.sign(sig_structure(protected, root))
    return SignedHead(size, root, time, signer.public.kid, protected, signature)


@functools.lru_cache(maxsize=64)
def _head_parts(alg: int, kid: bytes, iss: str, origin: str) -> tuple[bytes, bytes, bytes]:
    """A head's protected header around its time and its size: all else is the same for every head of a key."""
    time, size = MAX_SIZE - 1, MAX_SIZE  # as long as numbers get, and found nowhere else
    whole = encode(
        {
            labels.ALG: alg,
            labels.KID: kid,
            labels.CWT_CLAIMS: {
                labels.CLAIM_ISS: iss,
                labels.CLAIM_SUB: origin,
                labels.CLAIM_IAT: time,
                labels.CLAIM_TREE_SIZE: size,
            },
            labels.VDS: labels.VDS_RFC9162_SHA256,
        }
    )
    head, _, tail = whole.rpartition(encode(time))
    between, _, behind = tail.partition(encode(size))
    return head, between, behind


def inclusion_receipt(head: SignedHead, index: int, path: Sequence[bytes]) -> bytes:
    return _assemble(head, _INCLUSION_VDP, _proof(head.size, index, path))


def inclusion_receipts(head: SignedHead, first: int, paths: Iterable[tuple[int, bytes]]) -> list[bytes]:
    """The receipts of a batch under its own head, byte for byte those of :func:`inclusion_receipt`.

    *paths* are ``merkle.batch_paths`` with :data:`PATH_MARK`. What depends on the head alone is put together once.
    """
    opening = b"".join((_OPEN, bstr(head.protected), _INCLUSION_VDP))
    ending = _NIL + bstr(head.signature)
    sizes = b"\x83" + encode(head.size)
    receipts = []
    for index, (count, path) in enumerate(paths, first):
        proof = b"".join((sizes, encode(index), _array_head(count), path))
        receipts.append(b"".join((opening, bstr_head(len(proof)), proof, ending)))
    return receipts


def consistency_receipt(head: SignedHead, old_size: int, path: Sequence[bytes]) -> bytes:
    """Signed over the newer root (RFC 9942 §5.3.1)."""
    return _assemble(head, _CONSISTENCY_VDP, _proof(old_size, head.size, path))


def with_tlog_proof(receipt: bytes, proof: bytes) -> bytes:
    """The receipt with a tlog-proof beside its own (-70104): what is signed stays as it is.

    Two proofs of one entry: this one leads to a checkpoint that witnesses cosigned, so that it is checked offline.
    """
    message = Sign1.from_bytes(receipt)
    return message.with_unprotected({**message.unprotected, labels.TLOG_PROOF: proof}).to_bytes()


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt whose form is right; its signature and proof are checked by the methods below."""

    message: Sign1
    alg: int
    kid: bytes | None
    iss: str | None
    sub: str | None
    iat: int | None
    tree_size: int | None
    inclusion: tuple[InclusionProof, ...]
    consistency: tuple[ConsistencyProof, ...]

    @classmethod
    def from_bytes(cls, data: bytes) -> Receipt:
        message = Sign1.from_bytes(data)
        headers = message.headers
        alg = headers.get(labels.ALG)
        if isinstance(alg, bool) or not isinstance(alg, int):
            raise MalformedError(
                "a receipt must name its algorithm by number in the protected header (RFC 9942 §5.2.1)"
            )
        vds = headers.get(labels.VDS)
        if isinstance(vds, bool) or not isinstance(vds, int):
            raise MalformedError("a receipt must carry 395 (vds) in the protected header (RFC 9942 §5.2.1)")
        if vds != labels.VDS_RFC9162_SHA256:
            raise UnsupportedAlgorithmError(f"verifiable data structure {vds} is not RFC9162_SHA256 (RFC 9942 §4.3)")
        if message.payload is not None and len(message.payload) != HASH_BYTES:
            raise MalformedError("a receipt's payload is the 32-byte Merkle root, or detached (RFC 9942 §5.2.1)")
        inclusion, consistency = _proofs(message.unprotected.get(labels.VDP))
        claims = member(headers, labels.CWT_CLAIMS)
        if claims is not None and not isinstance(claims, Mapping):
            raise MalformedError("protected header 15 (CWT Claims) of a receipt is not a map")
        kid = member(headers, labels.KID)
        if kid is not None and not isinstance(kid, bytes):
            raise MalformedError("protected header 4 (kid) of a receipt is not a byte string")
        claims = claims or {}
        return cls(
            message=message,
            alg=alg,
            kid=kid,
            iss=_text(claims, labels.CLAIM_ISS, "iss"),
            sub=_text(claims, labels.CLAIM_SUB, "sub"),
            iat=_uint(claims, labels.CLAIM_IAT, "iat"),
            tree_size=_uint(claims, labels.CLAIM_TREE_SIZE, "tree-size"),
            inclusion=inclusion,
            consistency=consistency,
        )

    def root_for(self, entry: bytes) -> bytes:
        """The root that the inclusion proofs give for *entry*: one root (RC-11), at the signed size (RC-18)."""
        if not self.inclusion:
            raise ProofError("the receipt has no inclusion proof")
        leaf = leaf_hash(entry)
        roots = set()
        for proof in self.inclusion:
            self._check_signed_size(proof.size)
            roots.add(root_from_inclusion(leaf, proof.index, proof.size, proof.path))
        if len(roots) != 1:
            raise ProofError("the receipt's inclusion proofs lead to different roots; only one can be signed")
        return self._agreeing(roots.pop())

    def verify_signature(self, key: PublicKey, root: bytes) -> None:
        key.verify(self.alg, sig_structure(self.message.protected, root), self.message.signature)

    def verify_inclusion(self, entry: bytes, key: PublicKey) -> bytes:
        """Recompute the root from *entry*, then check the signature over it (RFC 9942 §5.2.1, RC-9)."""
        root = self.root_for(entry)
        self.verify_signature(key, root)
        return root

    def verify_consistency(self, old_size: int, old_root: bytes, key: PublicKey) -> bytes:
        """From an authenticated (size, root) pair to the newer root this receipt signs (RC-10, RC-19)."""
        if not self.consistency:
            raise ProofError("the receipt has no consistency proof")
        roots = set()
        for proof in self.consistency:
            if proof.old_size != old_size:
                raise ProofError(f"the proof starts at size {proof.old_size}, the trusted root is of size {old_size}")
            self._check_signed_size(proof.new_size)
            roots.add(root_from_consistency(proof.old_size, proof.new_size, old_root, proof.path))
        if len(roots) != 1:
            raise ProofError("the receipt's consistency proofs lead to different roots; only one can be signed")
        root = self._agreeing(roots.pop())
        self.verify_signature(key, root)
        return root

    def _check_signed_size(self, size: int) -> None:
        if self.tree_size is not None and size != self.tree_size:
            raise ProofError(f"the proof says tree size {size}, the signed header says {self.tree_size}")

    def _agreeing(self, root: bytes) -> bytes:
        if self.message.payload is not None and self.message.payload != root:
            raise ProofError("the proof leads to another root than the one attached to the receipt")
        return root


def _assemble(head: SignedHead, vdp: bytes, proof: bytes) -> bytes:
    return b"".join((_OPEN, bstr(head.protected), vdp, bstr(proof), _NIL, bstr(head.signature)))


def _proof(first: int, second: int, path: Sequence[bytes]) -> bytes:
    return encode([first, second, list(path)])


def _array_head(count: int) -> bytes:
    """Of an array of at most 64 hashes."""
    return bytes((0x80 | count,)) if count < 24 else bytes((0x98, count))


def _proofs(vdp: object) -> tuple[tuple[InclusionProof, ...], tuple[ConsistencyProof, ...]]:
    if not isinstance(vdp, Mapping) or not vdp:
        raise MalformedError(
            "a receipt must carry 396 (vdp), a map with proofs, in the unprotected header (RFC 9942 §4.3)"
        )
    for key in vdp:
        # RFC 9942 §4.3: what is not in the registry for this vds makes verification fail (RC-13).
        if key not in (labels.VDP_INCLUSION, labels.VDP_CONSISTENCY) or isinstance(key, bool):
            raise MalformedError("the receipt's vdp has a key that vds 1 does not define (RFC 9942 §4.3)")
    inclusion = tuple(
        InclusionProof(size, index, path)
        for size, index, path in (_proof_parts(item) for item in _proof_array(vdp, labels.VDP_INCLUSION))
    )
    for proof in inclusion:
        if proof.index >= proof.size:
            raise MalformedError("an inclusion proof's leaf index is not below its tree size (RFC 9942 §5.2)")
    consistency = tuple(
        ConsistencyProof(old, new, path)
        for old, new, path in (_proof_parts(item) for item in _proof_array(vdp, labels.VDP_CONSISTENCY))
    )
    return inclusion, consistency


def _proof_array(vdp: Mapping[Any, Any], key: int) -> Sequence[bytes]:
    if key not in vdp:
        return ()
    array = vdp[key]
    if not isinstance(array, list | tuple) or not array or not all(isinstance(item, bytes) for item in array):
        raise MalformedError("proofs in a receipt are an array of one or more byte strings (RFC 9942 §5)")
    return array


def _proof_parts(data: bytes) -> tuple[int, int, tuple[bytes, ...]]:
    value = decode(data, max_depth=3)
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise MalformedError("a proof is an array of two sizes and a path (RFC 9942 §5.2)")
    first, second, path = value
    for number in (first, second):
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_SIZE:
            raise MalformedError("a proof's sizes and index are unsigned integers (RFC 9942 §5.2)")
    if not isinstance(path, list | tuple) or len(path) > MAX_PATH:
        raise MalformedError("a proof's path is an array of at most 64 hashes (RFC 9942 §5.2)")
    if not all(isinstance(node, bytes) and len(node) == HASH_BYTES for node in path):
        raise MalformedError("a proof's path holds something that is not a 32-byte hash (RFC 9942 §5.2)")
    return first, second, tuple(path)


def _text(claims: Mapping[Any, Any], key: int, name: str) -> str | None:
    value = member(claims, key)
    if value is not None and not isinstance(value, str):
        raise MalformedError(f"CWT claim {name} of a receipt is not text")
    return value


def _uint(claims: Mapping[Any, Any], key: int, name: str) -> int | None:
    value = member(claims, key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
        raise MalformedError(f"CWT claim {name} of a receipt is not an unsigned integer")
    return value
