"""The examiner: the one way from a stored entry to findings. The log report uses it, and the compliance cosigner.

A record is the payload, or what a hash envelope names, if it can be had: then every record check runs on the bytes
that were signed. What cannot be had is *not available* (hash-only, erased, not permitted): the checks of its signature
still run, those of its content are n-a, and it is counted apart.

Whether the entry was rightly admitted is not asked here: that is the replay's, whose outcome is passed in. What the
replay reproduced was signed by a key that the policy in force at its place has for its issuer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from transparency.compliance.baseline import AgentKey, TokenBaseline
from transparency.compliance.examined import (
    ERASED,
    HASH_ONLY,
    NOT_PERMITTED,
    OPERATION,
    READ,
    Examined,
    SessionFigures,
    figures,
)
from transparency.compliance.finding import Finding
from transparency.compliance.record_checks import check_record
from transparency.compliance.settings import DEFAULT, Settings
from transparency.compliance.stated import CONTENT_TYPES, read_stated
from transparency.compliance.subject import RecordSubject, Signing, read_subjects
from transparency.cose import labels
from transparency.cose.algorithms import algorithm
from transparency.errors import (
    GoneError,
    MalformedError,
    NotFoundError,
    ServiceRefusedError,
    TransparencyError,
    UnsupportedAlgorithmError,
)
from transparency.log.audit_report import Outcome
from transparency.log.store import Kind, StoredEntry
from transparency.policy import operations
from transparency.policy.access_digest import AccessDigest
from transparency.policy.audited import Audited
from transparency.policy.document import Policy
from transparency.policy.erasure import Erasure
from transparency.policy.hold import read_hold
from transparency.policy.keyset import ServiceKeys
from transparency.records.disclosure import read_header
from transparency.records.facts import NONE, RecordFacts
from transparency.records.timestamps import instant
from transparency.records.trace_metadata import Finding as Comparison
from transparency.records.trace_metadata import TraceMetadata, compare
from transparency.statements.chain import checkpoint_of, supersedes_of
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Statement, entry_id

Artifact = Callable[[bytes], bytes | None]
"""The record with this SHA-256; None where it is not, or no more. GoneError (410): erased; 401, 403: not permitted."""

# A larger record is counted as not available rather than read: several are examined at once.
MAX_RECORD: Final = 64 * 1024 * 1024
_NOT_PERMITTED: Final = (401, 403)
_GONE: Final = 410
_NOT_FOUND: Final = 404
_MS: Final = 1_000
_NOT_HERE: Final = "only the digest is here: the record was never given to the log, or is not there any more"
_MARK: Final = re.compile(rb"\[REDACTED[^\]\r\n]{0,200}\]")
_OURS: Final = re.compile(rb"\[REDACTED:[a-z0-9][a-z0-9-]{0,47}:[1-9][0-9]{0,8}\]")
_DIGEST: Final = re.compile(rb"[0-9a-fA-F]{32,}")
_OUTCOMES: Final = {"pass": "passed", "fail": "failed", "warn": "warned"}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an entry besides itself: its replay's outcome, its retention, what is usual for its agent.

    ``witnesses`` are how many of how many cosigned a checkpoint that covers it. ``now`` in seconds since 1970.
    """

    outcome: str = ""
    retention: tuple[str, int] | None = None
    baselines: Mapping[AgentKey, TokenBaseline] | None = None
    witnesses: tuple[int, int] | None = None
    resolved: Mapping[str, bool] | None = None
    now: int | None = None


_NOTHING_KNOWN: Final = Known()


