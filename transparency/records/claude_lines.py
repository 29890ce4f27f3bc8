"""One line of a Claude Code session as canonical entries (formats.md 8.2, column Claude).

One message of the API is split over several lines, one for each content block, and every line repeats its ``usage``:
tokens are counted once, on the last line of a message, which has the final figures. A line with one block is one
entry; a line with several is a message with children. ``user`` lines are the API's turn-taking, not a person: tool
results, notes of the tool itself and prompts for sub-agents come that way too, and ``actor`` says so (8.1 rule 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.records.canonical import AGENT, HUMAN, SYSTEM, TOOL, UNKNOWN, SessionDraft, rest, time_member
from transparency.records.native import count, required, said
from transparency.records.unit import Unit

_SYNTHETIC: Final = "<synthetic>"
_HUMAN_ORIGINS: Final = frozenset({"human", "user", "cli"})
# Output of commands and notices that Claude Code writes into a user line without marking it as its own.
_NOT_TYPED: Final = (
    "<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>", "<task-notification>",
    "<system-reminder>", "<local-command-caveat>",
)  # fmt: skip
# Members of a line that have a canonical place of their own.
_LINE: Final = ("type", "uuid", "parentUuid", "timestamp", "message")
_MESSAGE: Final = ("role", "content", "model")


@dataclass(slots=True)
class Session:
    """A session being read, line by line, into its draft."""

    draft: SessionDraft
    is_agent: bool = False
    _usage: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The entry that carries the tokens of an API message, by the message's id."""
    _constant: dict[str, object] = field(default_factory=dict)
    """What the session says once and its lines repeat; a line that differs keeps its own under ``native``."""

    def add(self, unit: Unit) -> None:
        """Make the entries of one line."""
        self.draft.units += 1
        value = unit.value
        if not isinstance(value, dict):
            self.draft.event(unit, "claude/value", value)
            return
        stamp, odd_stamp = self._note(value)
        kind, message = value.get("type"), value.get("message")
        if kind in ("user", "assistant") and isinstance(message, dict):
            _Line(self, unit, value, message, kind, stamp, odd_stamp).convert()
        elif kind in ("tool_use", "tool_result") and "message" not in value:
            # Some versions write a block as a line of its own.
            block = {name: value[name] for name in _BLOCK if name in value}
            line = rest(value, _BLOCK[1:])
            _Line(self, unit, line, {"content": [block]}, "assistant", stamp, odd_stamp).convert()
        else:
            self._event(unit, value, kind)

    def finish(self) -> SessionDraft:
        """The draft, with what only the whole session tells."""
        draft = self.draft
        draft.cli_name = "claude-code"
        draft.cli_version = said(self._constant.get("version"))
        if any("claude" in model.lower() for model in draft.models):
            draft.model_provider = "anthropic"
        working_dir, branch = said(self._constant.get("cwd")), said(self._constant.get("gitBranch"))
        vcs = {"type": "git", "branch": branch} if branch else None
        if working_dir:
            draft.environment = {"working-dir": working_dir} | ({"vcs": vcs} if vcs else {})
        else:
            draft.vcs = vcs
        draft.session_native |= {name: value for name, value in self._constant.items() if not said(value)}
        return draft

    def token_usage(self, entry: dict[str, Any], message: Mapping[str, Any], line: Mapping[str, Any]) -> None:
        """Give *entry* the tokens of its message, and take them from the entry of an earlier line of the same one."""
        usage, identity, cost = message.get("usage"), message.get("id"), line.get("costUSD")
        found: dict[str, Any] = {}
        if isinstance(usage, dict):
            figures = {name: count(usage.get(native)) for name, native in _USAGE.items()}
            found = {name: figure for name, figure in figures.items() if figure is not None}
        if type(cost) in (int, float):
            found["cost"] = cost
        if not found:
            return
        entry["token-usage"] = found
        if isinstance(identity, str) and identity:
            self._usage.get(identity, {}).pop("token-usage", None)
            self._usage[identity] = entry

    def _note(self, line: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """Keep what the session as a whole says; the line's time, as ``time_member`` gives it."""
        for name in _CONSTANT:
            if name in line:
                self._constant.setdefault(name, line[name])
        stamp, odd_stamp = time_member(line.get("timestamp"))
        if stamp is not None:
            # Both are RFC 3339 in UTC with milliseconds, so their order is that of their text.
            self.draft.start = min(str(self.draft.start or stamp), stamp)
            self.draft.end = max(str(self.draft.end or stamp), stamp)
        return stamp, odd_stamp

    def _repeated(self, line: Mapping[str, Any]) -> list[str]:
        """Members of a line that say what the session says already."""
        same = [name for name in _CONSTANT if name in line and line[name] == self._constant[name]]
        if line.get("sessionId") in (self.draft.session_id, self.draft.parent_session):
            same.append("sessionId")
        return same

    def line_native(self, line: Mapping[str, Any]) -> dict[str, Any]:
        return rest(line, (*_LINE, *self._repeated(line)))

    def _event(self, unit: Unit, line: Mapping[str, Any], kind: object) -> None:
        named = kind if isinstance(kind, str) and kind else "agent-meta" if "agentType" in line else "untyped"
        place: dict[str, Any] = {"id": said(line.get("uuid")), "parent-id": said(line.get("parentUuid"))}
        agent = said(line.get("agentId"))
        if named in ("started", "result") and agent and not self.is_agent:
            self.draft.saw_child(f"agent-{agent}")
        self.draft.event(unit, f"claude/{named}", line, timestamp=line.get("timestamp"), **place)


_CONSTANT: Final = ("cwd", "version", "gitBranch")
_USAGE: Final[Mapping[str, str]] = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cache_read_input_tokens",
}


