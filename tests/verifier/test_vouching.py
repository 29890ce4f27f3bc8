"""A receipt under a compromised key counts only with a consistency path to a head of a good key (design §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.verifier.world import (
    DATA,
    LOG_ISS,
    LOG_KEY,
    ORIGIN,
    OTHER_LOG_KEY,
    TIME,
    Log,
    failed,
    registered,
    trust,
)
from transparency.cose import labels
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1, sign1
from transparency.errors import MalformedError
from transparency.merkle.proofs import consistency_path
from transparency.statements.receipt import consistency_receipt, sign_head
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import LogTrust, Report, TrustedKey, TrustStore, verify

if TYPE_CHECKING:
    from transparency.cose.keys import PublicKey

LATER = TIME + 1000
COMPROMISED = TIME + 500


def store(*, good: PublicKey = OTHER_LOG_KEY.public, since: int = COMPROMISED, **good_key: int) -> TrustStore:
    return trust(log_keys=[TrustedKey(LOG_KEY.public, compromised_since=since), TrustedKey(good, **good_key)])


def world() -> tuple[Log, bytes, int]:
    """A log whose key was rotated after DATA was registered: the log, DATA with its old receipt, that head's size."""
    log, index = registered()
    size = len(log.entries)
    old = attach_receipts(DATA, [log.receipt(index)])
    for n in range(6):
        log.add(bytes([0xA0 + n]) * 32)
    return log, old, size


def climb(log: Log, old: int, *, key: PrivateKey = OTHER_LOG_KEY, iss: str = LOG_ISS, origin: str = ORIGIN) -> bytes:
    """The consistency receipt from *old* to the newest head, which *key* signs."""
    size = len(log.entries)
    head = sign_head(key, iss=iss, origin=origin, size=size, root=log.root(size), time=LATER)
    return consistency_receipt(head, old, consistency_path(old, size, log.read))


def reason(report: Report) -> str:
    return next(check.detail for check in report.checks if check.id == "key-validity")


def test_a_receipt_under_a_compromised_key_is_believed_with_a_consistency_receipt_by_a_good_one() -> None:
    log, old, size = world()

    assert verify(old, store()).verdict == "cannot-tell"
    report = verify(old, store(), consistency=[climb(log, size)])

    assert report.verdict == "verified"
    claims = {claim.name: claim.value for claim in report.claims}
    assert claims["log-key"] == OTHER_LOG_KEY.public.thumbprint.hex()
    assert (claims["tree-size"], claims["head-time"]) == (size, LATER), (
        "the time is the good head's, not the claimed one"
    )


def test_it_helps_also_where_the_receipt_says_a_time_after_the_compromise() -> None:
    """The path decides: a tree that a good head commits to is the log's, whoever signed its own head."""
    log, old, size = world()

    assert failed(verify(old, store(since=TIME))) == ["key-validity"]
    assert verify(old, store(since=TIME), consistency=[climb(log, size)]).verdict == "verified"


def test_what_the_thief_signed_is_in_no_tree_of_the_log() -> None:
    log, _, _ = world()
    forged = Log(LOG_KEY, entries=[*log.entries[:3]])
    data = attach_receipts(DATA, [forged.receipt(forged.add(Statement.from_bytes(DATA).entry))])
    size = len(forged.entries)

    report = verify(data, store(), consistency=[climb(log, size)])

    assert report.verdict == "cannot-tell"
    assert "does not hold" in reason(report)


@pytest.mark.parametrize(
    ("receipt", "why"),
    [
        (lambda log, size: climb(log, size - 1), "no consistency receipt starts at size 7"),
        (lambda log, size: climb(log, size, key=LOG_KEY), "by a compromised key itself"),
        (lambda log, size: climb(log, size, key=PrivateKey.generate(-7)), "no key that is trusted"),
        (lambda log, size: climb(log, size, iss="https://other.example"), "iss is not the one"),
        (lambda log, size: climb(log, size, origin="other.example"), "sub is not the one"),
    ],
)
def test_a_consistency_receipt_that_does_not_help_says_why(receipt: object, why: str) -> None:
    log, old, size = world()
    assert callable(receipt)

    report = verify(old, store(), consistency=[receipt(log, size)])

    assert report.verdict == "cannot-tell"
    assert why in reason(report)


def test_a_good_key_that_ended_before_its_head_does_not_help() -> None:
    log, old, size = world()

    report = verify(old, store(not_after=LATER - 1), consistency=[climb(log, size)])

    assert (report.verdict, "was good until" in reason(report)) == ("cannot-tell", True)


def test_a_head_that_does_not_sign_its_size_does_not_help() -> None:
    """RC-18, RC-19: a path can be relabelled to another size."""
    log, old, size = world()
    signed = Sign1.from_bytes(climb(log, size))
    headers = {**signed.headers, labels.CWT_CLAIMS: {1: LOG_ISS, 2: ORIGIN, 6: LATER}}
    bare = sign1(headers, log.root(len(log.entries)), OTHER_LOG_KEY, unprotected=signed.unprotected, detached=True)

    report = verify(old, store(), consistency=[bare.to_bytes()])

    assert (report.verdict, "does not sign its tree size" in reason(report)) == ("cannot-tell", True)


def test_a_key_of_another_log_does_not_help() -> None:
    log, old, size = world()
    compromised = trust(log_keys=[TrustedKey(LOG_KEY.public, compromised_since=COMPROMISED)])
    other = TrustStore((LogTrust((TrustedKey(OTHER_LOG_KEY.public),), LOG_ISS, "other.example/tlog"),))

    report = verify(old, compromised.merged(other), consistency=[climb(log, size)])

    assert report.verdict == "cannot-tell"


def test_what_is_no_consistency_receipt_is_refused() -> None:
    log, index = registered()

    with pytest.raises(MalformedError, match="no consistency"):
        verify(DATA, store(), consistency=[log.receipt(index)])
    with pytest.raises(MalformedError):
        verify(DATA, store(), consistency=[b"junk"])


def test_a_good_receipt_needs_no_help_and_takes_no_harm() -> None:
    log, index = registered()
    fresh = attach_receipts(DATA, [log.receipt(index)])
    log.add(b"\x01" * 32)

    report = verify(fresh, trust(), consistency=[climb(log, 7, key=PrivateKey.generate(-7))])

    assert report.verdict == "verified"
