"""AgentLog 0.2.0 (and 0.1.0): a session document whose events are the units; read, and turned into a canonical record.

The mapping is formats.md 8.2. AgentLog written from a vendor's log is a summary (formats.md 5), so nothing is made
better than it is: a call whose output is null gets a result whose output is null, an empty "user" message is not said
to be human, and what has no canonical place stays, null included, under ``native``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from transparency.records import json_sequence
from transparency.records.agentlog_check import check_document
from transparency.records.canonical import (
    AGENT,
    HUMAN,
    SYSTEM,
    TOOL,
    UNKNOWN,
    SessionDraft,
    name_uuid,
    time_member,
)
from transparency.records.format import Format
from transparency.records.native import Members, count
from transparency.records.unit import Unit
from transparency.records.violation import Violation

_TOKENS: Final = {
    "inputTokens": "input", "outputTokens": "output", "cacheReadTokens": "cached", "reasoningTokens": "reasoning",
}  # fmt: skip
# Who acts in the events that have no canonical kind of their own; an approval depends on its approver.
_ACTORS: Final = {"error": SYSTEM, "handoff": AGENT, "plan": AGENT, "checkpoint": SYSTEM, "contextLoad": AGENT}
_COMMAND_INPUT: Final = ("command", "cwd", "shell")
_COMMAND_OUTPUT: Final = ("stdout", "stderr", "exitCode", "truncated")
_FILE_OUTPUT: Final = (
    "diff", "diffFormat", "beforeHash", "afterHash", "linesAdded", "linesRemoved", "truncated",
)  # fmt: skip


def units(data: bytes) -> Iterator[Unit]:
    """Every event, with the bytes it stands in."""
    _, events = _document(data)
    if events is not None:
        yield from _events(data, events)


def sessions(data: bytes, format: Format) -> list[SessionDraft]:  # noqa: A002 - the contract's name
    """The one session of the document."""
    root, events = _document(data)
    draft = _envelope(root, format, data)
    delegated = draft.parent_session is not None
    for unit in _events(data, events) if events is not None else ():
        draft.units += 1
        _event(draft, unit, delegated=delegated)
    return [draft]


def check(data: bytes, format: Format) -> list[Violation]:  # noqa: A002, ARG001 - the contract's signature
    """Where the document is not what the specification says (:mod:`agentlog_check`)."""
    root, events = _document(data)
    return check_document(root, None if events is None else (unit.value for unit in _events(data, events)))


def _document(data: bytes) -> tuple[dict[str, Any], json_sequence.Extent | None]:
    """The members of the root, and where its events stand; they are read one by one, so that a long log fits."""
    root: dict[str, Any] = {}
    events = None
    for name, extent in json_sequence.members(data):
        if name == "events" and data[extent.start : extent.start + 1] == b"[":
            events = extent
        else:
            root[name] = json_sequence.read(data, extent).value
    return root, events


def _events(data: bytes, within: json_sequence.Extent) -> Iterator[Unit]:
    for index, extent in enumerate(json_sequence.items(data, within)):
        found = json_sequence.read(data, extent)
        yield Unit({"index": index}, found.raw, found.value)


def _envelope(value: dict[str, Any], format: Format, data: bytes) -> SessionDraft:  # noqa: A002
    root = Members(value)
    session_id = root.text("id")
    # Rule 1 of formats.md 8.1: a session without an id is named after its bytes, so that it has one, always the same.
    draft = SessionDraft(format, session_id or name_uuid(hashlib.sha256(data).hexdigest()))
    start, end = time_member(value.get("startTime"))[0], time_member(value.get("endTime"))[0]
    root.done(*(name for name, found in (("startTime", start), ("endTime", end)) if found == value.get(name)))
    draft.start, draft.end = start, end
    status = root.text("status")
    if status is not None:
        draft.session_extra["status"] = status
    native = _agent(draft, value.get("agent")) | _project(draft, value.get("project"))
    native |= _developer(draft, value.get("developer"))
    if value.get("redactions") is not None:
        draft.session_extra["redactions"] = value["redactions"]
    _relatives(draft, value.get("relationships"))
    left = root.rest()
    # What these three objects say beyond their canonical members; an object that is wholly mapped leaves nothing.
    for name, kept in native.items():
        left.pop(name, None)
        if kept:
            left[name] = kept
    draft.record_native["agentlog"] = left
    return draft


def _agent(draft: SessionDraft, value: object) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict):
        return {}
    agent = Members(value)
    draft.cli_name, draft.cli_version = agent.text("name"), agent.text("version")
    draft.model_id, draft.model_provider = agent.text("model"), agent.text("provider")
    draft.saw_model(draft.model_id)
    draft.vendor = draft.model_provider or draft.cli_name
    return {"agent": agent.rest()}


def _project(draft: SessionDraft, value: object) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict):
        return {}
    project = Members(value)
    vcs = {
        "revision": project.text("commitSha"),
        "branch": project.text("branch"),
        "repository": project.text("repository"),
    }
    vcs = {name: found for name, found in vcs.items() if found is not None}
    directory = project.text("workingDirectory")
    made = {"type": "git", **vcs} if vcs else None
    if directory is None:
        draft.vcs = made
    else:
        draft.environment = {"working-dir": directory} | ({"vcs": made} if made else {})
    return {"project": project.rest()}


def _developer(draft: SessionDraft, value: object) -> dict[str, dict[str, Any]]:
    developer = Members(value)
    identity = developer.text("id")
    if identity is None:
        return {}
    name = developer.text("name")
    draft.record_extra["actors"] = [{"id": identity, **({"name": name} if name is not None else {}), "type": HUMAN}]
    return {"developer": developer.rest()}


def _relatives(draft: SessionDraft, value: object) -> None:
    """Links to the session this one continues and to those it started; the object itself stays under native."""
    if not isinstance(value, dict):
        return
    draft.parent_session = parent if isinstance(parent := value.get("parentSession"), str) and parent else None
    children = value.get("childSessions")
    for child in children if isinstance(children, list) else ():
        if isinstance(child, str):
            draft.saw_child(child)


def _event(draft: SessionDraft, unit: Unit, *, delegated: bool) -> None:
    """One event to one entry, or to a call and its result."""
    if not isinstance(unit.value, dict):
        draft.unknown(unit, "event")
        return
    kind = unit.value.get("type")
    event = Members(unit.value)
    if kind == "message":
        _message(draft, unit, event, delegated=delegated)
    elif isinstance(kind, str) and (handler := _HANDLERS.get(kind)) is not None:
        handler(draft, unit, event)
    else:
        _opaque(draft, unit)


def _base(draft: SessionDraft, event: Members) -> tuple[dict[str, Any], dict[str, Any]]:
    """The members every event has, and what to keep of them under ``native``."""
    members: dict[str, Any] = {"id": event.text("id"), "parent-id": event.text("parentId")}
    members["timestamp"], native = time_member(event.value.get("timestamp"))
    event.done("timestamp")
    model = event.text("model")
    members["model-id"] = model
    draft.saw_model(model)
    usage, left = _usage(event)
    members["token-usage"] = usage or None
    return members, native | ({"tokenUsage": left} if left else {})


def _usage(event: Members) -> tuple[dict[str, Any], dict[str, Any]]:
    usage: dict[str, Any] = {}
    left: dict[str, Any] = {}
    tokens = event.value.get("tokenUsage")
    if isinstance(tokens, dict):
        event.done("tokenUsage")
        for name, number in tokens.items():
            if name in _TOKENS and count(number) is not None:
                usage[_TOKENS[name]] = number
            else:
                left[name] = number
    cost = event.value.get("estimatedCostUsd")
    if isinstance(cost, int | float) and not isinstance(cost, bool):
        event.done("estimatedCostUsd")
        usage["cost"] = cost
    return usage, left


def _message(draft: SessionDraft, unit: Unit, event: Members, *, delegated: bool) -> None:
    role, content = event.value.get("role"), event.value.get("content")
    if role not in ("user", "assistant", "system"):
        _opaque(draft, unit)
        return
    base, native = _base(draft, event)
    event.done("type", "role", "content")
    if role == "system":
        data = {"content": content} if "content" in event.value else {}
        stamp = base.pop("timestamp")
        made = draft.event(unit, "system-message", data, native=native | event.rest(), **base)
        if stamp is not None:
            made["timestamp"] = stamp
        return
    # A delegated session is prompted by an agent; converters turn tool results into empty "user" messages.
    user = UNKNOWN if delegated or not content else HUMAN
    actor = AGENT if role == "assistant" else user
    draft.entry(unit, role, {"content": content, **base}, actor=actor, native=native | event.rest())


def _tool_call(draft: SessionDraft, unit: Unit, event: Members) -> None:
    name = event.text("name")
    if name is None:
        _opaque(draft, unit)
        return
    status, output = event.text("status"), event.value.get("output")
    event.done("type", "input", "output")
    _call(draft, unit, event, name, event.value.get("input"), keep_type=False)
    if "input" not in event.value:
        _filled(draft, "tool-call.input")
    if output is not None or status is not None:
        if "output" not in event.value:
            _filled(draft, "tool-result.output")
        _result(draft, unit, output, {"status": status, "is-error": None if status is None else status == "error"})


def _command(draft: SessionDraft, unit: Unit, event: Members) -> None:
    if not isinstance(event.value.get("command"), str):
        _opaque(draft, unit)
        return
    given, output = event.given(_COMMAND_INPUT), event.given(_COMMAND_OUTPUT)
    _call(draft, unit, event, "terminal", given)
    if output.keys() - {"truncated"}:
        code = output.get("exitCode")
        _result(draft, unit, output, {"is-error": code != 0 if type(code) is int else None})


def _file(draft: SessionDraft, unit: Unit, event: Members) -> None:
    operation, path = event.text("operation"), event.text("path")
    if operation is None or path is None:
        _opaque(draft, unit)
        return
    output = event.given(_FILE_OUTPUT)
    _call(draft, unit, event, f"file.{operation}", {"path": path})
    if output:
        _result(draft, unit, output, {})


def _search(draft: SessionDraft, unit: Unit, event: Members) -> None:
    tool, query = event.text("tool"), event.text("query")
    if tool is None or query is None:
        _opaque(draft, unit)
        return
    found = tuple(name for name in ("resultCount", "topResults") if event.value.get(name) not in (None, []))
    output = event.given(found)
    _call(draft, unit, event, tool, {"query": query})
    if output:
        _result(draft, unit, output, {})


def _call(draft: SessionDraft, unit: Unit, event: Members, name: str, given: object, *, keep_type: bool = True) -> None:
    base, native = _base(draft, event)
    # The kind stays where the canonical name does not say it: "Grep" was a search, not a toolCall.
    if not keep_type:
        event.done("type")
    call_id = base["id"]
    draft.entry(
        unit, "tool-call", {"name": name, "input": given, "call-id": call_id, **base},
        actor=AGENT, native=native | event.rest(),
    )  # fmt: skip


def _result(draft: SessionDraft, unit: Unit, output: object, members: Mapping[str, Any]) -> None:
    """The result has the time of its event: AgentLog has no other, and does not say which end of it that is."""
    identity = unit.value.get("id")
    stamp = time_member(unit.value.get("timestamp"))[0]
    call_id = identity if isinstance(identity, str) else None
    draft.entry(unit, "tool-result", {"output": output, "call-id": call_id, **members, "timestamp": stamp}, actor=TOOL)


def _reasoning(draft: SessionDraft, unit: Unit, event: Members) -> None:
    content = event.value.get("content")
    parts = [event.value.get(name) for name in ("intent", "rationale")]
    if content is not None:
        event.done("content")
    else:
        # Composed for reading; intent and rationale themselves stay under native.
        content = "\n\n".join(part for part in parts if isinstance(part, str))
    event.done("type")
    base, native = _base(draft, event)
    draft.entry(unit, "reasoning", {"content": content, **base}, actor=AGENT, native=native | event.rest())


def _system(draft: SessionDraft, unit: Unit, event: Members) -> None:
    """error, handoff, approval, plan, checkpoint, contextLoad: kept whole as data beside the members of the base."""
    kind = unit.value["type"]
    base, native = _base(draft, event)
    event.done("type")
    actor = _ACTORS.get(kind, UNKNOWN)
    if kind == "approval":
        actor = HUMAN if event.value.get("approver") == "user" else SYSTEM
    stamp = base.pop("timestamp")
    made = draft.event(unit, f"agentlog/{kind}", event.rest(), actor=actor, native=native, **base)
    if stamp is not None:
        made["timestamp"] = stamp


def _opaque(draft: SessionDraft, unit: Unit) -> None:
    """An event of unknown type, or without what its type requires: kept whole (seed 001 §6.3)."""
    kind, identity = unit.value.get("type"), unit.value.get("id")
    made = draft.unknown(unit, kind if isinstance(kind, str) else "event", timestamp=unit.value.get("timestamp"))
    if isinstance(identity, str):
        made["id"] = identity


def _filled(draft: SessionDraft, what: str) -> None:
    if what not in draft.filled:
        draft.filled.append(what)


_HANDLERS: Final[Mapping[str, Callable[[SessionDraft, Unit, Members], None]]] = {
    "toolCall": _tool_call,
    "terminalCommand": _command,
    "fileOperation": _file,
    "search": _search,
    "reasoning": _reasoning,
    **dict.fromkeys((*_ACTORS, "approval"), _system),
}
