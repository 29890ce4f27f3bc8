"""Whether a document is AgentLog 0.2.0: the rules of seed 001 as data, and the walk over them.

Two authorities disagree (formats.md 5). The prose decides what is a violation; members and values that only the
project's JSON Schema knows, unknown event types and unknown members are warnings, because readers must tolerate them
(seed 001 §6). Figures in ``metrics`` that the events do not bear out are warnings that give both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from transparency.records.agentlog_metrics import Tally
from transparency.records.violation import Findings, Level, Violation, token

# ISO 8601 as the prose asks; without an offset it names no instant, which is worth a warning.
_TIME: Final = re.compile(
    r"[0-9]{4}-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12][0-9]|3[01])[Tt ]"
    r"(?:[01][0-9]|2[0-3])(?::?[0-5][0-9](?::?(?:[0-5][0-9]|60)(?:[.,][0-9]{1,12})?)?)?"
    r"(Z|z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?"
)
_LONGEST_TIME: Final = 64


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object. ``by_schema``: only the JSON Schema knows it; ``wider``: only it allows these values."""

    kind: str
    required: bool = False
    nullable: bool = False
    values: frozenset[str] | None = None
    wider: frozenset[str] = frozenset()
    by_schema: bool = False


def _one_of(text: str, wider: str = "", *, required: bool = True) -> Member:
    return Member("string", required, not required, frozenset(text.split()), frozenset(wider.split()))


def _shape(required: str = "", optional: str = "", schema: str = "", **others: Member) -> dict[str, Member]:
    """Members written ``name:kind``; optional ones may be null, except objects and arrays, as the prose has it."""
    made: dict[str, Member] = {}
    for text, needed, by_schema in ((required, True, False), (optional, False, False), (schema, False, True)):
        for item in text.split():
            name, _, kind = item.partition(":")
            nullable = by_schema or (not needed and kind not in ("object", "strings") and kind[:1] != "[")
            made[name] = Member(kind or "string", needed, nullable, by_schema=by_schema)
    return made | others


_BAG: Final = "properties:object"
_USAGE: Final = _shape(
    "inputTokens:integer outputTokens:integer", "cacheReadTokens:integer cacheWriteTokens:integer",
    "reasoningTokens:integer",
)  # fmt: skip
_EVENT: Final = _shape(
    "type id timestamp:time", f"parentId durationMs:integer {_BAG}",
    "tokenUsage:usage estimatedCostUsd:number model traceId spanId groupId",
)  # fmt: skip
# The prose names these members and says no more.
_STEP: Final = _shape("", "id description status dependsOn:strings confidence:number")

# Nested objects by the name their members' kinds use; "[name]" is an array of them.
SHAPES: Final[Mapping[str, Mapping[str, Member]]] = {
    "root": _shape(
        "id startTime:time agent:agent",
        f"endTime:time project:project developer:developer metrics:metrics relationships:relationships {_BAG}",
        "team:object profile redactions:[redaction] classification",
        specVersion=Member("string", required=True),
        status=_one_of("active completed failed cancelled", "paused timeout interrupted queued"),
    ),
    "agent": _shape("name", f"version model provider {_BAG}"),
    "project": _shape("name", f"repository workingDirectory branch commitSha {_BAG}"),
    "developer": _shape("id", f"name {_BAG}"),
    "usage": _USAGE,
    "metrics": _shape(
        "messageCount:integer toolCallCount:integer filesTouchedCount:integer",
        "durationMinutes:integer tokenUsage:usage estimatedCostUsd:number filesTouched:strings toolsUsed:strings "
        + _BAG,
        "modelsUsed:strings",
    ),
    "relationships": _shape(
        "",
        "commits:[commit] pullRequests:[pull-request] issues:[issue] errors:[error-reference] "
        f"deployments:[deployment] parentSession childSessions:strings {_BAG}",
        "reviews:[any] testRuns:[any] branches:[any] groupId",
    ),
    "commit": _shape("sha", f"message repository timestamp {_BAG}"),
    "pull-request": _shape("number:integer", f"title url repository status {_BAG}"),
    "issue": _shape("id", f"title url tracker status {_BAG}"),
    "error-reference": _shape("id source", f"url title {_BAG}"),
    "deployment": _shape("id", f"environment url status {_BAG}"),
    "redaction": _shape("category count:integer", "redactedBy"),
    "step": _STEP,
}

EVENTS: Final[Mapping[str, Mapping[str, Member]]] = {
    "message": _shape(
        "content", role=_one_of("user assistant system"), tokenUsage=Member("usage", nullable=True)
    ),
    "toolCall": _shape("name input:object", "output summary", status=_one_of("success error cancelled")),
    "fileOperation": _shape(
        "path", "diff beforeHash afterHash linesAdded:integer linesRemoved:integer", "diffFormat truncated:boolean",
        operation=_one_of("read create edit delete"),
    ),
    "terminalCommand": _shape("command", "cwd stdout stderr exitCode:integer", "shell truncated:boolean"),
    "search": _shape("tool query", "resultCount:integer topResults:strings"),
    "reasoning": _shape(
        "intent rationale", "alternatives:strings",
        "content conclusion reasoningType visible:boolean reasoningTokens:integer",
    ),
    "error": _shape(
        "message resolved:boolean", "code",
        recovery=_one_of("retry skip abort escalate fixed", "workaround ignored deferred", required=False),
        category=_one_of(
            "runtime type syntax network permission timeout validation resource unknown", required=False
        ),
    ),
    "handoff": _shape(
        "fromAgent toAgent", "reason contextTransferred result",
        status=_one_of("initiated accepted completed rejected failed"),
    ),
    "approval": _shape(
        "action", "constraints toolName",
        approver=_one_of("user policy system"), decision=_one_of("approved denied modified"),
    ),
    "plan": _shape("title", "steps:[step]", status=_one_of("draft active completed abandoned")),
    "checkpoint": _shape(
        "restorable:boolean", "label reference",
        checkpointType=_one_of("git_commit snapshot memory_flush auto_save custom"),
    ),
    "contextLoad": _shape(
        "", "query itemCount:integer tokenCount:integer reason",
        source=_one_of("file memory rag web database api codebase custom"),
    ),
}  # fmt: skip