class Examiner:
    """Holds settings and nothing else: any number of entries, in any order, in any process."""

    def __init__(self, settings: Settings = DEFAULT, *, max_record: int = MAX_RECORD) -> None:
        self._settings = settings
        self._max_record = max_record

    def examine(
        self, row: StoredEntry, head: SignedHead, artifact: Artifact, known: Known = _NOTHING_KNOWN
    ) -> Examined:
        """Look at *row*, which *head* is the first to cover. Never fails for what an entry holds."""
        entry, kind = entry_id(row.entry), row.kind.name.lower()
        if row.erased:
            return Examined(
                entry, row.index, kind, "", "", head.time, availability=ERASED, outcome=known.outcome,
                reason="the statement was erased", retention=known.retention,
            )  # fmt: skip
        try:
            statement = Statement.from_bytes(row.statement)
        except TransparencyError as error:
            return Examined(
                entry, row.index, kind, "", "", head.time, availability=HASH_ONLY, outcome=known.outcome,
                reason=f"the statement cannot be read: {error}",
            )  # fmt: skip
        if row.kind is not Kind.STATEMENT:
            return Examined(
                entry, row.index, kind, statement.iss, statement.sub, head.time, availability=OPERATION,
                outcome=known.outcome, kid=_kid(statement), content_type=_type(statement), size=len(statement.payload),
                stated=_operation(row.kind, statement),
            )  # fmt: skip
        if _type(statement) in CONTENT_TYPES:
            return self._of_ours(row, statement, head, known)
        return self._record(row, statement, head, artifact, known)

    def _of_ours(self, row: StoredEntry, statement: Statement, head: SignedHead, known: Known) -> Examined:
        """A review, an attestation, a report: a statement about records, and none itself."""
        return Examined(
            entry_id(row.entry), row.index, "statement", statement.iss, statement.sub, head.time,
            hashlib.sha256(statement.payload).hexdigest(), outcome=known.outcome, kid=_kid(statement),
            content_type=_type(statement), size=len(statement.payload), retention=known.retention,
            stated=read_stated(_type(statement), statement.payload),
        )  # fmt: skip

    # -- records -------------------------------------------------------------------------------------------------

    def _record(
        self, row: StoredEntry, statement: Statement, head: SignedHead, artifact: Artifact, known: Known
    ) -> Examined:
        record, availability, reason = self._read(statement, artifact)
        digest = _digest(statement, record)
        signing = _signing(row, statement, head, record, known)
        now = None if known.now is None else known.now * _MS
        if record is None:
            found = _stated_facts(statement)
            subject = RecordSubject(None, found.format, (), signing, known.retention, None, known.resolved, now)
            judged = [subject]
        else:
            judged, found = read_subjects(record, signing, retention=known.retention, resolved=known.resolved, now=now)
        sessions: list[SessionFigures] = []
        findings: list[Finding] = []
        for subject in judged:
            session = _absent(found) if subject.record is None else figures(subject.record, found, digest)
            baseline = (known.baselines or {}).get((statement.iss, session.agent))
            sessions.append(session)
            findings += check_record(
                subject if baseline is None else replace(subject, baseline=baseline), self._settings
            )
        headers = statement.message.headers
        supersedes = supersedes_of(headers)
        declared, bare, hashes = _redactions(headers.get(labels.REDACTIONS), record)
        return Examined(
            entry_id(row.entry), row.index, "statement", statement.iss, statement.sub, head.time, digest,
            tuple(findings), found, tuple(sessions), availability, known.outcome, _kid(statement), _type(statement),
            0 if record is None else len(record), reason, "" if supersedes is None else entry_id(supersedes),
            checkpoint_of(headers), declared, bare, hashes, known.retention,
        )  # fmt: skip

    def _read(self, statement: Statement, artifact: Artifact) -> tuple[bytes | None, str, str]:
        """The record, what could be had, and why no more."""
        envelope = statement.envelope
        if envelope is None:
            return statement.payload, READ, ""
        if envelope.hash_alg != labels.HASH_SHA256:
            return None, HASH_ONLY, "records are kept by their SHA-256, and the statement has another digest"
        try:
            record = artifact(statement.payload)
        except (GoneError, NotFoundError, ServiceRefusedError) as error:
            return None, *_why_not(error)
        wrong = ""
        if record is None:
            wrong = _NOT_HERE
        elif len(record) > self._max_record:
            wrong = f"the record is larger than the {self._max_record} bytes that are read"
        elif hashlib.sha256(record).digest() != statement.payload:
            wrong = "what is kept is not the record whose digest was signed"
        return (None, HASH_ONLY, wrong) if wrong else (record, READ, "")


def _why_not(error: GoneError | NotFoundError | ServiceRefusedError) -> tuple[str, str]:
    status = error.status if isinstance(error, ServiceRefusedError) else 0
    if isinstance(error, GoneError) or status == _GONE:
        return ERASED, "the record was erased"
    if status in _NOT_PERMITTED:
        return NOT_PERMITTED, "the log does not show the record to this token"
    if isinstance(error, NotFoundError) or status == _NOT_FOUND:
        return HASH_ONLY, _NOT_HERE
    raise error


def _digest(statement: Statement, record: bytes | None) -> str:
    if statement.envelope is not None:
        return statement.payload.hex()
    return hashlib.sha256(statement.payload if record is None else record).hexdigest()


def _kid(statement: Statement) -> str:
    return "" if statement.kid is None else statement.kid.hex()


