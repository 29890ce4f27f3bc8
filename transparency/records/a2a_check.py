"""Whether a ResponseTrace is what the proto of seed 004 says, in the JSON mapping of proto3.

That mapping is generous by itself: either spelling of a name, null for absent, int64 as number or string, an enum by
name or number. What the extension's own Python code writes beyond it (flat members, HOST, a cost with decimals,
requests as text: formats.md 6) is a warning; what neither allows is a violation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from transparency.records.a2a_traces import MAX_NESTING, camel, field
from transparency.records.timestamps import instant
from transparency.records.violation import Findings, Violation, token

_INT64: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_INT64_RANGE: Final = range(-(1 << 63), 1 << 63)
_TRACE: Final = ("trace_id", "steps")
_STEP: Final = (
    "step_id", "trace_id", "parent_step_id", "call_type", "step_action", "cost", "total_tokens",
    "additional_attributes", "latency", "start_time", "end_time",
)  # fmt: skip
_ACTION: Final = ("tool_invocation", "agent_invocation")
_TOOL: Final = ("tool_name", "parameters")
_AGENT: Final = ("agent_url", "agent_name", "requests", "response_trace")
# What the Python code puts into the step itself.
_DIALECT: Final = ("name", "parameters", "requests", "step_type", "error", "agent_url", "response_trace")


class _Found(Findings):
    """Findings about the fields of a proto message."""

    __slots__ = ()

    def names(self, value: Mapping[str, Any], known: tuple[str, ...], at: str, dialect: tuple[str, ...] = ()) -> None:
        """Members by name: unknown ones, those of the dialect, and a field that stands there in both spellings."""
        fields = {spelling: name for name in known for spelling in (name, camel(name))}
        others = {spelling for name in dialect for spelling in (name, camel(name))}
        seen: set[str] = set()
        for member, held in value.items():
            place = f"{at}/{token(member)}"
            name = fields.get(member)
            if name in seen:
                self.wrong(place, f"{name} stands here in both spellings")
            elif name is not None:
                seen.add(name)
            elif member in others:
                if held is not None:
                    self.odd(place, "the Python code's member: the proto has it elsewhere or not at all")
            else:
                self.odd(place, "not a field of the proto")

    def each(
        self, value: Mapping[str, Any], at: str, names: tuple[str, ...], fits: Callable[[Any], bool], what: str
    ) -> None:
        for name in names:
            spelled, held = field(value, name)
            if held is not None and not fits(held):
                self.wrong(f"{at}/{spelled}", f"not {what}")


def check_trace(value: Mapping[str, Any]) -> list[Violation]:
    """Every departure, nested traces included."""
    found = _Found()
    _trace(found, value, "", 0)
    return found.violations


def _trace(found: _Found, value: Mapping[str, Any], at: str, depth: int) -> None:
    if depth > MAX_NESTING:
        found.wrong(at, f"traces nested more than {MAX_NESTING} deep are not read")
        return
    found.names(value, _TRACE, at)
    found.each(value, at, ("trace_id",), _is_text, "a string")
    trace_id = field(value, "trace_id")[1]
    if not isinstance(trace_id, str) or not trace_id:
        found.odd(f"{at}/trace_id", "empty: the trace has no identifier")
    steps = value.get("steps")
    if not isinstance(steps, list):
        if steps is not None:
            found.wrong(f"{at}/steps", "not an array")
        return
    seen: set[str] = set()
    for number, step in enumerate(steps):
        place = f"{at}/steps/{number}"
        if isinstance(step, dict):
            _step(found, step, place, trace_id, seen, depth)
        else:
            found.wrong(place, "not an object")
        if found.full:
            return
    _parents(found, steps, at, seen)


def _parents(found: _Found, steps: list[Any], at: str, seen: set[str]) -> None:
    for number, step in enumerate(steps):
        spelled, parent = field(step, "parent_step_id")
        if isinstance(parent, str) and parent and parent not in seen:
            found.odd(f"{at}/steps/{number}/{spelled}", "no step of this trace has this id")


def _step(found: _Found, step: Mapping[str, Any], at: str, trace_id: object, seen: set[str], depth: int) -> None:
    found.names(step, _STEP, at, _DIALECT)
    found.each(step, at, ("step_id", "trace_id", "parent_step_id"), _is_text, "a string")
    found.each(step, at, ("total_tokens", "latency"), _is_int64, "an int64 (a number, or its digits)")
    spelled, identity = field(step, "step_id")
    if isinstance(identity, str) and identity:
        if identity in seen:
            found.wrong(f"{at}/{spelled}", "another step of this trace has this id")
        seen.add(identity)
    spelled, belongs = field(step, "trace_id")
    if isinstance(belongs, str) and belongs and belongs != trace_id:
        found.odd(f"{at}/{spelled}", "not the id of the trace this step stands in")
    _cost(found, step, at)
    _call_type(found, step, at)
    _times(found, step, at)
    _attributes(found, step, at)
    _action(found, step, at, depth)
    _dialect(found, step, at, depth)


def _cost(found: _Found, step: Mapping[str, Any], at: str) -> None:
    spelled, cost = field(step, "cost")
    if cost is None or _is_int64(cost):
        return
    if isinstance(cost, float):
        found.odd(f"{at}/{spelled}", "has decimals, as the Python code allows; the proto says int64")
    else:
        found.wrong(f"{at}/{spelled}", "not an int64 (a number, or its digits)")


def _call_type(found: _Found, step: Mapping[str, Any], at: str) -> None:
    spelled, kind = field(step, "call_type")
    action = field(step, "step_action")[1]
    if kind is None:
        return
    if kind == "HOST":
        found.odd(f"{at}/{spelled}", "HOST is the Python code's; the proto has AGENT and TOOL")
    elif type(kind) is int and kind not in (1, 2):
        # Enums are open in proto3: a reader keeps a number it does not know.
        found.odd(f"{at}/{spelled}", "a number that is neither AGENT (1) nor TOOL (2)")
    elif kind not in ("AGENT", "TOOL") and type(kind) is not int:
        found.wrong(f"{at}/{spelled}", "neither AGENT nor TOOL")
    for name, kinds in (("agent_invocation", ("TOOL", 2)), ("tool_invocation", ("AGENT", 1))):
        if field(action, name)[1] is not None and kind in kinds:
            found.wrong(f"{at}/{spelled}", f"contradicts its action, which is a {name}")


def _times(found: _Found, step: Mapping[str, Any], at: str) -> None:
    moments = []
    for name in ("start_time", "end_time"):
        spelled, held = field(step, name)
        moment = instant(held) if isinstance(held, str) else None
        moments.append(moment)
        if held is None or moment is not None:
            continue
        if isinstance(held, str) and instant(held + "Z") is not None:
            found.odd(f"{at}/{spelled}", "a time without offset names no instant")
        else:
            found.wrong(f"{at}/{spelled}", "not an RFC 3339 time")
    start, end = moments
    if start is not None and end is not None and end < start:
        found.odd(f"{at}/{field(step, 'end_time')[0]}", "before the start")


def _attributes(found: _Found, step: Mapping[str, Any], at: str) -> None:
    spelled, attributes = field(step, "additional_attributes")
    if attributes is None:
        return
    if not isinstance(attributes, dict):
        found.wrong(f"{at}/{spelled}", "not an object")
        return
    for name, held in attributes.items():
        if not isinstance(held, str):
            found.wrong(f"{at}/{spelled}/{token(name)}", "not a string: the proto says map<string, string>")


def _action(found: _Found, step: Mapping[str, Any], at: str, depth: int) -> None:
    spelled, action = field(step, "step_action")
    at = f"{at}/{spelled}"
    if action is None:
        return
    if not isinstance(action, dict):
        found.wrong(at, "not an object")
        return
    found.names(action, _ACTION, at)
    tool_name, tool = field(action, "tool_invocation")
    agent_name, agent = field(action, "agent_invocation")
    if tool is not None and agent is not None:
        found.wrong(at, "both invocations: the proto allows one of them")
    if isinstance(tool, dict):
        found.names(tool, _TOOL, f"{at}/{tool_name}")
        found.each(tool, f"{at}/{tool_name}", ("tool_name",), _is_text, "a string")
        found.each(tool, f"{at}/{tool_name}", ("parameters",), _is_object, "an object (google.protobuf.Struct)")
    elif tool is not None:
        found.wrong(f"{at}/{tool_name}", "not an object")
    if isinstance(agent, dict):
        _agent(found, agent, f"{at}/{agent_name}", depth)
    elif agent is not None:
        found.wrong(f"{at}/{agent_name}", "not an object")


def _agent(found: _Found, agent: Mapping[str, Any], at: str, depth: int) -> None:
    found.names(agent, _AGENT, at)
    found.each(agent, at, ("agent_url", "agent_name"), _is_text, "a string")
    _requests(found, agent, at)
    _nested(found, agent, at, depth)


def _requests(found: _Found, value: Mapping[str, Any], at: str) -> None:
    requests = value.get("requests")
    if isinstance(requests, str):
        found.odd(f"{at}/requests", "text, as the Python code allows; the proto says google.protobuf.Struct")
    elif requests is not None and not isinstance(requests, dict):
        found.wrong(f"{at}/requests", "not an object (google.protobuf.Struct)")


def _nested(found: _Found, value: Mapping[str, Any], at: str, depth: int) -> None:
    spelled, trace = field(value, "response_trace")
    if isinstance(trace, dict):
        _trace(found, trace, f"{at}/{spelled}", depth + 1)
    elif trace is not None:
        found.wrong(f"{at}/{spelled}", "not an object")


def _dialect(found: _Found, step: Mapping[str, Any], at: str, depth: int) -> None:
    """The flat members: their types as the Python code declares them."""
    found.each(step, at, ("name", "step_type", "agent_url"), _is_text, "a string")
    found.each(step, at, ("parameters",), _is_object, "an object")
    requests = step.get("requests")
    if requests is not None and not isinstance(requests, str | dict):
        found.wrong(f"{at}/requests", "neither text nor an object")
    if field(field(field(step, "step_action")[1], "agent_invocation")[1], "response_trace")[1] is None:
        _nested(found, step, at, depth)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_int64(value: object) -> bool:
    """proto3-JSON: a decimal string or a number; a number with ``.0`` is the integer it names."""
    if isinstance(value, str):
        return _INT64.fullmatch(value) is not None and int(value) in _INT64_RANGE
    if isinstance(value, float):
        return value.is_integer() and int(value) in _INT64_RANGE
    return type(value) is int and value in _INT64_RANGE
