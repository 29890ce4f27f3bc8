"""Verifier keys, *vkeys*: a name, a key id, a signature type and the public key in one line (signed-note, SN-2).

The four signature types that are read here sign different things, all of them about the text of a note:

=====  ===========  ==================================================================================
0x01   ED25519      the text
0x02   ECDSA        the text, hashed with SHA-256 on every curve; only checked here, never made
0x04   COSIGNATURE  a header, a time and the text: Ed25519 over ``cosignature/v1`` (tlog-cosignature)
0x06   MLDSA        the ``cosigned_message`` of a checkpoint or subtree: ML-DSA-44 (tlog-cosignature)
=====  ===========  ==================================================================================

A log signs checkpoints with 0x06 in the same way as a witness. tlog-checkpoint, "Signatures": "Logs SHOULD use
ML-DSA-44 cosignatures to sign the checkpoint […]. Note that the ML-DSA-44 cosignature format doesn't sign the
extension lines". So its message is the ``cosigned_message`` whose ``cosigner_name`` is the name of the log's key and
whose ``log_origin`` is the first line of the text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from transparency.cose import labels
from transparency.cose.algorithms import ED25519 as ED25519_ALGORITHM
from transparency.cose.algorithms import ED25519_KTY_NAME, ML_DSA_44, Verifier
from transparency.cose.public_key import PublicKey
from transparency.errors import MalformedError, NoteError, SignatureInvalidError, UnsupportedAlgorithmError
from transparency.notes.checkpoint_text import Checkpoint
from transparency.notes.cosigned import cosignature_v1_message, split_time, subtree_message
from transparency.notes.numbers import check_name, read_base64, write_base64

ED25519: Final = 0x01
ECDSA: Final = 0x02
COSIGNATURE: Final = 0x04
MLDSA: Final = 0x06

LOG_KINDS: Final = frozenset({ED25519, ECDSA, MLDSA})
"""What a log signs its checkpoints with."""
WITNESS_KINDS: Final = frozenset({COSIGNATURE, MLDSA})
"""What a witness cosigns with."""

KEY_ID_SIZE: Final = 4
_HEX: Final = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key under a name. ``key`` is the key as the vkey holds it: 32 bytes, 1312 bytes or a DER SPKI."""

    name: str
    key_id: bytes
    kind: int
    key: bytes
    _verify: Verifier = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        prepare = _PREPARE.get(self.kind)
        if prepare is None:
            known = ", ".join(f"0x{kind:02x}" for kind in _PREPARE)
            raise NoteError(f"verifier key: signature type 0x{self.kind:02x} is not known; these are: {known}")
        object.__setattr__(self, "_verify", prepare(self.key))
        # Only RECOMMENDED for note signatures in general; the sections on each of these types prescribe it.
        if self.key_id != key_id(self.name, self.kind, self.key):
            raise NoteError("verifier key: its key id is not that of its name, type and key")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``<name>+<key id in hex>+<base64 of type and key>``. What is accepted prints back the same."""
        parts = text.split("+", 2)
        if len(parts) != 3 or not _HEX.fullmatch(parts[1]):
            raise NoteError("verifier key: not <name>+<eight hex digits>+<base64>")
        data = read_base64(parts[2], "verifier key")
        if not data:
            raise NoteError("verifier key: empty")
        return cls(parts[0], bytes.fromhex(parts[1]), data[0], data[1:])

    @classmethod
    def of(cls, name: str, kind: int, public: PublicKey) -> Self:
        """The verifier key of a public key under a name, for one type of signatures."""
        material = _material(kind, public)
        return cls(name, key_id(name, kind, material), kind, material)

    @property
    def text(self) -> str:
        """The vkey, one line without its newline."""
        return f"{self.name}+{self.key_id.hex()}+{write_base64(bytes([self.kind]) + self.key)}"

    def verify(self, message: bytes, signature: bytes) -> None:
        """Check the bare signature over a message; raises SignatureInvalidError."""
        self._verify(message, signature)

    def verify_note(self, text: bytes, signature: bytes) -> int | None:
        """Check what stands behind the key id of a note's signature line; raises SignatureInvalidError.

        Gives the signed time of the timestamped types (0x04, 0x06), for the others None.
        """
        if self.kind not in WITNESS_KINDS:
            self._verify(text, signature)
            return None
        try:
            time, bare = split_time(signature)
            checkpoint = Checkpoint.from_text(text)
            if self.kind == COSIGNATURE:
                message = cosignature_v1_message(text, time)
            else:
                message = subtree_message(self.name, time, checkpoint.origin, 0, checkpoint.size, checkpoint.root)
        except NoteError as error:
            raise SignatureInvalidError(f"the signature cannot be one over this text: {error}") from None
        self._verify(message, bare)
        return time


parse = VerifierKey.parse


def key_id(name: str, kind: int, key: bytes) -> bytes:
    """The four bytes that stand for a key beside its name.

    "SHA-256(key name || 0x0A || signature type || public key)[:4]"; for ECDSA "the truncated SHA-256 hash of the DER
    encoded public key in SPKI format".
    """
    hashed = key if kind == ECDSA else name.encode() + b"\n" + bytes([kind]) + key
    return hashlib.sha256(hashed).digest()[:KEY_ID_SIZE]


def by_name_and_id(keys: Iterable[VerifierKey]) -> dict[tuple[str, bytes], VerifierKey]:
    """The keys by what a signature line says of its key. Two keys that it cannot tell apart are refused."""
    found: dict[tuple[str, bytes], VerifierKey] = {}
    for key in keys:
        if found.setdefault((key.name, key.key_id), key) != key:
            raise NoteError("verifier keys: two of them have the same name and key id, so no line says which signed")
    return found


def _ed25519(key: bytes) -> Verifier:
    try:
        # PublicKey looks at the point, which OpenSSL does not.
        raw = ed25519.Ed25519PublicKey.from_public_bytes(key)
        PublicKey(raw)
    except (ValueError, MalformedError) as error:
        raise NoteError(f"verifier key: {error}") from None
    return ED25519_ALGORITHM.verifier(raw)


def _mldsa(key: bytes) -> Verifier:
    try:
        return ML_DSA_44.verifier(mldsa.MLDSA44PublicKey.from_public_bytes(key))
    except ValueError:
        raise NoteError("verifier key: not an ML-DSA-44 key of 1312 bytes") from None


def _ecdsa(key: bytes) -> Verifier:
    """Signatures in DER over SHA-256, as transparency-dev's verifiers read them: not the pairs that COSE has."""
    try:
        raw = load_der_public_key(key)
        # P-256, P-384 or P-521, as signed-note asks, and in the one encoding there is: PublicKey writes it back.
        if not isinstance(raw, ec.EllipticCurvePublicKey) or PublicKey(raw).to_der() != key:
            raise NoteError("verifier key: not the DER SubjectPublicKeyInfo of an ECDSA key")
    except (ValueError, UnsupportedAlgorithmError):
        raise NoteError("verifier key: not the DER SubjectPublicKeyInfo of a P-256, P-384 or P-521 key") from None
    scheme = ec.ECDSA(hashes.SHA256())

    def verify(message: bytes, signature: bytes) -> None:
        try:
            raw.verify(signature, message, scheme)
        except InvalidSignature:
            raise SignatureInvalidError("the signature is not by this key over these bytes") from None

    return verify


_PREPARE: Final = MappingProxyType({ED25519: _ed25519, ECDSA: _ecdsa, COSIGNATURE: _ed25519, MLDSA: _mldsa})
_KEY_TYPES: Final[Mapping[int, tuple[str, int]]] = MappingProxyType({
    ED25519: (ED25519_KTY_NAME, labels.KEY_X),
    COSIGNATURE: (ED25519_KTY_NAME, labels.KEY_X),
    MLDSA: (ML_DSA_44.kty_name, labels.KEY_AKP_PUB),
})  # fmt: skip


def _material(kind: int, public: PublicKey) -> bytes:
    if kind == ECDSA:
        return public.to_der()
    if kind not in _KEY_TYPES:
        raise NoteError(f"verifier key: signature type {kind!r} is not known")
    kty_name, label = _KEY_TYPES[kind]
    if public.kty_name != kty_name:
        raise NoteError(
            f"verifier key: signature type 0x{kind:02x} takes a key {kty_name}, this one is {public.kty_name}"
        )
    material: bytes = public.to_cose_key()[label]
    return material
