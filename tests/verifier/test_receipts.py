"""Receipts: each check of one, and what several of them come to together."""

from __future__ import annotations

import hashlib

import pytest

from tests.verifier.world import (
    DATA,
    ISSUER,
    LOG_KEY,
    OTHER_LOG_KEY,
    TIME,
    Log,
    bare,
    failed,
    outcomes,
    registered,
    statement,
    trust,
)
from transparency.cose import labels
from transparency.cose.cbor import encode
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1, sign1
from transparency.merkle.proofs import inclusion_path
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import (
    Leaf,
    LogTrust,
    Options,
    TrustedKey,
    TrustStore,
    verify,
)


def made(
    *,
    proofs: list[bytes] | None = None,
    vds: object = 1,
    vdp: dict[object, object] | None = None,
    claims: dict[int, object] | None = None,
    kid: bytes | None = LOG_KEY.public.kid,
    key: PrivateKey = LOG_KEY,
) -> bytes:
    """DATA with a receipt put together by hand; by default exactly as the log would make it."""
    log, index = registered()
    size = len(log.entries)
    proof = encode([size, index, inclusion_path(index, size, log.read)])
    headers: dict[object, object] = {labels.VDS: vds} if vds is not None else {}
    if kid is not None:
        headers[labels.KID] = kid
    if claims is None:
        claims = {1: log.iss, 2: log.origin, 6: TIME, labels.CLAIM_TREE_SIZE: size}
    if claims:
        headers[labels.CWT_CLAIMS] = claims
    unprotected = {labels.VDP: {-1: [proof] if proofs is None else proofs} if vdp is None else vdp}
    receipt = sign1(headers, log.root(size), key, unprotected=unprotected, detached=True)
    return attach_receipts(DATA, [receipt.to_bytes()])


def test_what_is_put_together_here_by_hand_verifies_unspoilt() -> None:
    assert verify(made(), trust()).verdict == "verified"


@pytest.mark.parametrize(
    ("spoilt", "row"),
    [
        (attach_receipts(DATA, [Log().receipt(0)[1:]]), "RC-1"),
        (attach_receipts(DATA, [b"\xd2"]), "RC-1"),
        (made(vds=None), "RC-2"),
        (made(vds=2), "RC-13"),
        (made(vds="1"), "RC-2"),
        (made(vdp={}), "RC-4"),
        (made(proofs=[]), "RC-4"),
        (made(vdp={-1: [5]}), "RC-4"),
        (made(vdp={-3: [b""]}), "RC-13"),
        (made(proofs=[encode([6, 6, []])]), "RC-8"),
        (made(proofs=[encode([6, 5, [b"short"]])]), "RC-4"),
        (made(proofs=[encode([6, True, []])]), "RC-4"),
    ],
)
def test_a_receipt_of_the_wrong_form_fails(spoilt: bytes, row: str) -> None:
    """RC-1, RC-2, RC-4, RC-8, RC-13."""
    report = verify(spoilt, trust())

    assert (report.verdict, failed(report)) == ("failed", ["receipt-form"]), row


def test_rc3_a_receipt_without_iss_sub_or_kid_is_verified_by_a_given_key_and_fails_when_strict() -> None:
    """RC-3, RC-20: a check of its own, which with a key given by hand alters nothing but the warning of RC-18."""
    data = made(claims={labels.CLAIM_TREE_SIZE: 7}, kid=None)

    lenient = verify(data, bare())
    strict = verify(data, bare(), options=Options(strict=True))

    assert (lenient.verdict, outcomes(lenient)["receipt-profile"]) == ("verified", "warned")
    assert (strict.verdict, failed(strict)) == ("failed", ["receipt-profile"])


def test_a_receipt_without_identity_is_not_one_of_a_named_log() -> None:
    report = verify(made(claims={labels.CLAIM_TREE_SIZE: 7}), trust())

    assert (report.verdict, failed(report)) == ("failed", ["log-identity"])


def test_rc18_without_a_signed_size_index_and_size_are_claimed() -> None:
    """RC-18: warned, and neither is among the claims."""
    report = verify(made(claims={1: "https://log.example", 2: "log.example/tlog"}), trust())

    assert report.verdict == "warnings"
    assert report.exit_code == 3
    assert "claimed, not authenticated" in report.summary
    assert not {"index", "tree-size"} & {claim.name for claim in report.claims}


def test_rc18_a_receipt_relabelled_to_another_size_and_index_is_refused() -> None:
    """RC-18: leaf 4 of 5 relabelled [2, 1, same path] leads to the same root."""
    log = Log(entries=[bytes([n]) * 32 for n in range(4)])
    log.add(Statement.from_bytes(DATA).entry)
    receipt = Sign1.from_bytes(log.receipt(4))
    path = inclusion_path(4, 5, log.read)
    relabelled = receipt.with_unprotected({labels.VDP: {-1: [encode([2, 1, path])]}})

    genuine = verify(attach_receipts(DATA, [receipt.to_bytes()]), trust())
    forged = verify(attach_receipts(DATA, [relabelled.to_bytes()]), trust())

    assert genuine.verdict == "verified"
    assert (forged.verdict, failed(forged)) == ("failed", ["inclusion"])