def _type(statement: Statement) -> str:
    """The content type of the record: of a hash envelope, of what it names."""
    label = labels.CONTENT_TYPE if statement.envelope is None else labels.PREIMAGE_CONTENT_TYPE
    value = statement.message.headers.get(label)
    return value if isinstance(value, str) else ""


def _signing(row: StoredEntry, statement: Statement, head: SignedHead, record: bytes | None, known: Known) -> Signing:
    reproduced = known.outcome == Outcome.REPRODUCED
    # Not reproduced is not refuted: the replay's finding says what is wrong, and the policy did not vouch for it.
    admitted = True if reproduced else (False if known.outcome == Outcome.FAILED else None)
    compared = _compared(statement, record)
    content_hash = next((each for each in compared if each.member == "content-hash"), None)
    return Signing(
        iss=statement.iss,
        sub=statement.sub,
        alg=_algorithm(statement),
        kid=_kid(statement) or None,
        signature=True if reproduced else None,
        trusted=admitted,
        content_hash=_content_hash(statement, record, content_hash),
        metadata=tuple(
            (each.member, _OUTCOMES[each.level], each.message) for each in compared if each.level in _OUTCOMES
        ),
        receipts=1,
        inclusion=True if known.outcome in (Outcome.REPRODUCED, Outcome.FAILED) else None,
        log_trusted=True if reproduced else None,
        witnesses=known.witnesses,
        entry=entry_id(row.entry),
        index=row.index,
        registered=head.time * _MS,
    )


def _algorithm(statement: Statement) -> str:
    try:
        return algorithm(statement.alg).name
    except UnsupportedAlgorithmError:
        return str(statement.alg)


def _content_hash(statement: Statement, record: bytes | None, compared: Comparison | None) -> str:
    if compared is not None and compared.level in ("pass", "fail"):
        return "equal" if compared.level == "pass" else "differs"
    # The payload of a hash envelope is the digest itself: the record was held against it when it was read.
    return "equal" if statement.envelope is not None and record is not None else "absent"


def _compared(statement: Statement, record: bytes | None) -> list[Comparison]:
    stated = statement.message.headers.get(labels.TRACE_METADATA_SIGNED)
    if stated is None:
        return []
    envelope = None if statement.envelope is None else (statement.envelope.hash_alg, statement.payload)
    return compare(stated, record, where="label -70100", envelope=envelope)


def _stated_facts(statement: Statement) -> RecordFacts:
    """What the issuer signed of a record that is not here (the signed copy of trace-metadata)."""
    try:
        said = TraceMetadata.from_map(statement.message.headers.get(labels.TRACE_METADATA_SIGNED))
    except MalformedError:
        return NONE
    session = said.session_id if isinstance(said.session_id, str) else said.session_id.hex()
    times = (instant(said.timestamp_start), instant(said.timestamp_end))
    return RecordFacts(said.trace_format, (session,), said.agent_vendor, start=times[0], end=times[1])


def _absent(found: RecordFacts) -> SessionFigures:
    session = found.sessions[0] if found.sessions else ""
    return SessionFigures(session, found.agent or found.vendor or "", found.start, found.end)


def _redactions(header: object, record: bytes | None) -> tuple[int, int, int]:
    """Redactions that are committed to; marks that no commitment stands for; those of them that show a digest."""
    declared = 0
    if header is not None:
        with suppress(MalformedError):
            declared = len(read_header(header))
    if record is None or b"[REDACTED" not in record:
        return declared, 0, 0
    ours = bare = hashes = 0
    for mark in _MARK.finditer(record):
        if _OURS.fullmatch(mark[0]):
            ours += 1
        elif _DIGEST.search(mark[0]):
            hashes += 1
        else:
            bare += 1
    return declared, bare + (ours if not declared else 0), hashes


def _operation(kind: Kind, statement: Statement) -> object:
    """What the service stated; None for what it stated otherwise than in its own forms (the replay says so)."""
    readers: dict[str, Callable[[bytes], object]] = {
        operations.ERASURE: Erasure.from_bytes,
        operations.HOLD: read_hold,
        operations.ACCESS_LOG: AccessDigest.from_bytes,
        operations.AUDIT: Audited.from_bytes,
    }
    try:
        if kind is Kind.POLICY:
            return Policy.from_toml(statement.payload)
        if kind is Kind.KEYS:
            return ServiceKeys.from_toml(statement.payload)
        reader = readers.get(statement.sub)
        return None if reader is None else reader(statement.payload)
    except TransparencyError:
        return None
