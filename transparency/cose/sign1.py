"""COSE_Sign1 (RFC 9052 §4.2), read by slicing: the signed bytes are kept as received and never re-encoded (SS-8).

The message must be tagged (SS-1) and canonical throughout, with one exception: the order of map keys (AMB-13).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from transparency.cose import cbor, labels
from transparency.cose.private_key import Signer
from transparency.cose.public_key import PublicKey
from transparency.errors import (
    MalformedError,
    PayloadMissingError,
    SignatureInvalidError,
    UnsupportedAlgorithmError,
)

# Nobody needs more, and it is parsed before any signature is checked.
MAX_PROTECTED: Final = 256 * 1024
_PREFIX: Final = b"\xd2\x84"  # tag 18, array of 4
_EMPTY_MAP: Final = b"\xa0"
_EMPTY_BYTES: Final = b"\x40"
_NIL: Final = b"\xf6"
_CONTEXT: Final = b"\x84\x6aSignature1"
_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class Sign1(NamedTuple):
    """One signed message. ``headers`` is the decoded form of ``protected``; only the bytes count.

    A tuple, because one is made for every statement and receipt: twice as quick as a frozen data class.
    """

    protected: bytes
    headers: Mapping[Any, Any]
    unprotected: Mapping[Any, Any]
    payload: bytes | None
    signature: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Sign1:
        """Read a tagged COSE_Sign1 and nothing after it."""
        if data[:2] != _PREFIX:
            msg = "COSE_Sign1: tag 18 and an array of 4 belong at the start (d2 84)"
            raise MalformedError(msg)
        protected, pos = cbor.read_bstr(data, 2)
        if len(protected) > MAX_PROTECTED:
            msg = f"COSE_Sign1: the protected header has {len(protected)} bytes, {MAX_PROTECTED} are read"
            raise MalformedError(msg)
        headers = _read_protected(protected)
        unprotected, pos = cbor.read(data, pos) if data[pos : pos + 1] != _EMPTY_MAP else ({}, pos + 1)
        if not isinstance(unprotected, dict):
            msg = "COSE_Sign1: the unprotected header must be a map"
            raise MalformedError(msg)
        payload: bytes | None = None
        if data[pos : pos + 1] == _NIL:
            pos += 1
        else:
            payload, pos = cbor.read_bstr(data, pos)
        signature, pos = cbor.read_bstr(data, pos)
        if pos != len(data):
            msg = f"COSE_Sign1: {len(data) - pos} bytes follow the message"
            raise MalformedError(msg)
        _check_headers(headers, unprotected)
        return cls(protected, headers, unprotected, payload, signature)

    def to_bytes(self) -> bytes:
        """Give the tagged message: the protected header as kept, the unprotected one in deterministic encoding."""
        return b"".join(
            (
                _PREFIX,
                cbor.bstr(self.protected),
                cbor.encode(self.unprotected),
                _NIL if self.payload is None else cbor.bstr(self.payload),
                cbor.bstr(self.signature),
            )
        )

    def with_unprotected(self, unprotected: Mapping[Any, Any]) -> Sign1:
        """Give the message with another unprotected header; the signature does not cover it."""
        _check_headers(self.headers, unprotected)
        return self._replace(unprotected=unprotected)

    def with_payload(self, payload: bytes | None) -> Sign1:
        """Give the message with its payload attached, or detached (None)."""
        return self._replace(payload=payload)

    def verify(self, key: PublicKey, payload: bytes | None = None, *, external_aad: bytes = b"") -> None:
        """Check the signature by ``key``; ``payload`` is needed for a detached message.

        The algorithm is the protected header's: an unprotected one could be changed by anybody.
        """
        if self.payload is not None:
            if payload is not None and payload != self.payload:
                msg = "the payload given is not the one in the message"
                raise SignatureInvalidError(msg)
            payload = self.payload
        if payload is None:
            msg = "the message is detached: its payload is needed to check the signature"
            raise PayloadMissingError(msg)
        key.verify(self.alg, sig_structure(self.protected, payload, external_aad), self.signature)

    @property
    def alg(self) -> int:
        """The protected header's algorithm (RFC 9052 §3.1), which must be there and be a number."""
        alg = self.headers.get(labels.ALG)
        if type(alg) is not int:
            msg = (
                "the protected header has no alg (1)"
                if alg is None
                else f"alg {alg!r:.60} is not supported: it must be an integer"
            )
            raise UnsupportedAlgorithmError(msg)
        return alg


