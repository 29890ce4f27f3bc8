"""Conversion: a record of any format as canonical records, one for each session, and what a header may say of it.

Each format has its module; they are alike (:class:`Converter`), and this one chooses. Hashes and sizes are of the bytes
as they were given, a byte order mark included; converters read what follows it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol, cast

from transparency.errors import MalformedError
from transparency.records import canonical_json, vac, vac_upgrade
from transparency.records import format as known
from transparency.records.canonical import SessionDraft
from transparency.records.detect import Detected, detect
from transparency.records.format import Format
from transparency.records.strict_json import without_bom
from transparency.records.unit import Unit
from transparency.records.violation import Violation

VAC: Final = (known.VAC_JSON, known.VAC_CBOR)


class Converter(Protocol):
    """What the module of a format offers; pure functions over the record's bytes."""

    def units(self, data: bytes) -> Iterator[Unit]:
        """The units of the format, strictly read (formats.md 9)."""

    def sessions(self, data: bytes, format: Format) -> list[SessionDraft]:  # noqa: A002 - the converters' word
        """One draft for each session, in file order; every unit in an entry's source-ref or counted as dropped."""

    def check(self, data: bytes, format: Format) -> list[Violation]:  # noqa: A002 - the converters' word
        """What is not as the format says."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What trace-metadata can say of a record, from its content alone; None where the record does not give it.

    ``session_ids`` are the sessions that stand for themselves: sub-agents packed with the session that started them
    are part of it. Times and ``finished`` are of the first session. ``vendors`` are the names that agent-vendor may
    have without contradicting the record.
    """

    session_ids: tuple[str | bytes, ...]
    vendor: str | None
    start: str | int | None
    end: str | int | None
    finished: bool
    vendors: frozenset[str] = frozenset()


def convert(data: bytes, *, created: str, detected: Detected | None = None) -> list[dict[str, Any]]:
    """Canonical records (VAC -00), one for each session, in file order; *created* is the time of conversion.

    MalformedError (UnknownFormatError) when the bytes are no record; a valid -00 record is its own conversion.
    """
    detected = detected or detect(data)
    if detected.format in VAC:
        return vac_upgrade.upgrade(data)
    raw_hash = hashlib.sha256(data).hexdigest()
    drafts = _drafts(without_bom(data), detected.format)
    # Here, because whoever only checks or describes records starts a third quicker without it.
    from transparency.records.attribution import attribute  # noqa: PLC0415

    for draft in drafts:
        attribute(draft)
    return [draft.finish(data, created, raw_hash=raw_hash) for draft in drafts]


def convert_to_bytes(data: bytes, *, created: str, detected: Detected | None = None) -> Iterator[bytes]:
    """The canonical records as they are signed; a valid -00 record in JSON is given back byte for byte."""
    detected = detected or detect(data)
    if detected.format is known.VAC_JSON and vac_upgrade.itself(data) is not None:
        yield data
        return
    records = convert(data, created=created, detected=detected)
    records.reverse()
    while records:  # each record is let go once it is written: of a large file there is one copy less
        yield canonical_json.dumps(records.pop())


def check(data: bytes, detected: Detected | None = None) -> list[Violation]:
    """What is not as the record's format says, in the format's own words."""
    detected = detected or detect(data)
    body = without_bom(data)
    found: list[Violation] = []
    if len(body) != len(data):
        found.append(
            Violation("warning", "", "begins with a byte order mark, which JSON must not have (RFC 8259 §8.1)")
        )
    if detected.format in VAC:
        return found + vac_upgrade.check(body, detected.format)
    return found + _converter(detected.format).check(body, detected.format)


def units(data: bytes, detected: Detected | None = None) -> Iterator[Unit]:
    """The units of a record of any format."""
    detected = detected or detect(data)
    body = without_bom(data)
    yield from vac_upgrade.units(body) if detected.format in VAC else _converter(detected.format).units(body)


def outline(data: bytes, detected: Detected | None = None) -> Outline:
    """What can be said of the record in a header; MalformedError when its bytes are no such record."""
    detected = detected or detect(data)
    if detected.format in VAC:
        return _outline_vac(vac_upgrade.read(without_bom(data))[0])
    return outline_sessions(_drafts(without_bom(data), detected.format), detected.format)


