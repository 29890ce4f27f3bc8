"""The record behind the statement: the one whose digest was signed, and the one its headers speak of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from transparency.cose import labels
from transparency.records.trace_metadata import compare
from transparency.records.vac import CONTENT_TYPE, Reading, VacRecord, try_vac
from transparency.verifier.report import Check, Claim, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transparency.records.trace_metadata import Level
    from transparency.verifier.statement_checks import Subject

_OUTCOMES: Final[Mapping[Level, Outcome]] = {
    "pass": "passed",
    "fail": "failed",
    "warn": "warned",
    "not-checked": "not_checked",
}
# Where a VAC record may be looked for; anything else is not parsed only to compare a subject.
_JSON_TYPES: Final = frozenset({CONTENT_TYPE, "application/json"})
_UNSIGNED: Final = "label 100 (which nobody signed)"


def check_records(subject: Subject) -> tuple[list[Check], VacRecord | None]:
    """Envelope, both copies of trace-metadata, and the subject, against the record's exact bytes."""
    checks = check_envelope(subject)
    reading = _read(subject)
    checks += _check_metadata(subject, reading)
    record = None if reading is None else reading.record
    if record is not None and record.session_id is not None:
        checks.append(_check_subject(subject, record.session_id))
    return checks, record


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


def _check_metadata(subject: Subject, reading: Reading | None) -> list[Check]:
    """formats.md 3.3: the signed copy, the unsigned one, and the two against each other."""
    signed = subject.message.headers.get(labels.TRACE_METADATA_SIGNED)
    unsigned = subject.message.unprotected.get(labels.TRACE_METADATA)
    if signed is None and unsigned is None:
        return [Check("trace-metadata", "not_checked", "absent")]
    checks: list[Check] = []
    if signed is not None:
        checks += _compare("signed-trace-metadata", signed, subject, reading, "label -70100")
    if unsigned is not None:
        if signed is None:
            checks += _compare("trace-metadata", unsigned, subject, reading, _UNSIGNED)
        elif unsigned == signed:
            checks.append(Check("trace-metadata-copies", "passed"))
        else:
            checks += _compare("trace-metadata", unsigned, subject, reading, _UNSIGNED)
            detail = "label 100 contradicts the signed copy at -70100"
            checks.append(Check("trace-metadata-copies", "failed", detail))
    return checks


def _compare(name: str, stated: object, subject: Subject, reading: Reading | None, where: str) -> list[Check]:
    envelope = subject.envelope
    digest = None if envelope is None or subject.body is None else (envelope.hash_alg, subject.body)
    return [
        Check(f"{name}/{finding.member}", _OUTCOMES[finding.level], finding.message, essential=finding.unknown)
        for finding in compare(stated, subject.record, where=where, envelope=digest, reading=reading)
    ]


def _read(subject: Subject) -> Reading | None:
    label = labels.CONTENT_TYPE if subject.envelope is None else labels.PREIMAGE_CONTENT_TYPE
    content_type = subject.message.headers.get(label)
    # A content type is text or a number on the wire, but nothing stops a stranger from sending an array.
    if subject.record is None or not isinstance(content_type, str) or content_type not in _JSON_TYPES:
        return None
    return try_vac(subject.record)


def _check_subject(subject: Subject, session_id: str) -> Check:
    if subject.sub == session_id:
        return Check("subject", "passed")
    return Check("subject", "warned", "the statement's sub is not the record's session id")


def record_claims(subject: Subject, record: VacRecord | None) -> tuple[Claim, ...]:
    """What the record says of itself: payload values only, never a header's (formats.md 3.3 item 6)."""
    if subject.record is None:
        return ()
    basis = "in the record"
    claims = [Claim("record-sha-256", hashlib.sha256(subject.record).hexdigest(), "of the record's exact bytes")]
    if record is not None:
        values = (
            ("session-id", record.session_id),
            ("agent-vendor", record.agent_vendor),
            ("session-start", record.timestamp_start),
            ("session-end", record.timestamp_end),
        )
        claims += [Claim(name, value, basis) for name, value in values if value is not None]
    return tuple(claims)
