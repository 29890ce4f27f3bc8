"""What may be relied on comes out of bytes that a trusted key signed, and out of nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verifier.world import OTHER_ISSUER, RECORDS, Log, outcomes, statement, trust
from transparency.cose import labels
from transparency.records.trace_metadata import describe
from transparency.verifier import IssuerTrust, Leaf, LogTrust, TrustedKey, TrustStore, render_text, verify

SESSION = (RECORDS / "session.vac.json").read_bytes()
VAC = "application/agent-conversation"


def registered(**more: Any) -> bytes:
    return Log().register(statement(SESSION, content_type=VAC, **more))


@pytest.mark.parametrize("issuer", [None, OTHER_ISSUER])
def test_of_a_record_that_no_trusted_key_vouches_for_nothing_is_claimed(issuer: object) -> None:
    issuers = () if issuer is None else (IssuerTrust((OTHER_ISSUER.public,), "https://other.example"),)

    report = verify(registered(), TrustStore(logs=(), issuers=issuers))

    assert report.verdict == "cannot-tell"
    assert report.claims == ()
    assert "May be relied on" not in render_text(report)


@pytest.mark.parametrize(("leaf", "vouches"), [("digest", True), ("nil-payload", False)])
def test_a_log_vouches_for_a_record_if_its_entries_hold_the_payload(leaf: Leaf, vouches: bool) -> None:
    log = Log()
    data = statement(SESSION, content_type=VAC)
    keys = (TrustedKey(log.key.public),)
    store = TrustStore(logs=(LogTrust(keys, log.iss, log.origin, leaf),), issuers=())

    report = verify(log.register_as(data, leaf), store)

    assert outcomes(report)["registered"] == "passed"
    assert ("session-id" in {claim.name for claim in report.claims}) is vouches


def test_a_signed_copy_that_says_nothing_is_not_taken_for_none() -> None:
    """formats.md 3.4: a wrong shape fails, null too; else the unsigned copy would stand alone."""
    described = describe(SESSION)
    assert described is not None
    unprotected = {labels.TRACE_METADATA: described.to_map()}

    report = verify(registered(headers={labels.TRACE_METADATA_SIGNED: None}, unprotected=unprotected), trust())

    assert report.verdict == "failed"
    assert any(check.outcome == "failed" and "-70100" in check.detail for check in report.checks)


def test_the_report_says_which_copy_is_covered() -> None:
    """formats.md 3.3, item 8."""
    described = describe(SESSION)
    assert described is not None
    copy = described.to_map()

    report = verify(
        registered(headers={labels.TRACE_METADATA_SIGNED: copy}, unprotected={labels.TRACE_METADATA: copy}), trust()
    )

    assert "label 100 itself is covered by no signature and no receipt; the signed copy is" in render_text(report)


def test_an_unsigned_copy_that_says_nothing_fails_too() -> None:
    assert verify(registered(unprotected={labels.TRACE_METADATA: None}), trust()).verdict == "failed"


def test_redactions_that_are_null_are_not_taken_for_none() -> None:
    report = verify(registered(headers={labels.REDACTIONS: None}), trust())

    assert outcomes(report)["redactions"] == "failed"
