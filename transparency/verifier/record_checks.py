"""The record behind the statement: the one whose digest was signed, and the one its headers speak of.

Nothing that a header says of the record is believed or shown: every member is recomputed from the record's exact bytes
(formats.md 3.3), whatever its format, and a header that says something else contradicts what its signer signed.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from transparency.cose import labels
from transparency.records import format as formats
from transparency.records.trace_metadata import Look, compare, look_at
from transparency.verifier.report import Check, Claim, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transparency.records.trace_metadata import Finding, Level
    from transparency.verifier.statement_checks import Subject

_OUTCOMES: Final[Mapping[Level, Outcome]] = {
    "pass": "passed",
    "fail": "failed",
    "warn": "warned",
    "not-checked": "not_checked",
}
CONTRADICTION: Final = "header contradicts signed payload"
# Where a record may be looked for; anything else is not parsed only to compare a subject.
_TYPES: Final = frozenset(format_.content_type for format_ in formats.FORMATS) | {"application/cbor"}
# Plain JSON may be anything. A record of any format that is JSON has a member with one of these names (perhaps written
# with escapes): without them there is nothing to be recognised (records/recognise.py), and nothing is parsed.
_NAMES: Final = re.compile(
    rb'"(?:session|file-attribution|specVersion|files|schema|steps|trace_id|traceId|metadata|text|messages|history|info|'
    rb"type|record_type|instructions|git|\$set|\$rewindTo|sessionId|projectHash|role|sessionID|messageID|projectID|"
    rb'worktree|agentType)"'
)
_UNSIGNED: Final = "label 100, which nobody signed,"
_ABSENT: Final = [Check("trace-metadata", "not_checked", "absent")]
_COPIES_AGREE: Final = Check(
    "trace-metadata-copies", "passed", "label 100 itself is covered by no signature and no receipt; the signed copy is"
)
_SUBJECT_FITS: Final = Check("subject", "passed")


def check_records(subject: Subject) -> tuple[list[Check], Look | None]:
    """Envelope, both copies of trace-metadata, and the subject, against the record's exact bytes."""
    checks = check_envelope(subject)
    headers, unprotected = subject.message.headers, subject.message.unprotected
    described = labels.TRACE_METADATA_SIGNED in headers or labels.TRACE_METADATA in unprotected
    # A record that is not the one whose digest was signed says nothing about the statement.
    wrong = bool(checks) and checks[0].outcome == "failed"
    look = look_at(subject.record) if subject.record is not None and (described or _may_be_record(subject)) else None
    checks += _check_metadata(subject, look) if described else _ABSENT
    if look is not None and look.outline is not None and look.outline.session_ids:
        checks.append(_check_subject(subject, look.outline.session_ids))
    return checks, None if wrong else look


def check_envelope(subject: Subject) -> list[Check]:
    """RFC 9995: the labels in their places (HE-1 to HE-4), and the digest of the record that was given."""
    if subject.problem:
        return [Check("envelope", "failed", subject.problem)]
    envelope = subject.envelope
    if envelope is None:
        return []
    if subject.record is None:
        return [Check("envelope", "not_checked", "the statement holds a digest, and the record was not given")]
    if envelope.digest(subject.record) != subject.body:
        return [Check("envelope", "failed", "the record given is not the one whose digest was signed")]
    return [Check("envelope", "passed", "", {"hash": envelope.hash_name})]


def _may_be_record(subject: Subject) -> bool:
    label = labels.CONTENT_TYPE if subject.envelope is None else labels.PREIMAGE_CONTENT_TYPE
    return subject.record is not None and may_be_record(subject.message.headers.get(label), subject.record)


def may_be_record(content_type: object, record: bytes) -> bool:
    """Whether bytes of this type may be in a format that is read here."""
    # A content type is text or a number on the wire, but nothing stops a stranger from sending an array.
    if not isinstance(content_type, str) or content_type not in _TYPES:
        return False
    if content_type != formats.JSON:
        return True
    # One byte is found many times faster than two are.
    return (b"\\" in record and b"\\u" in record) or _NAMES.search(record) is not None


def _check_metadata(subject: Subject, look: Look | None) -> list[Check]:
    """formats.md 3.3: the signed copy, the unsigned one, and the two against each other."""
    headers, unprotected = subject.message.headers, subject.message.unprotected
    signed, unsigned = headers.get(labels.TRACE_METADATA_SIGNED), unprotected.get(labels.TRACE_METADATA)
    checks: list[Check] = []
    # By the labels and not by their values: null is a copy too, of the wrong shape.
    if labels.TRACE_METADATA_SIGNED in headers:
        checks += _compare("signed-trace-metadata", signed, subject, look, "label -70100")
    if labels.TRACE_METADATA in unprotected:
        if labels.TRACE_METADATA_SIGNED not in headers:
            checks += _compare("trace-metadata", unsigned, subject, look, _UNSIGNED)
        elif unsigned == signed:
            checks.append(_COPIES_AGREE)
        else:
            checks += _compare("trace-metadata", unsigned, subject, look, _UNSIGNED)
            detail = f"{CONTRADICTION}: label 100 is not what the signed copy at -70100 says"
            checks.append(Check("trace-metadata-copies", "failed", detail))
    return checks


def _compare(name: str, stated: object, subject: Subject, look: Look | None, where: str) -> list[Check]:
    envelope = subject.envelope
    digest = None if envelope is None or subject.body is None else (envelope.hash_alg, subject.body)
    return [
        Check(f"{name}/{finding.member}", _OUTCOMES[finding.level], _detail(finding), essential=finding.unknown)
        for finding in compare(stated, subject.record, where=where, envelope=digest, look=look)
    ]


def _detail(finding: Finding) -> str:
    return f"{CONTRADICTION}: {finding.message}" if finding.level == "fail" else finding.message


def _check_subject(subject: Subject, session_ids: tuple[str | bytes, ...]) -> Check:
    """formats.md 3.3 item 6: sub is the session's id by default; the issuer may have chosen another."""
    sub = None if subject.sub is None else subject.sub.encode("utf-8", "surrogatepass")
    if sub in [identity if isinstance(identity, bytes) else identity.encode() for identity in session_ids]:
        return _SUBJECT_FITS
    which = "the record's session id" if len(session_ids) == 1 else "one of the record's session ids"
    return Check("subject", "warned", f"the statement's sub is not {which}")


def record_claims(subject: Subject, look: Look | None) -> tuple[Claim, ...]:
    """What the record says of itself: payload values only, never a header's (formats.md 3.3 item 6)."""
    if subject.record is None:
        return ()
    basis = "in the record"
    claims = [Claim("record-sha-256", hashlib.sha256(subject.record).hexdigest(), "of the record's exact bytes")]
    if look is not None and look.detected is not None and look.outline is not None:
        outline = look.outline
        claims.append(Claim("record-format", look.detected.format.name, "recognised by the record's bytes"))
        one = len(outline.session_ids) == 1
        if len(outline.session_ids) > 1:
            claims.append(Claim("sessions", len(outline.session_ids), basis))
        values = (
            ("session-id", _text(outline.session_ids[0]) if one else None),
            ("agent-vendor", outline.vendor),
            ("session-start", outline.start if one else None),
            ("session-end", outline.end if one else None),
        )
        claims += [Claim(name, value, basis) for name, value in values if value is not None]
    return tuple(claims)


def _text(identity: str | bytes) -> str:
    return identity if isinstance(identity, str) else f"h'{identity.hex()}'"
