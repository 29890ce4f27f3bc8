"""What a statement says in a form that this package knows, so that no record is looked for in it.

Our own content types are registered as ordinary statements, by issuers whom the policy accepts. Reading one never
fails: what is not what its type says is nothing that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from transparency.compliance import attestation, review
from transparency.compliance.attestation import Attestation
from transparency.compliance.period import Period
from transparency.compliance.review import ACCEPTED, Review
from transparency.errors import TransparencyError

__all__ = [
    "ACCEPTED",
    "ATTESTATION",
    "CONTENT_TYPES",
    "PERIOD",
    "REPORT",
    "REPRODUCED",
    "REVIEW",
    "Attestation",
    "Review",
]

REVIEW: Final = review.CONTENT_TYPE
ATTESTATION: Final = attestation.CONTENT_TYPE
PERIOD: Final = "application/vnd.agent-transparency.witness-period+cbor"
REPORT: Final = "application/vnd.agent-transparency.report+json"
CONTENT_TYPES: Final = frozenset({REVIEW, ATTESTATION, PERIOD, REPORT})
# The word of a replay that admitted an entry rightly (log/audit_report.py); who was not admitted states nothing.
REPRODUCED: Final = "reproduced"
_MAX_BYTES: Final = 64 * 1024


def read_stated(content_type: object, payload: bytes) -> object:
    """What *payload* states, None where it is no form that is known here."""
    reader = READERS.get(content_type) if isinstance(content_type, str) else None
    if reader is None or len(payload) > _MAX_BYTES:
        return None
    try:
        return reader(payload)
    except TransparencyError:
        return None


# The one place where a reader of our own statements is entered.
READERS: Final[dict[str, Callable[[bytes], object]]] = {
    REVIEW: Review.from_bytes,
    ATTESTATION: Attestation.from_bytes,
    PERIOD: Period.from_bytes,
}
