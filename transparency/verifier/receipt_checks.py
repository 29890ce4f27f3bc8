"""One receipt: its form, its key, the path from the statement to a root, and the log's signature over that root.

Several receipts may stand at 394 (TSt-2). Each is reported: one by a key nobody trusts says nothing and harms nothing;
one that fails under a trusted key fails the whole, because somebody altered something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import (
    MalformedError,
    ProofError,
    SignatureInvalidError,
    TransparencyError,
    UnsupportedAlgorithmError,
)
from transparency.statements.receipt import Receipt
from transparency.statements.statement import entry_id
from transparency.statements.transparent import receipts_of
from transparency.verifier.display import iso_utc
from transparency.verifier.report import Check, Claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transparency.verifier.heads import HeadCache
    from transparency.verifier.statement_checks import Subject
    from transparency.verifier.trust import KeyIndex, LogKey, LogTrust, TrustedKey


class Registration(NamedTuple):
    """A receipt that counts: which entry it registers, and the log's key that says so."""

    receipt: Receipt
    signer: LogKey
    entry: bytes


class Judged(NamedTuple):
    """What one receipt came to; ``registration`` when it counts."""

    checks: list[Check]
    registration: Registration | None = None


def check_receipts(
    subject: Subject, keys: KeyIndex, heads: HeadCache, *, strict: bool
) -> tuple[list[Check], Registration | None]:
    """Every receipt in its order, and the first of them that counts (TSt-5)."""
    try:
        receipts = receipts_of(subject.message)
    except MalformedError as error:
        return [Check("receipt", "failed", str(error))], None
    if not receipts:
        detail = "the statement carries no receipt, so it does not show that it is registered"
        return [Check("receipt", "not_checked", detail), Check("registered", "not_checked", detail)], None
    checks = [Check("receipt", "passed", "", {"receipts": len(receipts)})]
    registration = None
    for position, data in enumerate(receipts):
        judged = _check_receipt(position, data, subject, keys, heads, strict=strict)
        checks += judged.checks
        registration = registration or judged.registration
    if registration is not None:
        checks.append(Check("registered", "passed"))
    else:
        checks.append(Check("registered", "not_checked", _why_none_counts(checks)))
    return checks, registration


def _why_none_counts(checks: Sequence[Check]) -> str:
    reasons = (
        check.detail for check in checks if check.outcome in ("failed", "not_checked") and check.id != "log-identity"
    )
    return next(reasons, "no receipt counts")


def _check_receipt(
    position: int, data: bytes, subject: Subject, keys: KeyIndex, heads: HeadCache, *, strict: bool
) -> Judged:
    try:
        receipt = heads.reader.read(data)
    except TransparencyError as error:
        return Judged([_refuse_form(position, data, keys, error)])
    checks = [Check("receipt-form", "passed", receipt=position)]
    candidates = keys.logs(receipt.kid, receipt.iss, receipt.sub)
    if not candidates:
        hint = "has this receipt's kid" if receipt.kid is not None else "fits a receipt without kid"
        checks.append(Check("receipt-key", "not_checked", f"no trusted key {hint}", receipt=position))
        return Judged(checks)
    checks.append(_check_profile(position, receipt, candidates, strict=strict))
    found = _prove(position, receipt, subject, candidates, heads)
    checks += found.checks
    if found.signer is None:
        return Judged(checks)
    identity = _check_identity(position, receipt, found.signer.log)
    validity = _check_validity(position, receipt, found.signer.trusted)
    checks += [identity, validity]
    if validity.outcome != "passed" or any(check.outcome == "failed" for check in checks):
        return Judged(checks)
    return Judged(checks, Registration(receipt, found.signer, found.entry))


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


class _Proven(NamedTuple):
    checks: list[Check]
    signer: LogKey | None = None
    entry: bytes = b""


