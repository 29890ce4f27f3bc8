"""Codex CLI rollouts: one JSON object a line, ``{timestamp, type, payload}``, one session a file (formats.md 7, 8.2).

Files older than September 2025 have no such frame: their first line is the session, then come the bare items. Both are
read, and mixed too. A line is a unit; each has an entry, so nothing is ever dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from transparency.records.canonical import SessionDraft, name_uuid, rest, time_member
from transparency.records.codex_events import EVENT_KINDS, add_event
from transparency.records.codex_items import ITEM_KINDS, add_item
from transparency.records.codex_rollout import Around, Rollout
from transparency.records.drift import Drift
from transparency.records.format import Format
from transparency.records.native import text
from transparency.records.recognise import CODEX_LINES
from transparency.records.unit import Unit, jsonl_units
from transparency.records.violation import Violation

CLI_NAME: Final = "codex-cli"
_FRAME: Final = ("timestamp", "type", "payload")
_GIT: Final = {"revision": "commit_hash", "branch": "branch", "repository": "repository_url"}
# Said once of the whole session, and asked for by every reader of it: policies in force last, and where it came from.
_POLICIES: Final = ("approval_policy", "sandbox_policy")
_ORIGIN: Final = ("originator", "source", "forked_from_id", "parent_thread_id")


def units(data: bytes) -> Iterator[Unit]:
    """Every line."""
    return jsonl_units(data)


def sessions(data: bytes, format: Format) -> list[SessionDraft]:  # noqa: A002 - the contract's name
    """The session of the file; none where there is no line."""
    draft = SessionDraft(format, "", cli_name=CLI_NAME)
    rollout = Rollout(draft)
    for unit in units(data):
        draft.units += 1
        _add(rollout, unit)
    draft.session_id = draft.session_id or name_uuid(hashlib.sha256(data).hexdigest())
    return [rollout.finish()] if draft.units else []


def _add(rollout: Rollout, unit: Unit) -> None:
    line = unit.value
    if not isinstance(line, dict):
        rollout.add_unknown(unit, "value")
        return
    rollout.saw_time(line.get("timestamp"))
    kind, payload = text(line, "type"), line.get("payload")
    if "payload" not in line:
        _add_bare(rollout, unit, line)
    elif kind not in CODEX_LINES or not isinstance(payload, dict):
        rollout.add_unknown(unit, kind, line.get("timestamp"))
    else:
        around = Around(line.get("timestamp"), rest(line, _FRAME))
        if kind == "response_item":
            add_item(rollout, unit, payload, around)
        elif kind == "event_msg":
            add_event(rollout, unit, payload, around)
        else:
            rollout.add_event(unit, f"codex/{kind}", payload, around)
            if kind == "session_meta":
                _read_meta(rollout, payload)
            elif kind == "turn_context":
                _read_context(rollout, payload)


def _add_bare(rollout: Rollout, unit: Unit, line: dict[str, Any]) -> None:
    """A line from before the frame: an item, the session itself, or a mark of saved state."""
    kind = text(line, "type")
    timestamp = line.get("timestamp")
    if kind in ITEM_KINDS:
        item = rest(line, ("timestamp",)) if timestamp is not None else line
        add_item(rollout, unit, item, Around(timestamp))
    elif _is_bare_meta(line):
        rollout.add_event(unit, "codex/session_meta", line, Around(timestamp))
        _read_meta(rollout, line)
    else:
        rollout.add_unknown(unit, kind or line.get("record_type"), timestamp)


def _is_bare_meta(line: dict[str, Any]) -> bool:
    return "type" not in line and isinstance(line.get("id"), str) and "timestamp" in line


def _read_meta(rollout: Rollout, meta: dict[str, Any]) -> None:
    """The first is the session's own; a later one belongs to the session whose history this one took over."""
    if rollout.has_meta:
        return
    rollout.has_meta = True
    draft = rollout.draft
    draft.session_id = text(meta, "id") or text(meta, "session_id") or ""
    draft.model_provider = text(meta, "model_provider")
    draft.cli_version = text(meta, "cli_version")
    vcs = _vcs(meta.get("git"))
    directory = text(meta, "cwd")
    if directory is not None:
        draft.environment = {"working-dir": directory}
        if vcs:
            draft.environment["vcs"] = vcs
    else:
        # The schema wants a directory in an environment; the commit need not be lost with it.
        draft.vcs = vcs
    draft.session_native.update({name: meta[name] for name in _ORIGIN if name in meta})
    source = meta.get("source")
    rollout.subagent = isinstance(source, dict) and "subagent" in source
    draft.parent_session = text(meta, "parent_thread_id") or _spawned_by(source)


def _spawned_by(source: object) -> str | None:
    for step in ("subagent", "thread_spawn"):
        source = source.get(step) if isinstance(source, dict) else None
    return text(source, "parent_thread_id") if isinstance(source, dict) else None


def _vcs(git: object) -> dict[str, Any] | None:
    if not isinstance(git, dict):
        return None
    found = {name: said for name, member in _GIT.items() if (said := text(git, member)) is not None}
    if not found:
        return None
    unknown = rest(git, [member for name, member in _GIT.items() if name in found])
    return {"type": "git", **found, **({"native": unknown} if unknown else {})}


def _read_context(rollout: Rollout, context: dict[str, Any]) -> None:
    rollout.model = text(context, "model")
    rollout.draft.saw_model(rollout.model)
    rollout.draft.model_id = rollout.model or rollout.draft.model_id
    rollout.draft.session_native.update({name: context[name] for name in _POLICIES if name in context})


def check(data: bytes, format: Format) -> list[Violation]:  # noqa: A002, ARG001 - the contract's names
    """Codex has no specification to violate; what this reader does not know yet is a warning."""
    drift = Drift()
    session_id: str | None = None
    number = 0
    for unit in units(data):
        number = int(unit.ref["line"])
        line = unit.value
        if not isinstance(line, dict):
            drift.saw("a line that is not an object", number)
            continue
        if "timestamp" in line and time_member(line["timestamp"])[0] is None:
            drift.saw("a timestamp that is no time", number, "/timestamp")
        _check_kind(drift, number, line)
        own = _session_of(line)
        if own is not None and session_id is not None and own != session_id:
            drift.saw("a second session: history taken over from it is part of this record", number, "/payload/id")
        session_id = session_id or own
    if session_id is None and number:
        drift.saw("no line says which session this is", 1)
    return drift.warnings()


def _session_of(line: dict[str, Any]) -> str | None:
    payload = line.get("payload")
    if line.get("type") == "session_meta" and isinstance(payload, dict):
        return text(payload, "id") or text(payload, "session_id")
    return text(line, "id") if _is_bare_meta(line) else None


def _check_kind(drift: Drift, number: int, line: dict[str, Any]) -> None:
    kind, payload = text(line, "type"), line.get("payload")
    if "payload" not in line:
        if kind not in ITEM_KINDS and not _is_bare_meta(line) and "record_type" not in line:
            drift.unknown("kind of line", kind, number, "/type")
    elif kind not in CODEX_LINES:
        drift.unknown("kind of line", kind, number, "/type")
    elif not isinstance(payload, dict):
        drift.saw(f"the payload of {kind} is not an object", number, "/payload")
    elif kind == "response_item" and text(payload, "type") not in ITEM_KINDS:
        drift.unknown("response item", payload.get("type"), number, "/payload/type")
    elif kind == "event_msg" and text(payload, "type") not in EVENT_KINDS:
        drift.unknown("event", payload.get("type"), number, "/payload/type")
