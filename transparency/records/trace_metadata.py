"""trace-metadata: seven members that stand in a header and must agree with the payload.

The draft puts it at label 100 of the unprotected header, where anyone may change it; its signed copy stands
at -70100. Neither is believed: every member is recomputed from the exact payload bytes, and what is shown to
people comes from the payload (formats.md, section 3).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from transparency.errors import MalformedError
from transparency.records import convert, vac
from transparency.records import format as known
from transparency.records.detect import Detected, UnknownFormatError, detect
from transparency.records.hashes import BY_NAME
from transparency.records.timestamps import instant, is_timestamp

Level = Literal["fail", "warn", "not-checked", "pass"]

REQUIRED: Final = ("session-id", "agent-vendor", "trace-format", "timestamp-start")
OPTIONAL: Final = ("timestamp-end", "content-hash", "content-hash-alg")
MEMBERS: Final = REQUIRED + OPTIONAL

_LONGEST_TEXT: Final = 8192
_HEX: Final = re.compile(r"[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """What comparing one member gave; ``unknown`` marks a "not-checked" after which nobody can tell (3.4)."""

    level: Level
    member: str
    message: str
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class TraceMetadata:
    """The draft's trace-metadata map: four required members, three optional, no others."""

    session_id: str | bytes
    agent_vendor: str
    trace_format: str
    timestamp_start: str | int
    timestamp_end: str | int | None = None
    content_hash: str | None = None
    content_hash_alg: str | None = None

    @classmethod
    def from_map(cls, value: object) -> TraceMetadata:
        """Strictly: a closed map, every member of the type that -00 gives it; else MalformedError."""
        if not isinstance(value, Mapping):
            msg = "trace-metadata is not a map"
            raise MalformedError(msg)
        extra = sum(1 for key in value if key not in MEMBERS)
        if extra:
            msg = f"trace-metadata is a closed map and has {extra} member(s) that do not belong in it"
            raise MalformedError(msg)
        for member in REQUIRED:
            if member not in value:
                msg = f"trace-metadata has no {member}"
                raise MalformedError(msg)
        for member in value:
            if not _fits(member, value[member]):
                msg = f"{member} is not {_SHAPES[member]}"
                raise MalformedError(msg)
        return cls(**{member.replace("-", "_"): value[member] for member in value})

    def to_map(self) -> dict[str, Any]:
        """The map as it stands in the header; absent members are left out."""
        members = {member: getattr(self, member.replace("-", "_")) for member in MEMBERS}
        return {member: value for member, value in members.items() if value is not None}


_TEXT: Final = f"a text of at most {_LONGEST_TEXT} characters"
_TIME: Final = "an RFC 3339 time with T and Z or offset, nor epoch milliseconds as an unsigned integer"
_SHAPES: Final[Mapping[str, str]] = {
    "session-id": _TEXT + ", nor a byte string",
    "agent-vendor": _TEXT,
    "trace-format": _TEXT,
    "timestamp-start": _TIME,
    "timestamp-end": _TIME,
    "content-hash": _TEXT,
    "content-hash-alg": _TEXT,
}


def _fits(member: str, value: object) -> bool:
    if member.startswith("timestamp"):
        return is_timestamp(value)
    return isinstance(value, (str, bytes) if member == "session-id" else str) and len(value) <= _LONGEST_TEXT


def describe(data: bytes) -> TraceMetadata | None:
    """The trace-metadata of a record of any format, every member from its bytes; None where one cannot be had."""
    return describe_or_reason(data)[0]


def describe_or_reason(data: bytes, look: Look | None = None) -> tuple[TraceMetadata | None, str]:
    """``describe``, and when that is None the sentence to tell the user why (formats.md 3.4).

    ``look`` is what ``look_at`` gave for ``data``, for a caller that has it already.
    """
    look = look or look_at(data)
    detected, outline = look.detected, look.outline
    if detected is None or outline is None:
        return None, _unread(look)
    if len(outline.session_ids) > 1:
        return None, f"the file holds {len(outline.session_ids)} sessions, and trace-metadata speaks of one"
    session_id, vendor, start = next(iter(outline.session_ids), None), outline.vendor, outline.start
    if session_id is None or vendor is None or start is None:
        given = {"session-id": session_id, "agent-vendor": vendor, "timestamp-start": start}
        missing = ", ".join(member for member, value in given.items() if value is None)
        return None, f"the record does not give {missing}, and nothing is invented"
    if not _fits("session-id", session_id) or not _fits("agent-vendor", vendor):
        return None, f"the record's session id or vendor is longer than the {_LONGEST_TEXT} characters a header takes"
    metadata = TraceMetadata(
        session_id=session_id,
        agent_vendor=vendor,
        trace_format=detected.format.trace_format,
        timestamp_start=start,
        timestamp_end=outline.end,
        content_hash=hashlib.sha256(data).hexdigest(),
        content_hash_alg="sha-256",
    )
    return metadata, ""


