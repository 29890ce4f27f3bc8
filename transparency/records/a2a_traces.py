"""Finding the ResponseTraces of the A2A traceability extension in a document, and reading their two spellings.

A trace stands alone, under the extension's key in some ``metadata`` (of a message, an artifact, a task or a status
event), as the JSON text of a part, or as the data of an additional artifact (seed 004; formats.md 6). Members are
lowerCamelCase (proto3-JSON) or snake_case (the Python code, and what proto3-JSON readers accept too).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import strict_json
from transparency.records.extents import Extents
from transparency.records.recognise import A2A_KEY, is_response_trace
from transparency.records.unit import MAX_UNITS, Unit
from transparency.records.violation import token

# Calls of calls of calls: each level of the answer is two of JSON, and readers bound those.
MAX_NESTING: Final = 12
_MAX_TRACES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Located:
    """A trace where it was found. ``inside`` a text it has bytes and pointers of its own."""

    pointer: str
    value: dict[str, Any]
    extents: Extents
    inside: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A step as a unit, with the steps of the trace that its callee returned."""

    unit: Unit
    pointer: str
    nested: dict[str, Any] | None
    children: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """``wrapper`` is what stood around the traces, without them; None where a trace is the whole document."""

    traces: tuple[Located, ...]
    wrapper: Any


def read(data: bytes) -> Document:
    """All traces of a document; MalformedError where there is none."""
    value = strict_json.loads(data)
    extents = Extents(data, value)
    if is_response_trace(value):
        return Document((Located("", value, extents, inside=False),), None)
    found: list[Located] = []
    wrapper = _search(value, "", extents, found)
    if not found:
        raise MalformedError("there is no ResponseTrace in this document")
    return Document(tuple(found), wrapper)


def _search(value: Any, pointer: str, extents: Extents, found: list[Located]) -> Any:  # noqa: ANN401 - JSON
    """The value without its traces, which are added to *found*. Recursion is bounded by strict_json's depth."""
    if isinstance(value, list):
        return [_search(item, f"{pointer}/{number}", extents, found) for number, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, held in value.items():
        place = f"{pointer}/{token(name)}"
        inner = _text_trace(held) if name == "text" or name.endswith(A2A_KEY) else None
        if inner is not None:
            _note(found, Located(place, inner[0], inner[1], inside=True))
        elif isinstance(held, dict) and (name.endswith(A2A_KEY) or (name != "parameters" and is_response_trace(held))):
            _note(found, Located(place, held, extents, inside=False))
        else:
            kept[name] = _search(held, place, extents, found)
    return kept


def _note(found: list[Located], located: Located) -> None:
    if len(found) >= _MAX_TRACES:
        raise MalformedError(f"more than {_MAX_TRACES} traces in one document are not read")
    found.append(located)


def _text_trace(text: object) -> tuple[dict[str, Any], Extents] | None:
    """A part's text, if it is the JSON of a trace and nothing else."""
    if not isinstance(text, str) or not text.lstrip().startswith("{") or '"steps"' not in text:
        return None
    raw = text.encode()
    try:
        value = strict_json.loads(raw)
    except MalformedError:
        return None
    return (value, Extents(raw, value)) if is_response_trace(value) else None


def steps(located: Located) -> tuple[Step, ...]:
    """The steps of a trace, each with those nested in it."""
    budget = [MAX_UNITS]
    return _steps(located, located.value, located.pointer if not located.inside else "", 0, budget)


def _steps(located: Located, trace: Mapping[str, Any], at: str, depth: int, budget: list[int]) -> tuple[Step, ...]:
    held = trace.get("steps")
    if not isinstance(held, list):
        return ()
    if depth > MAX_NESTING:
        raise MalformedError(f"traces nested more than {MAX_NESTING} deep are not read")
    made = []
    for number, raw, value in located.extents.items(held):
        budget[0] -= 1
        if budget[0] < 0:
            raise MalformedError(f"more than {MAX_UNITS} steps are not read")
        pointer = f"{at}/steps/{number}"
        ref = {"path": located.pointer, "inside": pointer} if located.inside else {"path": pointer}
        nested, place = nested_trace(value)
        children = () if nested is None else _steps(located, nested, pointer + place, depth + 1, budget)
        made.append(Step(Unit(ref, raw, value), pointer, nested, children))
    return tuple(made)


def nested_trace(step: object) -> tuple[dict[str, Any] | None, str]:
    """The trace a callee returned, and its pointer within the step: under the agent's invocation, or flat (Python)."""
    if not isinstance(step, dict):
        return None, ""
    action_name, action = field(step, "step_action")
    invocation_name, invocation = field(action, "agent_invocation")
    name, trace = field(invocation, "response_trace")
    if isinstance(trace, dict):
        return trace, f"/{action_name}/{invocation_name}/{name}"
    name, trace = field(step, "response_trace")
    return (trace, f"/{name}") if isinstance(trace, dict) else (None, "")


def every(found: tuple[Step, ...]) -> Iterator[Step]:
    """Steps in document order, nested ones after their parent; as deep as MAX_NESTING."""
    for step in found:
        yield step
        yield from every(step.children)


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def field(value: object, name: str) -> tuple[str, Any]:
    """A field by its proto name: the spelling that is used, and its value; null is the same as absent (proto3-JSON)."""
    if not isinstance(value, dict):
        return name, None
    if value.get(name) is not None:
        return name, value[name]
    spelled = camel(name)
    return (spelled, value[spelled]) if value.get(spelled) is not None else (name, None)