def outline_sessions(drafts: Sequence[SessionDraft], format_: Format) -> Outline:
    """The outline of sessions already read, for a caller that converts them too."""
    if format_ is known.CLAUDE:
        # Natively every line of a sub-agent carries the session that started it.
        inside = {draft.session_id for draft in drafts}
        drafts = [draft for draft in drafts if draft.parent_session not in inside] or drafts
    if not drafts:
        return Outline((), format_.vendor, None, None, finished=True)
    first = drafts[0]
    maker = vac.CLI_VENDORS.get(first.cli_name or "")
    vendor = first.vendor or format_.vendor or maker or first.model_provider or first.cli_name
    names = (first.vendor, format_.vendor, maker, first.model_provider, vendor)
    return Outline(
        tuple(draft.session_id for draft in drafts),
        vendor,
        first.start,
        first.end,
        all(_is_finished(draft) for draft in drafts),
        frozenset(name for name in names if name is not None),
    )


def _is_finished(draft: SessionDraft) -> bool:
    """What the session says of itself (AgentLog does), else what its last turn shows."""
    status = draft.session_extra.get("status")
    return status != "active" if isinstance(status, str) else finished(draft.entries)


def finished(entries: Iterable[Mapping[str, Any]]) -> bool:
    """Whether no tool call of the last turn waits for its result (formats.md 10.3, R1.3).

    A call that was never answered earlier does not count: the session went on after it. Events say nothing here,
    since tools write them after the last turn as well.
    """
    waiting: dict[object, None] = {}
    for entry in flat(entries):
        kind = entry.get("type")
        named = entry.get("call-id")
        answered = named if isinstance(named, str) else None  # a VAC record may have anything there
        if kind == "tool-call":
            waiting[object() if answered is None else answered] = None
        elif kind == "tool-result":
            if answered is not None:
                waiting.pop(answered, None)
            elif waiting:
                waiting.popitem()
        elif kind in ("user", "assistant") and entry.get("content"):
            waiting.clear()
    return not waiting


def flat(entries: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Every entry in document order, each before its children; never recursing."""
    stack: list[Iterator[object]] = [iter(entries)]
    end = object()
    while stack:
        entry = next(stack[-1], end)
        if entry is end:
            stack.pop()
        elif isinstance(entry, Mapping):
            yield entry
            children = entry.get("children")
            if isinstance(children, list):
                stack.append(iter(children))


def _outline_vac(value: object) -> Outline:
    record = vac.summarise(value)
    if record is None or not isinstance(value, Mapping):
        return Outline((), None, None, None, finished=True)
    session = value.get("session")
    session = session if isinstance(session, Mapping) else {}
    entries = session.get("entries")
    stated = session.get("session-id")
    return Outline(
        (stated,) if isinstance(stated, str | bytes) else (),
        record.agent_vendor,
        record.timestamp_start,
        record.timestamp_end,
        finished(entries if isinstance(entries, list) else []),
        record.vendors,
    )


def _drafts(body: bytes, format_: Format) -> list[SessionDraft]:
    drafts = _converter(format_).sessions(body, format_)
    if not drafts:
        raise MalformedError(f"the {format_.name} holds no session")
    return drafts


def _converter(format_: Format) -> Converter:
    if format_ is known.COSE:
        raise MalformedError("a signed statement is not a record: its payload is, and is what can be converted")
    return cast("Converter", _LOADERS[format_]())


# A module is loaded with the first record of its format: a command that meets one does not wait for the others. Each
# name is written out, so that the test of import directions sees it.
_LOADERS: Final[Mapping[Format, Callable[[], object]]] = {
    known.CLAUDE: lambda: import_module("transparency.records.claude"),
    known.CODEX: lambda: import_module("transparency.records.codex"),
    known.GEMINI_JSON: lambda: import_module("transparency.records.gemini"),
    known.GEMINI_JSONL: lambda: import_module("transparency.records.gemini"),
    known.OPENCODE: lambda: import_module("transparency.records.opencode"),
    known.OPENCODE_EXPORT: lambda: import_module("transparency.records.opencode"),
    known.CURSOR: lambda: import_module("transparency.records.cursor"),
    known.AGENTLOG: lambda: import_module("transparency.records.agentlog"),
    known.AGENTLOG_01: lambda: import_module("transparency.records.agentlog"),
    known.AGENT_TRACE: lambda: import_module("transparency.records.agent_trace"),
    known.AGENT_TRACE_JSONL: lambda: import_module("transparency.records.agent_trace"),
    known.A2A: lambda: import_module("transparency.records.a2a"),
}