def sig_structure(protected: bytes, payload: bytes, external_aad: bytes = b"") -> bytes:
    """Give the bytes that are signed (RFC 9052 §4.4)."""
    head = cbor.bstr_head
    aad = cbor.bstr(external_aad) if external_aad else _EMPTY_BYTES
    return b"".join((_CONTEXT, head(len(protected)), protected, aad, head(len(payload)), payload))


def sign1(
    headers: Mapping[Any, Any],
    payload: bytes,
    signer: Signer,
    *,
    unprotected: Mapping[Any, Any] = _NOTHING,
    detached: bool = False,
    external_aad: bytes = b"",
) -> Sign1:
    """Sign ``payload``. The protected header gets the signer's alg; one given in ``headers`` must be the same."""
    if headers.get(labels.ALG, signer.alg) != signer.alg:
        msg = f"the header says alg {headers[labels.ALG]!r:.60}, the signer makes {signer.alg}"
        raise UnsupportedAlgorithmError(msg)
    complete = {labels.ALG: signer.alg, **headers}
    _check_headers(complete, unprotected)
    protected = cbor.encode(complete)
    signature = signer.sign(sig_structure(protected, payload, external_aad))
    return Sign1(protected, complete, unprotected, None if detached else payload, signature)


def _read_protected(protected: bytes) -> dict[Any, Any]:
    # RFC 9052 §3: an empty map is a zero-length string. The other spelling, a0, would sign as if it were this one.
    if not protected:
        return {}
    headers = cbor.decode(protected)
    if not isinstance(headers, dict) or not headers:
        msg = "COSE_Sign1: the protected header must hold a map, an empty one as a zero-length string"
        raise MalformedError(msg)
    return headers


def _check_headers(headers: Mapping[Any, Any], unprotected: Mapping[Any, Any]) -> None:
    for label in headers:
        if type(label) is not int and type(label) is not str:
            _refuse_label()
    if unprotected:
        for label in unprotected:
            if type(label) is not int and type(label) is not str:
                _refuse_label()
            if label in headers:
                msg = f"COSE_Sign1: label {label!r:.60} is in both headers"
                raise MalformedError(msg)
        if labels.CRIT in unprotected:
            msg = "COSE_Sign1: crit (2) belongs in the protected header"
            raise MalformedError(msg)
    if labels.CRIT in headers:
        _check_crit(headers)


def _refuse_label() -> None:
    msg = "COSE_Sign1: a header label must be an integer or text"
    raise MalformedError(msg)


def _check_crit(headers: Mapping[Any, Any]) -> None:
    """Refuse a message that needs something understood that is not (SS-9, RFC 9052 §3.1)."""
    crit = headers[labels.CRIT]
    if not isinstance(crit, list | tuple) or not crit:
        msg = "COSE_Sign1: crit (2) must be an array of labels, not an empty one"
        raise MalformedError(msg)
    for label in crit:
        # type() and not isinstance(): True is an int to Python and would pass for label 1.
        if type(label) is not int and type(label) is not str:
            msg = "COSE_Sign1: crit (2) must hold labels"
            raise MalformedError(msg)
        if label not in headers:
            msg = f"COSE_Sign1: crit (2) names {label!r:.60}, which is not in the protected header"
            raise MalformedError(msg)
        if label not in labels.UNDERSTOOD:
            msg = f"COSE_Sign1: crit (2) names {label!r:.60}, which is not understood here"
            raise MalformedError(msg)
