"""From a record to a signed statement: what a submitter does before anything is sent. Pure.

The bytes of the record are signed exactly as they are. A VAC record also gets its trace-metadata, at label 100 of the
unprotected header as the draft says, and as a signed copy at -70100 of the protected one (design section 6): the
first is a hint anyone can change, the second is what a verifier can hold the issuer to.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from transparency.cose import labels
from transparency.cose.keys import Signer
from transparency.errors import MalformedError
from transparency.records import strict_json, vac
from transparency.records.trace_metadata import TraceMetadata, describe_or_reason
from transparency.statements.statement import sign_envelope, sign_statement

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
    iat: int | None = None,
) -> SignedRecord:
    """Sign *record* for *iss*. *sub* defaults to a VAC record's session id, *content_type* to what *name* suggests.

    *private* signs the record's SHA-256 (RFC 9995) so that the log never sees the record; trace-metadata is then left
    out, because it tells whose session it was.
    """
    metadata, note = describe_or_reason(record)
    if sub is None:
        sub = _subject(record, metadata)
    if content_type is None:
        content_type = guess_content_type(record, name)
    headers: dict[int | str, Any] = {}
    unprotected: dict[int | str, Any] = {}
    if private:
        metadata, note = None, "a private statement carries no trace-metadata"
    if metadata is not None:
        headers[labels.TRACE_METADATA_SIGNED] = metadata.to_map()
        unprotected[labels.TRACE_METADATA] = metadata.to_map()
    if private:
        statement = sign_envelope(
            hashlib.sha256(record).digest(), signer, iss=iss, sub=sub, preimage_content_type=content_type, iat=iat
        )
    else:
        statement = sign_statement(
            record, signer, iss=iss, sub=sub, content_type=content_type, headers=headers, unprotected=unprotected,
            detached=detached, iat=iat,
        )  # fmt: skip
    return SignedRecord(statement, sub, content_type, metadata, note)


def guess_content_type(record: bytes, name: str = "") -> str:
    """By content for a VAC record, else by the file's extension, else nothing is claimed."""
    if _is_vac(record):
        return vac.CONTENT_TYPE
    dot = name.rfind(".")
    known = _EXTENSIONS.get(name[dot:].lower()) if dot > 0 else None
    if known is not None:
        return known
    return "application/json" if _is_json_object(record) else "application/octet-stream"


def _subject(record: bytes, metadata: TraceMetadata | None) -> str:
    session = metadata.session_id if metadata is not None else None
    if session is None and _is_vac(record):
        summary = vac.read_vac(record)
        session = summary.session_id if summary is not None else None
    if not isinstance(session, str) or not session:
        msg = "what the statement is about (sub) is not known for this record; say it"
        raise MalformedError(msg)
    return session


def _is_vac(record: bytes) -> bool:
    try:
        return vac.read_vac(record) is not None
    except MalformedError:
        return False


def _is_json_object(record: bytes) -> bool:
    if record[:1] not in (b"{", b"["):
        return False
    try:
        strict_json.loads(record)
    except MalformedError:
        return False
    return True
