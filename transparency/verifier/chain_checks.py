"""A session that grew: which statement this one continues (-70101), and whether what that one signed still stands.

The label is signed and names the earlier entry by its digest, so an earlier statement that has this digest is the one
that was meant, whoever hands it over. What its record was is known from its payload, or, where only a digest was
signed, found again as the beginning of this record. So a chain is followed without asking anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import TransparencyError
from transparency.records.detect import detect
from transparency.records.format import JSONL
from transparency.statements.chain import FIRST, checkpoint_of, prefix_length, stated_digest, supersedes_of
from transparency.statements.statement import entry_id, entry_of, normalise
from transparency.verifier.report import Check, Claim

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from transparency.verifier.statement_checks import Subject

MAX_LINKS: Final = 10_000


class _Earlier(NamedTuple):
    """An earlier statement: its headers, and its record as far as it is known here."""

    headers: Mapping[Any, Any]
    record: bytes | None
    digest: bytes | None


def is_linked(subject: Subject) -> bool:
    headers = subject.message.headers
    return labels.SUPERSEDES in headers or labels.SESSION_CHECKPOINT in headers


def check_chain(subject: Subject, earlier: Iterable[bytes]) -> list[Check]:
    """One check for each link, from this statement back; *earlier* are statements among which to look."""
    problem = _problem(subject.message.headers)
    if problem:
        return [Check("supersedes", "failed", problem)]
    if labels.SUPERSEDES not in subject.message.headers:
        number = subject.message.headers[labels.SESSION_CHECKPOINT]
        detail = f"checkpoint {number} of a session that was not finished; it continues no other statement"
        return [Check("supersedes", "passed", detail, {"checkpoint": number})]
    known = _Known(earlier, subject.record)
    checks: list[Check] = []
    headers, record, seen = subject.message.headers, subject.record, set[bytes]()
    while (named := supersedes_of(headers)) is not None and len(checks) < MAX_LINKS:
        name = f"supersedes/{len(checks) + 1}" if checks else "supersedes"
        evidence = {"entry-id": entry_id(named), "checkpoint": headers.get(labels.SESSION_CHECKPOINT, 0)}
        found = known.find(named)
        if found is None or named in seen:
            detail = "it continues an earlier statement, which was not given"
            return [*checks, Check(name, "not_checked", detail, evidence)]
        seen.add(named)
        problem = _problem(found.headers)
        if problem:
            return [*checks, Check(name, "failed", f"the earlier statement: {problem}", evidence)]
        check, record = _compare(name, subject, headers, found, record, evidence)
        checks.append(check)
        headers = found.headers
    return checks


def _compare(
    name: str,
    subject: Subject,
    headers: Mapping[Any, Any],
    found: _Earlier,
    record: bytes | None,
    evidence: dict[str, str | int],
) -> tuple[Check, bytes | None]:
    """One link, and the earlier record for the next one."""
    number, before = headers.get(labels.SESSION_CHECKPOINT), found.headers.get(labels.SESSION_CHECKPOINT, FIRST)
    if number is not None and number <= before:
        return Check(name, "failed", f"it is checkpoint {number} and continues checkpoint {before}", evidence), None
    if _iss(found.headers) != subject.iss:
        return Check(name, "warned", "the earlier statement is by another issuer", evidence), None
    if record is None:
        return Check(name, "not_checked", "the record is not at hand", evidence), None
    earlier = found.record
    if earlier is None and found.digest is not None:
        length = prefix_length(record, found.digest)
        if length is None:
            detail = "the earlier record was not given, and no number of this record's lines has its digest"
            return Check(name, "warned", detail, evidence, advisory=not _grows_by_lines(record)), None
        earlier = record[:length]
    return _compare_bytes(name, earlier, record, evidence), earlier


def _compare_bytes(name: str, earlier: bytes | None, record: bytes, evidence: dict[str, str | int]) -> Check:
    if earlier is None:
        return Check(name, "not_checked", "the earlier statement's record is not at hand", evidence)
    if record.startswith(earlier):
        detail = f"the earlier record is the first {len(earlier)} of {len(record)} bytes"
        return Check(name, "passed", detail, evidence)
    detail = "the earlier record is not how this one begins: what was recorded before was written anew"
    return Check(name, "warned", detail, evidence, advisory=not _grows_by_lines(record))


def _grows_by_lines(record: bytes) -> bool:
    """Of a session that is one document it is no surprise that it is written anew each time."""
    try:
        return detect(record).format.content_type == JSONL
    except TransparencyError:
        return False


class _Known:
    """Earlier statements by their entries, read only as far as one is looked for."""

    def __init__(self, earlier: Iterable[bytes], record: bytes | None) -> None:
        self._unread = iter(earlier)
        self._record = record
        self._read: dict[bytes, _Earlier] = {}

    def find(self, entry: bytes) -> _Earlier | None:
        while entry not in self._read:
            data = next(self._unread, None)
            if data is None:
                return None
            self._add(data)
        return self._read[entry]

    def _add(self, data: bytes) -> None:
        try:
            message = Sign1.from_bytes(data)
        except TransparencyError:
            return
        payload, digest = message.payload, stated_digest(message)
        if payload is None and self._record is not None and digest is not None:
            # Detached: its payload is the beginning of this record that has the hash it signed.
            length = prefix_length(self._record, digest)
            payload = None if length is None else self._record[:length]
        if payload is None:
            return
        entry = entry_of(normalise(message.protected, payload, message.signature))
        enveloped = labels.PAYLOAD_HASH_ALG in message.headers
        self._read[entry] = _Earlier(message.headers, None if enveloped else payload, digest if enveloped else None)


def _problem(headers: Mapping[Any, Any]) -> str:
    if labels.SUPERSEDES in headers and supersedes_of(headers) is None:
        return "label -70101 (supersedes) is not an entry of 32 bytes"
    if labels.SESSION_CHECKPOINT in headers and checkpoint_of(headers) is None:
        return "label -70102 (checkpoint) is not a number from 1"
    return ""


def _iss(headers: Mapping[Any, Any]) -> object:
    claims = headers.get(labels.CWT_CLAIMS)
    return claims.get(labels.CLAIM_ISS) if isinstance(claims, dict) else None


def chain_claims(subject: Subject, basis: str) -> tuple[Claim, ...]:
    """What the issuer says of this statement's place in its session."""
    headers = subject.message.headers
    if _problem(headers):
        return ()
    claims = []
    if labels.SUPERSEDES in headers:
        claims.append(Claim("supersedes", entry_id(headers[labels.SUPERSEDES]), basis))
    if labels.SESSION_CHECKPOINT in headers:
        claims.append(Claim("checkpoint", headers[labels.SESSION_CHECKPOINT], basis))
    return tuple(claims)
