"""Issuers known by their certificates: which chain is listened to, at what time it is judged, and what it says then."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.verifier.world import ISS, ISSUER, LOG_ISS, LOG_KEY, ORIGIN, Log, statement, with_unprotected
from transparency.cose import labels
from transparency.cose.sign1 import Sign1, sign1
from transparency.cose.x509 import write_chain, write_x5t
from transparency.cose.x509_path import Root
from transparency.statements.certified import CertifiedSigner
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.testing.pki import BEGINS, ENDS, Authority, Holder
from transparency.verifier import Check, IssuerTrust, LogTrust, Options, Report, TrustedKey, TrustStore, verify

ROOT = Authority.create("Root")
LEAF = ROOT.authority("Issuing").leaf("agent")
THEN = BEGINS + 3600
LATER = ENDS + 3600
LOGS = (LogTrust((TrustedKey(LOG_KEY.public),), LOG_ISS, ORIGIN),)
TRUST = TrustStore(LOGS, (IssuerTrust((), ISS, (Root(ROOT.der),)),))
STATEMENT_ONLY = Options(statement_only=True)


def certified(holder: Holder = LEAF, *, iat: int | None = None, **how: Any) -> bytes:
    return statement(signer=CertifiedSigner(holder.signer, holder.chain, **how), iat=iat)


def check(report: Report, name: str = "issuer-certificate") -> Check:
    (found,) = [item for item in report.checks if item.id == name]
    return found


@pytest.mark.parametrize(
    "how",
    [{}, {"x5t": True}, {"x5chain": "unprotected", "x5t": True}, {"x5chain": "unprotected"}],
    ids=["x5chain", "x5chain+x5t", "x5t", "kid"],
)
def test_a_certificate_under_a_trusted_root_names_the_issuers_key(how: dict[str, Any]) -> None:
    """SS-6, SS-7: each way to carry a chain; judged when the log had the statement, however long ago that was."""
    report = verify(Log().register(certified(**how), time=THEN), TRUST, options=Options(now=LATER))

    assert report.verdict == "verified", report.summary
    assert check(report).detail == "valid at 2026-01-01T01:00:00Z, when the log had it (the receipt's time)"
    assert check(report).evidence == {
        "subject": "CN=agent,O=Acme",
        "certificate": hashlib.sha256(LEAF.der).hexdigest(),
        "root": hashlib.sha256(ROOT.der).hexdigest(),
    }
    assert check(report, "issuer-key").evidence["key"] == LEAF.signer.public.thumbprint.hex()
    assert ("iss", ISS, "signed by the trusted issuer") in report.claims


def test_a_certificate_that_had_expired_when_the_log_had_the_statement_fails() -> None:
    """SS-7: what the issuer states does not bring the time back."""
    report = verify(Log().register(certified(iat=THEN), time=LATER), TRUST, options=Options(now=THEN))

    assert report.verdict == "failed"
    assert "'CN=agent,O=Acme' has expired" in check(report).detail
    assert check(report, "issuer-signature").outcome == "not_checked"


def test_without_a_receipt_the_time_that_the_issuer_states_counts() -> None:
    report = verify(certified(iat=THEN), TRUST, options=Options(statement_only=True, now=THEN + 60))

    assert report.verdict == "verified"
    assert "when its issuer says it was signed (iat; no receipt shows it)" in check(report).detail


def test_an_old_certificate_with_an_old_iat_and_no_receipt_is_a_warning() -> None:
    """Whoever has the key of an expired certificate can write any time."""
    report = verify(certified(iat=THEN), TRUST, options=Options(statement_only=True, now=LATER))

    assert report.verdict == "warnings"
    assert "by now (2027-01-01T01:00:00Z) the certificate is not valid" in check(report).detail


def test_without_receipt_and_iat_it_is_judged_now() -> None:
    fresh = verify(certified(), TRUST, options=Options(statement_only=True, now=THEN))
    stale = verify(certified(), TRUST, options=Options(statement_only=True, now=LATER))
    never = verify(certified(), TRUST, options=STATEMENT_ONLY)

    assert (fresh.verdict, stale.verdict, never.verdict) == ("verified", "failed", "cannot-tell")
    assert check(fresh).detail.endswith("now (it has no receipt that counts, and no iat)")
    assert "no time to judge the certificate at" in check(never).detail


def test_a_receipt_of_a_strangers_log_gives_no_time() -> None:
    stranger = Log(key=ISSUER)

    report = verify(stranger.register(certified(iat=THEN), time=LATER), TRUST, options=Options(now=THEN))

    assert "(iat; no receipt shows it)" in check(report).detail


def test_the_wrong_root_fails_and_says_so() -> None:
    impostor = Authority.create("Root").leaf()

    report = verify(Log().register(certified(impostor), time=THEN), TRUST)

    assert report.verdict == "failed"
    assert "wrong root" in report.summary


def test_a_signature_by_another_key_than_the_certificates_fails() -> None:
    """SS-5: the certificate names the key; the signature has to be by it."""
    headers = dict(Sign1.from_bytes(certified()).headers)
    forged = sign1(headers, b"hello", ISSUER).to_bytes()

    report = verify(Log().register(forged, time=THEN), TRUST)

    assert check(report).outcome == "passed"
    assert check(report, "issuer-signature").outcome == "failed"


def test_certificates_beside_the_statement_count_only_where_it_names_them() -> None:
    """AMB-10: an unprotected chain for a kid that is no thumbprint is noise, and noise changes nothing."""
    named = statement(signer=LEAF.signer, headers={labels.KID: b"my key"})
    noisy = with_unprotected(Log().register(named, time=THEN), {labels.X5CHAIN: write_chain(LEAF.chain)})

    report = verify(noisy, TRUST)

    assert report.verdict == "cannot-tell"
    assert "names no certificate" in check(report).detail
    pinned = TrustStore(LOGS, (IssuerTrust((LEAF.signer.public.with_kid(b"my key"),), ISS, (Root(ROOT.der),)),))
    assert verify(noisy, pinned).verdict == "verified"


def test_a_chain_that_was_dropped_leaves_the_question_open() -> None:
    """A log serves a statement without its unprotected header; the certificate is missing then, not wrong."""
    for how in ({"x5chain": "unprotected", "x5t": True}, {"x5chain": "unprotected"}):
        data = Log().register(certified(**how), time=THEN)
        receipts = Sign1.from_bytes(data).unprotected[labels.RECEIPTS]
        bare = Sign1.from_bytes(data).with_unprotected({labels.RECEIPTS: receipts}).to_bytes()

        report = verify(bare, TRUST)

        assert report.verdict == "cannot-tell"
        assert check(report).outcome == "not_checked"


def test_an_x5t_of_another_certificate_fails() -> None:
    headers = {labels.X5T: write_x5t(ROOT.der), labels.X5CHAIN: write_chain(LEAF.chain)}

    report = verify(Log().register(statement(signer=LEAF.signer, headers=headers), time=THEN), TRUST)

    assert "names another certificate" in check(report).detail


def test_a_kid_and_a_certificate_must_name_one_key() -> None:
    """SS-5: if several identifiers are known, all of them are checked."""
    both = statement(signer=LEAF.signer, headers={labels.KID: b"k", labels.X5CHAIN: write_chain(LEAF.chain)})
    data = Log().register(both, time=THEN)

    def trusting(key: Any) -> TrustStore:
        return TrustStore(LOGS, (IssuerTrust((key.with_kid(b"k"),), ISS, (Root(ROOT.der),)),))

    assert verify(data, trusting(LEAF.signer.public)).verdict == "verified"
    report = verify(data, trusting(ISSUER.public))
    assert report.verdict == "failed"
    assert "the kid names another key than the certificate" in report.summary


def test_a_key_of_the_issuer_still_signs_without_a_certificate() -> None:
    both = TrustStore(LOGS, (IssuerTrust((ISSUER.public,), ISS, (Root(ROOT.der),)),))

    assert verify(Log().register(statement()), both).verdict == "verified"
    assert verify(Log().register(certified(), time=THEN), both).verdict == "verified"


def test_a_pinned_issuer_is_not_vouched_for_by_a_root_given_by_hand() -> None:
    pinned = TrustStore(LOGS, (IssuerTrust((ISSUER.public,), ISS),))
    store = pinned.merged(TrustStore.from_keys(issuer_roots=[Root(ROOT.der)]))

    report = verify(Log().register(certified(), time=THEN), store)

    assert report.verdict != "verified"
    assert not [item for item in report.checks if item.id == "issuer-certificate"]


def test_an_issuer_pinned_by_roots_is_not_vouched_for_by_a_bare_key() -> None:
    store = TRUST.merged(TrustStore.from_keys(issuer_keys=[ISSUER.public]))

    assert verify(Log().register(statement()), store).verdict == "cannot-tell"


def test_under_a_root_given_by_hand_the_issuer_is_claimed() -> None:
    store = TrustStore.from_keys([LOG_KEY.public], issuer_roots=[Root(ROOT.der)])

    report = verify(Log().register(certified(), time=THEN), store)

    assert report.verdict == "verified"
    assert "given by hand; the issuer is claimed" in check(report, "issuer-key").detail
    assert ("iss", ISS, "claimed by the holder of the given issuer key") in report.claims


def test_what_a_root_is_trusted_for_is_asked_of_the_leaf() -> None:
    narrow = TrustStore(LOGS, (IssuerTrust((), ISS, (Root(ROOT.der, {"CN": "other"}),)),))

    report = verify(Log().register(certified(), time=THEN), narrow)

    assert "not named as required: subject CN must be 'other'" in check(report).detail


@pytest.mark.parametrize("value", [5, b"junk", [LEAF.der], [b"a", b"b"], None, {}])
def test_anything_in_the_protected_header_gives_a_report(value: object) -> None:
    message = sign1({1: -7, 15: {1: ISS, 2: "s"}, labels.X5CHAIN: value}, b"hello", LEAF.signer)

    report = verify(message.to_bytes(), TRUST, options=Options(statement_only=True, now=THEN))

    assert report.verdict == "failed"
    assert check(report).outcome == "failed"


def test_a_receipt_renewed_after_the_certificate_expired_does_not_do_and_the_first_one_beside_it_does() -> None:
    """API-4: a renewed receipt is under a later head. The certificate is judged at that time, so the first is kept."""
    log, signed = Log(), certified()
    index = log.add(Statement.from_bytes(signed).entry)
    first, renewed = log.receipt(index, time=THEN), log.receipt(index, time=LATER)

    alone = verify(attach_receipts(signed, [renewed]), TRUST, options=Options(now=LATER))
    kept = verify(attach_receipts(signed, [first]), TRUST, options=Options(now=LATER))
    both = [
        verify(attach_receipts(signed, receipts), TRUST, options=Options(now=LATER))
        for receipts in ([first, renewed], [renewed, first])
    ]

    assert alone.verdict == "failed"
    assert "has expired" in check(alone).detail
    assert kept.verdict == "verified"
    assert [report.verdict for report in both] == ["verified", "verified"]
