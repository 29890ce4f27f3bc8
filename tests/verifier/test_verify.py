"""verify: what each check says when all is well and when something is not."""

from __future__ import annotations

import pytest

from tests.verifier.world import (
    ES256,
    ISS,
    ISSUER,
    LOG_ISS,
    LOG_KEY,
    ORIGIN,
    OTHER_ISSUER,
    Log,
    bare,
    failed,
    outcomes,
    statement,
    trust,
    with_unprotected,
)
from transparency.cose import labels
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1, sign1
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import IssuerTrust, Options, TrustStore, verify


def test_a_registered_statement_is_verified_with_every_check_passed() -> None:
    report = verify(Log().register(statement()), trust())

    assert report.verdict == "verified"
    assert report.exit_code == 0
    assert [check.id for check in report.checks] == [
        "form", "profile", "payload", "issuer-key", "issuer-signature", "receipt", "receipt-form", "receipt-profile",
        "receipt-key", "inclusion", "tree-size", "head-signature", "log-identity", "key-validity", "registered",
        "trace-metadata",
    ]  # fmt: skip
    assert {check.outcome for check in report.checks[:-1]} == {"passed"}


def test_the_sentence_says_what_by_whom_where_and_when() -> None:
    report = verify(Log().register(statement()), trust())

    assert report.summary == (
        'Verified: a statement about "urn:example:1" signed by "https://issuer.example" is registered in the log '
        '"log.example/tlog" of "https://log.example" at index 5 and was there by 2026-03-01T09:00:00Z.'
    )


def test_with_bare_keys_the_identities_are_claimed() -> None:
    report = verify(Log().register(statement()), bare())

    assert report.verdict == "verified"
    assert outcomes(report)["log-identity"] == "not_checked"
    assert all("claimed" in claim.basis for claim in report.claims if claim.name in ("iss", "log-iss", "log-origin"))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:0],
        lambda data: data[1:],
        lambda data: data + b"\x00",
        lambda data: data[:-1],
        lambda data: b"\xd2\x9f" + data[2:] + b"\xff",
    ],
)
def test_bytes_that_are_not_one_tagged_sign1_fail_by_their_form(spoil) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    report = verify(spoil(Log().register(statement())), trust())

    assert report.verdict == "failed"
    assert failed(report) == ["form"]
    assert report.claims == ()


def test_a_receipt_given_as_the_statement_is_named_as_what_it_is() -> None:
    report = verify(Log().receipt(0), trust())

    assert report.verdict == "failed"
    assert "this is a receipt" in report.summary


def _foreign(headers: dict[int, object]) -> bytes:
    """A statement as others make them, without what RFC 9943 asks for."""
    return sign1(headers, b"hello", ISSUER).to_bytes()


CLAIMS = {labels.CLAIM_ISS: ISS, labels.CLAIM_SUB: "urn:example:1"}
ONLY_STATEMENT = Options(statement_only=True)


def test_ss2_a_statement_without_iss_and_sub_fails_even_with_a_bare_key() -> None:
    """SS-2: CWT Claims with iss and sub."""
    for claims in ({}, {labels.CWT_CLAIMS: {labels.CLAIM_ISS: ISS}}, {labels.CWT_CLAIMS: {1: b"x", 2: "y"}}):
        report = verify(_foreign({labels.KID: b"k", **claims}), bare(), options=ONLY_STATEMENT)

        assert report.verdict == "failed"
        assert failed(report) == ["profile"]


def test_rc20_without_kid_a_given_key_still_verifies_and_strict_makes_it_fail() -> None:
    """SS-3, RC-20: the profile is a check of its own, which with a given key does not alter the verdict."""
    data = _foreign({labels.CWT_CLAIMS: CLAIMS})

    lenient = verify(data, bare(), options=ONLY_STATEMENT)
    strict = verify(data, bare(), options=Options(statement_only=True, strict=True))
    named = verify(data, trust(), options=ONLY_STATEMENT)

    assert (lenient.verdict, outcomes(lenient)["profile"]) == ("verified", "warned")
    assert (strict.verdict, failed(strict)) == ("failed", ["profile"])
    assert named.verdict == "warnings"


def test_an_issuer_nobody_knows_leaves_the_question_open() -> None:
    report = verify(Log().register(statement(iss="https://stranger.example")), trust())

    assert report.verdict == "cannot-tell"
    assert report.exit_code == 2
    assert outcomes(report)["issuer-key"] == "not_checked"


def test_a_key_trusted_for_one_issuer_does_not_speak_for_another() -> None:
    store = TrustStore(trust().logs, (IssuerTrust((OTHER_ISSUER.public,), "https://other.example"), *trust().issuers))

    report = verify(Log().register(statement(signer=OTHER_ISSUER)), store)

    assert report.verdict == "cannot-tell"


def test_a_bare_key_never_speaks_for_an_issuer_that_is_pinned() -> None:
    data = Log().register(statement(signer=OTHER_ISSUER))
    given = TrustStore.from_keys([LOG_KEY.public], [OTHER_ISSUER.public])

    assert verify(data, given).verdict == "verified"
    assert verify(data, trust().merged(TrustStore(issuers=given.issuers))).verdict == "cannot-tell"


def test_a_kid_that_names_the_trusted_key_over_anothers_signature_fails() -> None:
    message = sign1({labels.KID: ISSUER.public.kid, labels.CWT_CLAIMS: CLAIMS}, b"hello", OTHER_ISSUER)

    report = verify(Log().register(message.to_bytes()), trust())

    assert (report.verdict, failed(report)) == ("failed", ["issuer-signature"])


def test_a_statement_by_another_key_than_the_one_given_fails() -> None:
    report = verify(Log().register(statement(signer=OTHER_ISSUER)), bare())

    assert (report.verdict, failed(report)) == ("failed", ["issuer-signature"])


