"""Messages of a Gemini CLI session: each becomes one entry, with its thoughts and tool calls as children.

``content`` is a text or a list of parts; ``functionCall`` and ``functionResponse`` parts are tool calls too, where the
message does not list them among its ``toolCalls`` already.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from transparency.records.canonical import AGENT, HUMAN, SYSTEM, TOOL, UNKNOWN, SessionDraft, time_member
from transparency.records.native import Members, count, required, text
from transparency.records.unit import Unit

Entry = dict[str, Any]
NOTICES: Final = ("info", "error", "warning")
MESSAGE_KINDS: Final = frozenset({"user", "gemini", *NOTICES})
# The state a tool call ends in; before that there is no result to speak of.
_FINAL: Final = ("success", "error", "cancelled")
_USAGE: Final = {"input": "input", "output": "output", "cached": "cached", "reasoning": "thoughts", "total": "total"}
# What the tool itself says in the role of the user.
_INJECTED: Final = ("<session_context>", "<state_snapshot>", "This is the Gemini CLI. We are setting up the context")


@dataclass(slots=True)
class Context:
    """What one message needs to know of the others. ``called`` and ``answered`` hold ids of tool calls."""

    draft: SessionDraft
    subagent: bool = False
    model: str | None = None
    first: str | None = None
    last: str | None = None
    called: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)


def kind_of(message: dict[str, Any]) -> str | None:
    """The kind of a message: its type, or the role that the API and saved histories give it; None if neither."""
    kind = text(message, "type") or text(message, "role")
    return "gemini" if kind == "model" and "type" not in message else kind


def add_message(context: Context, unit: Unit, message: dict[str, Any], *, replaced: bool = False) -> Entry:
    """The entry of one message. *replaced*: it came with a list that replaced another, so who wrote it is not known."""
    kind = kind_of(message)
    if kind == "user":
        return _user(context, unit, message, replaced=replaced)
    if kind == "gemini":
        return _gemini(context, unit, message)
    time = "timestamp" if "timestamp" in message else "ts"
    return context.draft.event(
        unit, f"gemini/{kind or UNKNOWN}", message, timestamp=message.get(time), id=text(message, "id")
    )


def supersede(context: Context, entry: Entry, message: dict[str, Any], by: Unit) -> None:
    """Turn the entry of an earlier version into an event that holds it whole: the last version is the message."""
    for child in entry.get("children", ()):
        # The last version tells of its calls anew.
        context.called.discard(child.get("call-id"))
        context.answered.discard(child.get("call-id"))
    kept = {name: member for name, member in entry.items() if name in ("timestamp", "actor", "source-ref")}
    marks = {name: mark for name, mark in entry.get("native", {}).items() if name == "changed-by"}
    entry.clear()
    entry |= {"type": "system-event", "event-type": "gemini/superseded-message", "data": message}
    entry |= {**kept, "native": {**marks, "superseded-by": dict(by.ref)}}


def _user(context: Context, unit: Unit, message: dict[str, Any], *, replaced: bool) -> Entry:
    taken = _Message(context, message)
    actor = _speaker(context, taken.parts, replaced=replaced)
    entry = context.draft.entry(unit, "user", taken.members, actor=actor, native=taken.native())
    _part_calls(context, unit, taken.parts, entry)
    return entry


def _speaker(context: Context, parts: list[Any], *, replaced: bool) -> str:
    if parts and all(isinstance(part, dict) and "functionResponse" in part for part in parts):
        return TOOL
    first = parts[0] if parts else None
    said = first.get("text") if isinstance(first, dict) else first
    if isinstance(said, str) and said.lstrip().startswith(_INJECTED):
        return SYSTEM
    if context.subagent:
        return AGENT
    return UNKNOWN if replaced else HUMAN


def _gemini(context: Context, unit: Unit, message: dict[str, Any]) -> Entry:
    taken = _Message(context, message)
    model = taken.member.text("model")
    context.draft.saw_model(model)
    context.model = model or context.model
    usage, unused = _usage(message.get("tokens"))
    if usage:
        taken.member.any("tokens")
    thoughts, calls = _list(taken.member, "thoughts"), _list(taken.member, "toolCalls")
    native = taken.native()
    if usage and unused:
        native["tokens"] = unused
    members = {**taken.members, "model-id": model, "token-usage": usage or None}
    entry = context.draft.entry(unit, "assistant", members, actor=AGENT, native=native)
    for thought in thoughts:
        _thought(context, unit, thought, entry)
    for call in calls:
        _tool_call(context, unit, call, entry, model)
    _part_calls(context, unit, taken.parts, entry)
    return entry


class _Message:
    """The members every message has."""

    __slots__ = ("_kept", "member", "members", "parts")

    def __init__(self, context: Context, message: dict[str, Any]) -> None:
        self.member = Members(message, "type" if "type" in message else "role")
        where = "content" if "content" in message else "parts"
        content = self.member.any(where) if message.get(where) is not None else None
        self.parts = content if isinstance(content, list) else [] if content is None else [content]
        # A number for a time is kept under ``native`` by its own name (rule 7).
        clock = "timestamp" if "timestamp" in message else "ts"
        stamp, kept = time_member(message.get(clock))
        self._kept = {clock: kept["timestamp"]} if kept else {}
        if stamp is not None:
            self.member.any(clock)
            context.first = context.first or stamp
            context.last = stamp
        self.members = {"content": content, "id": self.member.text("id"), "timestamp": stamp}

    def native(self) -> dict[str, Any]:
        return {**self.member.rest(), **self._kept}


def _list(member: Members, name: str) -> list[Any]:
    found = member.value.get(name)
    if not isinstance(found, list):
        return []
    member.any(name)
    return found


def _usage(tokens: object) -> tuple[dict[str, int], dict[str, Any]]:
    """Token usage in the schema's names, and what it has no name for (``tool``)."""
    if not isinstance(tokens, dict):
        return {}, {}
    usage = {name: number for name, member in _USAGE.items() if (number := count(tokens.get(member))) is not None}
    used = {_USAGE[name] for name in usage}
    return usage, {name: value for name, value in tokens.items() if name not in used}