def _prove(
    position: int, receipt: Receipt, subject: Subject, candidates: Sequence[LogKey], heads: HeadCache
) -> _Proven:
    """RFC 9942 §5.2.1: the root from the entry first, then the signature over that root (RC-9).

    There is one candidate unless the receipt has no kid; then the first one that fits is the signer, and if none
    does the first one's answer stands for all.
    """
    first: list[Check] = []
    for candidate in candidates:
        key = candidate.trusted.key
        known = Check("receipt-key", "passed", "", {"key": key.thumbprint.hex()}, position)
        entry = subject.entry(candidate.log.leaf)
        if entry is None:
            detail = "the statement is detached and its payload was not given"
            first = first or [known, Check("inclusion", "not_checked", detail, receipt=position)]
            continue
        try:
            root = receipt.root_for(entry)
        except ProofError as error:
            first = first or [known, Check("inclusion", "failed", str(error), receipt=position)]
            continue
        included = Check("inclusion", "passed", "", {"root": root.hex()}, position)
        try:
            heads.verify(receipt, key, root)
        except SignatureInvalidError:
            detail = "the log did not sign the root that this statement and path lead to"
        except UnsupportedAlgorithmError as error:
            detail = f"the receipt's algorithm cannot be used: {error}"
        else:
            signed = Check("head-signature", "passed", receipt=position)
            return _Proven([known, included, _check_size(position, receipt), signed], candidate, entry)
        first = first or [known, included, Check("head-signature", "failed", detail, receipt=position)]
    return _Proven(first)


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
    for name, trusted, stated in (("iss", log.iss, receipt.iss), ("sub", log.origin, receipt.sub)):
        if trusted is not None and stated != trusted:
            detail = f"the receipt's {name} is not the one its key is trusted for"
            return Check("log-identity", "failed", detail, receipt=position)
    return Check("log-identity", "passed", receipt=position)


def _check_validity(position: int, receipt: Receipt, trusted: TrustedKey) -> Check:
    """A retired key is good for what it signed before; a compromised one for nothing that it alone attests.

    Whoever holds a compromised key can write any time into a receipt, so a time before the compromise proves
    nothing either: that takes a witnessed checkpoint, or consistency with a head of a good key.
    """
    time = receipt.iat
    since, until = trusted.compromised_since, trusted.not_after
    if since is not None:
        if time is not None and time >= since:
            detail = f"the log's key is compromised since {iso_utc(since)}, the receipt is of {iso_utc(time)}"
            return Check("key-validity", "failed", detail, receipt=position)
        detail = f"the log's key is compromised since {iso_utc(since)}: its holder can write earlier times too"
        return Check("key-validity", "not_checked", detail, receipt=position)
    if until is not None:
        if time is None:
            detail = f"the log's key is good until {iso_utc(until)}, and the receipt does not say when it was made"
            return Check("key-validity", "not_checked", detail, receipt=position)
        if time > until:
            detail = f"the log's key was good until {iso_utc(until)}, the receipt is of {iso_utc(time)}"
            return Check("key-validity", "failed", detail, receipt=position)
    return Check("key-validity", "passed", receipt=position)


def registration_claims(registration: Registration) -> tuple[Claim, ...]:
    """What the log's signature makes reliable; size and index only where the size is signed (RC-18)."""
    receipt, signer = registration.receipt, registration.signer
    bare = signer.log.bare
    basis = "claimed by the holder of the given log key" if bare else "signed by the trusted log"
    values: list[tuple[str, str | int | None]] = [
        ("log-key", signer.trusted.key.thumbprint.hex()),
        ("log-iss", receipt.iss),
        ("log-origin", receipt.sub),
        ("head-time", receipt.iat),
    ]
    if signer.log.leaf == "digest":
        values.append(("entry-id", entry_id(registration.entry)))
    if receipt.tree_size is not None:
        values += [("tree-size", receipt.tree_size), ("index", receipt.inclusion[0].index)]
    return tuple(Claim(name, value, basis) for name, value in values if value is not None)
