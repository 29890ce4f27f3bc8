"""Where the sessions of coding agents name their session, models, tools, paths and times.

Each walk is a few lookups on parsed JSON, guided by the same members that the format's converter reads. They are
lenient: a line or member that is not as expected is passed over. Nothing here recurses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transparency.records import tree
from transparency.records.facts_gathering import (
    MAX_ARGUMENTS,
    MAX_DOCUMENT,
    PATCH,
    PATHS,
    Gathering,
    as_map,
    document,
    json_lines,
    maps,
    one_or_lines,
)

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_CODEX_TOOLS: Final[Mapping[str, str]] = {
    "local_shell_call": "local_shell",
    "web_search_call": "web_search",
    "tool_search_call": "tool_search",
    "image_generation_call": "image_generation",
}
_DECODER: Final = json.JSONDecoder()


def _blocks(found: Gathering, content: object) -> None:
    for block in maps(content):
        kind = block.get("type")
        if isinstance(kind, str) and kind.endswith("tool_use"):
            found.call(block.get("name"), block.get("input"))


# -- Claude Code, Cursor ------------------------------------------------------------------------------------------


def claude(data: bytes, found: Gathering) -> None:
    found.by(agent="claude-code")
    if not tree.is_packed(data):
        _claude_lines(data, found, "")
        return
    for file in tree.unpack(data):
        if file.path.endswith(".jsonl"):
            stem = file.path.rpartition("/")[2].removesuffix(".jsonl")
            _claude_lines(file.data, found, stem.removeprefix("agent-") if stem.startswith("agent-") else "")


def _claude_lines(data: bytes, found: Gathering, agent: str) -> None:
    for line in json_lines(data):
        if not agent and line.get("isSidechain") is True and isinstance(line.get("agentId"), str):
            agent = line["agentId"]
        found.session(line.get("sessionId"))
        found.by(version=line.get("version"))
        found.within(line.get("cwd"))
        found.time(line.get("timestamp"))
        message = as_map(line.get("message"))
        model = message.get("model")
        if model != "<synthetic>":
            found.model(model)
        _blocks(found, message.get("content") if message else [line])  # some versions write a block as a line
    if agent:
        found.session(f"agent-{agent}")


def cursor(data: bytes, found: Gathering) -> None:
    found.by(agent="cursor")
    for line in json_lines(data):
        _blocks(found, as_map(line.get("message")).get("content"))


# -- Codex --------------------------------------------------------------------------------------------------------


def codex(data: bytes, found: Gathering) -> None:
    found.by(agent="codex-cli")
    for line in json_lines(data):
        found.time(line.get("timestamp"))
        payload, kind = line.get("payload"), line.get("type")
        if "payload" not in line:
            if kind is None and "timestamp" in line:
                _codex_meta(line, found)
            else:
                _codex_item(line, found)
        elif isinstance(payload, dict):
            if kind == "response_item":
                _codex_item(payload, found)
            elif kind == "turn_context":
                found.model(payload.get("model"))
                found.within(payload.get("cwd"))
            elif kind == "session_meta":
                _codex_meta(payload, found)
            elif kind == "event_msg" and payload.get("type") == "patch_apply_end":
                for path in as_map(payload.get("changes")):
                    found.path(path)


def _codex_meta(meta: Mapping[str, Any], found: Gathering) -> None:
    """The first is the session's own; a later one belongs to a session whose history this one took over."""
    if not found.sessions:
        found.session(meta.get("id") or meta.get("session_id"))
        found.by(version=meta.get("cli_version"))
        found.within(meta.get("cwd"))


def _codex_item(item: Mapping[str, Any], found: Gathering) -> None:
    kind = item.get("type")
    if kind == "function_call":
        found.call(item.get("name"), _arguments(item.get("arguments")))
    elif kind == "custom_tool_call":
        found.call(item.get("name"), item.get("input"))
    elif isinstance(kind, str):
        found.tool(_CODEX_TOOLS.get(kind))