def _unread(look: Look) -> str:
    if not look.is_record:
        broken = f"the record is not strict JSON ({look.problem})"
        return broken if look.problem else f"the record is not a VAC record nor one of another format ({look.seen})"
    assert look.detected is not None  # noqa: S101 - is_record
    is_vac = look.detected.format is known.VAC_JSON
    how = "JSON" if is_vac else f"{look.detected.format.name}, as its bytes begin"
    return f"the record is not strict {how} ({look.problem})"


@dataclass(frozen=True, slots=True)
class Look:
    """A record looked at once, for all that is compared with it.

    ``detected`` is None for what is in no known format, and ``seen`` what it is instead. ``outline`` is None for that,
    for a signed statement, and for what begins as a record or JSON and is not strictly that: ``problem`` says where.
    """

    detected: Detected | None
    outline: convert.Outline | None = None
    problem: str = ""
    seen: str = ""

    @property
    def is_record(self) -> bool:
        """Whether the bytes begin as a record does."""
        return self.detected is not None and self.detected.format is not known.COSE


def look_at(payload: bytes) -> Look:
    """What a record of any format says of itself, strictly read."""
    try:
        detected = detect(payload)
    except UnknownFormatError as error:
        return Look(None, problem=_json_problem(payload), seen=str(error))
    if detected.format is known.COSE:
        return Look(detected, seen=f"a {detected.format.name} is not a record: its payload is")
    try:
        return Look(detected, convert.outline(payload, detected))
    except MalformedError as error:
        return Look(detected, problem=str(error))


def _json_problem(payload: bytes) -> str:
    """Where the bytes begin as a JSON object and are not strictly one: a lenient parser may read them as VAC."""
    try:
        vac.read_vac(payload)
    except MalformedError as error:
        return str(error)
    return ""


def compare(
    metadata: object,
    payload: bytes | None,
    *,
    where: str,
    envelope: tuple[int, bytes] | None = None,
    look: Look | None = None,
) -> list[Finding]:
    """Each member of a trace-metadata map against the record it speaks of (formats.md 3.3 items 4-6, 3.4).

    ``payload`` is the record: of a hash envelope the preimage, None when it is not at hand; ``envelope`` is
    the envelope's (COSE hash algorithm, digest), against which content-hash is checked even without it.
    ``look`` is what ``look_at`` gave for ``payload``, for a caller that has it already.
    """
    try:
        stated = TraceMetadata.from_map(metadata)
    except MalformedError as error:
        return [Finding("fail", "shape", f"{where}: {error}")]
    findings = [_compare_hash(stated, payload, envelope, where)]
    if payload is None:
        reason = f"{where}: the record is not at hand"
        return findings + [Finding("not-checked", member, reason) for member in REQUIRED]
    return findings + _compare_content(stated, look or look_at(payload), where)


def _compare_hash(
    stated: TraceMetadata, payload: bytes | None, envelope: tuple[int, bytes] | None, where: str
) -> Finding:
    member = "content-hash"
    if stated.content_hash is None:
        return Finding("not-checked", member, f"{where}: absent")
    algorithm = BY_NAME.get((stated.content_hash_alg or "sha-256").lower())
    if algorithm is None:
        return Finding("not-checked", member, f"{where}: the hash algorithm is unknown here", unknown=True)
    if payload is not None:
        digest = algorithm.digest(payload)
    elif envelope is not None and envelope[0] == algorithm.label:
        digest = envelope[1]
    else:
        return Finding("not-checked", member, f"{where}: the record is not at hand", unknown=True)
    text = stated.content_hash
    # bytes.fromhex alone would skip white space.
    if len(text) != 2 * len(digest) or not _HEX.fullmatch(text) or bytes.fromhex(text) != digest:
        return Finding("fail", member, f"{where} contradicts the signed payload: not the {algorithm.name} of its bytes")
    return Finding("pass", member, f"{where}: the {algorithm.name} of the payload's exact bytes")


