"""The vectors of ../shared, ours and other people's: every one gives the verdict its makers expect."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tests.verifier.world import SHARED, failed, outcomes
from transparency.cose.keys import PublicKey, read_public_keys
from transparency.errors import ProofError
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import IssuerTrust, LogTrust, Options, TrustedKey, TrustStore, verify, verify_consistency

VECTORS = SHARED / "vectors"
pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason="../shared/vectors is not here")


@cache
def ours() -> dict[str, Any]:
    vectors: dict[str, Any] = json.loads((VECTORS / "scitt-vectors.json").read_bytes())
    return vectors


def data(*names: str) -> bytes:
    value: Any = ours()
    for name in names:
        value = value[name]
    return bytes.fromhex(value)


def keys() -> tuple[PublicKey, PublicKey]:
    return (
        PublicKey.from_cose_key_bytes(data("ts_cose_key")),
        PublicKey.from_cose_key_bytes(data("issuer_cose_key")),
    )


def named() -> TrustStore:
    log, issuer = keys()
    receipt = Receipt.from_bytes(data("receipt_leaf0_size2", "receipt"))
    return TrustStore(
        (LogTrust((TrustedKey(log),), receipt.iss, receipt.sub),), (IssuerTrust((issuer,), "https://issuer.example"),)
    )


@pytest.mark.parametrize("number", range(5))
def test_the_statements_verify_under_the_issuers_key(number: int) -> None:
    report = verify(data(f"statement_{number}", "submitted"), named(), options=Options(statement_only=True))

    # Number 2 carries an incomplete trace-metadata at label 100, to be dropped on registration; number 3 is a hash
    # envelope whose record is not among the vectors.
    assert report.verdict == {2: "failed", 3: "cannot-tell"}.get(number, "verified")
    assert failed(report) == (["trace-metadata/shape"] if number == 2 else [])
    assert outcomes(report)["issuer-signature"] == "passed"


@pytest.mark.parametrize(
    ("number", "receipt"),
    [(0, "receipt_leaf0_size1"), (0, "receipt_leaf0_size2"), (2, "receipt_leaf2_size5"), (4, "receipt_leaf4_size5")],
)
def test_the_receipts_lead_from_their_statements_to_the_signed_roots(number: int, receipt: str) -> None:
    transparent = attach_receipts(data(f"statement_{number}", "normalised"), [data(receipt, "receipt")])

    report = verify(transparent, named())

    assert report.verdict == "verified"
    roots = [check.evidence["root"] for check in report.checks if check.id == "inclusion"]
    assert roots == [ours()[receipt]["root_detached_payload"]]


def test_a_receipt_of_one_statement_fails_for_another() -> None:
    for number in (0, 1, 3, 4):
        transparent = attach_receipts(
            data(f"statement_{number}", "submitted"), [data("receipt_leaf2_size5", "receipt")]
        )
        assert "head-signature" in failed(verify(transparent, named()))


def test_the_transparent_statement_verifies_attached_and_detached() -> None:
    attached, detached = data("transparent_statement_2"), data("transparent_statement_2_detached")

    assert verify(attached, named()).verdict == "verified"
    assert verify(detached, named(), payload=data("payload_2")).verdict == "verified"
    assert verify(detached, named()).verdict == "cannot-tell"
    assert verify(attached, TrustStore.from_keys([keys()[0]], [keys()[1]])).verdict == "verified"


def test_rc18_the_relabelled_receipt_is_refused() -> None:
    """RC-18: path and signature alone would pass."""
    transparent = attach_receipts(data("statement_4", "submitted"), [data("receipt_leaf4_relabelled_size2", "receipt")])

    report = verify(transparent, named())

    assert (report.verdict, failed(report)) == ("failed", ["inclusion"])
    assert "2" in report.summary
    assert "5" in report.summary


def test_the_consistency_receipt_leads_from_three_to_five() -> None:
    receipt, (log, _) = data("consistency_receipt_3_5", "receipt"), keys()

    head = verify_consistency(receipt, 3, data("roots", "3"), log)

    assert (head.size, head.root, head.size_signed) == (5, data("roots", "5"), True)
    with pytest.raises(ProofError):
        verify_consistency(receipt, 3, data("roots", "4"), log)


def foreign_keys(folder: str, name: str) -> list[PublicKey]:
    file = VECTORS / folder / name
    return list(read_public_keys(file.read_bytes())) if file.exists() else []


@pytest.mark.parametrize("case", ["valid-es256", "fail-tampered-path"])
def test_the_working_groups_example_verifies_and_its_tampered_copy_does_not(case: str) -> None:
    folder = f"wg-example/{case}"
    trust = TrustStore.from_keys(foreign_keys(folder, "log-key.pub"))
    transparent = (VECTORS / folder / "transparent-statement.cose").read_bytes()

    report = verify(transparent, trust, options=Options(receipt_only=True))

    if case == "valid-es256":
        # Registered, with the one warning that RFC 9942 alone does not sign the size (RC-18).
        assert report.verdict == "warnings"
        assert [check.id for check in report.checks if check.outcome == "warned" and not check.advisory] == [
            "tree-size"
        ]
    else:
        assert (report.verdict, failed(report)) == ("failed", ["head-signature"])


@pytest.mark.parametrize(
    "case", ["valid-es256", "valid-eddsa", "fail-bad-statement-sig", "fail-tampered-path", "fail-unsupported-vds"]
)
def test_the_cases_of_scitt_cose_give_what_they_expect(case: str) -> None:
    """RC-20: their statements have no kid and their receipts no claims, which alters no cryptographic validity."""
    folder = VECTORS / "scitt-cose" / case
    expected = json.loads((folder / "expected.json").read_bytes())
    trust = TrustStore.from_keys(
        foreign_keys(f"scitt-cose/{case}", "log-key.pub"), foreign_keys(f"scitt-cose/{case}", "issuer-key.pub")
    )
    transparent = attach_receipts((folder / "statement.cose").read_bytes(), [(folder / "receipt.cose").read_bytes()])

    report = verify(transparent, trust)
    strict = verify(transparent, trust, options=Options(strict=True))

    assert (report.verdict != "failed") == (expected["result"] == "VALID")
    assert (outcomes(report)["issuer-signature"] == "passed") == expected["statement_signature_valid"]
    assert (outcomes(report).get("registered") == "passed") == expected["receipt_valid"]
    assert strict.verdict == "failed"
    if expected["reconstructed_root"]:
        roots = [check.evidence["root"] for check in report.checks if check.id == "inclusion"]
        assert roots == [expected["reconstructed_root"]]


def test_the_foreign_statements_carry_the_entry_convention_of_ours() -> None:
    for case in ("valid-es256", "valid-eddsa"):
        folder = VECTORS / "scitt-cose" / case
        trust = TrustStore.from_keys(foreign_keys(f"scitt-cose/{case}", "log-key.pub"))
        transparent = attach_receipts(
            (folder / "statement.cose").read_bytes(), [(folder / "receipt.cose").read_bytes()]
        )
        raw = TrustStore((LogTrust(trust.logs[0].keys, leaf="raw"),))

        assert verify(transparent, trust, options=Options(receipt_only=True)).verdict == "warnings"
        assert verify(transparent, raw, options=Options(receipt_only=True)).verdict == "failed"


def test_the_receipts_of_the_cose_working_group_have_the_form() -> None:
    inclusion = Receipt.from_bytes((VECTORS / "cose-wg" / "cose-wg-inclusion-receipt.cbor").read_bytes())
    consistency = Receipt.from_bytes((VECTORS / "cose-wg" / "cose-wg-consistency-receipt.cbor").read_bytes())

    assert [(proof.size, proof.index) for proof in inclusion.inclusion] == [(5, 3)]
    assert [(proof.old_size, proof.new_size) for proof in consistency.consistency] == [(3, 5)]


# --- the reference implementation's signed records -----------------------------------------------------------------

SIGNED = SHARED / "samples" / "vac" / "signed"
signed_samples = pytest.mark.skipif(not SIGNED.is_dir(), reason="../shared/samples is not here")

EXPECTED = [
    ("cursor-opus-4-6.sig.cbor", "verified", []),
    ("negative/label100-extra-key.cbor", "failed", ["trace-metadata/shape"]),
    ("negative/label100-format-lies.cbor", "failed", ["trace-metadata/trace-format"]),
    ("negative/label100-hash-removed.cbor", "verified", []),
    ("negative/label100-hash-uppercase.cbor", "verified", []),
    ("negative/label100-hash-wrong.cbor", "failed", ["trace-metadata/content-hash"]),
    ("negative/label100-missing.cbor", "verified", []),
    ("negative/label100-timestamp-float.cbor", "failed", ["trace-metadata/shape"]),
    ("negative/label100-vendor-swapped.cbor", "warnings", []),
    ("negative/no-cwt-claims.cbor", "failed", ["profile"]),
    ("negative/signature-flipped.cbor", "failed", ["issuer-signature"]),
]


def verify_sample(name: str, payload: str | None) -> Any:
    trust = TrustStore.from_keys(issuer_keys=read_public_keys((SIGNED / "public-key.jwk.json").read_bytes()))
    record = None if payload is None else (SIGNED / payload).read_bytes()
    return verify((SIGNED / name).read_bytes(), trust, payload=record, options=Options(statement_only=True))


@signed_samples
@pytest.mark.parametrize(("name", "verdict", "failures"), EXPECTED)
def test_signed_records_of_the_reference_code_come_out_as_expected(
    name: str, verdict: str, failures: list[str]
) -> None:
    report = verify_sample(name, "cursor-opus-4-6.payload.json")

    assert (report.verdict, failed(report)) == (verdict, failures)


@signed_samples
def test_every_negative_sample_is_in_the_table() -> None:
    files = {f"negative/{file.name}" for file in (SIGNED / "negative").glob("*.cbor")}

    assert files == {name for name, _, _ in EXPECTED if name.startswith("negative/")}


@signed_samples
def test_what_the_payload_does_not_have_is_not_checked() -> None:
    original = verify_sample("cursor-opus-4-6.sig.cbor", "cursor-opus-4-6.payload.json").to_json()
    removed = verify_sample("negative/label100-hash-removed.cbor", "cursor-opus-4-6.payload.json").to_json()

    assert "trace-metadata/timestamp-start" in original["not-checked"]
    assert "trace-metadata/content-hash" in removed["not-checked"]


@signed_samples
def test_a_reindented_payload_fails_by_the_issuers_signature() -> None:
    report = verify_sample("cursor-opus-4-6.sig.cbor", "negative/payload-reindented.json")

    assert report.verdict == "failed"
    assert failed(report)[0] == "issuer-signature"


@signed_samples
def test_signed_records_with_times_and_attached_payloads_verify_whole() -> None:
    for name, payload in (
        ("codex-gpt-5-2.sig.cbor", "codex-gpt-5-2.payload.json"),
        ("codex-gpt-5-2.attached.cbor", None),
        ("cursor-opus-4-6.attached.cbor", None),
    ):
        assert verify_sample(name, payload).verdict == "verified"
    assert verify_sample("codex-gpt-5-2.sig.cbor", None).verdict == "cannot-tell"


def test_no_statement_of_ours_is_read_more_strictly_by_a_log_than_here() -> None:
    for number in range(5):
        statement = Statement.from_bytes(data(f"statement_{number}", "submitted"))

        assert statement.entry == data(f"statement_{number}", "entry")
