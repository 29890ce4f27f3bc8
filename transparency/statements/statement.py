"""The signed statement: the RFC 9943 profile of COSE_Sign1 that a log registers, and the entry it becomes.

A statement has one byte string per signature (LEAF-1): the *normalised* form ``18([protected as received, {}, payload,
signature])``. The unprotected header is dropped (RFC 9943 §6.3) and a detached payload is put back, because attached
or detached is only transport: the signature is the same. ``entry = SHA-256(normalised)`` is what the tree commits to.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NewType

from transparency.cose import base64url, labels
from transparency.cose.algorithms import ALGORITHMS
from transparency.cose.cbor import bstr, read_bstr
from transparency.cose.keys import PublicKey, Signer
from transparency.cose.sign1 import Sign1, sig_structure, sign1
from transparency.cose.x509 import read_chain, read_x5t
from transparency.errors import MalformedError, PayloadMissingError, UnsupportedAlgorithmError
from transparency.statements.certified import CertifiedSigner
from transparency.statements.envelope import Envelope
from transparency.statements.known_headers import KnownHeaders
from transparency.statements.member import member

Entry = NewType("Entry", bytes)
"""SHA-256 of a normalised statement: 32 bytes, the log's entry and, in base64url, the entry id (LEAF-2, LEAF-6)."""

ENTRY_BYTES = 32
MAX_ISS_CHARS = 8192
MAX_SUB_CHARS = 8192
MAX_KID_BYTES = 1024
_TAGGED_ARRAY_OF_4 = b"\xd2\x84"
_EMPTY_MAP = b"\xa0"
_EMPTY_MAP_BYTE = 0xA0
_new = tuple.__new__
_NIL = b"\xf6"
# RFC 8392 §2 StringOrURI: anything with a colon has to be a URI (RFC 3986 §3.1 scheme, no spaces or controls).
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f<>\"{}|\\^`]*")


class Claims(NamedTuple):
    """The CWT claims (RFC 9597) a statement or receipt carries in its protected header.

    A tuple, like the statement: several are made for each that is registered or verified, and a frozen data class takes
    five times as long.
    """

    iss: str
    sub: str
    iat: int | None
    nbf: int | None
    exp: int | None

    @classmethod
    def from_map(cls, value: object) -> Claims:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise MalformedError("protected header 15 (CWT Claims) is missing or not a map (RFC 9943 §6)")
        return cls(
            _string_or_uri(value.get(labels.CLAIM_ISS), "iss", MAX_ISS_CHARS),
            _string_or_uri(value.get(labels.CLAIM_SUB), "sub", MAX_SUB_CHARS),
            _numeric_date(member(value, labels.CLAIM_IAT), "iat"),
            _numeric_date(member(value, labels.CLAIM_NBF), "nbf"),
            _numeric_date(member(value, labels.CLAIM_EXP), "exp"),
        )


