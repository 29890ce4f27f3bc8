"""An issuer's key that ended: the log's time decides what it signed while it was good."""

from __future__ import annotations

import base64

import pytest

from tests.verifier.world import ISS, ISSUER, LOG_ISS, LOG_KEY, ORIGIN, TIME, Log, outcomes, statement, trust
from transparency.cose.keys import Signer
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import Options, TrustStore, verify
from transparency.verifier.report import Report
from transparency.verifier.trust import IssuerTrust, TrustedKey


def ended(*, not_after: int | None = None, compromised_since: int | None = None) -> TrustStore:
    end = TrustedKey(ISSUER.public, not_after, compromised_since)
    return TrustStore(trust().logs, (IssuerTrust((ISSUER.public,), ISS, ended=(end,)),))


def relied_on(report: Report) -> set[str]:
    return {claim.name for claim in report.claims}


def test_what_was_registered_before_the_theft_stays_good() -> None:
    report = verify(Log().register(statement(), time=TIME), ended(compromised_since=TIME + 1))

    assert report.verdict == "verified"
    assert "before the issuer's key ended" in next(c.detail for c in report.checks if c.id == "issuer-key-time")


def test_what_was_registered_at_or_after_the_theft_fails_whatever_iat_says() -> None:
    backdated = statement(iat=TIME - 10_000)

    report = verify(Log().register(backdated, time=TIME), ended(compromised_since=TIME))

    assert (report.verdict, outcomes(report)["issuer-key-time"]) == ("failed", "failed")
    assert "compromised since" in report.summary
    assert report.claims == ()


def test_without_a_receipt_nobody_can_tell_and_nothing_of_it_may_be_relied_on() -> None:
    report = verify(statement(iat=TIME - 10_000), ended(compromised_since=TIME), options=Options(statement_only=True))

    assert report.verdict == "cannot-tell"
    assert "no receipt shows when" in report.summary
    assert "iss" not in relied_on(report)


@pytest.mark.parametrize(("not_after", "verdict"), [(TIME, "verified"), (TIME - 1, "failed")])
def test_a_retired_key_is_good_to_its_last_second(not_after: int, verdict: str) -> None:
    assert verify(Log().register(statement(), time=TIME), ended(not_after=not_after)).verdict == verdict


def test_the_end_of_another_issuers_key_changes_nothing() -> None:
    other = IssuerTrust(
        (ISSUER.public,), "https://other.example", ended=(TrustedKey(ISSUER.public, compromised_since=0),)
    )

    assert (
        verify(Log().register(statement()), TrustStore(trust().logs, (*trust().issuers, other))).verdict == "verified"
    )


def test_the_trust_file_gives_an_issuers_key_its_dates() -> None:
    def key(signer: Signer) -> str:
        return base64.urlsafe_b64encode(signer.public.to_cose_key_bytes()).rstrip(b"=").decode()

    toml = (
        f'[[log]]\niss = "{LOG_ISS}"\norigin = "{ORIGIN}"\nkeys = ["cose-key:{key(LOG_KEY)}"]\n'
        f'[[issuer]]\niss = "{ISS}"\n'
        f'keys = [{{ cose-key = "{key(ISSUER)}", compromised-since = 1970-01-01T00:00:09Z }}]\n'
    )

    store = TrustStore.from_toml(toml.encode())

    assert store.issuers[0].ended == (TrustedKey(ISSUER.public, None, 9),)
    assert verify(Log().register(statement()), store).verdict == "failed"


@pytest.mark.parametrize("renewed_first", [True, False])
def test_of_several_receipts_the_earliest_that_counts_decides(*, renewed_first: bool) -> None:
    """TSt-2 orders them by preference; each of them proves by when the statement was there."""
    log, signed = Log(), statement()
    index = log.add(Statement.from_bytes(signed).entry)
    receipts = [log.receipt(index, time=TIME + 100), log.receipt(index, time=TIME)]
    stranger = Log(ISSUER)
    stranger.add(Statement.from_bytes(signed).entry)
    receipts = receipts if renewed_first else receipts[::-1]
    backdated = stranger.receipt(index, time=TIME - 100)

    assert verify(attach_receipts(signed, receipts), ended(compromised_since=TIME + 1)).verdict == "verified"
    assert verify(attach_receipts(signed, [backdated, *receipts]), ended(compromised_since=TIME)).verdict == "failed"
