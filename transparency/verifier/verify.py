"""verify: the checks in their order, and the report they make.

``Verifier`` keeps the trusted keys indexed and remembers the heads it has checked; it holds nothing about a file once
its report is made, so one verifier serves any number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from transparency.cose import labels
from transparency.errors import TransparencyError
from transparency.verifier.chain_checks import chain_claims, check_chain, is_linked
from transparency.verifier.express import Express, Ready
from transparency.verifier.heads import HeadCache
from transparency.verifier.issuer_times import check_key_time
from transparency.verifier.message_reader import read_message
from transparency.verifier.receipt_checks import ReceiptChecks, registered_tree, registration_claims
from transparency.verifier.record_checks import check_envelope, check_records, record_claims
from transparency.verifier.redaction_checks import Redactions, check_redactions
from transparency.verifier.report import Check, Facts, Report
from transparency.verifier.seen import SeenTree, SeenTrees
from transparency.verifier.statement_checks import (
    Subject,
    check_issuer,
    check_payload,
    check_profile,
    issuer_basis,
    issuer_claims,
    read_subject,
)
from transparency.verifier.trust import KeyIndex, TrustStore
from transparency.verifier.vouching import ConsistencyReceipts
from transparency.verifier.witness_checks import WitnessChecks, WitnessedEntry
from transparency.verifier.x509_checks import CertificateChecks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from transparency.notes.policy import WitnessPolicy
    from transparency.records.disclosure import Disclosure
    from transparency.records.trace_metadata import Look
    from transparency.verifier.receipt_checks import Registration
    from transparency.verifier.trust import IssuerKey


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked.

    ``receipt_only``: signature and inclusion, not the record; the issuer's signature only if an issuer's key is
    trusted at all. ``statement_only``: the statement and its record, for one that has no receipt yet.
    ``strict``: the RFC 9943 profile counts for foreign statements too (RC-20). ``now`` (seconds since 1970): when a
    certificate is judged whose statement has neither receipt nor iat; there is no clock here.
    """

    receipt_only: bool = False
    statement_only: bool = False
    strict: bool = False
    now: int | None = None

    def __post_init__(self) -> None:
        if self.receipt_only and self.statement_only:
            msg = "receipt_only and statement_only exclude each other"
            raise ValueError(msg)


_DEFAULT: Final = Options()
_NOT_ASKED: Final = "not asked for"
_FORM: Final = Check("form", "passed")
_ISSUER_NOT_ASKED: Final = Check("issuer-signature", "not_checked", _NOT_ASKED)
_RECORD_NOT_ASKED: Final = Check("trace-metadata", "not_checked", _NOT_ASKED)
_NO_REDACTIONS: Final = Redactions([])


