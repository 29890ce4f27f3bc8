"""One receipt: its form, its key, the path from the statement to a root, and the log's signature over that root.

Several receipts may stand at 394 (TSt-2). Each is reported: one by a key nobody trusts says nothing and harms nothing;
one that fails under a trusted key fails the whole, because somebody altered something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.display import iso_utc
from transparency.errors import (
    MalformedError,
    ProofError,
    SignatureInvalidError,
    TransparencyError,
    UnsupportedAlgorithmError,
)
from transparency.merkle.hashing import leaf_hash
from transparency.statements.receipt import Receipt
from transparency.statements.statement import entry_id
from transparency.statements.transparent import receipts_of
from transparency.verifier.heads import MAX_REMEMBERED
from transparency.verifier.identity import identity_problem, validity_problem
from transparency.verifier.receipt_reader import Plain
from transparency.verifier.report import Check, Claim
from transparency.verifier.seen import SeenTree
from transparency.verifier.vouching import Vouched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transparency.cose.keys import PublicKey
    from transparency.verifier.heads import HeadCache
    from transparency.verifier.statement_checks import Subject
    from transparency.verifier.trust import KeyIndex, LogKey, LogTrust, TrustedKey
    from transparency.verifier.vouching import Voucher


MAX_STANDINGS: Final = 4096
_UNREGISTERED: Final = "the statement carries no receipt, so it does not show that it is registered"
_NO_RECEIPT: Final = (Check("receipt", "not_checked", _UNREGISTERED), Check("registered", "not_checked", _UNREGISTERED))
_CARRIES_ONE: Final = Check("receipt", "passed", "", {"receipts": 1})
_REGISTERED: Final = Check("registered", "passed")


class Registration(NamedTuple):
    """A receipt that counts: which entry it registers, and the log's key that says so."""

    receipt: Plain | Receipt
    signer: LogKey
    entry: bytes
    vouched: Vouched | None = None
    """What stands in for the signer, whose key is compromised."""
    before: int | None = None
    """The time of another receipt that counts too, if that is earlier: a renewed one may stand before the first."""

    @property
    def time(self) -> int | None:
        """By when it was registered: whoever holds a compromised key can write any time into a receipt."""
        if self.vouched is not None:
            return self.vouched.time
        return self.receipt.head.iat if isinstance(self.receipt, Plain) else self.receipt.iat

    @property
    def earliest(self) -> int | None:
        """The earliest time by which any receipt shows it registered: what the issuer's key is judged at."""
        return _earlier(self.time, self.before)