@dataclass(slots=True)
class _Line:
    """One line that is a message of the API."""

    session: Session
    unit: Unit
    line: Mapping[str, Any]
    message: Mapping[str, Any]
    kind: str
    stamp: str | None
    odd_stamp: Mapping[str, Any]

    def convert(self) -> None:
        content, native = self.message.get("content"), self._native()
        blocks = content if isinstance(content, list) else []
        mapped = [block for block in blocks if _is_mapped(block)]
        plain = [block for block in blocks if not _is_mapped(block)]
        if mapped and not plain and (len(mapped) == 1 or all(_is_result(block) for block in mapped)):
            # Several results stand beside each other: each answers a call of its own.
            head, *_ = [self._flat(block, number, native) for number, block in enumerate(mapped)]
        else:
            head = self._message(content, plain, native)
            for block in mapped:
                self.block(block, self._shared(), {}, parent=head)
            if len(blocks) > 1 and mapped:
                head.setdefault("native", {})["content-blocks"] = [_kind(block) for block in blocks]
        if self.kind == "assistant":
            self.session.token_usage(head, self.message, self.line)
        self._link(head)

    def members(self) -> dict[str, Any]:
        """What the line gives the entry that stands for it."""
        place = {"id": said(self.line.get("uuid")), "parent-id": said(self.line.get("parentUuid"))}
        return {**place, **self._shared()}

    def _shared(self) -> dict[str, Any]:
        """What every entry of the line may say."""
        return {"timestamp": self.stamp, "model-id": said(self.message.get("model"))}

    def _native(self) -> dict[str, Any]:
        native = self.session.line_native(self.line)
        native |= self.odd_stamp
        native |= {name: self.line[name] for name in ("uuid", "parentUuid") if _odd(self.line.get(name))}
        message = rest(self.message, _MESSAGE)
        message |= {name: self.message[name] for name in ("model",) if _odd(self.message.get(name))}
        if "role" in self.message and self.message["role"] != self.kind:
            message["role"] = self.message["role"]
        if "content" in self.message and self.message["content"] is None:
            message["content"] = None
        if message:
            native["message"] = message
        model = self.message.get("model")
        if model != _SYNTHETIC and said(model):
            self.session.draft.saw_model(model)
            self.session.draft.model_id = model
        return native

    def _message(self, content: object, plain: list[Any], native: dict[str, Any]) -> dict[str, Any]:
        words = _content(plain) if isinstance(content, list) else content
        actor = self._assistant() if self.kind == "assistant" else self._user(words)
        members = {"content": words, **self.members()}
        return self.session.draft.entry(self.unit, self.kind, members, actor=actor, native=native)

    def _flat(self, block: dict[str, Any], number: int, native: dict[str, Any]) -> dict[str, Any]:
        members = self.members()
        if number and members["id"]:
            members["id"] = f"{members['id']}#{number}"
        return self.block(block, members, native if not number else {})

    def block(
        self,
        block: dict[str, Any],
        members: dict[str, Any],
        native: dict[str, Any],
        *,
        parent: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The entry of one content block that is not plain content."""
        kind = _kind(block)
        if kind.endswith("tool_use"):
            return self._call(block, members, native, parent)
        if kind.endswith("tool_result"):
            return self._result(block, members, native, parent)
        return self._reasoning(block, members, native, parent)

    def _call(
        self, block: dict[str, Any], members: dict[str, Any], native: dict[str, Any], parent: dict[str, Any] | None
    ) -> dict[str, Any]:
        found = {
            "name": block["name"],
            "input": required(self.session.draft, self.unit, "tool-call", block, "input"),
            "call-id": said(block.get("id")),
        }
        native = _merged(native, rest(block, ("type", "name", "input", *_texts(block, "id"))))
        return self.session.draft.entry(
            self.unit, "tool-call", {**found, **members}, actor=AGENT, native=native, parent=parent
        )

    def _result(
        self, block: dict[str, Any], members: dict[str, Any], native: dict[str, Any], parent: dict[str, Any] | None
    ) -> dict[str, Any]:
        output = "output" if "output" in block and "content" not in block else "content"
        failed = block.get("is_error", False)  # absent means false in the API
        found = {
            "output": required(self.session.draft, self.unit, "tool-result", block, output),
            "call-id": said(block.get("tool_use_id")),
            "is-error": failed if isinstance(failed, bool) else None,
        }
        taken = ("type", output, *_texts(block, "tool_use_id"), *(("is_error",) if isinstance(failed, bool) else ()))
        members.pop("model-id", None)
        return self.session.draft.entry(
            self.unit,
            "tool-result",
            {**found, **members},
            actor=TOOL,
            native=_merged(native, rest(block, taken)),
            parent=parent,
        )

    def _reasoning(
        self, block: dict[str, Any], members: dict[str, Any], native: dict[str, Any], parent: dict[str, Any] | None
    ) -> dict[str, Any]:
        if _kind(block) == "redacted_thinking":
            found = {"content": "", "encrypted": said(block.get("data"))}
            left = rest(block, ("type", *_texts(block, "data")))
        else:
            found = {"content": required(self.session.draft, self.unit, "reasoning", block, "thinking")}
            left = rest(block, ("type", "thinking"))
        return self.session.draft.entry(
            self.unit, "reasoning", {**found, **members}, actor=AGENT, native=_merged(native, left), parent=parent
        )

    def _assistant(self) -> str:
        own = self.message.get("model") == _SYNTHETIC or self.line.get("isApiErrorMessage") is True
        return SYSTEM if own else AGENT

    def _user(self, words: object) -> str:
        line = self.line
        origin = line.get("origin")
        kind = origin.get("kind") if isinstance(origin, dict) else None
        if line.get("isMeta") is True or isinstance(line.get("sourceToolUseID"), str):
            return SYSTEM
        if line.get("isCompactSummary") is True or line.get("isSidechain") is True or self.session.is_agent:
            return AGENT
        if _has_result(self.message.get("content")) or "toolUseResult" in line:
            # Words beside a tool's result: a person's refusal, or the tool's own reminder.
            return UNKNOWN
        if kind is not None and kind not in _HUMAN_ORIGINS:
            return SYSTEM if isinstance(kind, str) and kind.endswith("notification") else UNKNOWN
        first = words[0] if isinstance(words, list) and words else words
        text = first.get("text") if isinstance(first, dict) else first
        return SYSTEM if isinstance(text, str) and text.startswith(_NOT_TYPED) else HUMAN

    def _link(self, head: dict[str, Any]) -> None:
        """The sub-agent whose work a tool result reports."""
        result = self.line.get("toolUseResult")
        agent = said(result.get("agentId")) if isinstance(result, dict) else None
        if agent is not None and head["type"] == "tool-result":
            head["child-session-id"] = f"agent-{agent}"
            self.session.draft.saw_child(f"agent-{agent}")


# Members of a block that some versions write as a line of its own.
_BLOCK: Final = ("type", "name", "input", "output", "content", "tool_use_id", "is_error", "id")


def _kind(block: object) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def _is_result(block: object) -> bool:
    return _kind(block).endswith("tool_result")


def _is_mapped(block: object) -> bool:
    """Whether a block becomes an entry; others (text, image, document, unknown) stay content, verbatim."""
    kind = _kind(block)
    if kind.endswith("tool_use"):
        return isinstance(block, dict) and isinstance(block.get("name"), str)
    return kind in ("thinking", "redacted_thinking") or kind.endswith("tool_result")


def _has_result(content: object) -> bool:
    return isinstance(content, list) and any(_is_result(block) for block in content)


def _content(plain: list[Any]) -> object:
    """The text of the only block if that is all it has; else the blocks. None where children say everything."""
    if len(plain) == 1 and isinstance(plain[0], dict) and plain[0].keys() == {"type", "text"}:
        only = plain[0]
        return only["text"] if only["type"] == "text" and isinstance(only["text"], str) else plain
    return plain or None


def _texts(block: Mapping[str, Any], *names: str) -> list[str]:
    """The members that are texts, and so have gone to their canonical place."""
    return [name for name in names if said(block.get(name))]


def _merged(native: dict[str, Any], left: dict[str, Any]) -> dict[str, Any]:
    """What a block has left beside what its line has; apart where both use a name."""
    if not left:
        return native
    return {**native, "content-block": left} if native.keys() & left.keys() else {**native, **left}


def _odd(value: object) -> bool:
    """A member that is there and not of the type its place asks for: it stays under ``native``."""
    return value is not None and not isinstance(value, str)
