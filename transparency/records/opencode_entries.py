"""Messages and parts of OpenCode as canonical entries (formats.md 8.2).

A message is an entry with its own model, tokens and cost; its parts are its children, because that is how OpenCode
nests them. A tool part is both a call and its result. Everything OpenCode writes that has no other place is an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.records.canonical import AGENT, HUMAN, SYSTEM, TOOL, UNKNOWN, SessionDraft
from transparency.records.native import Members, required, said
from transparency.records.opencode_members import take_encrypted, take_stamp, take_time, take_usage
from transparency.records.timestamps import instant
from transparency.records.unit import Unit

# What a person puts into a message; the other parts of a user's message are OpenCode's own.
_BY_A_PERSON: Final = frozenset({"text", "file", "agent", "subtask"})


@dataclass(frozen=True, slots=True)
class Part:
    """A part and the unit it stands in: its own, or in an export that of its message."""

    unit: Unit
    value: dict[str, Any]

    @property
    def type(self) -> str:
        kind = self.value.get("type")
        return kind if isinstance(kind, str) else "part"

    @property
    def id(self) -> str | None:
        return said(self.value.get("id"))


@dataclass(slots=True)
class Conversation:
    """One session's entries being written. Owned by the converter of that session; holds the ids already given."""

    draft: SessionDraft
    message_ids: frozenset[str] = frozenset()
    _ids: set[str] = field(default_factory=set)

    def message(self, unit: Unit, value: dict[str, Any], parts: Iterable[Part]) -> dict[str, Any]:
        """The entry of a message, its parts its children."""
        parts = in_order(parts)
        found = self._new_id(value)
        if found is None and isinstance(value.get("id"), str):
            again = self.draft.event(unit, "opencode/message", value, native={"duplicate-of": value["id"]})
            self.parts(parts, again, None)
            return again
        members = Members(value)
        role = members.take("role", str) or UNKNOWN
        self._take_ids(members, found)
        stamp, time = take_time(members, "created")
        if role not in ("user", "assistant"):
            event = self.draft.event(unit, f"opencode/{role}", members.left, native=time, timestamp=stamp, id=found)
            self.parts(parts, event, None)
            return event
        parent = value.get("parentID")
        # A name that resolves to no message of this session is kept under native, not as a parent.
        known = isinstance(parent, str) and parent in self.message_ids and parent != found
        made = self.draft.entry(
            unit,
            role,
            {
                "id": found,
                "parent-id": members.take("parentID", str) if known else None,
                "timestamp": stamp,
                "model-id": self._model(members, role),
                "token-usage": take_usage(members),
            },
            actor=self._user_actor(parts) if role == "user" else AGENT,
            native={**members.rest(), **time},
        )
        self.parts(parts, made, role)
        return made

    def orphans(self, parts: Iterable[Part]) -> None:
        """Parts whose message is not in the source: who said a text is not known, so it stays an event."""
        self.parts(in_order(parts), None, None)

    def parts(self, parts: Iterable[Part], parent: dict[str, Any] | None, role: str | None) -> None:
        """The parts in order; calls and results of tools that ran side by side are put in the order of their times."""
        target: list[dict[str, Any]] = []
        moments: list[tuple[int, dict[str, Any]]] = []
        for part in parts:
            target = self.draft.entries if parent is None else parent.setdefault("children", [])
            if part.type != "tool":
                _sort_tail(target, moments)
                moments = []
            self._part(part, parent, role, moments)
        _sort_tail(target, moments)

    def _part(
        self, part: Part, parent: dict[str, Any] | None, role: str | None, moments: list[tuple[int, dict[str, Any]]]
    ) -> None:
        found = self._new_id(part.value)
        duplicate = found is None and part.id is not None
        members = Members(part.value)
        self._take_ids(members, found)
        if parent is not None and parent.get("id") == members.left.get("messageID"):
            members.take("messageID", str)
        if not duplicate:
            if part.type == "tool" and self._tool(part.unit, members, found, parent, moments):
                return
            if part.type == "reasoning" and self._reasoning(part.unit, members, found, parent):
                return
            if part.type == "text" and role is not None and self._text(part.unit, members, found, parent, role):
                return
        members.take("type", str)
        actor = self._actor(part, role) if part.type in _BY_A_PERSON else SYSTEM
        stamp, time = take_time(members, "start", "created")
        made = self.draft.event(
            part.unit,
            f"opencode/{part.type}",
            members.left,
            timestamp=stamp,
            actor=actor,
            native={**time, **({"duplicate-of": part.id} if duplicate else {})},
            parent=parent,
            id=found,
        )
        if part.type == "tool":
            moments.append((moments[-1][0] if moments else 0, made))

    def _text(self, unit: Unit, members: Members, found: str | None, parent: dict[str, Any] | None, role: str) -> bool:
        actor = self._actor(Part(unit, members.left), role)
        text = members.take("text", str)
        if text is None:
            return False
        members.take("type", str)
        stamp, time = take_time(members, "start")
        native = {**members.rest(), **time}
        self.draft.entry(
            unit, role, {"content": text, "id": found, "timestamp": stamp}, actor=actor, native=native, parent=parent
        )
        return True

    def _reasoning(self, unit: Unit, members: Members, found: str | None, parent: dict[str, Any] | None) -> bool:
        text = members.take("text", str)
        if text is None:
            return False
        members.take("type", str)
        stamp, time = take_time(members, "start")
        encrypted = take_encrypted(members)
        self.draft.entry(
            unit,
            "reasoning",
            {"content": text, "encrypted": encrypted, "id": found, "timestamp": stamp},
            actor=AGENT,
            native={**members.rest(), **time},
            parent=parent,
        )
        return True

    def _tool(
        self,
        unit: Unit,
        members: Members,
        found: str | None,
        parent: dict[str, Any] | None,
        moments: list[tuple[int, dict[str, Any]]],
    ) -> bool:
        if not (isinstance(members.left.get("tool"), str) and isinstance(members.left.get("state"), dict)):
            return False
        members.take("type", str)
        name = members.take("tool", str)
        state = Members(members.left.pop("state"))
        call_id = members.take("callID", str) or found
        call_input = required(self.draft, unit, "tool-call", state.left, "input")
        state.done("input")
        times = Members(state.left.pop("time")) if _is_filled(state.left.get("time")) else Members({})
        start, started = take_stamp(times, "start")
        answered = (
            state.left.get("status") in ("completed", "error")
            or state.left.get("error") is not None
            or "output" in state.left
        )
        call = self.draft.entry(
            unit,
            "tool-call",
            {"name": name, "input": call_input, "call-id": call_id, "id": found, "timestamp": start},
            actor=AGENT,
            native={**members.rest(), **started, **({} if answered else {"state": _with_time(state, times)})},
            parent=parent,
        )
        since = max(instant(start) or 0, moments[-1][0] if moments and start is None else 0)
        moments.append((since, call))
        if answered:
            result = self._result(unit, state, times, call_id, parent)
            moments.append((max(since, instant(result.get("timestamp")) or 0), result))
        return True

    def _result(
        self, unit: Unit, state: Members, times: Members, call_id: str | None, parent: dict[str, Any] | None
    ) -> dict[str, Any]:
        status = state.take("status", str)
        failed = state.left.get("error") is not None
        member = "error" if failed else "output"
        output = required(self.draft, unit, "tool-result", state.left, member)
        state.done(member)
        end, ended = take_stamp(times, "end")
        left = _with_time(state, times)
        return self.draft.entry(
            unit,
            "tool-result",
            {
                "output": output,
                "call-id": call_id,
                "status": status,
                "is-error": failed or status == "error",
                "timestamp": end,
            },
            actor=TOOL,
            native={**ended, **({"state": left} if left else {})},
            parent=parent,
        )

    def _model(self, members: Members, role: str) -> str | None:
        """The model of this one message: it may change from turn to turn."""
        model, provider = members.take("modelID", str), members.left.get("providerID")
        chosen = members.left.get("model")
        if model is None and isinstance(chosen, dict):
            inner = Members(chosen)
            model, provider = inner.take("modelID", str), chosen.get("providerID")
            if model is not None:
                members.left["model"] = inner.left
        self.draft.saw_model(model)
        # What answered counts; what a user chose only where nothing answered.
        if model and (role == "assistant" or self.draft.model_id is None):
            self.draft.model_id = model
            self.draft.model_provider = said(provider)
        return model

    def _user_actor(self, parts: list[Part]) -> str:
        """A user's message is a person's only if a person's part is in it; a sub-agent is prompted by its agent."""
        if self.draft.parent_session is not None:
            return AGENT
        if not parts:
            return UNKNOWN
        by_a_person = any(part.type in _BY_A_PERSON and part.value.get("synthetic") is not True for part in parts)
        return HUMAN if by_a_person else SYSTEM

    def _actor(self, part: Part, role: str | None) -> str:
        if role == "user":
            return self._user_actor([part])
        return AGENT if role == "assistant" else UNKNOWN

    def _take_ids(self, members: Members, found: str | None) -> None:
        if found is not None:
            members.take("id", str)
        if members.left.get("sessionID") == self.draft.session_id:
            members.take("sessionID", str)

    def _new_id(self, value: Mapping[str, Any]) -> str | None:
        """The object's id, the first time it is seen: ids of a record are unique."""
        found = value.get("id")
        if not isinstance(found, str) or not found or found in self._ids:
            return None
        self._ids.add(found)
        return found


def in_order(parts: Iterable[Part]) -> list[Part]:
    """By id, as OpenCode orders them (ids ascend with time); in native order where the ids are not OpenCode's."""
    found = list(parts)
    if all(part.id is not None and part.id.startswith("prt_") for part in found):
        found.sort(key=lambda part: part.id or "")
    return found


def _sort_tail(target: list[dict[str, Any]], moments: list[tuple[int, dict[str, Any]]]) -> None:
    if len(moments) > 2:
        first: Callable[[tuple[int, dict[str, Any]]], int] = lambda pair: pair[0]  # noqa: E731 - a dict is no sort key
        target[-len(moments) :] = [entry for _, entry in sorted(moments, key=first)]


def _with_time(state: Members, times: Members) -> dict[str, Any]:
    return {**state.left, **({"time": times.left} if times.left else {})}


def _is_filled(value: object) -> bool:
    return isinstance(value, dict) and bool(value)
