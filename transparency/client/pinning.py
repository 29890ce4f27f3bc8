"""Receipts against pinned keys: what a client checks before it believes that something was registered."""

from __future__ import annotations

from collections.abc import Sequence

from transparency.cose.keys import PublicKey
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError, ProofError, SignatureInvalidError, UnsupportedAlgorithmError
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.statements.transparent import receipts_of


def looks_like_receipt(data: bytes) -> bool:
    """A receipt by form. One of a data structure we cannot check is still one, for who can."""
    try:
        Receipt.from_bytes(data)
    except UnsupportedAlgorithmError:
        return True
    except MalformedError:
        return False
    return True


def check_receipt(data: bytes, entry: bytes, pinned: Sequence[PublicKey]) -> PublicKey:
    """The pinned key that signed this receipt for *entry*; SignatureInvalidError or ProofError if there is none."""
    receipt = Receipt.from_bytes(data)
    candidates = [key for key in pinned if receipt.kid is None or receipt.kid in (key.kid, key.thumbprint)]
    if not candidates:
        msg = "the log's receipt is signed with a key that is not pinned"
        raise SignatureInvalidError(msg)
    try:
        root = receipt.root_for(entry)
    except ProofError as error:
        msg = f"the log's receipt is not for this statement: {error}"
        raise ProofError(msg) from error
    for key in candidates:
        try:
            receipt.verify_signature(key, root)
        except (SignatureInvalidError, UnsupportedAlgorithmError):
            continue
        return key
    msg = "the log's receipt for this statement was not signed by any pinned key"
    raise SignatureInvalidError(msg)


def check_transparent_statement(data: bytes, entry: bytes, pinned: Sequence[PublicKey]) -> None:
    """The statement that was asked for, and at least one receipt by a pinned key (TSt-5)."""
    statement = Statement.from_bytes(data)
    if statement.entry != entry:
        msg = "the log answered with another statement than the one asked for"
        raise ProofError(msg)
    receipts = receipts_of(Sign1.from_bytes(data))
    if not receipts:
        msg = "the log answered with a statement without a receipt"
        raise ProofError(msg)
    failure: SignatureInvalidError | ProofError | None = None
    for receipt in receipts:
        try:
            check_receipt(receipt, entry, pinned)
        except (SignatureInvalidError, ProofError) as error:
            failure = failure or error
        else:
            return
    assert failure is not None  # noqa: S101 - the loop ran at least once and never succeeded
    raise failure