class Statement(NamedTuple):
    """A signed statement whose form is right. Nothing here says that its signature is: see :meth:`verify`."""

    message: Sign1
    claims: Claims
    alg: int
    kid: bytes | None
    content_type: str | int | None
    envelope: Envelope | None
    payload: bytes
    normalised: bytes
    entry: Entry

    @classmethod
    def from_bytes(cls, data: bytes, payload: bytes | None = None) -> Statement:
        """Read one statement; *payload* completes a detached one, and must equal an attached one."""
        if payload is None:
            known = cls._from_known(data)
            if known is not None:
                return known
        message = Sign1.from_bytes(data)
        headers = message.headers
        if labels.VDS in headers:
            # RFC 9942 §2: 395 makes it a receipt. A verifier would refuse it as a statement, so a log must not take it.
            raise MalformedError("protected header 395 (vds) makes this a receipt, not a statement")
        claims = Claims.from_map(headers.get(labels.CWT_CLAIMS))
        alg = _algorithm(headers)
        kid = _kid(headers)
        _check_certificates(headers)
        content_type = member(headers, labels.CONTENT_TYPE)
        if content_type is not None and not _is_content_type(content_type):
            raise MalformedError("protected header 3 (content type) is neither text nor an unsigned integer")
        typ = member(headers, labels.TYP)
        if typ is not None and not _is_content_type(typ):
            raise MalformedError("protected header 16 (typ) is neither text nor an unsigned integer")
        body = _complete_payload(message, payload)
        envelope = Envelope.from_headers(headers, message.unprotected, body)
        # Read canonically, attached and without an unprotected header, it is in that form already.
        plain = not message.unprotected and message.payload is not None
        normalised = bytes(data) if plain else normalise(message.protected, body, message.signature)
        read = cls(message, claims, alg, kid, content_type, envelope, body, normalised, entry_of(normalised))
        if plain and payload is None and _KNOWN.due():
            _KNOWN.learn(message.protected, headers, read._replace(message=_NO_MESSAGE, payload=b"", normalised=b""))
        return read

    @classmethod
    def _from_known(cls, data: bytes) -> Statement | None:
        """One in its normalised form, with a protected header as it was read before; None for all others."""
        if data[:2] != _TAGGED_ARRAY_OF_4:
            return None
        try:
            protected, pos = read_bstr(data, 2)
            found = _KNOWN.find(protected)
            if found is None or data[pos] != _EMPTY_MAP_BYTE:
                return None
            payload, pos = read_bstr(data, pos + 1)
            signature, pos = read_bstr(data, pos)
            headers, (_, claims, alg, kid, content_type, envelope, _, _, _) = found
            said = headers[labels.CWT_CLAIMS]
            sub = _string_or_uri(said[labels.CLAIM_SUB], "sub", MAX_SUB_CHARS)
        except (MalformedError, IndexError):
            return None
        if pos != len(data) or (envelope is not None and len(payload) != envelope.digest_size):
            return None
        iss, _, _, nbf, exp = claims
        data = bytes(data)
        # Not by the constructors, which are calls of their own: this is done for every statement.
        claims = _new(Claims, (iss, sub, said.get(labels.CLAIM_IAT), nbf, exp))
        message = _new(Sign1, (protected, headers, {}, payload, signature))
        entry = hashlib.sha256(data).digest()
        return _new(cls, (message, claims, alg, kid, content_type, envelope, payload, data, entry))

    @property
    def iss(self) -> str:
        return self.claims.iss

    @property
    def sub(self) -> str:
        return self.claims.sub

    @property
    def entry_id(self) -> str:
        return entry_id(self.entry)

    @property
    def to_be_signed(self) -> bytes:
        return sig_structure(self.message.protected, self.payload)

    @property
    def tbs_digest(self) -> bytes:
        """Shared by every signature over the same headers and payload: how siblings are found (LEAF-7)."""
        return hashlib.sha256(self.to_be_signed).digest()

    def verify(self, key: PublicKey, tbs_digest: bytes | None = None) -> None:
        """Check the issuer's signature over the protected bytes *as received* (SS-8).

        Who has the *tbs_digest* gives it: mostly it is what is signed, and then nothing is hashed again.
        """
        signature = self.message.signature
        if tbs_digest is None or not key.verify_digest(self.alg, tbs_digest, signature):
            key.verify(self.alg, self.to_be_signed, signature)


_KNOWN: KnownHeaders[Statement] = KnownHeaders()
_NO_MESSAGE = Sign1(b"", {}, {}, None, b"")


def normalise(protected: bytes, payload: bytes | None, signature: bytes) -> bytes:
    """N: the one byte string of a statement, whatever it came in (LEAF-1). Ours always has its payload (LEAF-5)."""
    body = _NIL if payload is None else bstr(payload)
    return b"".join((_TAGGED_ARRAY_OF_4, bstr(protected), _EMPTY_MAP, body, bstr(signature)))


def entry_of(normalised: bytes) -> Entry:
    return Entry(hashlib.sha256(normalised).digest())


def entry_id(entry: bytes) -> str:
    """base64url without padding: stable, URL-safe, the same in every service (LEAF-6)."""
    return base64url.encode(entry)


def parse_entry_id(text: str) -> Entry:
    """The entry an id names. One id per entry: the two spare bits of the last character must be zero."""
    try:
        entry = base64url.decode(text)
    except MalformedError as error:
        raise MalformedError(f"an entry id is 43 characters of base64url: {error}") from None
    if len(entry) != ENTRY_BYTES:
        raise MalformedError("an entry id is 43 characters of base64url without padding")
    return Entry(entry)


