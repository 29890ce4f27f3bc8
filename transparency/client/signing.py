"""From a record to a signed statement: what a submitter does before anything is sent. Pure.

The bytes of the record are signed exactly as they are. A record of a known format also gets its trace-metadata, at
label 100 of the unprotected header as the draft says, and as a signed copy at -70100 of the protected one (design
section 6): the first is a hint anyone can change, the second is what a verifier can hold the issuer to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.cose import labels
from transparency.cose.keys import Signer
from transparency.errors import MalformedError
from transparency.records import format as known
from transparency.records import strict_json
from transparency.records.detect import Detected, UnknownFormatError, detect
from transparency.records.trace_metadata import TraceMetadata, describe_or_reason, look_at
from transparency.statements.statement import sign_envelope, sign_statement

LARGEST_ATTACHED: Final = 64 * 1024
"""Up to here ``submit`` puts the record into the statement; above, its digest (design section 6)."""

_EXTENSIONS = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".ndjson": "application/jsonl",
    ".cbor": "application/cbor",
    ".txt": "text/plain; charset=utf-8",
    ".log": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".pdf": "application/pdf",
    ".xml": "application/xml",
    ".zip": "application/zip",
}


@dataclass(frozen=True, slots=True)
class About:
    """What a record says of itself, found out once and used for everything that is signed about it."""

    detected: Detected | None
    sessions: tuple[str | bytes, ...]
    finished: bool
    metadata: TraceMetadata | None
    note: str
    """Why there is no trace-metadata, for the person who signs; empty where there is."""
    problem: str
    """Why the bytes are not a record that can be read; empty where they are."""

    @classmethod
    def of(cls, record: bytes) -> About:
        look = look_at(record)
        metadata, note = describe_or_reason(record, look)
        if look.outline is None:
            return cls(look.detected, (), True, None, note, look.seen or look.problem)
        return cls(look.detected, look.outline.session_ids, look.outline.finished, metadata, note, "")


@dataclass(frozen=True, slots=True)
class SignedRecord:
    """A statement, and what was found out while signing it."""

    statement: bytes
    sub: str
    content_type: str
    trace_metadata: TraceMetadata | None
    note: str
    """Why there is no trace-metadata, for the person who signs; empty where there is."""


def sign_record(
    record: bytes,
    signer: Signer,
    *,
    iss: str,
    sub: str | None = None,
    content_type: str | None = None,
    name: str = "",
    detached: bool = False,
    private: bool = False,
    envelope: bool = False,
    trace_metadata: bool | None = None,
    headers: Mapping[int | str, Any] | None = None,
    iat: int | None = None,
    about: About | None = None,
) -> SignedRecord:
    """Sign *record* for *iss*. *sub* defaults to its session id, *content_type* to what its content or *name* says.

    *envelope* signs the record's SHA-256 (RFC 9995): the record travels beside the statement. *private* is that for a
    record the log never sees; trace-metadata is then left out unless *trace_metadata* asks for it, because it tells
    whose session it was. *headers* are put into the protected header as they are.
    """
    about = about or About.of(record)
    metadata, note = about.metadata, about.note
    if trace_metadata is False or (private and not trace_metadata):
        metadata, note = None, "a private statement carries no trace-metadata" if private else "it was left out"
    sub = subject_of(about) if sub is None else sub
    content_type = guess_content_type(record, name, about.detected) if content_type is None else content_type
    protected: dict[int | str, Any] = dict(headers or {})
    unprotected: dict[int | str, Any] = {}
    if metadata is not None:
        protected[labels.TRACE_METADATA_SIGNED] = metadata.to_map()
        unprotected[labels.TRACE_METADATA] = metadata.to_map()
    if private or envelope:
        statement = sign_envelope(
            hashlib.sha256(record).digest(), signer, iss=iss, sub=sub, preimage_content_type=content_type,
            headers=protected, unprotected=unprotected, iat=iat,
        )  # fmt: skip
    else:
        statement = sign_statement(
            record, signer, iss=iss, sub=sub, content_type=content_type, headers=protected, unprotected=unprotected,
            detached=detached, iat=iat,
        )  # fmt: skip
    return SignedRecord(statement, sub, content_type, metadata, note)


def guess_content_type(record: bytes, name: str = "", detected: Detected | None = None) -> str:
    """By content for a record of a known format, else by the file's extension, else nothing is claimed."""
    detected = detected or _detected(record)
    if detected is not None and detected.format is not known.COSE:
        return detected.format.content_type
    dot = name.rfind(".")
    by_name = _EXTENSIONS.get(name[dot:].lower()) if dot > 0 else None
    if by_name is not None:
        return by_name
    return "application/json" if _is_json(record) else "application/octet-stream"


def subject_of(about: About) -> str:
    """The session id, verbatim (formats.md 9.1); of several sessions in one file the first."""
    session = about.sessions[0] if about.sessions else None
    if not isinstance(session, str) or not session:
        reason = f" ({about.problem})" if about.problem else ""
        raise MalformedError(f"what the statement is about (sub) is not known for this record{reason}; say it")
    return session


def _detected(record: bytes) -> Detected | None:
    try:
        return detect(record)
    except UnknownFormatError:
        return None


def _is_json(record: bytes) -> bool:
    if record[:1] not in (b"{", b"["):
        return False
    try:
        strict_json.loads(record)
    except MalformedError:
        return False
    return True