def test_rc9_the_root_is_recomputed_from_this_statement() -> None:
    """RC-9: a genuine receipt of another statement leads to another root."""
    log, index = registered()
    report = verify(attach_receipts(statement(b"another"), [log.receipt(index)]), trust())

    assert (report.verdict, failed(report)) == ("failed", ["head-signature"])


def test_rc11_all_proofs_of_a_receipt_must_lead_to_the_signed_root() -> None:
    """RC-11: a second proof that leads elsewhere fails, the same one twice does not."""
    log, index = registered()
    path = inclusion_path(index, 7, log.read)
    genuine, other = encode([7, index, path]), encode([7, index, [b"\x00" * 32, *path[1:]]])

    assert verify(made(proofs=[genuine, genuine]), trust()).verdict == "verified"
    assert failed(verify(made(proofs=[genuine, other]), trust())) == ["inclusion"]


def test_a_receipt_that_proves_only_consistency_shows_no_registration() -> None:
    """RC-5: inclusion is what a receipt is for."""
    log, _ = registered()

    report = verify(attach_receipts(DATA, [log.consistency(3, 7)]), trust())

    assert (report.verdict, failed(report)) == ("failed", ["inclusion"])


def test_a_signature_by_another_key_under_the_trusted_kid_fails() -> None:
    report = verify(made(key=PrivateKey.generate(-7)), trust())

    assert (report.verdict, failed(report)) == ("failed", ["head-signature"])


def test_an_algorithm_that_does_not_fit_the_logs_key_fails() -> None:
    report = verify(made(key=OTHER_LOG_KEY), trust())

    assert (report.verdict, failed(report)) == ("failed", ["head-signature"])


@pytest.mark.parametrize("pinned", [{"iss": "https://other.example"}, {"origin": "other.example/tlog"}])
def test_iss_and_sub_must_be_those_the_key_is_trusted_for(pinned: dict[str, str]) -> None:
    report = verify(made(), trust(**pinned))  # type: ignore[arg-type]

    assert (report.verdict, failed(report)) == ("failed", ["log-identity"])


def test_only_what_is_pinned_is_compared() -> None:
    assert verify(made(), trust(iss=None)).verdict == "verified"
    assert verify(made(), trust(origin=None)).verdict == "verified"


@pytest.mark.parametrize(
    ("key", "verdict"),
    [
        (TrustedKey(LOG_KEY.public, not_after=TIME), "verified"),
        (TrustedKey(LOG_KEY.public, not_after=TIME - 1), "failed"),
        (TrustedKey(LOG_KEY.public, compromised_since=TIME), "failed"),
        (TrustedKey(LOG_KEY.public, compromised_since=TIME + 1), "cannot-tell"),
        (TrustedKey(LOG_KEY.public, not_after=TIME + 9, compromised_since=TIME + 1), "cannot-tell"),
    ],
)
def test_a_key_that_ended_is_good_for_earlier_receipts_unless_it_is_compromised(key: TrustedKey, verdict: str) -> None:
    assert verify(made(), trust(log_keys=[key])).verdict == verdict


def test_a_receipt_without_time_under_a_key_that_ended_leaves_the_question_open() -> None:
    data = made(claims={1: "https://log.example", 2: "log.example/tlog", labels.CLAIM_TREE_SIZE: 7})

    assert verify(data, trust(log_keys=[TrustedKey(LOG_KEY.public, not_after=TIME)])).verdict == "cannot-tell"
    assert verify(data, trust()).verdict == "verified"


# --- several receipts ----------------------------------------------------------------------------------------------


def of_two_logs() -> tuple[bytes, bytes]:
    """A receipt of the trusted log, and one of a log nobody here knows."""
    log, index = registered()
    other = Log(OTHER_LOG_KEY, "https://other.example", "other.example/tlog")
    return log.receipt(index), other.receipt(other.add(Statement.from_bytes(DATA).entry))


def test_tst5_one_receipt_under_a_trusted_key_is_enough_and_the_other_is_reported() -> None:
    """TSt-5, TSt-2: each receipt is reported at its place."""
    ours, theirs = of_two_logs()

    for receipts in ([ours, theirs], [theirs, ours]):
        report = verify(attach_receipts(DATA, receipts), trust())

        assert report.verdict == "verified"
        unknown = [check.receipt for check in report.not_checked if check.id == "receipt-key"]
        assert unknown == [receipts.index(theirs)]


