"""A2A traceability v1: the steps behind an agent's answer, turned into tool calls and results (formats.md 8.2).

A trace says what was called, never what came of it: there is no output, no status, no model, no prompt. The record says
so by nulls and "unknown". The Python code writes a call and its response as two steps without a common id; they are
paired by name, and the result says that this is how it was done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from transparency.records import a2a_traces
from transparency.records.a2a_check import check_trace
from transparency.records.a2a_traces import Located, Step, field, nested_trace
from transparency.records.canonical import AGENT, SYSTEM, TOOL, UNKNOWN, SessionDraft, name_uuid, rest, time_member
from transparency.records.format import Format
from transparency.records.timestamps import instant
from transparency.records.unit import Unit
from transparency.records.violation import MAX_VIOLATIONS, Violation

TOOL_CALL: Final = 2
AGENT_CALL: Final = 1
HOST_CALL: Final = 0  # the Python code's own; the proto has no such value
_CALLS: Final[Mapping[object, int]] = {
    "AGENT": AGENT_CALL,
    "TOOL": TOOL_CALL,
    "HOST": HOST_CALL,
    1: AGENT_CALL,
    2: TOOL_CALL,
}
# A step under its parent under its parent … could nest as deep as the trace is long; deeper ones stay beside.
_MAX_CHILDREN: Final = 8
_UINT_MAX: Final = (1 << 64) - 1
_RESPONSE: Final = "tool_response"


def units(data: bytes) -> Iterator[Unit]:
    """Every step of every trace, nested ones too."""
    for located in a2a_traces.read(data).traces:
        yield from (step.unit for step in a2a_traces.every(a2a_traces.steps(located)))


def sessions(data: bytes, format: Format) -> list[SessionDraft]:  # noqa: A002 - the contract's name
    """A draft for each trace id; a trace that stands in the document twice is one session."""
    document = a2a_traces.read(data)
    drafts: dict[str, tuple[SessionDraft, dict[str, Any]]] = {}
    for located in document.traces:
        trace_id = field(located.value, "trace_id")[1]
        named = isinstance(trace_id, str) and trace_id != ""
        session_id = trace_id if named else name_uuid(f"{hashlib.sha256(data).hexdigest()}:{located.pointer}")
        if session_id not in drafts:
            drafts[session_id] = (SessionDraft(format, session_id, vendor=UNKNOWN), {})
        _trace(*drafts[session_id], located, named=named)
    made = [draft for draft, _ in drafts.values()]
    if document.wrapper is not None:
        # Once: what stands around the traces belongs to all of them, and could be large.
        made[0].record_native.setdefault("a2a", {})["wrapper"] = document.wrapper
    return made


def check(data: bytes, format: Format) -> list[Violation]:  # noqa: A002, ARG001 - the contract's signature
    """Where traces are not what the proto of seed 004 says (:mod:`a2a_check`)."""
    found: list[Violation] = []
    for located in a2a_traces.read(data).traces:
        prefix = f"{located.pointer}: " if located.inside else located.pointer
        found += [Violation(one.level, prefix + one.pointer, one.message) for one in check_trace(located.value)]
        if len(found) >= MAX_VIOLATIONS:
            return found[:MAX_VIOLATIONS]
    return found


def _trace(draft: SessionDraft, seen: dict[str, Any], located: Located, *, named: bool) -> None:
    native = draft.record_native.setdefault("a2a", {})
    left = _trace_rest(located.value)
    if named:
        del left[field(located.value, "trace_id")[0]]
    native.setdefault("traces", []).append({"pointer": located.pointer, **left})
    found = a2a_traces.steps(located)
    for step in a2a_traces.every(found):
        draft.units += 1
        _span(draft, step.unit.value)
    _Writer(draft, seen).steps(found, None, 0)


def _span(draft: SessionDraft, step: object) -> None:
    """The session is from the first start to the last end that any step gives."""
    start, end = time_member(field(step, "start_time")[1])[0], time_member(field(step, "end_time")[1])[0]
    if start is not None and (draft.start is None or (instant(start) or 0) < (instant(draft.start) or 0)):
        draft.start = start
    if end is not None and (draft.end is None or (instant(end) or 0) > (instant(draft.end) or 0)):
        draft.end = end


class _Writer:
    """Writes the entries of one trace. ``seen``: the steps of this session by id, to know a repeated one."""

    def __init__(self, draft: SessionDraft, seen: dict[str, Any]) -> None:
        self.draft = draft
        self.seen = seen

    def steps(self, steps: Sequence[Step], parent: dict[str, Any] | None, depth: int) -> None:
        """The steps of one trace, under *parent* where it is the answer of a callee."""
        pairs = _pairs(steps)
        answered = set(pairs.values())
        # By step id: the entry of each step so far and how deep it stands, for children to be put under it.
        places: dict[str, tuple[dict[str, Any], int]] = {}
        for number, step in enumerate(steps):
            above, level = parent, depth
            parent_id = field(step.unit.value, "parent_step_id")[1]
            if isinstance(parent_id, str) and parent_id in places:
                above, level = places[parent_id][0], places[parent_id][1] + 1
            call = steps[pairs[number]] if number in pairs else None
            made = self._step(step, above, call, answered=number in answered)
            if step.children:
                self.steps(step.children, made, level + 1)
            step_id = field(step.unit.value, "step_id")[1]
            if isinstance(step_id, str) and level < _MAX_CHILDREN:
                places.setdefault(step_id, (made, level))

    def _step(self, step: Step, above: dict[str, Any] | None, call: Step | None, *, answered: bool) -> dict[str, Any]:
        value = step.unit.value
        if not isinstance(value, dict):
            return self.draft.unknown(step.unit, "step", parent=above)
        step_id = field(value, "step_id")[1]
        if isinstance(step_id, str) and step_id:
            if self.seen.get(step_id) == value:
                return self.draft.event(
                    step.unit, "a2a/step", _without_nested(value), parent=above, native={"duplicate-of": step_id}
                )
            self.seen.setdefault(step_id, value)
        members = _Members(value)
        if members.kind == HOST_CALL:
            return self._host(step, members, above)
        if members.kind is None or members.name is None:
            kind = field(value, "call_type")[1]
            name = f"a2a/{kind}" if isinstance(kind, str) and kind else "a2a/step"
            return self.draft.event(
                step.unit, name, _without_nested(value), timestamp=members.start, parent=above, id=members.step_id
            )
        if members.kind == TOOL_CALL and field(value, "step_type")[1] == _RESPONSE:
            return self._response(step, members, above, call)
        return self._call(step, members, above, answered=answered)

    def _call(self, step: Step, members: _Members, above: dict[str, Any] | None, *, answered: bool) -> dict[str, Any]:
        is_agent = members.kind == AGENT_CALL
        given = members.request() if is_agent else members.parameters()
        if given is None:
            self._filled("tool-call.input")
        name = f"a2a:{members.name}" if is_agent else members.name
        made = self.draft.entry(
            step.unit,
            "tool-call",
            {"name": name, "input": given, "call-id": members.step_id, **members.common()},
            actor=AGENT,
            native=members.native(step.nested),
            parent=above,
        )
        if not answered and (not is_agent or members.error is not None or members.end is not None):
            # An end is known even where an outcome is not, and with it how long it took.
            if members.error is None:
                self._filled("tool-result.output")
            self.draft.entry(
                step.unit,
                "tool-result",
                {"call-id": members.step_id, **members.outcome(None)},
                actor=TOOL,
                parent=above,
            )
        return made

    def _response(
        self, step: Step, members: _Members, above: dict[str, Any] | None, call: Step | None
    ) -> dict[str, Any]:
        parameters = members.parameters()
        output, left = parameters, {}
        if isinstance(parameters, dict) and "response" in parameters:
            output, left = parameters["response"], rest(parameters, ("response",))
        if members.error is not None:
            left = {"parameters": parameters}  # the answer stays beside the error that became the output
        elif left:
            left = {"parameters": left}
        # A response that answers nothing keeps its own id, so that nothing pretends to be its call.
        call_id = members.step_id if call is None else field(call.unit.value, "step_id")[1]
        native = members.native(step.nested) | left | ({} if call is None else {"paired": "by name"})
        made = {
            "name": members.name,
            **members.common(),
            "call-id": call_id if isinstance(call_id, str) else None,
            **members.outcome(output),
        }
        return self.draft.entry(step.unit, "tool-result", made, actor=TOOL, native=native, parent=above)

    def _host(self, step: Step, members: _Members, above: dict[str, Any] | None) -> dict[str, Any]:
        value = step.unit.value
        requests, step_type = members.requests(), field(value, "step_type")[1]
        if requests is None:
            name = f"a2a/host/{step_type}" if isinstance(step_type, str) and step_type else "a2a/host/step"
            return self.draft.event(
                step.unit, name, _without_nested(value), timestamp=members.start, actor=SYSTEM, parent=above,
                id=members.step_id,
            )  # fmt: skip
        made = {"content": requests, **members.common()}
        return self.draft.entry(
            step.unit, "assistant", made, actor=AGENT, native=members.native(step.nested), parent=above
        )

    def _filled(self, what: str) -> None:
        if what not in self.draft.filled:
            self.draft.filled.append(what)


class _Members:
    """A step being mapped, in either spelling and either dialect; what is not taken goes to ``native``."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.taken: set[str] = set()
        self.action_name, self.action = field(value, "step_action")
        _, self.agent = field(self.action, "agent_invocation")
        _, self.tool = field(self.action, "tool_invocation")
        self.kind = self._kind()
        self.step_id = self._text("step_id")
        self.start, self.end = field(value, "start_time")[1], field(value, "end_time")[1]
        self.error = field(value, "error")[1]
        self.name = self._name()

    def _text(self, name: str) -> str | None:
        spelled, held = field(self.value, name)
        if not isinstance(held, str) or not held:
            return None
        self.taken.add(spelled)
        return held

    def _kind(self) -> int | None:
        """What the action holds decides; the call type where there is none (proto3 leaves defaults out)."""
        if isinstance(self.agent, dict):
            return AGENT_CALL
        if isinstance(self.tool, dict):
            return TOOL_CALL
        kind = field(self.value, "call_type")[1]
        return _CALLS.get(kind) if isinstance(kind, str) or type(kind) is int else None

    def _name(self) -> str | None:
        """What is called. The host calls nothing: its name stays where it is."""
        if self.kind == HOST_CALL:
            return None
        if self.kind == AGENT_CALL:
            name = field(self.agent, "agent_name")[1] or field(self.agent, "agent_url")[1] or self._text("name")
        else:
            name = field(self.tool, "tool_name")[1] or self._text("name")
        return name if isinstance(name, str) else None

    def _either(self, invocation: object, name: str) -> Any:  # noqa: ANN401 - JSON
        """A member of the invocation, or the one the Python code has in the step itself."""
        held = field(invocation, name)[1]
        if held is not None:
            return held
        spelled, held = field(self.value, name)
        if held is not None:
            self.taken.add(spelled)
        return held

    def parameters(self) -> Any:  # noqa: ANN401 - JSON
        return self._either(self.tool, "parameters")

    def requests(self) -> Any:  # noqa: ANN401 - JSON
        return self._either(self.agent, "requests")

    def request(self) -> dict[str, Any] | None:
        """The input of a call to an agent."""
        made = {"agent_url": self._either(self.agent, "agent_url"), "requests": self.requests()}
        return {name: held for name, held in made.items() if held is not None} or None

    def common(self) -> dict[str, Any]:
        """Members of an entry of any kind."""
        made: dict[str, Any] = {"id": self.step_id, "timestamp": time_member(self.start)[0]}
        name, tokens = field(self.value, "total_tokens")
        if isinstance(tokens, str) and len(tokens) <= 20 and tokens.isascii() and tokens.isdigit():
            tokens = int(tokens)
        if type(tokens) is int and 0 <= tokens <= _UINT_MAX:
            self.taken.add(name)
            made["token-usage"] = {"total": tokens}
        return made

    def outcome(self, output: object) -> dict[str, Any]:
        """Members of a result: its time is the end of the step."""
        made: dict[str, Any] = {"output": output if self.error is None else self.error}
        made["is-error"] = True if self.error is not None else None
        end = time_member(self.end)[0]
        return made | ({"timestamp": end} if end is not None else {})

    def native(self, nested: Mapping[str, Any] | None) -> dict[str, Any]:
        """The rest, verbatim: cost and attributes (whose units nobody says), the parent, what no table knows.

        Ask last: the other methods note what they took.
        """
        for name, held in (("start_time", self.start), ("end_time", self.end)):
            if held is not None and time_member(held)[0] == held:
                self.taken.add(field(self.value, name)[0])
        left = rest(self.value, self.taken)
        latency_name, latency = field(self.value, "latency")
        if latency is not None:
            del left[latency_name]
            left["latency-ms"] = latency
        if isinstance(self.action, dict):
            del left[self.action_name]
            left |= _action_rest(self.action_name, self.action)
        if nested is not None:
            left["response-trace"] = _trace_rest(nested)
            left = {name: held for name, held in left.items() if held is not nested}
        return left


