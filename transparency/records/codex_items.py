"""Codex response items: what went to the model and came from it. Each becomes one entry (an image, a call and result).

Kinds and members are those of formats.md 7 and 8.2; a kind that is not here is kept whole as an event.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import strict_json
from transparency.records.canonical import AGENT, SYSTEM, TOOL, UNKNOWN, time_member
from transparency.records.codex_rollout import Around, Entry, Rollout
from transparency.records.native import Members, required, text
from transparency.records.unit import Unit

SYSTEM_PROMPT: Final = "system-prompt"
_SYSTEM_ROLES: Final = ("developer", "system")
# Room for the record around the arguments, so that what is parsed here can be read back within the same bound.
_ARGUMENTS_DEPTH: Final = strict_json.MAX_DEPTH - 16
# The head that the harness, not the command, writes over an output: either of its two forms.
_EXIT: Final = re.compile(
    r"(?:Chunk ID: [^\n]*\n)?(?:Wall time: [^\n]*\n)?Process exited with code (-?[0-9]{1,10})\n"
    r"|Exit code: (-?[0-9]{1,10})\n"
)


def add_item(rollout: Rollout, unit: Unit, item: dict[str, Any], around: Around) -> None:
    """The entries of one item."""
    kind = text(item, "type")
    maker = _MAKERS.get(kind or "")
    if maker is None or not maker(rollout, unit, item, around):
        rollout.add_unknown(unit, kind, around.timestamp)


def _entry(
    rollout: Rollout,
    unit: Unit,
    kind: str,
    members: dict[str, Any],
    item: Members,
    around: Around,
    actor: str,
    *,
    entry_id: str | None = None,
) -> Entry:
    native_id = item.text("id")
    chosen = entry_id or rollout.identify(unit, native_id)
    stamp, kept = time_member(around.timestamp)
    native = item.rest()
    if native_id is not None and native_id != chosen:
        native["id"] = native_id
    line = {**around.extra, **kept}
    if line:
        native["line"] = line
    return rollout.draft.entry(
        unit, kind, {**members, "id": chosen, "timestamp": stamp}, actor=actor, native=native or None
    )


def _message(rollout: Rollout, unit: Unit, item: dict[str, Any], around: Around) -> bool:
    role = item.get("role")
    if role in _SYSTEM_ROLES:
        # Not human: Codex's own instructions, and a change of them is a change of the prompt (ETSI 5.2.4-3).
        rollout.add_event(unit, SYSTEM_PROMPT, item, around, native_id=item.get("id"))
        return True
    if role not in ("user", "assistant"):
        return False
    taken = Members(item, "type", "role")
    members = {"content": taken.any("content")} if item.get("content") is not None else {}
    texts = texts_of(item.get("content"))
    if role == "user":
        entry = _entry(rollout, unit, "user", members, taken, around, UNKNOWN)
        rollout.user_entries.append((entry, texts[0] if texts else ""))
    else:
        entry = _entry(rollout, unit, "assistant", {**members, "model-id": rollout.model}, taken, around, AGENT)
        rollout.made_by_model(entry)
    rollout.echoes.item(role, texts, entry)
    return True


def _agent_message(rollout: Rollout, unit: Unit, item: dict[str, Any], around: Around) -> bool:
    """Another agent speaks to this one: an input, but no person's."""
    taken = Members(item, "type")
    members = {"content": taken.any("content")} if item.get("content") is not None else {}
    _entry(rollout, unit, "user", members, taken, around, AGENT)
    return True


