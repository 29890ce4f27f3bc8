"""The transparent statement: a signed statement with its receipts at label 394 (RFC 9942 §4, RFC 9943 §7)."""

from __future__ import annotations

from collections.abc import Sequence

from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError
from transparency.statements.member import member

MAX_RECEIPTS = 64


def attach_receipts(statement: bytes, receipts: Sequence[bytes], *, keep_unprotected: bool = True) -> bytes:
    """Put *receipts* at 394, in their order of priority (TSt-2). What is signed stays as it is.

    A client keeps what else stands in its unprotected header (label 100); a log serves 394 alone (TSt-4).
    """
    if not receipts:
        raise MalformedError("a transparent statement carries at least one receipt (RFC 9942 §4.3)")
    message = Sign1.from_bytes(statement)
    unprotected = dict(message.unprotected) if keep_unprotected else {}
    unprotected[labels.RECEIPTS] = list(receipts)
    return message.with_unprotected(unprotected).to_bytes()


def receipts_of(message: Sign1) -> tuple[bytes, ...]:
    """The receipts of a transparent statement, () where label 394 is absent; each the bytes of a COSE_Sign1."""
    value = member(message.unprotected, labels.RECEIPTS)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_RECEIPTS:
        raise MalformedError(f"label 394 (receipts) is an array of 1 to {MAX_RECEIPTS} byte strings (RFC 9942 §4.3)")
    for item in value:
        if not isinstance(item, bytes):
            raise MalformedError("label 394 (receipts) holds something that is not a byte string (RFC 9942 Fig. 1)")
    return tuple(value)
