"""R4: what kind of action each entry is, and what governed it: model, instructions, permissions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from transparency.compliance.record_check import Outcome, by_share, failed, passed, record_check, warned
from transparency.compliance.survey import EVENT, TYPES, USER, Survey, as_map, as_text
from transparency.display import safe_text
from transparency.records.canonical import SYSTEM
from transparency.records.vac_pointer import Path

# Events that show instructions, by name; and members of an event's data that do.
_PROMPTS: Final = frozenset(
    {"system-prompt", "system-message", "codex/turn_context", "codex/compacted", "agentlog/contextLoad"}
)
_PROMPT_MEMBERS: Final = frozenset({
    "base_instructions", "instructions", "system", "user_instructions", "systemInstruction",
})  # fmt: skip


@record_check("R4.1", "Every entry is of a known type", "type of each entry, event-type of events")
def typed(survey: Survey) -> Outcome:
    unknown: list[Path] = [*survey.strays, *((row.path, "type") for row in survey.rows if row.kind not in TYPES)]
    unnamed = sum(not as_text(row.entry.get("event-type")) for row in survey.kind(EVENT))
    total = len(survey.rows) + len(survey.strays)
    counts: dict[str, int | str] = {kind: len(rows) for kind, rows in survey.by_kind.items() if rows}
    counts |= {"entries": total, "unknown": len(unknown), "unnamed-events": unnamed}
    if unknown:
        verdict = by_share(len(unknown), total, survey.settings.tolerated_percent)
        return Outcome(verdict, f"{len(unknown)} of {total} entries are of no known type", counts, unknown)
    if unnamed:
        return warned(f"{unnamed} events do not say what they are", counts)
    return passed(f"{total} entries, all of a known type", counts)


@record_check(
    "R4.2",
    "Changes of model and instructions are recorded",
    "agent-meta.models, model-id of each entry, events with instructions",
    conversation=True,
)
def changes(survey: Survey) -> Outcome:
    declared = survey.meta.get("models")
    models = [name for name in declared if isinstance(name, str)] if isinstance(declared, list) else []
    named: dict[str, None] = {}
    prompts: list[Path] = []
    for row in survey.rows:
        model = row.entry.get("model-id")
        if isinstance(model, str):
            named[model] = None
        if row.kind == EVENT:
            data = as_map(row.entry.get("data"))
            for inner in (data.get("model"), as_map(data.get("info")).get("model")):
                if isinstance(inner, str):
                    named[inner] = None
            if as_text(row.entry.get("event-type")) in _PROMPTS or _instructs(data):
                prompts.append(row.path)
        elif (row.kind == USER and row.actor == SYSTEM) or _instructs(as_map(row.entry.get("native"))):
            prompts.append(row.path)
    unseen = [model for model in models if model not in named]
    # "<synthetic>" is what Claude Code names as the model of messages that no model wrote.
    undeclared = [
        model for model in named if model not in models and model != survey.meta.get("model-id") and model[:1] != "<"
    ]
    counts = {
        "models": len(models) or 1,
        "unseen": len(unseen),
        "undeclared": len(undeclared),
        "instructions": len(prompts),
    }
    if len(models) > 1 and unseen:
        shown = safe_text(unseen[0], 80)
        return failed(
            f"{len(unseen)} models are declared, and no entry shows when they ran: {shown}",
            counts,
            ["/session/agent-meta/models"],
        )
    if undeclared and named:
        return warned(f"{len(undeclared)} models ran that agent-meta does not name", counts, ["/session/agent-meta"])
    if not prompts:
        return warned("the instructions that the agent worked by are not recorded", counts)
    return passed(
        f"{len(prompts)} entries show instructions; {len(models) or 1} models, each with its entries", counts, prompts
    )


def _instructs(members: Mapping[str, Any]) -> bool:
    return not _PROMPT_MEMBERS.isdisjoint(members) and any(members[name] for name in _PROMPT_MEMBERS & members.keys())


@record_check(
    "R4.3",
    "What the agent was permitted to do is recorded",
    "environment.sandboxes; permission, approval and sandbox members of events, native members and the session",
    conversation=True,
)
def permitted(survey: Survey) -> Outcome:
    boxes = survey.environment.get("sandboxes")
    sandboxes = len(boxes) if isinstance(boxes, list) else 0
    approvals = [row for row in survey.kind(EVENT) if "approval" in as_text(row.entry.get("event-type"))]
    counts = {"statements": len(survey.policies), "sandboxes": sandboxes, "approvals": len(approvals)}
    if not survey.policies and not sandboxes and not approvals:
        return warned("no permission, approval policy or sandbox is recorded", counts)
    places = [*(path for path, _, _ in survey.policies), *approvals]
    return passed(f"{len(places) + sandboxes} statements of what was permitted", counts, places)


CHECKS: Final = (typed, changes, permitted)
