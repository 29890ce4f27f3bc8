"""The shapes of a VAC record as data: what both CDDLs of draft-birkholz-verifiable-agent-conversations ask of it.

Two incompatible schemas carry the same version (formats.md 2.2): the editor's copy of 19 February 2026 and the
published -00. Both are built here by one function, so that each difference stands beside what it differs from.

A member spelled ``name: type`` cuts (RFC 8610 §3.5.4): a value that does not fit is not rescued by the
``* tstr => any`` at the end of the map. Members of type ``any`` need no rule of their own; where required, their name
is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Profile = Literal["-00", "19 Feb"]
PUBLISHED: Final = "-00"
FEBRUARY: Final = "19 Feb"
PROFILES: Final[tuple[Profile, ...]] = (PUBLISHED, FEBRUARY)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that holds no others; ``what`` ends the sentence "this is not …"."""

    fits: Callable[[object], bool]
    what: str


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array of any length, each item of one shape."""

    item: Shape


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map with text keys. A closed one has no members but these."""

    name: str
    members: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True)
class ByType:
    """An entry: a choice of maps that no two share a ``type``, so that the type alone selects the alternative.

    ``alternatives`` is filled after the fact, because entries hold entries.
    """

    alternatives: dict[str, MapOf]


Shape = Scalar | ListOf | MapOf | ByType

# Python's `$` would let a line break through, so these are used with fullmatch only (XSD patterns are anchored).
_DATE_TIME: Final = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:60|[0-5][0-9])"
    r"(?:[.][0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_UINT_END: Final = 1 << 64


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_text_or_bytes(value: object) -> bool:
    return type(value) is str or type(value) is bytes


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _is_uint(value: object) -> bool:
    # type(), not isinstance(): True is an int to Python. Past 64 bits an integer is a bignum, which is not a uint.
    return type(value) is int and 0 <= value < _UINT_END


def _is_number(value: object) -> bool:
    return type(value) is float or (type(value) is int and -_UINT_END <= value < _UINT_END)


def _is_date_time(value: object) -> bool:
    return type(value) is str and _DATE_TIME.fullmatch(value) is not None


def _is_time_or_uint(value: object) -> bool:
    return _is_date_time(value) or _is_uint(value)


def _is_time_or_number(value: object) -> bool:
    return _is_date_time(value) or _is_number(value)


def _is_uri(value: object) -> bool:
    """Whether ``uri-regexp`` matches the whole text.

    All its parts are optional and together take every character, save that the ``.`` of the fragment takes no line
    break. So this is the same language, without the quadratic backtracking of the pattern on hostile text.
    """
    if type(value) is not str:
        return False
    start = value.find("#")
    return start < 0 or ("\n" not in value[start:] and "\r" not in value[start:])


def _one_of(*literals: str) -> Scalar:
    return Scalar(lambda value: type(value) is str and value in literals, "one of " + ", ".join(literals))


TEXT: Final = Scalar(_is_text, "text")
TEXT_OR_BYTES: Final = Scalar(_is_text_or_bytes, "text or bytes")
BOOL: Final = Scalar(_is_bool, "true or false")
UINT: Final = Scalar(_is_uint, "an unsigned integer of at most 64 bits")
NUMBER: Final = Scalar(_is_number, "a number")
URI: Final = Scalar(_is_uri, "a URI reference")
_TIME: Final = "an RFC 3339 time (upper-case T and Z, seconds, an offset)"
TIME_OR_UINT: Final = Scalar(_is_time_or_uint, f"{_TIME} or epoch milliseconds as an unsigned integer")
TIME_OR_NUMBER: Final = Scalar(_is_time_or_number, f"{_TIME} or epoch milliseconds as a number")


@dataclass(frozen=True, slots=True)
class Schema:
    """One profile: the record, its file attribution alone, and the trace-metadata of its envelope."""

    record: MapOf
    attribution: MapOf
    trace_metadata: MapOf


