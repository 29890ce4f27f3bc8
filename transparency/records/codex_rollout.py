"""A Codex rollout being converted: what later lines need to know of earlier ones.

Codex writes most things twice (as the item the model saw and as the event its screen showed), says the model once for
many items, and the tokens of a response after it. What joins these lines is kept here; who reads which line is in
:mod:`codex`, :mod:`codex_items` and :mod:`codex_events`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.records.canonical import AGENT, HUMAN, SYSTEM, UNKNOWN, SessionDraft, time_member
from transparency.records.unit import Unit

Entry = dict[str, Any]

# Texts that Codex itself puts before the model in the role of the user: nobody typed them (formats.md 8.1 rule 9).
INJECTED: Final = (
    "# AGENTS.md instructions",
    "<current_time_reminder>",
    "<environment_context>",
    "<goal_context>",
    "<hook_prompt",
    "<model_switch>",
    "<recommended_plugins>",
    "<skill>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_instructions>",
    "<user_shell_command>",
)


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around an item or event in its line: the time, and members of the line that nobody knows."""

    timestamp: object = None
    extra: dict[str, Any] = field(default_factory=dict)

    def native(self) -> dict[str, Any]:
        return {"line": self.extra} if self.extra else {}


@dataclass(slots=True)
class Echoes:
    """Which event repeats which item (about 13 % of a rollout). Either may come first, so they meet at the end."""

    items: defaultdict[tuple[str, str], list[Entry]] = field(default_factory=lambda: defaultdict(list))
    events: list[tuple[str, str, str, Entry]] = field(default_factory=list)

    def item(self, kind: str, texts: Iterable[str], entry: Entry) -> None:
        for text in texts:
            self.items[kind, text].append(entry)

    def event(self, source: str, kind: str, text: str, entry: Entry) -> None:
        """*source* tells apart the event kinds that each repeat every item once."""
        self.events.append((source, kind, text, entry))

    def resolve(self) -> set[str]:
        """Name in each event the item it repeats; the ids of the items that have been repeated."""
        met: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        repeated = set()
        for source, kind, text, event in self.events:
            originals = self.items.get((kind, text))
            if not originals:
                continue
            # The same text said twice is repeated twice: the first by the first.
            original = originals[min(met[source, kind, text], len(originals) - 1)]
            met[source, kind, text] += 1
            event.setdefault("native", {})["duplicate-of"] = original["id"]
            repeated.add(original["id"])
        return repeated


@dataclass(slots=True)
class Rollout:
    """The one session of a rollout file. A fork's file repeats its parent's lines, but it is the fork's session."""

    draft: SessionDraft
    model: str | None = None
    subagent: bool = False
    has_meta: bool = False
    ids: set[str] = field(default_factory=set)
    echoes: Echoes = field(default_factory=Echoes)
    user_entries: list[tuple[Entry, str]] = field(default_factory=list)
    response: list[Entry] = field(default_factory=list)
    last_total: object = None
    last_count: str | None = None
    results: dict[str, Entry] = field(default_factory=dict)
    failed: dict[str, bool] = field(default_factory=dict)

    def identify(self, unit: Unit, native: str | None = None) -> str:
        """The entry's id: the native one if no entry has it yet, else that of its line."""
        chosen = native if native and native not in self.ids else f"line-{unit.ref['line']}"
        while chosen in self.ids:
            chosen += "'"
        self.ids.add(chosen)
        return chosen

    def saw_time(self, value: object) -> None:
        """Sessions start with their first time and end with their last; one time alone says nothing of an end."""
        stamp, _ = time_member(value)
        if stamp is None:
            return
        if self.draft.start is None:
            self.draft.start = stamp
        else:
            self.draft.end = stamp

    def add_event(
        self,
        unit: Unit,
        kind: str,
        data: dict[str, Any],
        around: Around,
        *,
        actor: str = SYSTEM,
        native_id: object = None,
    ) -> Entry:
        entry_id = self.identify(unit, native_id if isinstance(native_id, str) else None)
        native = around.native()
        return self.draft.event(
            unit, kind, data, timestamp=around.timestamp, actor=actor, native=native or None, id=entry_id
        )

    def add_unknown(self, unit: Unit, kind: object, timestamp: object = None) -> Entry:
        named = kind if isinstance(kind, str) and kind else UNKNOWN
        entry = self.draft.unknown(unit, named, timestamp=timestamp)
        entry["id"] = self.identify(unit)
        return entry

    def made_by_model(self, entry: Entry) -> None:
        self.response.append(entry)

    def take_response(self) -> Entry | None:
        """The entry that stands for the response since the last token count: its message, else its last entry."""
        response, self.response = self.response, []
        messages = [entry for entry in response if entry["type"] == "assistant"]
        chosen = messages or response
        return chosen[-1] if chosen else None

    def finish(self) -> SessionDraft:
        repeated = self.echoes.resolve()
        shown = any(kind == "user" for _, kind, _, _ in self.echoes.events)
        for entry, text in self.user_entries:
            entry["actor"] = self._user(text, repeated=entry["id"] in repeated, shown=shown)
        for call_id, failed in self.failed.items():
            if call_id in self.results:
                self.results[call_id]["is-error"] = failed
        return self.draft

    def _user(self, text: str, *, repeated: bool, shown: bool) -> str:
        """Who spoke in the role of the user. Codex shows what a person typed as an event; what it adds, it does not."""
        if text.lstrip().startswith(INJECTED):
            return SYSTEM
        if self.subagent:
            return AGENT
        return HUMAN if repeated or not shown else UNKNOWN