def texts_of(content: object) -> list[str]:
    """A content's text: of all its parts together, and of each where there are several."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    parts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return parts if len(parts) < 2 else ["".join(parts), *dict.fromkeys(parts)]


def _reasoning(rollout: Rollout, unit: Unit, item: dict[str, Any], around: Around) -> bool:
    taken = Members(item, "type")
    summary, raw = _plain(item.get("summary")), _plain(item.get("content"))
    content: object = ""
    if summary:
        content = "\n\n".join(summary)
        taken.any("summary")
    elif raw:
        content = "\n\n".join(raw)
        taken.any("content")
    elif item.get("summary"):
        content = taken.any("summary")
    elif item.get("summary") == []:
        taken.any("summary")
    members = {"content": content, "encrypted": taken.text("encrypted_content"), "model-id": rollout.model}
    entry = _entry(rollout, unit, "reasoning", members, taken, around, AGENT)
    texts = [*(summary or ()), *(raw or ()), content if isinstance(content, str) else ""]
    rollout.echoes.item("reasoning", dict.fromkeys(filter(None, texts)), entry)
    rollout.made_by_model(entry)
    return True


def _plain(parts: object) -> list[str] | None:
    """The texts of parts that are a text and nothing else; None where joining them would lose something."""
    if not isinstance(parts, list) or not parts:
        return None
    texts = []
    for part in parts:
        if not isinstance(part, dict) or set(part) != {"type", "text"} or not isinstance(part["text"], str):
            return None
        texts.append(part["text"])
    return texts


def _call(name: str | None, source: str, *, parsed: bool = False) -> Callable[..., bool]:
    """A maker of tool calls: *name* where the kind itself is the tool, *source* the member that is the input."""

    def make(rollout: Rollout, unit: Unit, item: dict[str, Any], around: Around) -> bool:
        taken = Members(item, "type", source)
        tool = name or taken.text("name")
        if tool is None:
            return False
        # A web search has no call_id: its end event names the item's own id.
        call_id = taken.text("call_id") or (text(item, "id") if name else None)
        given = required(rollout.draft, unit, "tool-call", item, source)
        members = {"name": tool, "input": given, "call-id": call_id, "model-id": rollout.model}
        entry = _entry(rollout, unit, "tool-call", members, taken, around, AGENT)
        if parsed and isinstance(entry["input"], str):
            _parse_input(entry, source)
        rollout.made_by_model(entry)
        return True

    return make


def _parse_input(entry: Entry, source: str) -> None:
    """Arguments are a text that holds JSON. What is no strict JSON stays the text, and is marked as the original."""
    original = entry["input"]
    try:
        entry["input"] = strict_json.loads(original.encode(), max_depth=_ARGUMENTS_DEPTH)
    except MalformedError:
        entry.setdefault("native", {})[source] = original


def _result(source: str) -> Callable[..., bool]:
    def make(rollout: Rollout, unit: Unit, item: dict[str, Any], around: Around) -> bool:
        taken = Members(item, "type", source)
        output, call_id = required(rollout.draft, unit, "tool-result", item, source), taken.text("call_id")
        members = {"call-id": call_id, "output": output, "status": taken.text("status"), "is-error": _failed(output)}
        entry = _entry(rollout, unit, "tool-result", members, taken, around, TOOL)
        if call_id is not None:
            rollout.results[call_id] = entry
        return True

    return make


def _failed(output: object) -> bool | None:
    """Whether the tool failed, where its output says so in a form that the harness writes; else None."""
    if isinstance(output, dict) and isinstance(output.get("success"), bool):
        return not output["success"]
    if not isinstance(output, str):
        return None
    found = _EXIT.match(output)
    if found is not None:
        return int(found.group(1) or found.group(2)) != 0
    if not output.startswith("{") or '"exit_code"' not in output:
        return None
    try:
        wrapped = strict_json.loads(output.encode())
    except MalformedError:
        return None
    metadata = wrapped.get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, dict) else None
    return code != 0 if type(code) is int else None


def _image(rollout: Rollout, unit: Unit, item: dict[str, Any], around: Around) -> bool:
    """The only item that is a call and its result at once."""
    call_members = {name: member for name, member in item.items() if name not in ("result", "status")}
    _call("image_generation", "revised_prompt")(rollout, unit, call_members, around)
    if "result" in item or "status" in item:
        taken = Members(item, *call_members, "result")
        output = required(rollout.draft, unit, "tool-result", item, "result")
        members = {"call-id": text(item, "id"), "output": output, "status": taken.text("status")}
        _entry(rollout, unit, "tool-result", members, taken, around, TOOL, entry_id=rollout.identify(unit))
    return True


def _state(rollout: Rollout, unit: Unit, item: dict[str, Any], around: Around) -> bool:
    rollout.add_event(unit, f"codex/{item['type']}", item, around, actor=SYSTEM, native_id=item.get("id"))
    return True


_MAKERS: Final[dict[str, Callable[..., bool]]] = {
    "message": _message,
    "agent_message": _agent_message,
    "reasoning": _reasoning,
    "function_call": _call(None, "arguments", parsed=True),
    "custom_tool_call": _call(None, "input"),
    "local_shell_call": _call("local_shell", "action"),
    "web_search_call": _call("web_search", "action"),
    "tool_search_call": _call("tool_search", "arguments", parsed=True),
    "image_generation_call": _image,
    "function_call_output": _result("output"),
    "custom_tool_call_output": _result("output"),
    "tool_search_output": _result("tools"),
    "compaction": _state,
    "compaction_summary": _state,
    "context_compaction": _state,
    "compaction_trigger": _state,
    "ghost_snapshot": _state,
    "additional_tools": _state,
}
ITEM_KINDS: Final = frozenset(_MAKERS)