def _thought(context: Context, unit: Unit, thought: object, parent: Entry) -> None:
    if not isinstance(thought, dict):
        context.draft.entry(unit, "reasoning", {"content": thought}, actor=AGENT, parent=parent)
        return
    if "description" not in thought and (kind := text(thought, "type")) is not None:
        context.draft.event(unit, f"gemini/{kind}", thought, parent=parent)
        return
    taken = Members(thought, "description")
    stamp, kept = time_member(thought.get("timestamp"))
    if stamp is not None:
        taken.any("timestamp")
    content = required(context.draft, unit, "reasoning", thought, "description")
    members = {"content": content, "subject": taken.text("subject"), "timestamp": stamp}
    context.draft.entry(unit, "reasoning", members, actor=AGENT, native={**taken.rest(), **kept}, parent=parent)


def _tool_call(context: Context, unit: Unit, call: object, parent: Entry, model: str | None) -> None:
    """The call, and its result where it has one or has ended without one."""
    tool = text(call, "name") if isinstance(call, dict) else None
    if not isinstance(call, dict) or tool is None:
        kind = text(call, "type") or "toolCall"
        context.draft.event(unit, f"gemini/{kind}", call, parent=parent)
        return
    taken = Members(call, "name", "args")
    call_id, status = taken.text("id"), text(call, "status")
    stamp, kept = time_member(call.get("timestamp"))
    if stamp is not None:
        taken.any("timestamp")
    ended = "result" in call or status in _FINAL
    if ended:
        for name in ("result", "resultDisplay"):
            taken.any(name)
        taken.text("status")
    given = required(context.draft, unit, "tool-call", call, "args")
    members = {"name": tool, "input": given, "call-id": call_id, "timestamp": stamp, "model-id": model}
    context.draft.entry(unit, "tool-call", members, actor=AGENT, native={**taken.rest(), **kept}, parent=parent)
    if call_id is not None:
        context.called.add(call_id)
    if ended:
        _tool_result(context, unit, call, parent, stamp)


def _tool_result(context: Context, unit: Unit, call: dict[str, Any], parent: Entry, stamp: str | None) -> None:
    status, call_id = text(call, "status"), text(call, "id")
    members = {
        "call-id": call_id,
        "output": required(context.draft, unit, "tool-result", call, "result"),
        "status": status,
        # A call that was cancelled has neither worked nor failed.
        "is-error": {"success": False, "error": True}.get(status or ""),
        "timestamp": stamp,
    }
    native = {"resultDisplay": call["resultDisplay"]} if "resultDisplay" in call else None
    context.draft.entry(unit, "tool-result", members, actor=TOOL, native=native, parent=parent)
    if call_id is not None:
        context.answered.add(call_id)


def _part_calls(context: Context, unit: Unit, parts: list[Any], parent: Entry) -> None:
    """Calls and responses among the parts of a content that no ``toolCalls`` has told of."""
    for part in parts:
        if not isinstance(part, dict):
            continue
        call, response = part.get("functionCall"), part.get("functionResponse")
        if isinstance(call, dict) and _is_new(call, context.called):
            given = required(context.draft, unit, "tool-call", call, "args")
            members = {"name": text(call, "name"), "input": given, "call-id": text(call, "id")}
            context.draft.entry(unit, "tool-call", members, actor=AGENT, parent=parent)
        if isinstance(response, dict) and _is_new(response, context.answered):
            output = required(context.draft, unit, "tool-result", response, "response")
            members = {"call-id": text(response, "id"), "output": output}
            native = {"name": response["name"]}
            context.draft.entry(unit, "tool-result", members, actor=TOOL, native=native, parent=parent)


def _is_new(part: dict[str, Any], known: set[str]) -> bool:
    """Whether it is a call or response at all, and one that has not been seen."""
    part_id = text(part, "id")
    if text(part, "name") is None or part_id in known:
        return False
    if part_id is not None:
        known.add(part_id)
    return True
