"""The shapes of a VAC record as data: what both CDDLs of draft-birkholz-verifiable-agent-conversations ask of it.

Two incompatible schemas carry the same version (formats.md 2.2): the editor's copy of 19 February 2026 and the
published -00. They stand here as one, so that one walk checks by both: a rule holds for both profiles unless it is a
``Differing`` or a name in ``since_00``.

A member spelled ``name: type`` cuts (RFC 8610 §3.5.4): a value that does not fit is not rescued by the
``* tstr => any`` at the end of the map. Members of type ``any`` need no rule of their own; where required, their name
is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
class Differing:
    """Where the profiles differ. ``fits`` says what both take, and is asked first: most values are that."""

    fits: Callable[[object], bool]
    by_profile: Mapping[Profile, Scalar | MapOf]


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map with text keys. A closed one has no members but these.

    ``required`` is what both profiles ask for, ``since_00`` what -00 asks for besides.
    """

    name: str
    members: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    since_00: tuple[str, ...] = ()
    closed: bool = False
    # For the walk: all that is required, and the members for which it is enough to be of one Python type (and, if an
    # integer, in the range of a uint).
    expected: tuple[str, ...] = field(init=False)
    types: Mapping[str, type] = field(init=False)

    def __post_init__(self) -> None:
        enough = {_is_text: str, _is_bool: bool, _is_uint: int}
        types = {
            name: enough[rule.fits]
            for name, rule in self.members.items()
            if isinstance(rule, Scalar | Differing) and rule.fits in enough
        }
        object.__setattr__(self, "expected", self.required + self.since_00)
        object.__setattr__(self, "types", types)


@dataclass(frozen=True, slots=True)
class ByType:
    """An entry: a choice of maps that no two share a ``type``, so that the type alone selects the alternative.

    ``alternatives`` is filled after the fact, because entries hold entries.
    """

    alternatives: dict[str, MapOf]


Shape = Scalar | ListOf | MapOf | ByType | Differing

# Python's `$` would let a line break through, hence fullmatch (XSD patterns are anchored).
_DATE_TIME: Final = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:60|[0-5][0-9])"
    r"(?:[.][0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
).fullmatch
UINT_END: Final = 1 << 64


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_text_or_bytes(value: object) -> bool:
    return type(value) is str or type(value) is bytes


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _is_uint(value: object) -> bool:
    # type(), not isinstance(): True is an int to Python. Past 64 bits an integer is a bignum, which is not a uint.
    return type(value) is int and 0 <= value < UINT_END


def _is_number(value: object) -> bool:
    return type(value) is float or (type(value) is int and -UINT_END <= value < UINT_END)


def _is_time_or_uint(value: object) -> bool:
    return _DATE_TIME(value) is not None if type(value) is str else _is_uint(value)


def _is_time_or_number(value: object) -> bool:
    return _DATE_TIME(value) is not None if type(value) is str else _is_number(value)


def _is_uri(value: object) -> bool:
    """Whether ``uri-regexp`` matches the whole text.

    All its parts are optional and together take every character, save that the ``.`` of the fragment takes no line
    break. So this is the same language, without the quadratic backtracking of the pattern on hostile text.
    """
    if type(value) is not str:
        return False
    start = value.find("#")
    return start < 0 or ("\n" not in value[start:] and "\r" not in value[start:])


def _is_anything(value: object) -> bool:  # noqa: ARG001 - that is what `any` says
    return True


def _is_never_both(value: object) -> bool:  # noqa: ARG001 - whatever it is
    return False


def _one_of(*literals: str) -> Scalar:
    return Scalar(lambda value: type(value) is str and value in literals, "one of " + ", ".join(literals))


TEXT: Final = Scalar(_is_text, "text")
BOOL: Final = Scalar(_is_bool, "true or false")
UINT: Final = Scalar(_is_uint, "an unsigned integer of at most 64 bits")
NUMBER: Final = Scalar(_is_number, "a number")
URI: Final = Scalar(_is_uri, "a URI reference")
_ANY: Final = Scalar(_is_anything, "anything")