def _schema(*, new: bool, old: bool) -> Schema:
    """The schema of -00 (``new``), of 19 Feb (``old``), or of what both allow, file attribution aside."""
    time = TIME_OR_UINT if new else TIME_OR_NUMBER
    session_id = TEXT if old else TEXT_OR_BYTES

    def since_00(*names: str) -> tuple[str, ...]:
        """Members that -00 requires and 19 Feb does not."""
        return names if new else ()

    vcs = MapOf("vcs-context", {"type": TEXT, "revision": TEXT, "branch": TEXT, "repository": TEXT}, since_00("type"))
    session = MapOf(
        "session-trace",
        {
            "format": TEXT,
            "session-id": session_id,
            "session-start": time,
            "session-end": time,
            "agent-meta": _agent_meta(),
            "environment": MapOf(
                "environment",
                {"working-dir": TEXT, "vcs": vcs, "sandboxes": ListOf(TEXT)},
                since_00("working-dir"),
            ),
            "entries": ListOf(_entry(time, new=new, old=old)),
        },
        ("session-id", "agent-meta", "entries"),
    )
    attribution: dict[str, Shape] = {"file-attribution": _attribution("-" if new else "_")}
    record = MapOf(
        "verifiable-agent-record",
        {
            "version": TEXT,
            "id": TEXT,
            "session": session,
            "created": time,
            "vcs": vcs,
            "recording-agent": MapOf("recording-agent", {"name": TEXT, "version": TEXT}, since_00("name")),
            # No range is valid by both profiles.
            **({} if new and old else attribution),
        },
        ("version", "id", *since_00("session")),
    )
    metadata = MapOf(
        "trace-metadata",
        {
            "session-id": session_id,
            "agent-vendor": TEXT,
            "trace-format": TEXT,
            "timestamp-start": time,
            "timestamp-end": time,
            "content-hash": TEXT,
            "content-hash-alg": TEXT,
        },
        ("session-id", "agent-vendor", "trace-format", "timestamp-start"),
        closed=True,
    )
    return Schema(record, MapOf("verifiable-agent-record", attribution), metadata)


def _agent_meta() -> MapOf:
    members: dict[str, Shape] = {
        "model-id": TEXT,
        "model-provider": TEXT,
        "models": ListOf(TEXT),
        "cli-name": TEXT,
        "cli-version": TEXT,
    }
    return MapOf("agent-meta", members, ("model-id", "model-provider"))


def _entry(time: Scalar, *, new: bool, old: bool) -> ByType:
    entry = ByType({})
    common: dict[str, Shape] = {"timestamp": time, "id": TEXT, "children": ListOf(entry)}
    usage: dict[str, Shape] = dict.fromkeys(("input", "output", "cached", "reasoning", "total"), UINT)
    message: dict[str, Shape] = {
        **common,
        "model-id": TEXT,
        "parent-id": TEXT,
        "token-usage": MapOf("token-usage", {**usage, "cost": NUMBER}),
    }
    call: dict[str, Shape] = {**common, "call-id": TEXT, "name": TEXT}
    result: dict[str, Shape] = {**common, "call-id": TEXT, "status": TEXT, "is-error": BOOL}
    if old:
        message["stop-reason"] = TEXT
        # 19 Feb has one map for both directions: what a result may say, a call may say too.
        call = result = {**call, **result}
    made: tuple[tuple[str, str, dict[str, Shape], tuple[str, ...]], ...] = (
        ("user", "message-entry", message, ()),
        ("assistant", "message-entry", message, ()),
        ("tool-call", "tool-call-entry" if new else "tool-entry", call, ("name", "input")),
        ("tool-result", "tool-result-entry" if new else "tool-entry", result, ("output",)),
        ("reasoning", "reasoning-entry", {**common, "encrypted": TEXT, "subject": TEXT}, ("content",)),
        ("system-event", "event-entry", {**common, "event-type": TEXT, "data": MapOf("data", {})}, ("event-type",)),
    )
    for type_, name, members, required in made:
        entry.alternatives[type_] = MapOf(name, members, required if new else ())
    return entry


def _attribution(joint: str) -> MapOf:
    """The closed maps. What joins the words of a name is the whole difference between the profiles."""

    def closed(name: str, required: dict[str, Shape], optional: dict[str, Shape]) -> MapOf:
        return MapOf(name, {**required, **optional}, tuple(required), closed=True)

    contributor = closed("contributor", {"type": _one_of("human", "ai", "mixed", "unknown")}, {f"model{joint}id": TEXT})
    range_ = closed(
        "range",
        {f"start{joint}line": UINT, f"end{joint}line": UINT},
        {f"content{joint}hash": TEXT, f"content{joint}hash{joint}alg": TEXT, "contributor": contributor},
    )
    resource = closed("resource", {"type": TEXT, "url": URI}, {})
    conversation = closed(
        "conversation",
        {"ranges": ListOf(range_)},
        {"url": URI, "contributor": contributor, "related": ListOf(resource)},
    )
    file = closed("file", {"path": TEXT, "conversations": ListOf(conversation)}, {})
    return closed("file-attribution-record", {"files": ListOf(file)}, {})


SCHEMAS: Final[Mapping[Profile, Schema]] = {
    PUBLISHED: _schema(new=True, old=False),
    FEBRUARY: _schema(new=False, old=True),
}
# What both profiles allow of a record, its file attribution aside.
COMMON: Final = _schema(new=True, old=True)
