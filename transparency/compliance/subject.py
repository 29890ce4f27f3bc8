"""What a record check may look at: one session's canonical record, and what others found out about its statement.

Plain data. Whoever has a verifier, a log or a trust store fills it; a check asks nobody anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from transparency.display import safe_text
from transparency.errors import TransparencyError
from transparency.records import convert
from transparency.records.detect import detect
from transparency.records.facts import NONE, RecordFacts, facts
from transparency.records.reading import reading
from transparency.records.timestamps import rfc3339
from transparency.records.violation import Violation


class Baseline(Protocol):
    """The log's history of one agent (R9.4): tokens per session over ``count`` earlier sessions."""

    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def deviation(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Signing:
    """What verifying the statement showed; None where nobody looked.

    ``headers`` are what the RFC 9943 profile misses in the protected header, () when it is complete. ``metadata`` are
    the comparisons of trace-metadata with the payload: (member, "passed" | "failed" | "warned", detail).
    ``witnesses`` is cosigned by n of the m of the policy; ``registered`` is in milliseconds since 1970.
    """

    iss: str | None = None
    sub: str | None = None
    alg: str | None = None
    kid: str | None = None
    signature: bool | None = None
    trusted: bool | None = None
    headers: tuple[str, ...] = ()
    content_hash: str | None = None
    metadata: tuple[tuple[str, str, str], ...] = ()
    receipts: int = 0
    inclusion: bool | None = None
    log_trusted: bool | None = None
    witnesses: tuple[int, int] | None = None
    entry: str | None = None
    index: int | None = None
    registered: int | None = None


@dataclass(frozen=True, slots=True)
class RecordSubject:
    """One session to be judged. ``record`` None: hash-only, erased, not permitted or not readable.

    ``format`` is the trace-format of the bytes that were signed, ``violations`` is what their format says of them.
    ``retention`` is the name of its class and its seconds. ``resolved`` says of links (session ids, raw hashes) whether
    they stand in the log; None: no log at hand. ``now`` is in milliseconds since 1970.
    """

    record: Mapping[str, Any] | None
    format: str = ""
    violations: tuple[Violation, ...] = ()
    signing: Signing | None = None
    retention: tuple[str, int] | None = None
    baseline: Baseline | None = None
    resolved: Mapping[str, bool] | None = None
    now: int | None = None


_EPOCH: Final = "1970-01-01T00:00:00.000Z"


def subjects(
    data: bytes,
    signing: Signing | None = None,
    *,
    retention: tuple[str, int] | None = None,
    baseline: Baseline | None = None,
    resolved: Mapping[str, bool] | None = None,
    now: int | None = None,
) -> list[RecordSubject]:
    """The sessions of a record, each as a subject; bytes that cannot be read give one, whose violation says why.

    Conversion happens here, in the eyes of the checks: ``created`` of a native record is no evidence of anything.
    """
    return read_subjects(data, signing, retention=retention, baseline=baseline, resolved=resolved, now=now)[0]


def read_subjects(
    data: bytes,
    signing: Signing | None = None,
    *,
    retention: tuple[str, int] | None = None,
    baseline: Baseline | None = None,
    resolved: Mapping[str, bool] | None = None,
    now: int | None = None,
) -> tuple[list[RecordSubject], RecordFacts]:
    """The subjects, and what the record can be found by: of a small record every byte is parsed once for all of it."""
    records: list[Mapping[str, Any] | None]
    format_, found = "", NONE
    with reading(data) as read:
        try:
            detected = detect(data)
            format_ = detected.format.trace_format
            try:
                read.again()
                violations = tuple(convert.check(data, detected))
            finally:
                read.again()
                found = facts(data, detected)
            read.again()
            created = _EPOCH if now is None else rfc3339(now) or _EPOCH
            records = [*convert.convert(data, created=created, detected=detected)]
        except TransparencyError as error:
            records = [None]
            violations = (Violation("violation", "", f"cannot be read: {safe_text(str(error))}"),)
    return [
        RecordSubject(record, format_, violations, signing, retention, baseline, resolved, now) for record in records
    ], found