_RFC_3339: Final = "an RFC 3339 time (upper-case T and Z, seconds, an offset) or epoch milliseconds as"
TIME: Final = Differing(
    _is_time_or_uint,
    {
        PUBLISHED: Scalar(_is_time_or_uint, f"{_RFC_3339} an unsigned integer"),
        FEBRUARY: Scalar(_is_time_or_number, f"{_RFC_3339} a number"),
    },
)
SESSION_ID: Final = Differing(_is_text, {PUBLISHED: Scalar(_is_text_or_bytes, "text or bytes"), FEBRUARY: TEXT})
# Members that 19 Feb names and -00 leaves to `* tstr => any`.
_TEXT_BEFORE_00: Final = Differing(_is_text, {PUBLISHED: _ANY, FEBRUARY: TEXT})
_BOOL_BEFORE_00: Final = Differing(_is_bool, {PUBLISHED: _ANY, FEBRUARY: BOOL})


def _entry() -> ByType:
    entry = ByType({})
    common: dict[str, Shape] = {"type": TEXT, "timestamp": TIME, "id": TEXT, "children": ListOf(entry)}
    usage: dict[str, Shape] = dict.fromkeys(("input", "output", "cached", "reasoning", "total"), UINT)
    message: dict[str, Shape] = {
        **common,
        "model-id": TEXT,
        "parent-id": TEXT,
        "token-usage": MapOf("token-usage", {**usage, "cost": NUMBER}),
        "stop-reason": _TEXT_BEFORE_00,
    }
    # 19 Feb has one map for both directions: what a result may say, a call may say too.
    call: dict[str, Shape] = {
        **common,
        "call-id": TEXT,
        "name": TEXT,
        "status": _TEXT_BEFORE_00,
        "is-error": _BOOL_BEFORE_00,
    }
    result: dict[str, Shape] = {**common, "call-id": TEXT, "name": _TEXT_BEFORE_00, "status": TEXT, "is-error": BOOL}
    reasoning: dict[str, Shape] = {**common, "encrypted": TEXT, "subject": TEXT}
    event: dict[str, Shape] = {**common, "event-type": TEXT, "data": MapOf("data", {})}
    entry.alternatives.update(
        {
            "user": MapOf("message-entry", message),
            "assistant": MapOf("message-entry", message),
            "tool-call": MapOf("tool-call-entry", call, since_00=("name", "input")),
            "tool-result": MapOf("tool-result-entry", result, since_00=("output",)),
            "reasoning": MapOf("reasoning-entry", reasoning, since_00=("content",)),
            "system-event": MapOf("event-entry", event, since_00=("event-type",)),
        }
    )
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


_VCS: Final = MapOf(
    "vcs-context", {"type": TEXT, "revision": TEXT, "branch": TEXT, "repository": TEXT}, since_00=("type",)
)
_AGENT_META: Final = MapOf(
    "agent-meta",
    {"model-id": TEXT, "model-provider": TEXT, "models": ListOf(TEXT), "cli-name": TEXT, "cli-version": TEXT},
    ("model-id", "model-provider"),
)
_ENVIRONMENT: Final = MapOf(
    "environment", {"working-dir": TEXT, "vcs": _VCS, "sandboxes": ListOf(TEXT)}, since_00=("working-dir",)
)
_SESSION: Final = MapOf(
    "session-trace",
    {
        "format": TEXT,
        "session-id": SESSION_ID,
        "session-start": TIME,
        "session-end": TIME,
        "agent-meta": _AGENT_META,
        "environment": _ENVIRONMENT,
        "entries": ListOf(_entry()),
    },
    ("session-id", "agent-meta", "entries"),
)
RECORD: Final = MapOf(
    "verifiable-agent-record",
    {
        "version": TEXT,
        "id": TEXT,
        "session": _SESSION,
        "created": TIME,
        "vcs": _VCS,
        "recording-agent": MapOf("recording-agent", {"name": TEXT, "version": TEXT}, since_00=("name",)),
        "file-attribution": Differing(_is_never_both, {PUBLISHED: _attribution("-"), FEBRUARY: _attribution("_")}),
    },
    ("version", "id"),
    since_00=("session",),
)
TRACE_METADATA: Final = MapOf(
    "trace-metadata",
    {
        "session-id": SESSION_ID,
        "agent-vendor": TEXT,
        "trace-format": TEXT,
        "timestamp-start": TIME,
        "timestamp-end": TIME,
        "content-hash": TEXT,
        "content-hash-alg": TEXT,
    },
    ("session-id", "agent-vendor", "trace-format", "timestamp-start"),
    closed=True,
)