class Verifier:
    """Verifies any number of files against one trust store."""

    def __init__(
        self,
        trust: TrustStore,
        options: Options = _DEFAULT,
        heads: HeadCache | None = None,
        *,
        consistency: Iterable[bytes] = (),
        witness_policy: WitnessPolicy | None = None,
        seen: SeenTrees | None = None,
    ) -> None:
        """``consistency``: receipts that help those under a compromised key (vouching.py), or lead from trees seen.

        ``witness_policy``: whose cosignatures are asked for (witness_checks.py). ``seen``: trees that each registration
        is compared with; it is brought up to date.
        """
        self.options = options
        self.heads = HeadCache() if heads is None else heads
        self._keys = KeyIndex(trust)
        given = tuple(consistency)
        self._consistency = ConsistencyReceipts(given, self._keys) if given else None
        vouchers = () if self._consistency is None else (self._consistency,)
        self._seen = seen
        self._witness_checks = None
        if witness_policy is not None:
            leaves = {log.origin: log.leaf for log in trust.logs if log.origin is not None}
            self._witness_checks = WitnessChecks(witness_policy, leaves)
        self._receipt_checks = ReceiptChecks(self._keys, self.heads, strict=options.strict, vouchers=vouchers)
        self._certificate_checks = CertificateChecks(self._keys, options.now)
        required = {"form"}
        if not options.statement_only:
            required.add("registered")
        if not options.receipt_only or self._keys.has_issuers:
            required.add("issuer-signature")
        if witness_policy is not None:
            required.add("witness-quorum")
        self._required = frozenset(required)
        # These know of more than the file and the trust store.
        more = options.statement_only or given or witness_policy is not None or seen is not None
        self._express = None
        if not more and not self._keys.has_roots:
            self._express = Express(
                self._keys, self.heads.climber, self._required, self._verify_long, receipt_only=options.receipt_only
            )
        self._required_of_envelope = self._required if options.receipt_only else self._required | {"envelope"}

    def verify(
        self,
        data: bytes,
        payload: bytes | None = None,
        *,
        disclosures: Sequence[Disclosure] = (),
        earlier: Iterable[bytes] = (),
        proofs: Iterable[bytes] = (),
    ) -> Report:
        """Verify a (transparent) statement; ``payload`` is its detached payload, or the record of its envelope.

        ``disclosures`` are redacted originals to be held against it; ``earlier`` are statements among which the one
        that this one continues may be; ``proofs`` are tlog-proofs to be looked at instead of those in its receipts.
        """
        if self._express is not None and payload is None and not disclosures:
            ready = self._express.begin(data)
            report = None if ready is None else self._express.end(ready)
            if report is not None:
                return report
        return self._verify_long(data, payload, disclosures, earlier, proofs)

    def verify_batch(self, items: Sequence[tuple[bytes, bytes | None]]) -> list[Report]:
        """As ``verify`` for each (statement, payload): all are read, then the signatures verified, then reported.

        Each step finds its code and tables where the step before it left them: that is a tenth of the time. What does
        not go the short way (express.py) is verified as it comes. Hand over some dozens at a time.
        """
        express = self._express
        if express is None:
            return [self._verify_long(data, payload) for data, payload in items]
        ready = [self._ready(express, data, payload) for data, payload in items]
        signed = [isinstance(each, Report) or express.is_signed(each) for each in ready]
        return [
            each if isinstance(each, Report) else express.report(each) if good else self._verify_long(each.data, None)
            for each, good in zip(ready, signed, strict=True)
        ]

    def _ready(self, express: Express, data: bytes, payload: bytes | None) -> Ready | Report:
        ready = express.begin(data) if payload is None else None
        return self._verify_long(data, payload) if ready is None else ready

    def _verify_long(
        self,
        data: bytes,
        payload: bytes | None = None,
        disclosures: Sequence[Disclosure] = (),
        earlier: Iterable[bytes] = (),
        proofs: Iterable[bytes] = (),
    ) -> Report:
        try:
            message = read_message(data)
        except TransparencyError as error:
            return Report((Check("form", "failed", str(error)),), self._required)
        subject = read_subject(message, payload)
        keys = self._keys.issuers(subject.kid, subject.iss)
        checks = [
            _FORM,
            check_profile(subject, keys, strict=self.options.strict),
            check_payload(subject, payload),
        ]
        witnessing, witnessed = self._witnessed(subject, proofs)
        receipts, registration = self._receipts(subject, witnessed)
        if self._keys.has_roots:
            certificate, keys = self._certificate_checks.check(subject, keys, registration)
            checks += certificate
        issuer, signer = self._issuer(subject, keys, registration)
        records, look = self._records(subject)
        checks += issuer
        checks += receipts
        checks += witnessing
        if self._seen is not None:
            checks.append(self._judge_tree(self._seen, witnessed, registration))
        checks += records
        redactions = _NO_REDACTIONS
        if not self.options.receipt_only:
            if is_linked(subject):
                checks += check_chain(subject, earlier)
            if disclosures or labels.REDACTIONS in message.headers:
                redactions = check_redactions(subject, disclosures)
                checks += redactions.checks
        facts = partial(_facts, subject, signer, registration, witnessed, look, redactions, self.options)
        required = self._required if subject.envelope is None else self._required_of_envelope
        report = Report(tuple(checks), required, facts)
        if self._express is not None and registration is not None and payload is None and not disclosures:
            self._express.learn(message, report.checks, registration, signer)
        return report

    def _issuer(
        self, subject: Subject, keys: list[IssuerKey], registration: Registration | None
    ) -> tuple[list[Check], IssuerKey | None]:
        if self.options.receipt_only and not self._keys.has_issuers:
            return [_ISSUER_NOT_ASKED], None
        checks, signer = check_issuer(subject, keys)
        end = None if signer is None else self._keys.end_of(signer)
        if end is None:
            return checks, signer
        # Until it is known that the key was good, nothing it signed may be relied on.
        timely = check_key_time(end, registration)
        return [*checks, timely], signer if timely.outcome == "passed" else None

    def _witnessed(self, subject: Subject, proofs: Iterable[bytes]) -> tuple[list[Check], WitnessedEntry | None]:
        return ([], None) if self._witness_checks is None else self._witness_checks.check(subject, proofs)

    def _judge_tree(
        self, seen: SeenTrees, witnessed: WitnessedEntry | None, registration: Registration | None
    ) -> Check:
        tree = None
        if witnessed is not None:
            tree = SeenTree.of(witnessed.signed)
        elif registration is not None:
            tree = registered_tree(registration)
        if tree is None:
            detail = (
                "there is no tree to compare: a receipt of a log whose origin is pinned (--trust), or a witnessed proof"
            )
            return Check("tree-seen", "not_checked", detail, essential=True)
        return seen.judge(tree, self._consistency)

    def _receipts(self, subject: Subject, witnessed: WitnessedEntry | None) -> tuple[list[Check], Registration | None]:
        if self.options.statement_only:
            return [Check("receipt", "not_checked", _NOT_ASKED)], None
        return self._receipt_checks.check(subject, witnessed)

    def _records(self, subject: Subject) -> tuple[list[Check], Look | None]:
        if not self.options.receipt_only:
            return check_records(subject)
        # A label in the wrong place is wrong whatever is asked; the record's bytes are not looked at.
        wrong = check_envelope(subject) if subject.problem else []
        return [*wrong, _RECORD_NOT_ASKED], None


def _facts(
    subject: Subject,
    signer: IssuerKey | None,
    registration: Registration | None,
    witnessed: WitnessedEntry | None,
    look: Look | None,
    redactions: Redactions,
    options: Options,
) -> Facts:
    # Who signed the record, or whose log holds an entry made from it; else it is anybody's.
    vouched = signer is not None or (registration is not None and registration.signer.log.leaf != "nil-payload")
    return Facts(
        () if signer is None else issuer_claims(subject, signer) + chain_claims(subject, issuer_basis(signer)),
        (() if registration is None else registration_claims(registration))
        + (() if witnessed is None else witnessed.claims),
        record_claims(subject, look) + redactions.claims if vouched and not options.receipt_only else (),
    )


def verify(
    data: bytes,
    trust: TrustStore,
    *,
    payload: bytes | None = None,
    options: Options = _DEFAULT,
    disclosures: Sequence[Disclosure] = (),
    earlier: Iterable[bytes] = (),
    consistency: Iterable[bytes] = (),
) -> Report:
    """Verify one file; for many, keep a ``Verifier``."""
    return Verifier(trust, options, consistency=consistency).verify(
        data, payload, disclosures=disclosures, earlier=earlier
    )
