"""Where records made for exchange (VAC, AgentLog, Agent Trace, A2A) name sessions, agents, models, tools and paths.

As lenient as :mod:`facts_agents`; what a record says wrongly is for ``check`` to say.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from transparency.records import vac, vac_cbor
from transparency.records.facts_gathering import Gathering, as_map, document, maps, one_or_lines
from transparency.records.recognise import is_response_trace

MAX_NODES: Final = 200_000


# -- AgentLog, Agent Trace, A2A -----------------------------------------------------------------------------------


def agentlog(data: bytes, found: Gathering) -> None:
    log = as_map(document(data))
    agent = as_map(log.get("agent"))
    found.session(log.get("id"))
    found.by(vendor=agent.get("provider") or agent.get("name"), agent=agent.get("name"), version=agent.get("version"))
    found.model(agent.get("model"))
    found.within(as_map(log.get("project")).get("workingDirectory"))
    found.span(log.get("startTime"), log.get("endTime"))
    for event in maps(log.get("events")):
        found.time(event.get("timestamp"))
        found.model(event.get("model"))
        kind = event.get("type")
        if kind == "toolCall":
            found.call(event.get("name"), event.get("input"))
        elif kind == "fileOperation":
            found.path(event.get("path"))
        elif kind == "search":
            found.tool(event.get("tool"))


def agent_trace(data: bytes, found: Gathering) -> None:
    for record in one_or_lines(data):
        _agent_trace_record(record, found)


def _agent_trace_record(record: Mapping[str, Any], found: Gathering) -> None:
    found.time(record.get("timestamp"))
    schema, tool = record.get("schema"), record.get("tool")
    if isinstance(schema, str) and schema.startswith("agent-trace/") and "files" not in record:
        found.session(record.get("session_id"))
        found.tool(tool)
        found.path(record.get("file_path"))
        return
    metadata = as_map(record.get("metadata"))
    found.session(metadata.get("session_id") or metadata.get("conversation_id") or record.get("id"))
    maker = as_map(tool)
    found.by(vendor=maker.get("name"), agent=maker.get("name"), version=maker.get("version"))
    _attributed(record.get("files"), "model_id", found)


def _attributed(files: object, model: str, found: Gathering) -> None:
    """Files with their conversations, as Agent Trace and VAC have them; they spell a model's member differently."""
    for file in maps(files):
        found.path(file.get("path"))
        for conversation in maps(file.get("conversations")):
            found.model(as_map(conversation.get("contributor")).get(model))
            for piece in maps(conversation.get("ranges")):
                found.model(as_map(piece.get("contributor")).get(model))


def a2a(data: bytes, found: Gathering) -> None:
    """Traces wherever they stand: bare, in metadata, in a data part, as the text of a part, or inside a step."""
    waiting: list[Any] = [document(data)]
    starts: list[str] = []
    ends: list[str] = []
    for _ in range(MAX_NODES):
        if not waiting:
            break
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node[:MAX_NODES])
        if not isinstance(node, dict):
            continue
        if is_response_trace(node):
            found.session(node.get("trace_id") or node.get("traceId"))
            for step in maps(node["steps"]):
                _a2a_step(step, found, starts, ends)
        text = node.get("text")
        if isinstance(text, str) and ('"trace_id"' in text or '"traceId"' in text):
            with contextlib.suppress(ValueError, RecursionError):
                waiting.append(json.loads(text))
        waiting += [child for child in reversed(node.values()) if isinstance(child, dict | list)]
    else:
        found.complete = False
    found.span(min(starts, default=None), max(ends, default=None))


def _a2a_step(step: Mapping[str, Any], found: Gathering, starts: list[str], ends: list[str]) -> None:
    action = as_map(step.get("stepAction") or step.get("step_action"))
    call = as_map(action.get("toolInvocation") or action.get("tool_invocation"))
    if call:
        found.call(call.get("toolName") or call.get("tool_name"), call.get("parameters"))
    elif (step.get("call_type") or step.get("callType")) == "TOOL":
        found.call(step.get("name"), step.get("parameters"))
    for names, times in ((("startTime", "start_time"), starts), (("endTime", "end_time"), ends)):
        times += [step[name] for name in names if isinstance(step.get(name), str)]


# -- VAC ----------------------------------------------------------------------------------------------------------


def vac_in_json(data: bytes, found: Gathering) -> None:
    _vac(document(data), found)


def vac_in_cbor(data: bytes, found: Gathering) -> None:
    _vac(vac_cbor.loads(data), found)


def _vac(record: object, found: Gathering) -> None:
    session = as_map(as_map(record).get("session"))
    meta = as_map(session.get("agent-meta"))
    named = session.get("session-id")
    found.session(named.decode("utf-8", "replace") if isinstance(named, bytes) else named)
    found.by(agent=meta.get("cli-name"), version=meta.get("cli-version"))
    found.model(meta.get("model-id"))
    models = meta.get("models")
    for model in models if isinstance(models, list | tuple) else ():
        found.model(model)
    found.within(as_map(session.get("environment")).get("working-dir"))
    found.span(session.get("session-start"), session.get("session-end"))
    waiting = [iter(maps(session.get("entries")))]
    while waiting:
        entry = next(waiting[-1], None)
        if entry is None:
            waiting.pop()
            continue
        found.time(entry.get("timestamp"))
        found.model(entry.get("model-id"))
        if entry.get("type") == "tool-call":
            found.call(entry.get("name"), entry.get("input"))
        if "children" in entry:
            waiting.append(iter(maps(entry["children"])))
    files = as_map(as_map(record).get("file-attribution")).get("files")
    _attributed(files, "model-id", found)
    _attributed(files, "model_id", found)
    # The maker of a known tool goes before that of its model (formats.md 3.2 row 11).
    if found.agent not in vac.CLI_VENDORS:
        found.by(vendor=meta.get("model-provider"))