def _arguments(text: object) -> object:
    """Arguments are a text that holds JSON; parsed only where it may name a file."""
    if not isinstance(text, str) or len(text) > MAX_ARGUMENTS:
        return None
    if PATCH not in text and not any(f'"{name}"' in text for name in PATHS):
        return None
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return text
    command = given.get("command", given.get("input")) if isinstance(given, dict) else None
    if isinstance(command, list):
        command = "\n".join(part for part in command if isinstance(part, str))
    return command if isinstance(command, str) and PATCH in command else given


# -- Gemini CLI ---------------------------------------------------------------------------------------------------


def gemini(data: bytes, found: Gathering) -> None:
    found.by(agent="gemini-cli")
    for line in one_or_lines(data):
        _gemini_line(line, found)


def _gemini_line(line: Mapping[str, Any], found: Gathering) -> None:
    changes = as_map(line.get("$set")) or line
    if not found.sessions:
        found.session(changes.get("sessionId"))
    found.span(changes.get("startTime") or changes.get("start_time"), changes.get("lastUpdated"))
    found.model(as_map(changes.get("meta")).get("model"))
    for name in ("messages", "history"):
        for message in maps(changes.get(name)):
            _gemini_message(message, found)
    if "messages" not in changes and "history" not in changes:
        _gemini_message(changes, found)


def _gemini_message(message: Mapping[str, Any], found: Gathering) -> None:
    found.time(message.get("timestamp") or message.get("ts"))
    found.model(message.get("model"))
    for call in maps(message.get("toolCalls")):
        found.call(call.get("name"), call.get("args"))
    for name in ("content", "parts"):
        for part in maps(message.get(name)):
            call = as_map(part.get("functionCall"))
            if call:
                found.call(call.get("name"), call.get("args"))


# -- OpenCode -----------------------------------------------------------------------------------------------------


def opencode(data: bytes, found: Gathering) -> None:
    found.by(agent="opencode")
    if tree.is_packed(data):
        for file in tree.unpack(data):
            if file.path.endswith(".json"):
                for value in _sequence(file.data):
                    _opencode_object(value, found)
        return
    for value in _sequence(data):
        _opencode_object(value, found)


def _sequence(data: bytes) -> Iterator[object]:
    if len(data) > MAX_DOCUMENT:
        raise ValueError("too large to be parsed whole")
    text = data.decode()
    at = _SPACE.match(text, 0).end()  # type: ignore[union-attr] # it matches the empty text, too
    while at < len(text):
        value, end = _DECODER.raw_decode(text, at)
        yield value
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr] # as above


def opencode_export(data: bytes, found: Gathering) -> None:
    found.by(agent="opencode")
    export = as_map(document(data))
    _opencode_session(as_map(export.get("info")), found)
    for message in maps(export.get("messages")):
        _opencode_object(message.get("info"), found)
        for part in maps(message.get("parts")):
            _opencode_object(part, found)


def _opencode_object(value: object, found: Gathering) -> None:
    if not isinstance(value, dict):
        return
    found.session(value.get("sessionID"))
    found.model(value.get("modelID"))
    found.model(as_map(value.get("model")).get("modelID"))
    found.within(as_map(value.get("path")).get("cwd"))
    kind = value.get("type")
    if kind == "tool":
        found.call(value.get("tool"), as_map(value.get("state")).get("input"))
    elif kind == "patch":
        files = value.get("files")
        for path in files if isinstance(files, list) else ():
            found.path(path)
    elif "role" in value:
        found.time(as_map(value.get("time")).get("created"))
    elif kind is None and "sessionID" not in value and isinstance(value.get("id"), str):
        if "version" in value and "time" in value:
            _opencode_session(value, found)
        else:
            found.within(value.get("worktree"))


def _opencode_session(info: Mapping[str, Any], found: Gathering) -> None:
    found.session(info.get("id"))
    found.by(version=info.get("version"))
    found.within(info.get("directory"))
    times = as_map(info.get("time"))
    found.span(times.get("created"), times.get("updated"))