@dataclass(frozen=True, slots=True)
class _Content:
    """What a payload says of itself, whatever its format."""

    name: str
    trace_format: str
    session_ids: tuple[str | bytes, ...]
    vendors: frozenset[str]
    start: str | int | None
    end: str | int | None


def _compare_content(stated: TraceMetadata, look: Look, where: str) -> list[Finding]:
    detected, outline = look.detected, look.outline
    if detected is None or outline is None:
        return _compare_unread(stated, look, where)
    one = len(outline.session_ids) == 1
    name = "VAC record" if detected.format in convert.VAC else detected.format.name
    content = _Content(
        name,
        detected.format.trace_format,
        outline.session_ids,
        outline.vendors,
        outline.start if one or detected.format in convert.VAC else None,
        outline.end if one or detected.format in convert.VAC else None,
    )
    return _compare_members(stated, content, where)


def _compare_unread(stated: TraceMetadata, look: Look, where: str) -> list[Finding]:
    """The payload is in no known format, or not strictly in the one it begins as."""
    is_vac = stated.trace_format == vac.TRACE_FORMAT
    if look.problem and is_vac and (look.detected is None or look.detected.format is known.VAC_JSON):
        return [Finding("fail", "trace-format", f"{where}: the payload is not strict JSON ({look.problem})")]
    if look.is_record and look.detected is not None:
        level: Level = "fail" if stated.trace_format == look.detected.format.trace_format else "not-checked"
        name = look.detected.format.name
        message = f"{where}: the payload begins as a {name} and is not strictly one ({look.problem})"
        return [Finding(level, "trace-format", message)]
    if is_vac:
        message = f"{where} contradicts the signed payload: it names a VAC record, the payload is none"
        return [Finding("fail", "trace-format", message)]
    reason = f"{where}: the payload is in no format that is read here"
    return [Finding("not-checked", member, reason) for member in REQUIRED]


def _compare_members(stated: TraceMetadata, content: _Content, where: str) -> list[Finding]:
    return [
        _compare_format(stated, content, where),
        _compare_session(stated, content, where),
        _compare_vendor(stated, content, where),
        *_compare_times(stated, content, where),
    ]


def _compare_format(stated: TraceMetadata, content: _Content, where: str) -> Finding:
    if stated.trace_format == content.trace_format:
        return Finding("pass", "trace-format", f"{where}: the payload is a {content.name}")
    message = f"{where} contradicts the signed payload: it names another format, the payload is a {content.name}"
    return Finding("fail", "trace-format", message)


def _compare_session(stated: TraceMetadata, content: _Content, where: str) -> Finding:
    if not content.session_ids:
        return Finding("not-checked", "session-id", f"{where}: the payload has none")
    # -00 lets the header write the identifier as bytes; JSON can only hold it as text.
    if _bytes(stated.session_id) not in {_bytes(identity) for identity in content.session_ids}:
        return Finding("fail", "session-id", f"{where} contradicts the signed payload: it names another session")
    if len(content.session_ids) > 1:
        message = f"{where}: one of the {len(content.session_ids)} sessions in the payload"
        return Finding("warn", "session-id", message)
    return Finding("pass", "session-id", f"{where}: as in the payload")


def _bytes(identity: str | bytes) -> bytes:
    return identity if isinstance(identity, bytes) else identity.encode()


def _compare_vendor(stated: TraceMetadata, content: _Content, where: str) -> Finding:
    if not content.vendors:
        return Finding("not-checked", "agent-vendor", f"{where}: the payload has none")
    if stated.agent_vendor in content.vendors:
        return Finding("pass", "agent-vendor", f"{where}: as in the payload")
    message = f"{where} contradicts the signed payload: neither the model's provider nor the tool's vendor"
    return Finding("warn", "agent-vendor", message)


def _compare_times(stated: TraceMetadata, content: _Content, where: str) -> list[Finding]:
    findings = []
    for member, header, payload in (
        ("timestamp-start", stated.timestamp_start, content.start),
        ("timestamp-end", stated.timestamp_end, content.end),
    ):
        if header is None:
            continue
        if payload is None:
            findings.append(Finding("not-checked", member, f"{where}: the payload has none"))
        elif instant(header) is not None and instant(header) == instant(payload):
            findings.append(Finding("pass", member, f"{where}: the same instant as in the payload"))
        else:
            message = f"{where} contradicts the signed payload: it is not the same instant"
            findings.append(Finding("fail", member, message))
    return findings