def test_an_algorithm_that_does_not_fit_the_key_fails() -> None:
    signer = PrivateKey.generate(-8)
    message = sign1({labels.KID: ISSUER.public.kid, labels.CWT_CLAIMS: CLAIMS}, b"hello", signer)

    report = verify(Log().register(message.to_bytes()), trust())

    assert (report.verdict, failed(report)) == ("failed", ["issuer-signature"])


def test_a_statement_without_receipt_does_not_show_that_it_is_registered() -> None:
    report = verify(statement(), trust())

    assert report.verdict == "cannot-tell"
    assert outcomes(report)["registered"] == "not_checked"
    assert "no receipt" in report.summary


def test_statement_only_asks_for_the_statement_and_its_record_alone() -> None:
    report = verify(statement(), trust(), options=ONLY_STATEMENT)

    assert report.verdict == "verified"
    assert "registered" not in report.summary
    assert [check.detail for check in report.not_checked if check.id == "receipt"] == ["not asked for"]


def test_receipt_only_asks_for_signature_and_inclusion_alone() -> None:
    data = Log().register(with_unprotected(statement(), {labels.TRACE_METADATA: {"forged": True}}))

    assert verify(data, trust()).verdict == "failed"
    assert verify(data, trust(), options=Options(receipt_only=True)).verdict == "verified"


def test_receipt_only_without_any_issuer_key_does_not_ask_for_the_issuers_signature() -> None:
    data = Log().register(statement())
    logs_only = TrustStore(trust().logs)

    report = verify(data, logs_only, options=Options(receipt_only=True))

    assert verify(data, logs_only).verdict == "cannot-tell"
    assert report.verdict == "verified"
    assert "issuer-signature" in report.to_json()["not-checked"]
    assert "signed by" not in report.summary


def test_receipt_only_with_issuer_keys_still_refuses_a_bad_signature() -> None:
    message = Sign1.from_bytes(statement())
    spoilt = Sign1(message.protected, message.headers, {}, b"other", message.signature).to_bytes()

    report = verify(Log().register(spoilt), trust(), options=Options(receipt_only=True))

    assert (report.verdict, failed(report)) == ("failed", ["issuer-signature"])


def test_the_two_options_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="exclude"):
        Options(receipt_only=True, statement_only=True)


def test_leaf5_a_detached_statement_without_its_payload_is_never_a_pass() -> None:
    """LEAF-5: without the payload nobody can tell."""
    data = Log().register(statement(detached=True), b"hello")

    for options in (Options(), Options(receipt_only=True)):
        report = verify(data, trust(), options=options)

        assert report.verdict == "cannot-tell"
        assert outcomes(report)["inclusion"] == "not_checked"
        assert outcomes(report)["issuer-signature"] == "not_checked"


def test_leaf5_a_detached_statement_verifies_with_its_payload_as_if_attached() -> None:
    """LEAF-5: the entry is rebuilt with the payload attached and the unprotected header emptied."""
    data = Log().register(statement(detached=True), b"hello")

    assert verify(data, trust(), payload=b"hello").verdict == "verified"
    assert failed(verify(data, trust(), payload=b"hello!")) == ["issuer-signature", "head-signature"]


def test_a_payload_beside_an_attached_one_must_be_the_same() -> None:
    data = Log().register(statement())

    assert verify(data, trust(), payload=b"hello").verdict == "verified"
    assert failed(verify(data, trust(), payload=b"other")) == ["payload"]


def test_unprotected_headers_never_change_what_is_verified() -> None:
    """REG-12, LEAF-5: the receipt covers the statement with its unprotected header emptied."""
    data = with_unprotected(Log().register(statement()), {"note": "added later", 33: b"x"})

    assert verify(data, trust()).verdict == "verified"


def test_tst1_receipts_that_are_not_byte_strings_fail() -> None:
    """TSt-1: 394 is an array of one or more bstr."""
    values: list[object] = [[], b"x", [b"x", 5], {}]
    for value in values:
        report = verify(with_unprotected(statement(), {labels.RECEIPTS: value}), trust())

        assert (report.verdict, failed(report)) == ("failed", ["receipt"])


def test_tst3_what_a_client_builds_and_what_a_log_serves_verify_alike() -> None:
    """TSt-3, TSt-4: with other unprotected labels kept, or 394 alone."""
    log = Log()
    data = with_unprotected(statement(), {"note": 1})
    receipt = log.receipt(log.add(Statement.from_bytes(data).entry))

    kept, alone = attach_receipts(data, [receipt]), attach_receipts(data, [receipt], keep_unprotected=False)

    assert kept != alone
    assert verify(kept, trust()).verdict == verify(alone, trust()).verdict == "verified"


@pytest.mark.parametrize("alg", [ES256, -35, -36, -8, -37, -48])
def test_every_algorithm_of_a_key_can_sign_what_is_verified(alg: int) -> None:
    signer = PrivateKey.generate(alg)
    store = TrustStore.from_keys([LOG_KEY.public], [signer.public])

    assert verify(Log().register(statement(signer=signer)), store).verdict == "verified"


def test_claims_come_from_signed_bytes_and_are_none_after_a_failure() -> None:
    log = Log()
    data = log.register(statement())

    claims = {claim.name: claim.value for claim in verify(data, trust()).claims}

    assert claims["iss"] == ISS
    assert claims["log-iss"] == LOG_ISS
    assert claims["log-origin"] == ORIGIN
    assert (claims["tree-size"], claims["index"]) == (6, 5)
    assert claims["entry-id"] == Statement.from_bytes(data).entry_id
    assert verify(data, trust(origin="elsewhere")).claims == ()
