"""The statement itself: its form, its profile, its payload, its issuer's signature.

It is read more leniently than a log would (``statements.Statement``): what others issued may lack a kid, and saying
so is a check of its own (RC-20), not a reason to say nothing else.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from transparency.cose import labels
from transparency.cose.sign1 import Sign1, sig_structure
from transparency.errors import SignatureInvalidError, TransparencyError, UnsupportedAlgorithmError
from transparency.statements.envelope import Envelope
from transparency.statements.statement import Claims, normalise
from transparency.verifier.report import Check, Claim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from transparency.verifier.trust import IssuerKey, Leaf


# A check is data and never changes: the same answer is the same object, in bulk.
_PROFILE: Final = Check("profile", "passed")
_ATTACHED: Final = Check("payload", "passed", "attached")
_SUPPLIED: Final = Check("payload", "passed", "supplied beside the statement")
ENVELOPE_LABELS: Final = frozenset({labels.PAYLOAD_HASH_ALG, labels.PREIMAGE_CONTENT_TYPE, labels.PAYLOAD_LOCATION})
_NAMES: Final = (labels.CLAIM_ISS, labels.CLAIM_SUB)
# What most issuers and subjects are called: a URI of few kinds of characters, or a name without a colon.
USUAL_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:[A-Za-z0-9._~/:-]{1,200}|[A-Za-z0-9._~/-]{1,200}")
_LAST_USUAL_TIME: Final = 1 << 40


class Subject(NamedTuple):
    """A message being verified, with what could be read of it; ``problem`` is what makes it no hash envelope.

    ``body`` is what was signed: the payload, attached or supplied. ``record`` is what it is about: the payload, or
    the preimage of a hash envelope. Each is None while it is missing.
    """

    message: Sign1
    kid: bytes | None
    iss: str | None
    sub: str | None
    envelope: Envelope | None
    problem: str
    body: bytes | None
    record: bytes | None

    def entry(self, leaf: Leaf) -> bytes | None:
        """The entry of a log with this convention (LEAF-5), None while the payload it needs is missing."""
        body = None if leaf == "nil-payload" else self.body
        if body is None and leaf != "nil-payload":
            return None
        normalised = normalise(self.message.protected, body, self.message.signature)
        return normalised if leaf == "raw" else hashlib.sha256(normalised).digest()


def read_subject(message: Sign1, payload: bytes | None) -> Subject:
    """What is known of ``message``; ``payload`` is its detached payload or the record of its envelope."""
    headers = message.headers
    kid = headers.get(labels.KID)
    claims = headers.get(labels.CWT_CLAIMS)
    claims = claims if isinstance(claims, dict) else {}
    iss, sub = claims.get(labels.CLAIM_ISS), claims.get(labels.CLAIM_SUB)
    body, record, envelope, problem = message.payload, payload, None, ""
    if labels.PAYLOAD_HASH_ALG in headers:
        if body is None and payload is not None:
            body = _digest(headers, payload)
    else:
        body = record = payload if body is None else body
    if not (ENVELOPE_LABELS.isdisjoint(headers) and ENVELOPE_LABELS.isdisjoint(message.unprotected)):
        try:
            stated = _digest(headers, b"") if body is None else body
            envelope = Envelope.from_headers(headers, message.unprotected, stated)
        except TransparencyError as error:
            problem = str(error)
    return Subject(
        message=message,
        kid=kid if isinstance(kid, bytes) else None,
        iss=iss if isinstance(iss, str) else None,
        sub=sub if isinstance(sub, str) else None,
        envelope=envelope,
        problem=problem,
        body=body,
        record=record,
    )


def _digest(headers: Mapping[Any, Any], record: bytes) -> bytes:
    """The payload that a detached hash envelope over ``record`` has; empty where its algorithm is unknown."""
    try:
        return Envelope(headers[labels.PAYLOAD_HASH_ALG], None, None).digest(record)
    except (KeyError, TypeError):
        return b""


def check_profile(subject: Subject, keys: Sequence[IssuerKey], *, strict: bool) -> Check:
    """RFC 9943 §6. Without iss and sub it is no signed statement (SS-2); without kid, one of a stranger (RC-20)."""
    headers = subject.message.headers
    if labels.VDS in headers:
        return Check("profile", "failed", "this is a receipt, not a statement: give the statement that carries it")
    if subject.iss is None or subject.sub is None:
        return Check("profile", "failed", "the protected header has no iss and sub (RFC 9943 §6, SS-2)")
    problem = ""
    if subject.kid is None and labels.X5T not in headers and labels.X5CHAIN not in headers:
        problem = "the protected header has no kid, x5t or x5chain (RFC 9943 §6, SS-3)"
    elif not are_usual(headers[labels.CWT_CLAIMS], subject.iss, subject.sub):
        try:
            Claims.from_map(headers[labels.CWT_CLAIMS])
        except TransparencyError as error:
            problem = str(error)
    if not problem:
        return _PROFILE
    if strict:
        return Check("profile", "failed", problem)
    # Whoever gave the key by hand has chosen it: no kid was needed, and the signature is as good as any.
    return Check("profile", "warned", problem, advisory=all(item.issuer.iss is None for item in keys))


def are_usual(claims: Mapping[Any, Any], iss: str, sub: str) -> bool:
    """Whether these are claims that ``Claims.from_map`` takes without question; it is asked about all others."""
    for key, value in claims.items():
        if key not in _NAMES and not (key == labels.CLAIM_IAT and type(value) is int and 0 <= value < _LAST_USUAL_TIME):
            return False
    return USUAL_NAME.fullmatch(iss) is not None and USUAL_NAME.fullmatch(sub) is not None


def check_payload(subject: Subject, payload: bytes | None) -> Check:
    """Whether the signed bytes are all here, and are one thing only."""
    attached = subject.message.payload
    if attached is None:
        if subject.body is None:
            detail = "the statement is detached and its payload was not given"
            return Check("payload", "not_checked", detail)
        return _SUPPLIED
    if payload is not None and labels.PAYLOAD_HASH_ALG not in subject.message.headers and payload != attached:
        return Check("payload", "failed", "the payload given is not the one attached to the statement")
    return _ATTACHED


def check_issuer(subject: Subject, keys: Sequence[IssuerKey]) -> tuple[list[Check], IssuerKey | None]:
    """The key by iss and kid, then the signature over the protected bytes as received (SS-8)."""
    if not keys:
        detail = "no key is trusted for this statement's issuer and kid"
        return [
            Check("issuer-key", "not_checked", detail),
            Check("issuer-signature", "not_checked", detail),
        ], None
    if subject.body is None:
        detail = "the statement is detached and its payload was not given"
        return [Check("issuer-key", "passed"), Check("issuer-signature", "not_checked", detail)], None
    signed = sig_structure(subject.message.protected, subject.body)
    detail = ""
    for item in keys:
        try:
            item.key.verify(subject.message.alg, signed, subject.message.signature)
        except SignatureInvalidError:
            detail = "the signature is not by the issuer's key over these bytes"
        except UnsupportedAlgorithmError as error:
            detail = detail or f"the statement's algorithm cannot be used: {error}"
        else:
            return [item.known, Check("issuer-signature", "passed", "", {"alg": subject.message.alg})], item
    return [Check("issuer-key", "passed"), Check("issuer-signature", "failed", detail)], None


def issuer_basis(signer: IssuerKey) -> str:
    """On whose word a claim of the issuer may be relied on."""
    named = signer.issuer.iss is not None
    return "signed by the trusted issuer" if named else "claimed by the holder of the given issuer key"


def issuer_claims(subject: Subject, signer: IssuerKey) -> tuple[Claim, ...]:
    """What the issuer's signature makes reliable: that this key's holder said it."""
    headers, basis = subject.message.headers, issuer_basis(signer)
    values = (
        ("issuer-key", signer.key.thumbprint.hex()),
        ("iss", subject.iss),
        ("sub", subject.sub),
        ("content-type", headers.get(labels.CONTENT_TYPE)),
        ("preimage-content-type", headers.get(labels.PREIMAGE_CONTENT_TYPE)),
        ("issued-at", issued_at(headers)),
    )
    return tuple(Claim(name, value, basis) for name, value in values if isinstance(value, str | int))


def issued_at(headers: Mapping[Any, Any]) -> int | None:
    """The time that the issuer states (iat), None where there is none that is a time."""
    claims = headers.get(labels.CWT_CLAIMS)
    value = claims.get(labels.CLAIM_IAT) if isinstance(claims, dict) else None
    return value if type(value) is int and value >= 0 else None