def _earlier(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


class _Standing(NamedTuple):
    """What follows from a receipt's header alone, under this trust: the same for every receipt under one head."""

    candidates: Sequence[LogKey]
    form: Check
    profile: Check
    known: list[Check]
    """For each candidate."""
    size: Check
    signed: Check
    identity: list[Check]
    validity: list[Check]


class ReceiptChecks:
    """Checks receipts against one trust store; what is said of a head is worked out once."""

    def __init__(self, keys: KeyIndex, heads: HeadCache, *, strict: bool, vouchers: Sequence[Voucher] = ()) -> None:
        self._vouchers = vouchers
        self._keys = keys
        self._heads = heads
        self._strict = strict
        self._standings: dict[tuple[bytes, int], _Standing] = {}
        self._included: dict[tuple[bytes, int], Check] = {}

    def check(self, subject: Subject, voucher: Voucher | None = None) -> tuple[list[Check], Registration | None]:
        """Every receipt in its order, and the first of them that counts (TSt-5).

        ``voucher``: one that knows of this statement alone, beside those that know of any.
        """
        vouchers = self._vouchers if voucher is None else (voucher, *self._vouchers)
        try:
            receipts = receipts_of(subject.message)
        except MalformedError as error:
            return [Check("receipt", "failed", str(error))], None
        if not receipts:
            return list(_NO_RECEIPT), None
        count = len(receipts)
        checks = [_CARRIES_ONE if count == 1 else Check("receipt", "passed", "", {"receipts": count})]
        registration = None
        for position, data in enumerate(receipts):
            found = self._check_one(position, data, subject, checks, vouchers)
            if registration is None:
                registration = found
            elif found is not None:
                registration = registration._replace(before=_earlier(registration.before, found.time))
        if registration is not None:
            checks.append(_REGISTERED)
        else:
            checks.append(Check("registered", "not_checked", _why_none_counts(checks)))
        return checks, registration

    def _check_one(
        self, position: int, data: bytes, subject: Subject, checks: list[Check], vouchers: Sequence[Voucher]
    ) -> Registration | None:
        """Add the checks of one receipt; give it back if it counts."""
        try:
            receipt = self._heads.reader.plain(data)
        except TransparencyError as error:
            checks.append(_refuse_form(position, data, self._keys, error))
            return None
        head = receipt.head if isinstance(receipt, Plain) else receipt
        standing = self._standing(head, position)
        if not standing.candidates:
            checks += (standing.form, standing.profile)
            return None
        first: tuple[Check, ...] = ()
        for number, candidate in enumerate(standing.candidates):
            entry = subject.entry(candidate.log.leaf)
            outcome = self._prove(position, receipt, entry, candidate.trusted.key, standing)
            before = (standing.form, standing.profile, standing.known[number])
            if outcome[-1] is not standing.signed or entry is None:
                # There is one candidate unless the receipt has no kid; if none fits, the first one's answer stands.
                first = first or (*before, *outcome)
                continue
            identity, validity, vouched = standing.identity[number], standing.validity[number], None
            if candidate.trusted.compromised_since is not None and vouchers:
                root = bytes.fromhex(str(outcome[0].evidence["root"]))
                validity, vouched = _vouch(vouchers, candidate, receipt, root, validity)
            checks += (*before, outcome[0], standing.size, standing.signed, identity, validity)
            if validity.outcome != "passed" or "failed" in (standing.profile.outcome, identity.outcome):
                return None
            return Registration(receipt, candidate, entry, vouched)
        checks += first
        return None

    def _prove(
        self, position: int, receipt: Plain | Receipt, entry: bytes | None, key: PublicKey, standing: _Standing
    ) -> tuple[Check, ...]:
        """RFC 9942 §5.2.1: the root from the entry first, then the signature over that root (RC-9)."""
        if entry is None:
            detail = "the statement is detached and its payload was not given"
            return (Check("inclusion", "not_checked", detail, receipt=position),)
        try:
            root = self._root(receipt, entry)
        except ProofError as error:
            return (Check("inclusion", "failed", str(error), receipt=position),)
        included = self._inclusion(root, position)
        if isinstance(receipt, Plain):
            if self._heads.is_good(key, receipt.head.message.protected, root, receipt.signature):
                return included, standing.signed
            receipt = receipt.receipt()
        try:
            self._heads.verify(receipt, key, root)
        except SignatureInvalidError:
            detail = "the log did not sign the root that this statement and path lead to"
        except UnsupportedAlgorithmError as error:
            detail = f"the receipt's algorithm cannot be used: {error}"
        else:
            return included, standing.signed
        return included, Check("head-signature", "failed", detail, receipt=position)

    def _root(self, receipt: Plain | Receipt, entry: bytes) -> bytes:
        """As ``Receipt.root_for``, which is asked wherever there could be anything to object to."""
        if not isinstance(receipt, Plain):
            return receipt.root_for(entry)
        if receipt.size != receipt.head.tree_size:
            return receipt.receipt().root_for(entry)
        return self._heads.climber.root(leaf_hash(entry), receipt.leaf_index, receipt.size, receipt.path)

    def _inclusion(self, root: bytes, position: int) -> Check:
        check = self._included.get((root, position))
        if check is None:
            check = Check("inclusion", "passed", "", {"root": root.hex()}, position)
            if len(self._included) >= MAX_STANDINGS:
                self._included.clear()
            self._included[root, position] = check
        return check

    def _standing(self, head: Receipt, position: int) -> _Standing:
        name = (head.message.protected, position)
        standing = self._standings.get(name)
        if standing is None:
            standing = self._judge(head, position)
            if len(name[0]) <= MAX_REMEMBERED:
                if len(self._standings) >= MAX_STANDINGS:
                    self._standings.clear()
                self._standings[name] = standing
        return standing

    def _judge(self, head: Receipt, position: int) -> _Standing:
        form = Check("receipt-form", "passed", receipt=position)
        candidates = self._keys.logs(head.kid, head.iss, head.sub)
        if not candidates:
            hint = "has this receipt's kid" if head.kid is not None else "fits a receipt without kid"
            unknown = Check("receipt-key", "not_checked", f"no trusted key {hint}", receipt=position)
            return _Standing((), form, unknown, [], form, form, [], [])
        return _Standing(
            candidates,
            form,
            _check_profile(position, head, candidates, strict=self._strict),
            [_known_key(position, item) for item in candidates],
            _check_size(position, head),
            Check("head-signature", "passed", receipt=position),
            [_check_identity(position, head, item.log) for item in candidates],
            [_check_validity(position, head, item.trusted) for item in candidates],
        )


def _known_key(position: int, item: LogKey) -> Check:
    return Check("receipt-key", "passed", "", {"key": item.trusted.key.thumbprint.hex()}, position)


def _vouch(
    vouchers: Sequence[Voucher], candidate: LogKey, receipt: Plain | Receipt, root: bytes, validity: Check
) -> tuple[Check, Vouched | None]:
    """Under a compromised key a receipt counts only if something good commits to the same tree (design §8)."""
    size = receipt.size if isinstance(receipt, Plain) else receipt.inclusion[0].size
    problem = ""
    for voucher in vouchers:
        outcome = voucher.vouch(candidate.log, size, root)
        if isinstance(outcome, Vouched):
            detail = f"the log's key is compromised, but {outcome.how}"
            evidence: dict[str, str | int] = {"key": outcome.key, "size": outcome.size}
            return Check("key-validity", "passed", detail, evidence, validity.receipt), outcome
        problem = problem or outcome
    return validity._replace(detail=f"{validity.detail}; {problem}"), None


def _why_none_counts(checks: Sequence[Check]) -> str:
    reasons = (
        check.detail for check in checks if check.outcome in ("failed", "not_checked") and check.id != "log-identity"
    )
    return next(reasons, "no receipt counts")


def _refuse_form(position: int, data: bytes, keys: KeyIndex, error: TransparencyError) -> Check:
    """RC-13: what is not understood fails, except in a receipt by a key that nobody trusts anyway."""
    if isinstance(error, UnsupportedAlgorithmError):
        kid = Sign1.from_bytes(data).headers.get(labels.KID)
        if isinstance(kid, bytes) and not keys.logs(kid, None, None):
            detail = f"no trusted key has this receipt's kid ({error})"
            return Check("receipt-key", "not_checked", detail, receipt=position)
    return Check("receipt-form", "failed", str(error), receipt=position)


def _check_profile(position: int, receipt: Receipt, candidates: Sequence[LogKey], *, strict: bool) -> Check:
    headers = receipt.message.headers
    missing = [name for name, value in (("iss", receipt.iss), ("sub", receipt.sub)) if value is None]
    if receipt.kid is None and labels.X5T not in headers and labels.X5CHAIN not in headers:
        missing.append("kid")
    if not missing:
        return Check("receipt-profile", "passed", receipt=position)
    detail = f"the receipt has no {', '.join(missing)} in its protected header (RFC 9943 §6, RC-3)"
    if strict:
        return Check("receipt-profile", "failed", detail, receipt=position)
    advisory = all(item.log.bare for item in candidates)
    return Check("receipt-profile", "warned", detail, receipt=position, advisory=advisory)


def _check_size(position: int, receipt: Receipt) -> Check:
    """RC-18: RFC 9942 signs only the root; where the signed header states the size, ``root_for`` compared it."""
    if receipt.tree_size is None:
        detail = "size and index are claimed, not authenticated: the receipt does not sign its tree size (RC-18)"
        return Check("tree-size", "warned", detail, receipt=position)
    return Check("tree-size", "passed", "", {"size": receipt.tree_size}, position)


def _check_identity(position: int, receipt: Receipt, log: LogTrust) -> Check:
    if log.bare:
        detail = "the log's key was given by hand: issuer and origin of the receipt are claimed"
        return Check("log-identity", "not_checked", detail, receipt=position)
    problem = identity_problem(receipt, log)
    return Check("log-identity", "failed" if problem else "passed", problem, receipt=position)


def _check_validity(position: int, receipt: Receipt, trusted: TrustedKey) -> Check:
    """A retired key is good for what it signed before; a compromised one for nothing that it alone attests.

    Whoever holds a compromised key can write any time into a receipt, so a time before the compromise proves
    nothing either: that takes a witnessed checkpoint, or consistency with a head of a good key (vouching.py).
    """
    time = receipt.iat
    since = trusted.compromised_since
    if since is not None:
        if time is not None and time >= since:
            detail = f"the log's key is compromised since {iso_utc(since)}, the receipt is of {iso_utc(time)}"
            return Check("key-validity", "failed", detail, receipt=position)
        detail = f"the log's key is compromised since {iso_utc(since)}: its holder can write earlier times too"
        return Check("key-validity", "not_checked", detail, receipt=position)
    problem = validity_problem(receipt, trusted)
    if not problem:
        return Check("key-validity", "passed", receipt=position)
    return Check("key-validity", "not_checked" if time is None else "failed", problem, receipt=position)


def registration_claims(registration: Registration) -> tuple[Claim, ...]:
    """What the log's signature makes reliable; size and index only where the size is signed (RC-18)."""
    read, signer = registration.receipt, registration.signer
    receipt = read.receipt() if isinstance(read, Plain) else read
    bare, vouched = signer.log.bare, registration.vouched
    basis = "claimed by the holder of the given log key" if bare else "signed by the trusted log"
    values: list[tuple[str, str | int | None]] = [
        ("log-key", signer.trusted.key.thumbprint.hex() if vouched is None else vouched.key),
        ("log-iss", receipt.iss),
        ("log-origin", receipt.sub),
        ("head-time", registration.time),
    ]
    if signer.log.leaf == "digest":
        values.append(("entry-id", entry_id(registration.entry)))
    if vouched is not None and vouched.index is not None:
        # What a compromised key signed of size and index is worth nothing: the voucher has its own.
        values += [("tree-size", vouched.size), ("index", vouched.index)]
    elif receipt.tree_size is not None:
        values += [("tree-size", receipt.tree_size), ("index", receipt.inclusion[0].index)]
    return tuple(Claim(name, value, basis) for name, value in values if value is not None)


def registered_tree(registration: Registration) -> SeenTree | None:
    """The tree that the log signed, if its origin is pinned, its size signed (RC-18) and its key good."""
    read, log = registration.receipt, registration.signer.log
    receipt = read.receipt() if isinstance(read, Plain) else read
    if log.origin is None or receipt.tree_size is None or registration.vouched is not None:
        return None
    return SeenTree(log.origin, receipt.tree_size, receipt.root_for(registration.entry))