def test_tst5_receipts_of_unknown_logs_alone_leave_the_question_open() -> None:
    """TSt-5: the key of at least one receipt must be trusted."""
    _, theirs = of_two_logs()

    report = verify(attach_receipts(DATA, [theirs]), trust())

    assert report.verdict == "cannot-tell"
    assert report.summary == "Cannot tell: no trusted key has this receipt's kid."


def test_one_receipt_that_fails_under_a_trusted_key_fails_the_whole() -> None:
    ours, _ = of_two_logs()
    log = Log()
    elsewhere = log.receipt(log.add(b"\x09" * 32))

    report = verify(attach_receipts(DATA, [ours, elsewhere]), trust())

    assert report.verdict == "failed"
    assert [(check.id, check.receipt) for check in report.checks if check.outcome == "failed"] == [
        ("head-signature", 1)
    ]


def test_an_unknown_structure_under_an_unknown_key_harms_nothing() -> None:
    """RC-13 fails a receipt that could count; one that nobody trusts is only not checked."""
    ours, _ = of_two_logs()
    foreign = sign1(
        {labels.VDS: 2, labels.KID: b"stranger"}, b"", OTHER_LOG_KEY, unprotected={labels.VDP: {}}, detached=True
    )

    assert verify(attach_receipts(DATA, [ours, foreign.to_bytes()]), trust()).verdict == "verified"
    assert verify(attach_receipts(DATA, [foreign.to_bytes()]), trust()).verdict == "cannot-tell"


def test_both_receipts_count_where_both_logs_are_trusted() -> None:
    ours, theirs = of_two_logs()
    both = trust().merged(TrustStore((LogTrust((TrustedKey(OTHER_LOG_KEY.public),), "https://other.example"),)))

    report = verify(attach_receipts(DATA, [theirs, ours]), both)

    assert report.verdict == "verified"
    assert {claim.name: claim.value for claim in report.claims}["log-iss"] == "https://other.example"


def test_a_bare_key_never_speaks_for_a_log_that_is_pinned() -> None:
    other = Log(OTHER_LOG_KEY)
    posing = attach_receipts(DATA, [other.receipt(other.add(Statement.from_bytes(DATA).entry))])
    given = TrustStore.from_keys([OTHER_LOG_KEY.public, LOG_KEY.public], [ISSUER.public])

    assert verify(posing, given).verdict == "verified"
    for store in (trust().merged(given), given.merged(trust())):
        assert verify(posing, store).verdict == "cannot-tell"
        assert verify(made(), store).verdict == "verified"
    assert failed(verify(made(), given.merged(trust(origin="elsewhere")))) == ["log-identity"]


def test_without_kid_the_log_that_the_receipt_names_decides() -> None:
    given = TrustStore.from_keys([OTHER_LOG_KEY.public])

    assert verify(made(kid=None), trust().merged(given)).verdict == "warnings"
    assert failed(verify(made(kid=None, key=OTHER_LOG_KEY), trust().merged(given))) == ["head-signature"]


def test_rc14_a_fresh_receipt_under_another_key_and_size_verifies_too() -> None:
    """RC-14."""
    log, index = registered()
    log.add(b"\x55" * 32)
    newer = Log(OTHER_LOG_KEY, log.iss, log.origin, log.entries)
    keys = [TrustedKey(LOG_KEY.public), TrustedKey(OTHER_LOG_KEY.public)]

    for receipt in (log.receipt(index, 7), newer.receipt(index, 8, TIME + 60)):
        assert verify(attach_receipts(DATA, [receipt]), trust(log_keys=keys)).verdict == "verified"


# --- leaf conventions ----------------------------------------------------------------------------------------------


def test_leaf5_other_conventions_hold_only_for_a_log_whose_trust_entry_says_so() -> None:
    """LEAF-5: never guessed."""
    nil = Sign1.from_bytes(DATA).with_payload(None).to_bytes()
    entries: dict[Leaf, bytes] = {
        "raw": Statement.from_bytes(DATA).normalised,
        "nil-payload": hashlib.sha256(nil).digest(),
    }
    log = Log()
    receipts = {leaf: log.receipt(log.add(entry)) for leaf, entry in entries.items()}

    for leaf, receipt in receipts.items():
        data = attach_receipts(DATA, [receipt])
        assert verify(data, trust(leaf=leaf)).verdict == "verified"
        assert verify(data, trust()).verdict == "failed"


def test_a_nil_payload_leaf_shows_inclusion_without_the_payload_but_no_signature() -> None:
    detached = statement(detached=True)
    log = Log()
    receipt = log.receipt(log.add(hashlib.sha256(detached).digest()))

    report = verify(attach_receipts(detached, [receipt]), trust(leaf="nil-payload"))

    assert outcomes(report)["registered"] == "passed"
    assert report.verdict == "cannot-tell"