_WHOLE_EVENTS: Final = {kind: {**_EVENT, **shape} for kind, shape in EVENTS.items()}


def check_document(root: Mapping[str, Any], events: Iterable[Any] | None) -> list[Violation]:
    """Check the members of the root without its events, and the events; None where they are no array."""
    found = Findings()
    _version(found, root.get("specVersion"))
    _object(found, "", {name: value for name, value in root.items() if name != "events"}, "root", SHAPES["root"])
    if events is None:
        found.add("violation", "/events", "not an array" if "events" in root else "missing: events is required")
        return found.violations
    tally = Tally()
    seen: set[str] = set()
    for index, event in enumerate(events):
        _event(found, f"/events/{index}", event, seen)
        tally.event(index, event)
    for pointer, message in chain(tally.disorder(), tally.orphans(seen), tally.disagreements(root)):
        found.odd(pointer, message)
    return found.violations


def _version(found: Findings, version: object) -> None:
    if version == "0.1.0":
        found.add("warning", "/specVersion", '"0.1.0" is the version before; it is checked by the rules of 0.2.0')
    elif isinstance(version, str) and version != "0.2.0":
        found.add("violation", "/specVersion", 'must be "0.2.0"')


def _event(found: Findings, pointer: str, event: object, seen: set[str]) -> None:
    if not isinstance(event, dict):
        found.add("violation", pointer, "an event must be an object")
        return
    identity = event.get("id")
    if isinstance(identity, str):
        if identity in seen:
            found.add("violation", f"{pointer}/id", "another event of this session has this id")
        seen.add(identity)
    kind = event.get("type")
    shape = _WHOLE_EVENTS.get(kind) if isinstance(kind, str) else None
    if shape is None:
        if isinstance(kind, str):
            found.add("warning", f"{pointer}/type", "not an event type of AgentLog 0.2.0")
        known = {name: event[name] for name in event if name in _EVENT}
        _object(found, pointer, known, "event", _EVENT)
        return
    _object(found, pointer, event, str(kind), shape)


def _object(found: Findings, pointer: str, value: Mapping[str, Any], what: str, shape: Mapping[str, Member]) -> None:
    """No recursion to speak of: shapes nest three deep."""
    for name, member in shape.items():
        if member.required and name not in value:
            found.add("violation", f"{pointer}/{name}", f"missing: {what} requires {name}")
    for name, held in value.items():
        place = f"{pointer}/{token(name)}"
        known = shape.get(name)
        if known is None:
            found.add("warning", place, f"not a member of {what}")
            continue
        if known.by_schema and held is not None:
            found.add("warning", place, "only the JSON Schema knows this member, the specification does not")
        _member(found, place, held, known)


def _member(found: Findings, place: str, value: object, member: Member) -> None:
    level: Level = "warning" if member.by_schema else "violation"
    if value is None and member.nullable:
        return
    if member.kind.startswith("["):
        _array(found, place, value, member.kind[1:-1], level)
    elif member.kind in SHAPES:
        if isinstance(value, dict):
            _object(found, place, value, member.kind, SHAPES[member.kind])
        else:
            found.add(level, place, "not an object")
    elif member.kind == "time":
        _time(found, place, value)
    elif not _KINDS[member.kind](value):
        found.add(level, place, f"not {_WORDS[member.kind]}")
    elif member.values is not None and value not in member.values:
        if value in member.wider:
            found.add("warning", place, "only the JSON Schema allows this value")
        else:
            found.add(level, place, "must be one of " + ", ".join(sorted(member.values)))


def _array(found: Findings, place: str, value: object, kind: str, level: Level) -> None:
    if not isinstance(value, list):
        found.add(level, place, "not an array")
        return
    if kind == "any":
        return
    for index, item in enumerate(value):
        if isinstance(item, dict):
            _object(found, f"{place}/{index}", item, kind, SHAPES[kind])
        else:
            found.add(level, f"{place}/{index}", "not an object")


def _time(found: Findings, place: str, value: object) -> None:
    match = _TIME.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST_TIME else None
    if match is None:
        found.add("violation", place, "not an ISO 8601 date and time")
    elif match.group(1) is None:
        found.add("warning", place, "a time without offset names no instant")


def _integer(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and value.is_integer())


_KINDS: Final[Mapping[str, Callable[[object], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _integer,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "strings": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
}
_WORDS: Final = {
    "string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false",
    "object": "an object", "strings": "an array of strings",
}  # fmt: skip
