"""``verify`` with a witness policy: a quorum on a checkpoint that covers the entry by its own path (design §8)."""

from __future__ import annotations

import pytest

from tests.notes.world import TIME as COSIGNED
from tests.notes.world import log_signer, witness
from tests.verifier.witnessing import ALL, W1, W2, W3, checkpoint, policy, proof
from tests.verifier.world import (
    DATA,
    LOG_KEY,
    ORIGIN,
    OTHER_LOG_KEY,
    TIME,
    Log,
    failed,
    outcomes,
    registered,
    statement,
    trust,
)
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError
from transparency.notes.policy import WitnessPolicy
from transparency.notes.proof import TlogProof
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import Options, Report, TrustedKey, Verifier


def world() -> tuple[Log, int, bytes]:
    """A log, the index of DATA in it, and DATA with its receipt."""
    log, index = registered()
    return log, index, attach_receipts(DATA, [log.receipt(index)])


def check(data: bytes, *proofs: bytes, by: WitnessPolicy | None = None, **more: object) -> Report:
    store = more.pop("store", trust())
    return Verifier(store, witness_policy=by or policy(), **more).verify(data, proofs=proofs)  # type: ignore[arg-type]


def detail(report: Report, name: str) -> str:
    return next(each.detail for each in report.checks if each.id == name)


def test_two_of_three_cosignatures_on_a_checkpoint_that_covers_the_entry_are_enough() -> None:
    log, index, data = world()
    log.add(b"\x01" * 32)  # the checkpoint is of a larger tree than the receipt: each has its own path

    report = check(data, proof(log, index))

    assert report.verdict == "verified"
    assert [outcomes(report)[name] for name in ("checkpoint-proof", "checkpoint-signature", "witness-quorum")] == [
        "passed"
    ] * 3
    claims = {claim.name: claim for claim in report.claims}
    assert claims["witnessed-time"].value == COSIGNED + 2
    assert claims["witnessed-time"].basis == "cosigned by w1, w2"


def test_the_time_is_when_enough_had_seen_it_not_the_last_one_who_did() -> None:
    log, index, data = world()

    report = check(data, proof(log, index, checkpoint(log, cosigned_by=ALL)))

    assert {claim.name: claim.value for claim in report.claims}["witnessed-time"] == COSIGNED + 2


def test_the_proof_is_found_inside_the_receipt() -> None:
    """Label -70104 of the unprotected header."""
    log, index, _ = world()
    receipt = Sign1.from_bytes(log.receipt(index))
    carrying = receipt.with_unprotected({**receipt.unprotected, labels.TLOG_PROOF: proof(log, index)}).to_bytes()
    data = attach_receipts(DATA, [carrying])

    assert check(data).verdict == "verified"
    assert check(data, proof(log, index, checkpoint(log, cosigned_by=()))).verdict == "failed", "the given one counts"


def test_what_is_carried_and_is_no_proof_fails() -> None:
    log, index, _ = world()
    receipt = Sign1.from_bytes(log.receipt(index))
    for junk in (7, "text", b"", b"junk"):
        carrying = receipt.with_unprotected({**receipt.unprotected, labels.TLOG_PROOF: junk}).to_bytes()

        assert failed(check(attach_receipts(DATA, [carrying]))) == ["checkpoint-proof"]


def test_without_a_proof_nobody_can_tell() -> None:
    _, _, data = world()

    report = check(data)

    assert report.verdict == "cannot-tell"
    assert "--proof" in report.summary


@pytest.mark.parametrize("cosigners", [(), (W1,), (W1, witness("stranger.example"))])
def test_a_missing_quorum_fails_and_says_who_is_missing(cosigners: tuple[object, ...]) -> None:
    log, index, data = world()

    report = check(data, proof(log, index, checkpoint(log, cosigned_by=cosigners)))  # type: ignore[arg-type]

    assert failed(report) == ["witness-quorum"]
    assert "w3" in detail(report, "witness-quorum")


def test_a_cosignature_over_another_root_fails_the_whole() -> None:
    """SN-3: a line of a known key that does not hold."""
    log, index, data = world()
    other = checkpoint(Log(), cosigned_by=(W3,)).note.signatures[-1]
    lying = checkpoint(log).with_signature(other)

    report = check(data, proof(log, index, lying))

    assert failed(report) == ["witness-quorum"]
    assert "does not hold" in detail(report, "witness-quorum")


def test_a_checkpoint_that_the_log_did_not_sign_fails() -> None:
    log, index, data = world()
    signed = checkpoint(log, by=log_signer(-8, ORIGIN))
    forged = signed.to_bytes().replace(signed.note.signatures[0].line.encode(), b"")

    report = check(data, TlogProof(index, TlogProof.from_bytes(proof(log, index)).path, forged).to_bytes())

    assert failed(report) == ["checkpoint-signature"]


