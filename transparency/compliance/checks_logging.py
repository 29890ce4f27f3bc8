"""R1: events are logged automatically, whole, and to the end."""

from __future__ import annotations

import re
from typing import Final

from transparency.compliance.record_check import Outcome, failed, passed, record_check, warned
from transparency.compliance.survey import ASSISTANT, CALL, EVENT, RESULT, USER, Row, Survey, as_map, as_text
from transparency.display import safe_text
from transparency.records.hashes import BY_NAME

_HEX: Final = re.compile(r"[0-9a-fA-F]+")
# Events by which a tool says that a session or its last turn is over.
_ENDS: Final = frozenset({
    "session-end", "session_end", "SessionEnd", "codex/task_complete", "codex/shutdown_complete", "codex/turn_complete",
    "codex/turn_aborted",
})  # fmt: skip


@record_check(
    "R1.1",
    "Entries are recorded, and not by the agent itself",
    "session.entries, recording-agent.name, agent-meta.cli-name",
    entries=False,
)
def recorded(survey: Survey) -> Outcome:
    recorder = as_text(as_map(survey.record.get("recording-agent")).get("name"))
    agent = as_text(survey.meta.get("cli-name"))
    counts: dict[str, int | str] = {
        "entries": len(survey.rows),
        "recorder": safe_text(recorder, 80),
        "agent": safe_text(agent, 80),
    }
    if not survey.rows:
        return failed("the session has no entries", counts)
    if not recorder:
        return warned(f"{len(survey.rows)} entries; who recorded them is not said", counts)
    if recorder.casefold() == agent.casefold():
        return warned(f"{len(survey.rows)} entries, recorded by the agent itself", counts)
    return passed(f"{len(survey.rows)} entries, recorded by {safe_text(recorder, 80)}", counts)


@record_check(
    "R1.2",
    "Nothing of the source was left out, or what was is declared",
    "source: raw-hash, lossless, dropped, native-units; source-ref of each entry",
    entries=False,
)
def anchored(survey: Survey) -> Outcome:
    source = survey.record.get("source")
    if not isinstance(source, dict):
        return warned("names no source: whether something was left out cannot be seen", {"entries": len(survey.rows)})
    digest, name = as_text(source.get("raw-hash")), as_text(source.get("raw-hash-alg")).lower() or "sha-256"
    algorithm = BY_NAME.get(name)
    dropped = _dropped(source.get("dropped"))
    counts: dict[str, int | str] = {"dropped": dropped, "lossless": "yes" if source.get("lossless") is True else "no"}
    if not digest or not _HEX.fullmatch(digest) or (algorithm is not None and len(digest) != 2 * algorithm.size):
        return failed("the hash of the source is missing or no digest", counts, ["/source"])
    units = source.get("native-units")
    if type(units) is int and 0 <= units < 1 << 53:
        mapped = len({_reference(row) for row in survey.rows} - {()})
        counts |= {"units": units, "mapped": mapped}
        if mapped + dropped < units:
            lost = units - mapped - dropped
            return failed(f"{lost} of {units} units of the source are neither mapped nor declared", counts, ["/source"])
    if dropped or source.get("lossless") is not True:
        return warned(f"{dropped} units of the source were left out, and are declared", counts, ["/source/dropped"])
    return passed("the source is named by its hash, and all of it is here", counts)


def _dropped(declared: object) -> int:
    counts = [as_map(item).get("count") for item in declared] if isinstance(declared, list) else []
    return sum(count for count in counts if type(count) is int and 0 <= count < 1 << 53)


def _reference(row: Row) -> tuple[object, ...]:
    """Which unit an entry comes from; () where it does not say."""
    found = row.entry.get("source-ref")
    values = tuple(found.values()) if isinstance(found, dict) else ()
    for value in values:
        if value.__class__ is not str and value.__class__ is not int:
            return ()
    return values


@record_check(
    "R1.3",
    "The record reaches to the end of its session",
    "session-end, events of an end, tool calls of the last turn",
    conversation=True,
)
def ended(survey: Survey) -> Outcome:
    waiting = _waiting(survey.rows)
    stated = survey.session.get("session-end") is not None
    events = sum(as_text(row.entry.get("event-type")) in _ENDS for row in survey.kind(EVENT))
    active = survey.session.get("status") == "active"
    counts = {"session-end": "yes" if stated else "no", "end-events": events, "unanswered": len(waiting)}
    if waiting:
        return warned(
            f"the last turn has {len(waiting)} calls without a result: cut off, or still running", counts, waiting
        )
    if active:
        return warned("the session says of itself that it is active", counts, ["/session/status"])
    if not stated and not events:
        return warned("nothing says when the session ended", counts)
    return passed("the session's end is recorded, and its last turn is complete", counts)


def _waiting(rows: list[Row]) -> list[Row]:
    """Calls of the last turn without a result (as ``records.convert.finished`` sees it, but with their places)."""
    waiting: dict[object, Row] = {}
    for row in rows:
        if row.kind == CALL:
            named = row.entry.get("call-id")
            waiting[named if isinstance(named, str) else row] = row
        elif row.kind == RESULT:
            named = row.entry.get("call-id")
            if isinstance(named, str):
                waiting.pop(named, None)
            elif waiting:
                waiting.popitem()
        elif row.kind in (USER, ASSISTANT) and row.entry.get("content"):
            waiting.clear()
    return list(waiting.values())


CHECKS: Final = (recorded, anchored, ended)
