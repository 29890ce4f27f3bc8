"""Tree heads: each checked once, remembered by all that makes it, and joined by consistency."""

from __future__ import annotations

import pytest

from tests.verifier.world import (
    DATA,
    ISSUER,
    LOG_KEY,
    TIME,
    Log,
    registered,
    statement,
    trust,
)
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError, ProofError, SignatureInvalidError
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import (
    HeadCache,
    TrustedKey,
    Verifier,
    verify_consistency,
)

# --- heads ---------------------------------------------------------------------------------------------------------


def test_rc19_each_head_is_checked_once_however_many_receipts_are_under_it() -> None:
    """RC-19: the memory is keyed by key, protected bytes, root and signature."""
    log = Log()
    statements = [statement(bytes([n])) for n in range(3)]
    indexes = [log.add(Statement.from_bytes(data).entry) for data in statements]
    verifier = Verifier(trust())

    for data, index in zip(statements, indexes, strict=True):
        assert verifier.verify(attach_receipts(data, [log.receipt(index)])).verdict == "verified"

    assert len(verifier.heads) == 1


def test_rc19_a_remembered_head_does_not_answer_for_another() -> None:
    """RC-19: other root, other protected bytes, other signature, other key: each is checked anew."""
    log, index = registered()
    genuine = log.receipt(index)
    message = Sign1.from_bytes(genuine)
    verifier = Verifier(trust())
    assert verifier.verify(attach_receipts(DATA, [genuine])).verdict == "verified"

    other_signature = Sign1(message.protected, message.headers, message.unprotected, None, bytes(64)).to_bytes()
    other_key = Verifier(
        trust(log_keys=[TrustedKey(PrivateKey.generate(-7).public.with_kid(LOG_KEY.public.kid))]), heads=verifier.heads
    )

    assert verifier.verify(attach_receipts(statement(b"other"), [genuine])).verdict == "failed"
    assert verifier.verify(attach_receipts(DATA, [other_signature])).verdict == "failed"
    assert other_key.verify(attach_receipts(DATA, [genuine])).verdict == "failed"
    assert len(verifier.heads) == 1


def test_the_memory_of_heads_is_bounded() -> None:
    heads = HeadCache(most=2)
    verifier = Verifier(trust(), heads=heads)
    log, index = registered()

    for time in range(TIME, TIME + 5):
        assert verifier.verify(attach_receipts(DATA, [log.receipt(index, time=time)])).verdict == "verified"

    assert len(heads) == 2


def test_rc10_consistency_leads_from_a_trusted_pair_to_the_newer_head() -> None:
    """RC-6, RC-10, RC-19."""
    log, _ = registered()

    head = verify_consistency(log.consistency(3, 7), 3, log.root(3), LOG_KEY.public)

    assert (head.size, head.root, head.time, head.size_signed) == (7, log.root(7), TIME, True)


def test_rc10_consistency_from_anything_else_is_refused() -> None:
    """RC-10, RC-19: another root, another size, another key, another kind of receipt."""
    log, index = registered()
    receipt = log.consistency(3, 7)

    with pytest.raises(ProofError):
        verify_consistency(receipt, 3, log.root(4), LOG_KEY.public)
    with pytest.raises(ProofError):
        verify_consistency(receipt, 4, log.root(4), LOG_KEY.public)
    with pytest.raises(SignatureInvalidError):
        verify_consistency(receipt, 3, log.root(3), ISSUER.public)
    with pytest.raises(ProofError):
        verify_consistency(log.receipt(index), 3, log.root(3), LOG_KEY.public)
    with pytest.raises(MalformedError):
        verify_consistency(receipt[1:], 3, log.root(3), LOG_KEY.public)