def sign_statement(
    payload: bytes,
    signer: Signer,
    *,
    iss: str,
    sub: str,
    content_type: str | int | None,
    headers: Mapping[int | str, Any] | None = None,
    unprotected: Mapping[int | str, Any] | None = None,
    detached: bool = False,
    iat: int | None = None,
) -> bytes:
    """Sign *payload* as a statement by *iss* about *sub*.

    The kid is the key's (RFC 9679 thumbprint by default); a :class:`CertifiedSigner` is named by its certificates.
    """
    claims: dict[int, Any] = {labels.CLAIM_ISS: iss, labels.CLAIM_SUB: sub}
    if iat is not None:
        claims[labels.CLAIM_IAT] = iat
    named: Mapping[int | str, Any] = {labels.KID: signer.public.kid}
    beside: Mapping[int | str, Any] = unprotected or {}
    if isinstance(signer, CertifiedSigner):
        named, beside = signer.protected, {**signer.unprotected, **beside}
    protected: dict[int | str, Any] = {labels.ALG: signer.alg, **named, labels.CWT_CLAIMS: claims, **(headers or {})}
    if content_type is not None:
        protected[labels.CONTENT_TYPE] = content_type
    message = sign1(protected, payload, signer, unprotected=beside, detached=detached)
    data = message.to_bytes()
    Statement.from_bytes(data, payload)  # never hand out what a log would refuse
    return data


def sign_envelope(
    digest: bytes,
    signer: Signer,
    *,
    iss: str,
    sub: str,
    hash_alg: int = labels.HASH_SHA256,
    preimage_content_type: str | int | None = None,
    location: str | None = None,
    headers: Mapping[int | str, Any] | None = None,
    unprotected: Mapping[int | str, Any] | None = None,
    iat: int | None = None,
) -> bytes:
    """Sign the digest of a record that stays elsewhere (RFC 9995)."""
    envelope: dict[int | str, Any] = {labels.PAYLOAD_HASH_ALG: hash_alg, **(headers or {})}
    if preimage_content_type is not None:
        envelope[labels.PREIMAGE_CONTENT_TYPE] = preimage_content_type
    if location is not None:
        envelope[labels.PAYLOAD_LOCATION] = location
    return sign_statement(
        digest, signer, iss=iss, sub=sub, content_type=None, headers=envelope, unprotected=unprotected, iat=iat
    )


def _complete_payload(message: Sign1, payload: bytes | None) -> bytes:
    if message.payload is None:
        if payload is None:
            raise PayloadMissingError("the statement is detached and its payload was not supplied")
        return payload
    if payload is not None and payload != message.payload:
        raise MalformedError("the payload supplied beside the statement is not the one attached to it")
    return message.payload


def _algorithm(headers: Mapping[Any, Any]) -> int:
    alg = headers.get(labels.ALG)
    if alg is None:
        # Optional in RFC 9943 Fig. 3, but nothing can be verified without it (AMB-12).
        raise MalformedError("protected header 1 (alg) is missing")
    if isinstance(alg, bool) or not isinstance(alg, int) or alg not in ALGORITHMS:
        raise UnsupportedAlgorithmError("protected header 1 (alg) names an algorithm that is not supported")
    return alg


def _kid(headers: Mapping[Any, Any]) -> bytes | None:
    kid = member(headers, labels.KID)
    if kid is None:
        if labels.X5T not in headers and labels.X5CHAIN not in headers:
            raise MalformedError(
                "protected header 4 (kid) is missing, and neither 34 (x5t) nor 33 (x5chain) is there (RFC 9943 §6)"
            )
        return None
    if not isinstance(kid, bytes):
        raise MalformedError("protected header 4 (kid) is not a byte string (RFC 9052 §3.1)")
    if not 1 <= len(kid) <= MAX_KID_BYTES:
        raise MalformedError(f"protected header 4 (kid) is not 1 to {MAX_KID_BYTES} bytes long")
    return kid


def _check_certificates(headers: Mapping[Any, Any]) -> None:
    """SS-6: 33 and 34 have the form of RFC 9360 §2. Whether they identify anybody is ``certificates.identify``'s."""
    chain, x5t = member(headers, labels.X5CHAIN), member(headers, labels.X5T)
    if chain is not None:
        read_chain(chain)
    if x5t is not None:
        read_x5t(x5t)


def _string_or_uri(value: object, name: str, most: int) -> str:
    if not isinstance(value, str):
        raise MalformedError(f"CWT claim {name} is missing or not text (RFC 9943 §6)")
    if not 1 <= len(value) <= most:
        raise MalformedError(f"CWT claim {name} is not 1 to {most} characters long (RFC 9943 §6)")
    if ":" in value and not _URI.fullmatch(value):
        raise MalformedError(f"CWT claim {name} has a colon but is not a URI (RFC 8392 §2, StringOrURI)")
    return value


def _numeric_date(value: object, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MalformedError(f"CWT claim {name} is not a number (RFC 8392 §2, NumericDate)")
    if not 0 <= value < 2**53:
        raise MalformedError(f"CWT claim {name} is not a time this log can compare")
    return math.floor(value)


def _is_content_type(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= 255
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0xFFFF