def test_a_log_that_the_policy_does_not_name_is_not_checked() -> None:
    log, index, data = world()
    elsewhere = checkpoint(log, origin="other.example", by=log_signer(name="other.example"))

    report = check(data, proof(log, index, elsewhere))

    assert report.verdict == "cannot-tell"
    assert "other.example" in report.summary


def test_a_proof_of_another_entry_fails() -> None:
    log, index, data = world()

    assert failed(check(data, proof(log, index - 1))) == ["checkpoint-proof"]
    assert failed(check(data, proof(log, index)[:-3])) == ["checkpoint-proof"]


def test_every_byte_of_the_proof_counts() -> None:
    log, index, data = world()
    good = proof(log, index)
    for place in range(0, len(good), 11):
        spoiled = bytearray(good)
        spoiled[place] ^= 1

        assert check(data, bytes(spoiled)).verdict != "verified", f"byte {place}"


def test_a_policy_without_a_log_is_refused() -> None:
    """Anybody's checkpoint would do."""
    with pytest.raises(MalformedError, match="names no log"):
        Verifier(trust(), witness_policy=WitnessPolicy.from_text(b"quorum none\n"))


def test_a_quorum_of_none_passes_without_cosignatures() -> None:
    log, index, data = world()

    report = check(data, proof(log, index, checkpoint(log, cosigned_by=())), by=policy("none"))

    assert report.verdict == "verified"


def test_a_detached_statement_needs_its_payload_for_this_too() -> None:
    log = Log()
    whole = statement(b"detached")
    index = log.add(Statement.from_bytes(whole).entry)
    message = Sign1.from_bytes(whole)
    detached = Sign1(message.protected, message.headers, {}, None, message.signature).to_bytes()

    report = check(attach_receipts(detached, [log.receipt(index)]), proof(log, index))

    assert outcomes(report)["checkpoint-proof"] == "not_checked"


def test_statement_only_leaves_witnesses_to_be_asked_for() -> None:
    log, index, _ = world()
    verifier = Verifier(trust(), Options(statement_only=True), witness_policy=policy())

    assert verifier.verify(DATA, proofs=[proof(log, index)]).verdict == "verified"
    assert verifier.verify(DATA).verdict == "cannot-tell"


COMPROMISED = trust(log_keys=[TrustedKey(LOG_KEY.public, compromised_since=TIME), TrustedKey(OTHER_LOG_KEY.public)])


def test_a_receipt_under_a_compromised_key_counts_with_a_witnessed_checkpoint() -> None:
    log, index, data = world()
    assert Verifier(COMPROMISED).verify(data).verdict == "failed"
    log.add(b"\x01" * 32)

    report = check(data, proof(log, index), store=COMPROMISED)

    assert report.verdict == "verified"
    claims = {claim.name: claim.value for claim in report.claims}
    assert (claims["head-time"], claims["tree-size"], claims["index"]) == (COSIGNED + 2, len(log.entries), index)
    assert str(claims["log-key"]).startswith(ORIGIN)


def test_size_and_index_that_a_thief_signed_are_not_relied_on() -> None:
    log, index, _ = world()
    thief = Log(LOG_KEY, entries=[b"\x09" * 32])
    data = attach_receipts(DATA, [thief.receipt(thief.add(Statement.from_bytes(DATA).entry))])

    claims = {claim.name: claim.value for claim in check(data, proof(log, index), store=COMPROMISED).claims}

    assert (claims["tree-size"], claims["index"]) == (len(log.entries), index)


@pytest.mark.parametrize("cosigners", [(), (W2,)])
def test_a_checkpoint_without_quorum_does_not_vouch(cosigners: tuple[object, ...]) -> None:
    log, index, data = world()
    alone = proof(log, index, checkpoint(log, cosigned_by=cosigners))  # type: ignore[arg-type]

    assert check(data, alone, store=COMPROMISED).verdict == "failed"
    report = check(data, proof(log, index, checkpoint(log, cosigned_by=())), by=policy("none"), store=COMPROMISED)
    assert report.verdict == "failed", "a policy that asks for no witness shows only the log's own word"


def test_a_checkpoint_of_another_log_does_not_vouch() -> None:
    log, index, data = world()
    name = "other.example"
    elsewhere = proof(log, index, checkpoint(log, origin=name, by=log_signer(name=name)))

    report = check(data, elsewhere, by=policy(log=log_signer(name=name)), store=COMPROMISED)

    assert failed(report) == ["key-validity"]
