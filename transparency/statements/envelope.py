"""The COSE hash envelope (RFC 9995): a statement whose payload is the digest of a record kept elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transparency.cose import labels
from transparency.errors import MalformedError, UnsupportedAlgorithmError
from transparency.records.hashes import BY_LABEL
from transparency.statements.member import member

_ENVELOPE_LABELS = (labels.PAYLOAD_HASH_ALG, labels.PREIMAGE_CONTENT_TYPE, labels.PAYLOAD_LOCATION)
MAX_LOCATION_CHARS = 8192


@dataclass(frozen=True, slots=True)
class Envelope:
    """What labels 258, 259 and 260 say about the preimage. The location is never fetched to decide (HE-5)."""

    hash_alg: int
    preimage_content_type: str | int | None
    location: str | None

    @classmethod
    def from_headers(
        cls, headers: Mapping[Any, Any], unprotected: Mapping[Any, Any], payload: bytes
    ) -> Envelope | None:
        """The envelope of a statement, or None if it is not one. HE-1 to HE-4 hold for what is returned."""
        for label in _ENVELOPE_LABELS:
            if label in unprotected:
                raise MalformedError(f"label {label} may stand in the protected header only (RFC 9995 §4)")
        if labels.PAYLOAD_HASH_ALG not in headers:
            for label in _ENVELOPE_LABELS[1:]:
                if label in headers:
                    raise MalformedError(f"label {label} without 258 (payload-hash-alg) has no meaning (RFC 9995 §4)")
            return None
        if labels.CONTENT_TYPE in headers or labels.CONTENT_TYPE in unprotected:
            raise MalformedError("a hash envelope must not carry 3 (content type); use 259 (RFC 9995 §4)")
        hash_alg = headers[labels.PAYLOAD_HASH_ALG]
        if isinstance(hash_alg, bool) or not isinstance(hash_alg, int):
            raise MalformedError("label 258 (payload-hash-alg) is not an integer (RFC 9995 §3)")
        known = BY_LABEL.get(hash_alg)
        if known is None:
            raise UnsupportedAlgorithmError(f"payload-hash-alg {hash_alg} is not SHA-256, SHA-384 or SHA-512")
        if len(payload) != known.size:
            raise MalformedError(
                f"the payload has {len(payload)} bytes, a {known.name} digest has {known.size} (RFC 9995 §3)"
            )
        return cls(hash_alg, _preimage_type(headers), _location(headers))

    @property
    def hash_name(self) -> str:
        return BY_LABEL[self.hash_alg].name

    @property
    def digest_size(self) -> int:
        return BY_LABEL[self.hash_alg].size

    def digest(self, preimage: bytes) -> bytes:
        return BY_LABEL[self.hash_alg].digest(preimage)


def _preimage_type(headers: Mapping[Any, Any]) -> str | int | None:
    value = member(headers, labels.PREIMAGE_CONTENT_TYPE)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise MalformedError("label 259 (preimage content type) is neither text nor an unsigned integer (RFC 9995 §3)")
    return value


def _location(headers: Mapping[Any, Any]) -> str | None:
    value = member(headers, labels.PAYLOAD_LOCATION)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_LOCATION_CHARS:
        raise MalformedError("label 260 (payload-location) is not text of bounded length (RFC 9995 §3)")
    return value
