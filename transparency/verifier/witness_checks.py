"""Whether witnesses have seen the statement: a checkpoint that it lies in, by a path of its own, cosigned by a quorum.

A receipt shows that the log registered the statement in *a* tree; cosignatures show that it is the tree everybody is
shown. Both come in one tlog-proof (C2SP tlog-proof): as a file, or inside a receipt's unprotected header (-70104).
Whoever carries it cannot help it: path, log signature and cosignatures are all checked here, against the policy file of
whoever asks (C2SP tlog-policy).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.display import safe_text
from transparency.errors import MalformedError, ProofError, TransparencyError
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import verify_inclusion
from transparency.notes.checkpoint import SignedCheckpoint, verify_log_signatures
from transparency.notes.proof import SUFFIX, TlogProof
from transparency.statements.transparent import receipts_of
from transparency.verifier.report import Check, Claim
from transparency.verifier.vouching import Vouched

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from transparency.notes.policy import QuorumResult, WitnessPolicy
    from transparency.notes.vkey import VerifierKey
    from transparency.verifier.statement_checks import Subject
    from transparency.verifier.trust import Leaf, LogTrust

MAX_NAMES: Final = 16
_NO_PROOF: Final = (
    f"there is no proof to a checkpoint: give it with --proof F{SUFFIX} (`transparency prove` fetches it), "
    "or ask the log for a receipt that carries it (label -70104)"
)
_DETACHED: Final = "the statement is detached and its payload was not given"
_WITNESSED: Final = "a quorum of witnesses has cosigned a tree that the statement lies in"


@dataclass(frozen=True, slots=True)
class WitnessedEntry:
    """The statement is at ``index`` of a tree that a quorum has cosigned by ``time``. A ``Voucher``."""

    signed: SignedCheckpoint
    index: int
    leaf: Leaf
    key: VerifierKey
    witnesses: tuple[str, ...]
    time: int | None

    def vouch(self, log: LogTrust, size: int, root: bytes) -> Vouched | str:  # noqa: ARG002 - the entry's own path decides
        """The statement is in this log, whatever tree the receipt is about: by a path of its own."""
        if (log.origin, log.leaf) != (self.signed.checkpoint.origin, self.leaf):
            return "the witnessed checkpoint is not of a log whose origin is pinned beside this key"
        if not self.witnesses:
            return "the policy asks for no witness, so the checkpoint is only the log's own word"
        key = f"{self.key.name}+{self.key.key_id.hex()}"
        return Vouched(key, self.signed.checkpoint.size, self.time, _WITNESSED, self.index)

    @property
    def claims(self) -> tuple[Claim, ...]:
        if self.time is None or not self.witnesses:
            return ()
        return (Claim("witnessed-time", self.time, f"cosigned by {_names(self.witnesses)}"),)


class WitnessChecks:
    """Checks proofs against one policy. ``leaves``: the leaf convention of each pinned log, by origin."""

    def __init__(self, policy: WitnessPolicy, leaves: Mapping[str, Leaf]) -> None:
        if not policy.logs:
            raise MalformedError(
                "the witness policy names no log: add `log VKEY` (`transparency log vkey` prints it), "
                "or anybody's checkpoint would do"
            )
        self._policy = policy
        self._keys = [log.key for log in policy.logs]
        self._origins = frozenset(key.name for key in self._keys)
        self._leaves = leaves

    def check(self, subject: Subject, given: Iterable[bytes]) -> tuple[list[Check], WitnessedEntry | None]:
        """The first that counts of the proofs *given*, or else of those in the receipts; why not, if there is none."""
        first: list[Check] = []
        for proof in tuple(given) or _carried(subject):
            checks, witnessed = self._check_one(subject, proof)
            if witnessed is not None:
                return checks, witnessed
            first = first or checks
        if not first:
            return [_open("checkpoint-proof", _NO_PROOF), _open("witness-quorum", _NO_PROOF)], None
        if first[-1].id != "witness-quorum":
            first.append(_open("witness-quorum", first[-1].detail))
        return first, None

    def _check_one(self, subject: Subject, data: bytes) -> tuple[list[Check], WitnessedEntry | None]:
        try:
            proof = TlogProof.from_bytes(data)
        except MalformedError as error:
            return [Check("checkpoint-proof", "failed", str(error))], None
        signed = SignedCheckpoint.from_bytes(proof.checkpoint)
        origin = signed.checkpoint.origin
        if origin not in self._origins:
            return [_open("checkpoint-signature", f'the policy names no key of the log "{safe_text(origin)}"')], None
        leaf: Leaf = self._leaves.get(origin, "digest")
        checks = [_inclusion(subject.entry(leaf), proof, signed)]
        if checks[0].outcome != "passed":
            return checks, None
        try:
            key, *_ = verify_log_signatures(signed, self._keys)
        except TransparencyError as error:
            return [*checks, Check("checkpoint-signature", "failed", str(error))], None
        checks.append(Check("checkpoint-signature", "passed", "", {"key": f"{key.name}+{key.key_id.hex()}"}))
        quorum, result = self._quorum(signed)
        checks.append(quorum)
        if result is None:
            return checks, None
        time = quorum_time(self._policy, result)
        return checks, WitnessedEntry(signed, proof.index, leaf, key, result.counted, time)

    def _quorum(self, signed: SignedCheckpoint) -> tuple[Check, QuorumResult | None]:
        try:
            result = self._policy.check(signed)
        except TransparencyError as error:
            return Check("witness-quorum", "failed", f"a cosignature of a known witness does not hold: {error}"), None
        evidence: dict[str, str | int] = {"cosigned": len(result.counted), "witnesses": _names(result.counted)}
        if result.ok:
            detail = "" if result.counted else "the policy asks for no cosignatures"
            return Check("witness-quorum", "passed", detail, evidence), result
        detail = f"the quorum is missing: cosigned by {_names(result.counted)}; not by {_names(result.missing)}"
        return Check("witness-quorum", "failed", detail, evidence), None


def _inclusion(entry: bytes | None, proof: TlogProof, signed: SignedCheckpoint) -> Check:
    if entry is None:
        return _open("checkpoint-proof", _DETACHED)
    tree = signed.checkpoint
    try:
        verify_inclusion(leaf_hash(entry), proof.index, tree.size, proof.path, tree.root)
    except ProofError as error:
        return Check("checkpoint-proof", "failed", f"the proof is not of this statement: {error}")
    evidence: dict[str, str | int] = {
        "origin": tree.origin,
        "size": tree.size,
        "root": tree.root.hex(),
        "index": proof.index,
    }
    return Check("checkpoint-proof", "passed", "", evidence)


def quorum_time(policy: WitnessPolicy, result: QuorumResult) -> int | None:
    """By when a quorum had seen the checkpoint: the earliest time by which enough of them had cosigned.

    A cosignature without a time (0) says nothing about one.
    """
    names = {(each.key.name, each.key.key_id): name for name, each in policy.witnesses.items()}
    seen: list[str] = []
    for each in sorted(result.cosignatures, key=lambda cosignature: cosignature.time):
        if each.time:
            seen.append(names[each.name, each.key_id])
            if policy.satisfied(seen):
                return each.time
    return None


def _carried(subject: Subject) -> list[bytes]:
    """What receipts have at label -70104; empty for what is no byte string. Their own form is judged elsewhere."""
    found: list[bytes] = []
    with contextlib.suppress(MalformedError):
        for receipt in receipts_of(subject.message):
            with contextlib.suppress(TransparencyError):
                unprotected = Sign1.from_bytes(receipt).unprotected
                if labels.TLOG_PROOF in unprotected:
                    proof = unprotected[labels.TLOG_PROOF]
                    found.append(proof if isinstance(proof, bytes) else b"")
    return found


def _open(name: str, why: str) -> Check:
    return Check(name, "not_checked", why)


def _names(names: Sequence[str]) -> str:
    if not names:
        return "nobody"
    shown = ", ".join(safe_text(name, 60) for name in names[:MAX_NAMES])
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"
