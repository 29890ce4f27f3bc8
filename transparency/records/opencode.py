"""OpenCode sessions as canonical records: concatenated objects, a packed storage tree, and ``opencode export``.

One source often holds several sessions (formats.md 7): each becomes a record of its own. Entries are in the order of
times and ids, since files hold a message after its parts. The one thing left out is the ``secret`` of a share, because
whoever reads it can change what is published; that is counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from transparency.records import opencode_objects
from transparency.records.canonical import SessionDraft, name_uuid, rest, time_member
from transparency.records.drift import Drift
from transparency.records.format import OPENCODE_EXPORT, Format
from transparency.records.native import said
from transparency.records.opencode_entries import Conversation, Part
from transparency.records.opencode_members import moment
from transparency.records.opencode_objects import EMPTY, KINDS, StoredObject, without_secret
from transparency.records.opencode_sessions import Placed, StoredSession, grouped
from transparency.records.recognise import OPENCODE_PARTS
from transparency.records.violation import Violation

units = opencode_objects.units

_ROLES: Final = ("user", "assistant")
_SECRET: Final = "share/secret"  # noqa: S105 - the name of what is left out
# Sorts after every moment of time.
_NEVER: Final = 1 << 62


def sessions(data: bytes, format: Format) -> list[SessionDraft]:  # noqa: A002 - the name all converters use
    """One draft for each session, in the order in which the source first names them."""
    if _is_export(format):
        return [_exported(data, format)]
    drafts = {session.id: _draft(session, format) for session in grouped(data)}
    for draft in drafts.values():
        if draft.parent_session in drafts:
            drafts[draft.parent_session].saw_child(draft.session_id)
    return list(drafts.values())


def check(data: bytes, format: Format) -> list[Violation]:  # noqa: A002 - as sessions
    """OpenCode has no specification: warnings only, for what this converter does not know and keeps as events."""
    drift = Drift()
    for unit in units(data):
        if _is_export(format):
            _note_exported(drift, unit.value, f"/messages/{unit.ref['index']}")
        else:
            where = f"{unit.ref['path']}: " if "path" in unit.ref else f"value {unit.ref['index']}: "
            _note_stored(drift, opencode_objects.stored(unit), where)
    return drift.warnings()


def _is_export(format: Format) -> bool:  # noqa: A002 - as sessions
    return format.trace_format == OPENCODE_EXPORT.trace_format


def _note_stored(drift: Drift, found: StoredObject, where: str) -> None:
    if found.kind not in KINDS:
        drift.unknown("kind of object", found.kind, 0, where)
    elif found.kind == "message" and found.value["role"] not in _ROLES:
        drift.unknown("role", found.value["role"], 0, f"{where}/role")
    elif found.kind == "part" and found.value["type"] not in OPENCODE_PARTS:
        drift.unknown("part", found.value["type"], 0, f"{where}/type")


def _note_exported(drift: Drift, value: object, where: str) -> None:
    message = _message(value)
    if message is None:
        drift.saw("not a message with info and parts: kept as an event", 0, where)
        return
    info, parts = message
    if info.get("role") not in _ROLES:
        drift.unknown("role", info.get("role"), 0, f"{where}/info/role")
    for index, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in OPENCODE_PARTS:
            drift.unknown("part", kind, 0, f"{where}/parts/{index}")


def _draft(session: StoredSession, format: Format) -> SessionDraft:  # noqa: A002 - as sessions
    project = session.project.value if session.project is not None else {}
    draft = _begin(format, session.id, session.facts, [each.value for each in session.messages], project)
    draft.units = session.units
    if session.info is not None:
        _event(draft, Placed(session.info, None))
    for each in session.others:
        if each.stored.kind == "project":
            _event(draft, each)
    _write_timeline(session, draft)
    for each in session.others:
        if each.stored.kind != "project":
            _event(draft, each, duplicate=each.stored.kind == "session" and each.stored.session == session.id)
    if session.project is not None and all(each.stored is not session.project for each in session.others):
        draft.session_native["project"] = {"source-ref": session.project.unit.source_ref()}
    return draft


def _begin(
    format: Format,  # noqa: A002 - as sessions
    session_id: str,
    info: Mapping[str, Any],
    messages: Iterable[Mapping[str, Any]],
    project: Mapping[str, Any],
) -> SessionDraft:
    draft = SessionDraft(format, session_id, cli_name="opencode", cli_version=said(info.get("version")))
    times = info.get("time")
    if isinstance(times, dict):
        draft.start, draft.end = (time_member(times.get(name))[0] for name in ("created", "updated"))
    draft.parent_session = said(info.get("parentID"))
    paths = (message.get("path") for message in messages)
    folders = (said(path.get("cwd")) for path in paths if isinstance(path, dict))
    folder = next((each for each in folders if each is not None), None) or said(info.get("directory"))
    if folder is None:
        return draft  # -00 requires a working-dir of an environment: without one there is none
    draft.environment = {"working-dir": folder}
    if (vcs := said(project.get("vcs"))) is not None:
        draft.environment["vcs"] = {"type": vcs}
    sandboxes = project.get("sandboxes")
    if isinstance(sandboxes, list) and sandboxes and all(isinstance(each, str) for each in sandboxes):
        draft.environment["sandboxes"] = sandboxes
    return draft


def _write_timeline(session: StoredSession, draft: SessionDraft) -> None:
    """Messages by time and id, each with its parts; parts whose message is missing stand where their time puts them."""
    conversation = Conversation(draft, _ids(each.value for each in session.messages))
    waiting = dict(session.parts)
    timeline: list[tuple[int, str, StoredObject | None, list[Part]]] = []
    for each in session.messages:
        name = said(each.value.get("id"))
        # The first of two messages of one id has the parts.
        timeline.append((_when(each.value, "created"), name or "", each, waiting.pop(name, []) if name else []))
    for missing, parts in waiting.items():
        timeline.append((min(_when(part.value, "start", "created") for part in parts), missing or "", None, parts))
    timeline.sort(key=lambda turn: turn[:2])
    for _, _, message, parts in timeline:
        if message is not None:
            conversation.message(message.unit, message.value, parts)
        else:
            conversation.orphans(parts)


def _when(value: Mapping[str, Any], *names: str) -> int:
    """When this happened: a tool part has its times in its state."""
    found = moment(value, *names)
    found = moment(value.get("state"), *names) if found is None else found
    return _NEVER if found is None else found


def _event(draft: SessionDraft, each: Placed, *, duplicate: bool = False) -> None:
    found, value = each.stored, each.stored.value
    if found.kind == EMPTY:
        draft.drop(EMPTY)
        return
    native: dict[str, Any] = {"session-assigned-by": each.by} if each.by is not None else {}
    when = None
    if isinstance(value, dict):
        value = _without_secret(draft, value)
        if duplicate:
            native["duplicate-of"] = found.session
        elif found.kind == "session" and isinstance(value.get("time"), dict):
            when = value["time"].get("created")
    draft.event(found.unit, f"opencode/{found.kind}", value, timestamp=when, native=native)


def _without_secret(draft: SessionDraft, value: Mapping[str, Any]) -> dict[str, Any]:
    kept, secrets = without_secret(value)
    if secrets:
        draft.drop(_SECRET, secrets)
    return kept


def _exported(data: bytes, format: Format) -> SessionDraft:  # noqa: A002 - as sessions
    """``{info, messages: [{info, parts}]}``: a unit is a message, what stands around them is the session's."""
    frame = opencode_objects.export_frame(data)
    said_info = frame.get("info")
    info = said_info if isinstance(said_info, dict) else {}
    found = [unit.without_bytes() for unit in opencode_objects.export_units(data)]
    messages = [(unit, message) for unit in found if (message := _message(unit.value)) is not None]
    infos = [words for _, (words, _) in messages]
    session_id = said(info.get("id")) or name_uuid(hashlib.sha256(data).hexdigest())
    draft = _begin(format, session_id, info, infos, {})
    draft.units = len(found)
    if info:
        draft.session_native["info"] = _without_secret(draft, info)
    draft.record_native |= rest(frame, ("info",) if info else ())
    conversation = Conversation(draft, _ids(infos))
    messages.sort(key=lambda each: (_when(each[1][0], "created"), said(each[1][0].get("id")) or ""))
    for unit, (words, inner) in messages:
        parts = [Part(unit, part if isinstance(part, dict) else {"value": part}) for part in inner]
        made = conversation.message(unit, words, parts)
        if beside := rest(unit.value, ("info", "parts")):
            draft.event(unit, "opencode/export", beside, parent=made)
    for unit in found:
        if _message(unit.value) is None:
            draft.unknown(unit, "message")
    return draft


def _message(value: object) -> tuple[dict[str, Any], list[Any]] | None:
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("info"), dict)
        or not isinstance(value.get("parts"), list)
    ):
        return None
    return value["info"], value["parts"]


def _ids(messages: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(name for message in messages if (name := said(message.get("id"))) is not None)
