"""The canonical record: VAC, profile -00, as every converter writes it (formats.md 8.1).

The native bytes are the evidence; this record is an index of them. So it names its source by hash, says for every
entry which native unit it comes from, keeps what it does not understand under ``native``, and counts what it left out.
Converters are handed a :class:`SessionDraft` for each session and only ever add to it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import strict_json
from transparency.records.format import Format
from transparency.records.timestamps import instant, rfc3339
from transparency.records.unit import Unit

VERSION: Final = "3.0.0-draft"
CONVERTER: Final = "agent-transparency"
CONVERTER_VERSION: Final = "1"
UNKNOWN: Final = "unknown"
# The UUIDv5, in the namespace of URLs, of the draft's page at the IETF datatracker.
NAMESPACE: Final = bytes.fromhex("dabc312b0d14544992f340c3a5ee2782")

Actor = str
HUMAN: Final = "human"
AGENT: Final = "agent"
TOOL: Final = "tool"
SYSTEM: Final = "system"

# What -00 requires of an entry and may be null (formats.md 2.3): it stays as null where the source gives none.
NULLABLE: Final[Mapping[str, str]] = {"tool-call": "input", "tool-result": "output", "reasoning": "content"}
# What converters write under ``native`` themselves. A file must not be able to: readers act on these.
MARKS: Final = frozenset(
    {"duplicate-of", "superseded-by", "rewound-by", "replaced-by", "changed-by", "line", "verbatim"}
)


# What most tools write is the canonical form already; days that not every month has are left to the calendar.
_CANONICAL_TIME: Final = re.compile(
    r"[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}\.[0-9]{3}Z",
    re.ASCII,
)


@dataclass(slots=True)
class SessionDraft:
    """One session being converted. Owned by its converter; ``finish`` makes the record.

    Fields that stay None are left out of the record: nothing is invented (formats.md 3.4).
    """

    format: Format
    session_id: str
    model_id: str | None = None
    model_provider: str | None = None
    cli_name: str | None = None
    cli_version: str | None = None
    start: str | int | None = None
    end: str | int | None = None
    environment: dict[str, Any] | None = None
    vcs: dict[str, Any] | None = None
    attribution: dict[str, Any] | None = None
    vendor: str | None = None
    """agent-vendor, where neither the format nor the model's provider is it (formats.md 9.1)."""
    parent_session: str | None = None
    child_sessions: list[str] = field(default_factory=list)
    session_extra: dict[str, Any] = field(default_factory=dict)
    record_extra: dict[str, Any] = field(default_factory=dict)
    session_native: dict[str, Any] = field(default_factory=dict)
    record_native: dict[str, Any] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    filled: list[str] = field(default_factory=list)
    units: int = 0
    # Sets beside the lists: a hostile file names a new model on each of a million lines.
    _seen_models: set[str] = field(default_factory=set, repr=False)
    _seen_children: set[str] = field(default_factory=set, repr=False)

    def entry(
        self,
        unit: Unit,
        kind: str,
        members: Mapping[str, Any],
        *,
        actor: Actor | None = None,
        native: Mapping[str, Any] | None = None,
        parent: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Add an entry of type *kind* made from *unit*; *parent* nests it.

        Members that are None are left out, but for those that -00 requires: ``filled`` names where they were missing.
        """
        required = NULLABLE.get(kind)
        made: dict[str, Any] = {"type": kind}
        made |= {name: value for name, value in members.items() if value is not None or name == required}
        if actor is not None:
            made["actor"] = actor
        if native:
            made["native"] = dict(native)
        made["source-ref"] = unit.source_ref()
        (self.entries if parent is None else parent.setdefault("children", [])).append(made)
        return made

    def event(
        self,
        unit: Unit,
        event_type: str,
        data: object,
        *,
        timestamp: object = None,
        actor: Actor | None = SYSTEM,
        native: Mapping[str, Any] | None = None,
        parent: dict[str, Any] | None = None,
        **members: Any,  # noqa: ANN401 - further members of the entry, JSON values
    ) -> dict[str, Any]:
        """A ``system-event``: what has no other place. ``data`` must be a map, so anything else is wrapped."""
        wrapped = data if isinstance(data, dict) else {"value": data}
        stamp, kept = time_member(timestamp)
        return self.entry(
            unit,
            "system-event",
            {"event-type": event_type, "data": wrapped, "timestamp": stamp, **members},
            actor=actor,
            native={**(native or {}), **kept} or None,
            parent=parent,
        )

    def unknown(
        self, unit: Unit, kind: str, *, timestamp: object = None, parent: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """A unit (or part of one) of a kind that is not known: kept whole as ``<vendor>/<kind>`` (rule 5)."""
        return self.event(unit, f"{self.format.event_prefix}/{kind}", unit.value, timestamp=timestamp, parent=parent)

    def drop(self, kind: str, count: int = 1) -> None:
        """Say that *count* units of *kind* have no entry. The only way to leave something out."""
        self.dropped[kind] += count

    def saw_model(self, model: object) -> None:
        if isinstance(model, str) and model and model not in self._seen_models:
            self._seen_models.add(model)
            self.models.append(model)

    def saw_child(self, session_id: str) -> None:
        """Link a session that this one started (a sub-agent), once."""
        if session_id not in self._seen_children:
            self._seen_children.add(session_id)
            self.child_sessions.append(session_id)

    def finish(self, raw: bytes, created: str, *, raw_hash: str | None = None) -> dict[str, Any]:
        """The record. *raw* is the whole native source, *created* the time of conversion.

        *raw_hash* is the SHA-256 of *raw*, from a caller that finishes several sessions of one source.
        """
        raw_hash = raw_hash or hashlib.sha256(raw).hexdigest()
        identity = f"{raw_hash}:{self.session_id}:{CONVERTER}/{CONVERTER_VERSION}"
        record: dict[str, Any] = {
            "version": VERSION,
            "id": name_uuid(identity),
            "session": self._session(),
            "created": created,
        }
        if self.attribution is not None:
            record["file-attribution"] = self.attribution
        if self.vcs is not None:
            record["vcs"] = self.vcs
        record["recording-agent"] = {"name": CONVERTER, "version": CONVERTER_VERSION}
        record["source"] = source_map(self.format, raw, raw_hash, self.units, self.filled, self.dropped)
        record.update(self.record_extra)
        if self.record_native:
            record["native"] = self.record_native
        if strict_json.is_deeper(record):
            # What cannot be read again must not be signed. Its units were within the same bound: their frame is not.
            raise MalformedError(
                f"converted, session {self.session_id!r:.80} would be nested more than {strict_json.MAX_DEPTH} deep"
            )
        return record

    def _session(self) -> dict[str, Any]:
        meta: dict[str, Any] = {
            "model-id": self.model_id or (self.models[-1] if self.models else UNKNOWN),
            "model-provider": self.model_provider or UNKNOWN,
        }
        if len(self.models) > 1:
            meta["models"] = self.models
        meta |= _given({"cli-name": self.cli_name, "cli-version": self.cli_version})
        session: dict[str, Any] = {"session-id": self.session_id, "agent-meta": meta}
        session |= _given({"session-start": self.start, "session-end": self.end})
        if self.environment is not None:
            session["environment"] = self.environment
        session |= _given({"parent-session-id": self.parent_session, "child-session-ids": self.child_sessions or None})
        session.update(self.session_extra)
        if self.session_native:
            session["native"] = self.session_native
        session["entries"] = self.entries
        return session


def source_map(
    format_: Format, raw: bytes, raw_hash: str, units: int, filled: list[str], dropped: Mapping[str, int]
) -> dict[str, Any]:
    """``source`` of a record (rule 3). *raw* is the source as it was given, *raw_hash* its SHA-256."""
    source = {
        "format": format_.trace_format,
        "media-type": format_.content_type,
        "raw-hash": raw_hash,
        "raw-hash-alg": "sha-256",
        "raw-size": len(raw),
        "converter": CONVERTER,
        "converter-version": CONVERTER_VERSION,
        "lossless": not dropped,
        "dropped": [{"kind": kind, "count": count} for kind, count in sorted(dropped.items())],
        "filled": filled,
        "native-units": units,
    }
    return source | ({"byte-order-mark": True} if raw.startswith(strict_json.BOM) else {})


def name_uuid(name: str) -> str:
    """UUIDv5 of *name* in our namespace (RFC 9562 §5.5). Not by ``uuid``, which reads clocks and network cards too."""
    digest = bytearray(hashlib.sha1(NAMESPACE + name.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def time_member(value: object) -> tuple[str | None, dict[str, Any]]:
    """A native time as RFC 3339 UTC with milliseconds, and what to keep under ``native`` (rule 7).

    A string that is a time already becomes UTC with ms; its original is kept where that changes it. A number is epoch
    milliseconds (or seconds, when it cannot be milliseconds). What is no time gives (None, kept).
    """
    if value is None or (isinstance(value, str) and _CANONICAL_TIME.fullmatch(value)):
        return value, {}
    milliseconds = _milliseconds(value)
    text = None if milliseconds is None else rfc3339(milliseconds)
    return text, ({} if text == value else {"timestamp": value})


def _milliseconds(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # Below 1e11 it would be before March 1973 as milliseconds: such numbers are seconds (formats.md 2.4).
        return int(value * 1000) if abs(value) < 1e11 else int(value)
    if isinstance(value, str):
        return instant(value.upper() if value[-1:] == "z" or "t" in value[10:11] else value)
    return None


def rest(value: Mapping[str, Any], taken: Iterable[str]) -> dict[str, Any]:
    """The members of a native object that nobody took, verbatim, null included (rule 2).

    A member with the name of a mark of ours stands under ``verbatim``.
    """
    known = set(taken)
    left = {name: member for name, member in value.items() if name not in known}
    named_alike = {name: left.pop(name) for name in MARKS & left.keys()}
    return {**left, "verbatim": named_alike} if named_alike else left


def left_by(native: Mapping[str, Any]) -> dict[str, Any]:
    """What ``rest`` was given, from what it gave: members with the name of a mark have theirs again."""
    alike = native.get("verbatim")
    return {**rest(native, ("verbatim",)), **alike} if isinstance(alike, dict) else dict(native)