def _action_rest(name: str, action: Mapping[str, Any]) -> dict[str, Any]:
    """What an action holds beside its mapped members: unknown ones, or a second invocation, which oneof forbids."""
    main, agent = field(action, "agent_invocation")
    mapped: tuple[str, ...] = ("agent_url", "agent_name", "requests", "response_trace")
    if not isinstance(agent, dict):
        main, mapped = field(action, "tool_invocation")[0], ("tool_name", "parameters")
    left = dict(action)
    if isinstance(left.get(main), dict):
        inner = left.pop(main)
        taken = [field(inner, member) for member in mapped]
        # A trace that is none has no steps to be entries of, so it stays here.
        kept = {member for member, held in taken[3:] if not isinstance(held, dict)}
        beside = rest(inner, {member for member, _ in taken} - kept)
        left |= {main: beside} if beside else {}
    return {name: left} if left else {}


def _trace_rest(trace: Mapping[str, Any]) -> dict[str, Any]:
    """A trace without its steps, which are entries; but with what stands in their place and is no array."""
    return rest(trace, ("steps",) if isinstance(trace.get("steps"), list) else ())


def _pairs(steps: Sequence[Step]) -> dict[int, int]:
    """Number of each ``tool_response`` to that of the call it answers: the nearest of its name still unanswered."""
    waiting: dict[str, list[int]] = {}
    pairs: dict[int, int] = {}
    for number, step in enumerate(steps):
        if not isinstance(step.unit.value, dict):
            continue
        members = _Members(step.unit.value)
        if members.kind != TOOL_CALL or members.name is None:
            continue
        if field(step.unit.value, "step_type")[1] != _RESPONSE:
            waiting.setdefault(members.name, []).append(number)
        elif waiting.get(members.name):
            pairs[number] = waiting[members.name].pop()
    return pairs


def _without_nested(step: dict[str, Any]) -> dict[str, Any]:
    """The step as data of an event, without those steps inside it that are entries of their own."""
    nested, _ = nested_trace(step)
    if nested is None:
        return step
    made: dict[str, Any] = _cut(step, nested)
    return made


def _cut(value: Any, nested: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Objects only: the trace stands in the step, or in the invocation in its action."""
    if value is nested:
        return _trace_rest(nested)
    return {name: _cut(held, nested) for name, held in value.items()} if isinstance(value, dict) else value
