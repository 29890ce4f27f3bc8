"""A canonical record as an AgentLog 0.2.0 document (see :mod:`back`)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transparency.records.agentlog_check import EVENTS
from transparency.records.back_result import Back, NotConvertibleError, require_vac
from transparency.records.canonical import UNKNOWN, left_by, time_member
from transparency.records.canonical_json import dumps

SPEC_VERSION: Final = "0.2.0"
_STATUS: Final = ("active", "completed", "failed", "cancelled")
_CALL_STATUS: Final = ("success", "error", "cancelled")
_TOKENS: Final = {
    "input": "inputTokens", "output": "outputTokens", "cached": "cacheReadTokens", "reasoning": "reasoningTokens",
}  # fmt: skip

Entry = Mapping[str, Any]


def to_agentlog(record: Mapping[str, Any]) -> Back:
    """The AgentLog document of a VAC record (-00); NotConvertibleError where nothing in it has a time."""
    require_vac(record)
    if record["session"].get("synthetic") is True:
        raise NotConvertibleError("the record holds an attribution, not a session, and AgentLog is of sessions")
    return _Document(record).made()


class _Document:
    """One document being written. ``own``: the record came from AgentLog, so native members are AgentLog's."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.session: Mapping[str, Any] = record["session"]
        source, native = record.get("source"), record.get("native")
        trace_format = source.get("format") if isinstance(source, dict) else None
        kept = native.get("agentlog") if isinstance(native, dict) else None
        self.own = isinstance(trace_format, str) and trace_format.startswith("agentlog-") and isinstance(kept, dict)
        self.kept: dict[str, Any] = left_by(kept) if self.own and isinstance(kept, dict) else {}
        self.lost: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.results = _results(self.session["entries"])
        self.paired: set[int] = set()
        self.last = self._start()

    def made(self) -> Back:
        session_id = self.session["session-id"]
        made: dict[str, Any] = {
            "specVersion": SPEC_VERSION,
            "id": session_id.hex() if isinstance(session_id, bytes) else session_id,
            "startTime": _original(self.kept.get("startTime"), self.last),
        }
        end = time_member(self.session.get("session-end"))[0]
        if end is not None:
            made["endTime"] = _original(self.kept.get("endTime"), end)
        made["status"] = self._status(ended=end is not None)
        made["agent"] = self._agent()
        if (project := self._project()) is not None:
            made["project"] = project
        if (developer := self._developer()) is not None:
            made["developer"] = developer
        made["events"] = list(self._events())
        # What the canonical members say comes first: ``native`` is unchecked, and only fills what they leave open.
        made = self.kept | made
        if self.kept.get("specVersion") == "0.1.0":
            made["specVersion"] = "0.1.0"
        if not self.own and "file-attribution" in self.record:
            self.lost[f"file-attribution of {len(self.record['file-attribution']['files'])} files"] += 1
        lost = (f"{what} ({count} times)" if count > 1 else what for what, count in self.lost.items())
        return Back(made, tuple(lost))

    def _start(self) -> str:
        start = time_member(self.session.get("session-start"))[0]
        if start is not None:
            return start
        for _, entry, _ in _walk(self.session["entries"]):
            stamp = time_member(entry.get("timestamp"))[0]
            if stamp is not None:
                self.lost["session-start is not recorded; startTime is the time of the first entry that has one"] += 1
                return stamp
        raise NotConvertibleError("nothing in the record has a time, and AgentLog requires startTime")

    def _status(self, *, ended: bool) -> str:
        status = self.session.get("status")
        if status in _STATUS or (self.own and isinstance(status, str)):
            return str(status)
        guess = "completed" if ended else "active"
        self.lost[f'status is not recorded; "{guess}" because session-end is {"" if ended else "not "}given'] += 1
        return guess

    def _agent(self) -> dict[str, Any]:
        meta = self.session["agent-meta"]
        made: dict[str, Any] = {"name": meta.get("cli-name", UNKNOWN)}
        if "cli-version" in meta:
            made["version"] = meta["cli-version"]
        for name, member in (("model", "model-id"), ("provider", "model-provider")):
            if meta[member] != UNKNOWN:
                made[name] = meta[member]
        kept = self.kept.get("agent")
        return (kept if isinstance(kept, dict) else {}) | made

    def _project(self) -> dict[str, Any] | None:
        environment = self.session.get("environment", {})
        vcs = environment.get("vcs") or self.record.get("vcs") or {}
        made = {
            "repository": vcs.get("repository"),
            "workingDirectory": environment.get("working-dir"),
            "branch": vcs.get("branch"),
            "commitSha": vcs.get("revision"),
        }
        made = {name: held for name, held in made.items() if held is not None}
        kept = self.kept.get("project")
        if isinstance(kept, dict):
            return {**kept, **made}
        named = made.get("repository") or made.get("workingDirectory")
        if named is None:
            return None
        name = named.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]
        return {"name": name.removesuffix(".git") or named, **made}

    def _developer(self) -> dict[str, Any] | None:
        actors = self.record.get("actors")
        humans = [
            actor
            for actor in (actors if isinstance(actors, list) else ())
            if isinstance(actor, dict) and actor.get("type") == "human" and isinstance(actor.get("id"), str)
        ]
        if not humans:
            return None
        if len(humans) > 1:
            self.lost["actors beyond the first human"] += len(humans) - 1
        kept = self.kept.get("developer")
        made = {name: humans[0][name] for name in ("id", "name") if isinstance(humans[0].get(name), str)}
        return (kept if isinstance(kept, dict) else {}) | made

    def _events(self) -> Iterator[dict[str, Any]]:
        # The id each entry got as an event, for its children to name.
        given: dict[int, str] = {}
        for number, entry, parent in _walk(self.session["entries"]):
            if id(entry) in self.paired:
                continue
            event = self._event(entry)
            if event is None:
                continue
            event = self._base(entry, number, given.get(id(parent)) if parent is not None else None) | event
            given[id(entry)] = event["id"]
            yield event

    def _base(self, entry: Entry, number: int, parent: str | None) -> dict[str, Any]:
        identity = entry.get("id", entry.get("call-id"))
        if not isinstance(identity, str) or identity in self.ids:
            identity = f"entry-{number}"
            while identity in self.ids:
                identity += "'"
        self.ids.add(identity)
        native = self._native(entry)
        stamp = time_member(entry.get("timestamp"))[0]
        original = native.get("timestamp")
        if stamp is None and not isinstance(original, str):
            self.lost["a timestamp is not recorded; the event has that of the one before"] += 1
        self.last = stamp or self.last
        made: dict[str, Any] = {"id": identity, "timestamp": _original(original, stamp) or self.last}
        parent = entry.get("parent-id") if isinstance(entry.get("parent-id"), str) else parent
        if parent is not None and not self.own and parent not in self.ids:
            self.lost["a parent that is no event"] += 1
        elif parent is not None:
            made["parentId"] = parent
        made |= self._usage(entry, native)
        if self.own:
            left = {name: held for name, held in native.items() if name not in ("type", "tokenUsage")}
            return left | made | ({"model": entry["model-id"]} if "model-id" in entry else {})
        if "native" in entry:
            self.lost["native members of an entry"] += 1
        return made

    def _native(self, entry: Entry) -> dict[str, Any]:
        native = entry.get("native")
        return left_by(native) if self.own and isinstance(native, dict) else {}

    def _usage(self, entry: Entry, native: Mapping[str, Any]) -> dict[str, Any]:
        usage = entry.get("token-usage")
        if not isinstance(usage, dict):
            return {"tokenUsage": native["tokenUsage"]} if "tokenUsage" in native else {}
        made: dict[str, Any] = {}
        tokens = {_TOKENS[name]: count for name, count in usage.items() if name in _TOKENS}
        if self.own:
            kept = native.get("tokenUsage")
            tokens |= kept if isinstance(kept, dict) else {}
            made = {"estimatedCostUsd": usage["cost"]} if "cost" in usage else {}
            return made | ({"tokenUsage": tokens} if tokens else {})
        # The prose requires both and gives only messages a usage.
        if entry["type"] not in ("user", "assistant") or not tokens.keys() >= {"inputTokens", "outputTokens"}:
            self.lost["token-usage without input and output, or of an entry that is no message"] += 1
            return {}
        if usage.keys() - {"input", "output", "cached"}:
            self.lost["reasoning tokens, total and cost of a message"] += 1
        tokens.pop("reasoningTokens", None)
        return {"tokenUsage": tokens}

    def _event(self, entry: Entry) -> dict[str, Any] | None:
        match entry["type"]:
            case "user" | "assistant" as role:
                return {"type": "message", "role": role, "content": self._content(entry.get("content"))}
            case "tool-call":
                return self._call(entry)
            case "tool-result":
                self.lost["a result whose call is not recorded; its tool has the name unknown"] += 1
                return {"type": "toolCall", "name": UNKNOWN, "input": {}, **self._outcome(entry)}
            case "reasoning":
                return self._reasoning(entry)
            case _:
                return self._system(entry)

    def _content(self, content: object) -> str:
        if isinstance(content, str):
            return content
        if content is None:
            return ""
        if not isinstance(content, list):
            return self._text(content)
        texts = []
        for part in content:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                texts.append(text)
            else:
                self.lost["a part of a message that is no text"] += 1
        return "\n".join(texts)

    def _text(self, value: object) -> str:
        self.lost["a value that is no text; it is there as its JSON"] += 1
        return dumps(value).decode()

    def _call(self, entry: Entry) -> dict[str, Any]:
        call_id = entry.get("call-id")
        waiting = self.results.get(call_id) if isinstance(call_id, str) else None
        result = waiting.popleft() if waiting else None
        if result is not None:
            self.paired.add(id(result))
        own = self._own_call(entry, result)
        if own is not None:
            return own
        given = entry["input"]
        if not isinstance(given, dict):
            given = {"value": given}
            self.lost["an input that is no object; it is there as its member value"] += 1
        return {"type": "toolCall", "name": entry["name"], "input": given, **self._outcome(result)}

    def _own_call(self, entry: Entry, result: Entry | None) -> dict[str, Any] | None:
        """A command, file operation or search again, where that is what it was."""
        kind = self._native(entry).get("type")
        if kind not in ("terminalCommand", "fileOperation", "search") or not isinstance(entry["input"], dict):
            return None
        made: dict[str, Any] = {"type": kind, **entry["input"]}
        if kind == "fileOperation":
            made["operation"] = entry["name"].removeprefix("file.")
        elif kind == "search":
            made["tool"] = entry["name"]
        output = result["output"] if result is not None else None
        return made | (output if isinstance(output, dict) else {})

    def _outcome(self, result: Entry | None) -> dict[str, Any]:
        if result is None:
            # AgentLog has no word for it. Cancelled claims least: nothing is known to have come of the call.
            self.lost['a call without a result; its status is "cancelled"'] += 1
            return {"status": "cancelled"}
        status = result.get("status")
        if status not in _CALL_STATUS:
            if "is-error" not in result:
                self.lost['a result that does not say whether it failed; its status is "success"'] += 1
            status = "error" if result.get("is-error") else "success"
        output = result["output"]
        return {"output": output if output is None or isinstance(output, str) else self._text(output), "status": status}

    def _reasoning(self, entry: Entry) -> dict[str, Any]:
        native = self._native(entry)
        made: dict[str, Any] = {"type": "reasoning"}
        if isinstance(native.get("intent"), str) and isinstance(native.get("rationale"), str):
            composed = f"{native['intent']}\n\n{native['rationale']}"
            return made if entry["content"] == composed else {**made, "content": entry["content"]}
        if "encrypted" in entry:
            self.lost["encrypted reasoning"] += 1
        if "subject" not in entry:
            self.lost["an intent of reasoning is not recorded; it is empty"] += 1
        return {**made, "intent": entry.get("subject", ""), "rationale": self._content(entry["content"])}

    def _system(self, entry: Entry) -> dict[str, Any] | None:
        event_type, data = entry["event-type"], entry.get("data", {})
        if event_type == "system-message" and isinstance(data.get("content"), str):
            return {"type": "message", "role": "system", "content": data["content"]}
        prefix, _, kind = event_type.partition("/")
        if prefix == "agentlog" and (kind in EVENTS or self.own) and data:
            return {"type": kind, **data}
        self.lost[f"system-event {event_type}"] += 1
        return None


def _original(text: object, stamp: str | None) -> str | None:
    """A time as it was written, where it is the same time; or no time at all, where it never was one."""
    return text if isinstance(text, str) and time_member(text)[0] == stamp else stamp


def _results(entries: list[Entry]) -> dict[str, deque[Entry]]:
    found: dict[str, deque[Entry]] = {}
    for _, entry, _ in _walk(entries):
        if entry["type"] == "tool-result" and isinstance(entry.get("call-id"), str):
            found.setdefault(entry["call-id"], deque()).append(entry)
    return found


def _walk(entries: list[Entry]) -> Iterator[tuple[int, Entry, Entry | None]]:
    """Number, entry and parent, children after their parent; without recursion, because children may nest deep."""
    waiting: list[tuple[Entry, Entry | None]] = [(entry, None) for entry in reversed(entries)]
    number = 0
    while waiting:
        entry, parent = waiting.pop()
        yield number, entry, parent
        number += 1
        waiting += [(child, entry) for child in reversed(entry.get("children", []))]
