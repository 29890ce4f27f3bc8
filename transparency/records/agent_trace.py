"""Agent Trace 0.1.0: who wrote which lines. One record, or one a line, or the flat dialect; ranges are the units.

The mapping is formats.md 8.2. Agent Trace has no session, and -00 requires one: it is made up of what the record does
say and marked ``synthetic``. The lines go to ``file-attribution``, whose maps are closed; so each range also has an
entry that carries its ``source-ref``, and the whole original record stands under ``native.agent-trace``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import strict_json
from transparency.records.agent_trace_check import CONTRIBUTORS, check_flat, check_record
from transparency.records.canonical import SYSTEM, UNKNOWN, SessionDraft, name_uuid, time_member
from transparency.records.extents import Extents
from transparency.records.format import Format
from transparency.records.native import text
from transparency.records.unit import MAX_UNITS, Unit, jsonl_units
from transparency.records.violation import MAX_VIOLATIONS, Violation

# The reference implementation puts what is no file under these names, as line 1 (formats.md 4).
PSEUDO_PATHS: Final = {".sessions": "session-event", ".shell-history": "shell-command"}
FLAT_SCHEMA: Final = "agent-trace/"

_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_UINT_MAX: Final = (1 << 64) - 1
# The flat dialect's members that have a place in the entry's data.
_FLAT_LINES: Final = ("start_line", "end_line", "content_hash")


@dataclass(frozen=True, slots=True)
class _Range:
    """A range where it stands: its unit, and the file and conversation around it."""

    unit: Unit
    file: Mapping[str, Any]
    conversation: Mapping[str, Any]
    place: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Source:
    """One document of the input: its line (None: the only one), bytes and value."""

    line: int | None
    raw: bytes
    value: Any


def units(data: bytes) -> Iterator[Unit]:
    """Every range. A line that is no record (or is of the flat dialect, where it is a range) is a unit itself."""
    for source in _sources(data):
        if _is_record(source.value):
            yield from (found.unit for found in _ranges(source))
        else:
            yield _whole(source)


def sessions(data: bytes, format: Format) -> list[SessionDraft]:  # noqa: A002 - the contract's name
    """A draft for each trace record: each has its own id, time and revision. Flat lines are one for each session id."""
    drafts: list[SessionDraft] = []
    flat: dict[str, tuple[SessionDraft, dict[str, list[dict[str, Any]]]]] = {}
    for source in _sources(data):
        if _is_record(source.value):
            drafts.append(_record(source, format))
        elif is_flat(source.value):
            session_id = text(source.value, "session_id") or name_uuid(hashlib.sha256(data).hexdigest())
            if session_id not in flat:
                flat[session_id] = (_synthetic(format, session_id), {})
                drafts.append(flat[session_id][0])
            _flat(*flat[session_id], source)
        else:
            drafts.append(_stray(source, format))
    for draft, files in flat.values():
        draft.attribution = {
            "files": [{"path": path, "conversations": [{"ranges": ranges}]} for path, ranges in files.items()]
        }
    return drafts


def check(data: bytes, format: Format) -> list[Violation]:  # noqa: A002, ARG001 - the contract's signature
    """Where records are not what the schema of seed 000 says (:mod:`agent_trace_check`)."""
    found: list[Violation] = []
    for source in _sources(data):
        made = check_flat(source.value) if is_flat(source.value) else check_record(source.value)
        prefix = f"line {source.line}: " if source.line is not None else ""
        found += [Violation(one.level, prefix + one.pointer, one.message) for one in made]
        if len(found) >= MAX_VIOLATIONS:
            return found[:MAX_VIOLATIONS]
    return found


def is_flat(value: object) -> bool:
    """The dialect ``{"schema": "agent-trace/v0.1.0", "file_path": …}``: one range, no files."""
    if not isinstance(value, dict) or "files" in value:
        return False
    schema = value.get("schema")
    return isinstance(schema, str) and schema.startswith(FLAT_SCHEMA)


def _sources(data: bytes) -> Iterator[_Source]:
    """The bytes decide: one JSON value is one record, however many lines it has; else every line is one."""
    try:
        value = strict_json.loads(data)
    except MalformedError as error:
        lines = jsonl_units(data)
        try:
            first = next(lines)
        except (MalformedError, StopIteration):
            # The first line is no record by itself, so this is a broken document, not a file of lines.
            raise error from None
        for unit in chain((first,), lines):
            yield _Source(int(unit.ref["line"]), unit.raw, unit.value)
    else:
        yield _Source(None, data, value)


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("files"), list)


def _whole(source: _Source) -> Unit:
    ref = {"index": 0} if source.line is None else {"line": source.line}
    return Unit(ref, source.raw, source.value)


def _ranges(source: _Source) -> Iterator[_Range]:
    extents = Extents(source.raw, source.value)
    count = 0
    for number, file in _objects(source.value, "files"):
        for index, conversation in _objects(file, "conversations"):
            ranges = conversation.get("ranges")
            if not isinstance(ranges, list):
                continue
            for position, raw, value in extents.items(ranges):
                count += 1
                if count > MAX_UNITS:
                    raise MalformedError(f"more than {MAX_UNITS} ranges are not read")
                path = f"/files/{number}/conversations/{index}/ranges/{position}"
                ref: dict[str, str | int] = {"path": path}
                if source.line is not None:
                    ref = {"line": source.line, **ref}
                yield _Range(Unit(ref, raw, value), file, conversation, (number, index))


def _objects(value: Mapping[str, Any], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    held = value.get(name)
    for number, item in enumerate(held if isinstance(held, list) else ()):
        if isinstance(item, dict):
            yield number, item


def _synthetic(format: Format, session_id: str) -> SessionDraft:  # noqa: A002
    draft = SessionDraft(format, session_id)
    draft.session_extra["synthetic"] = True
    return draft


def _record(source: _Source, format: Format) -> SessionDraft:  # noqa: A002
    record = source.value
    identity = text(record, "id") or name_uuid(hashlib.sha256(source.raw).hexdigest())
    metadata = record.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    session_id = text(metadata, "session_id") or text(metadata, "conversation_id") or identity
    draft = _synthetic(format, session_id)
    draft.record_extra["id"] = identity
    created = time_member(record.get("timestamp"))[0]
    if created is not None:
        draft.record_extra["created"] = created
    _tool(draft, record.get("tool"))
    vcs = record.get("vcs")
    if isinstance(vcs, dict) and isinstance(vcs.get("type"), str):
        draft.vcs = {name: vcs[name] for name in ("type", "revision") if isinstance(vcs.get(name), str)}
    draft.record_native["agent-trace"] = record
    attributed: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for found in _ranges(source):
        draft.units += 1
        canonical = _entry(draft, found, created)
        if canonical is not None:
            attributed.setdefault(found.place, []).append(canonical)
    draft.attribution = {"files": list(_files(draft, record, attributed))}
    if draft.models:
        draft.model_id = draft.models[0]
        provider, slash, _ = draft.model_id.partition("/")
        draft.model_provider = provider if slash and provider else None
    return draft


def _tool(draft: SessionDraft, tool: object) -> None:
    if not isinstance(tool, dict):
        return
    name, version = text(tool, "name"), text(tool, "version")
    draft.cli_name, draft.cli_version, draft.vendor = name, version, name
    if name is None:
        draft.filled.append("recording-agent.name")
    draft.record_extra["recording-agent"] = {"name": name or UNKNOWN} | ({"version": version} if version else {})


def _entry(draft: SessionDraft, found: _Range, created: str | None) -> dict[str, Any] | None:
    """The range's entry; and the range as -00 writes it, unless it is no range of a file."""
    path, value = found.file.get("path"), found.unit.value
    if not isinstance(value, dict):
        draft.unknown(found.unit, "range", timestamp=created)
        return None
    pseudo = PSEUDO_PATHS.get(path) if isinstance(path, str) else None
    if pseudo is not None and (value.get("start_line"), value.get("end_line")) != (1, 1):
        pseudo = None
    contributor = value.get("contributor", found.conversation.get("contributor"))
    data = {"path": path, "range": value}
    if "contributor" not in value and contributor is not None:
        data["contributor"] = contributor
    if found.conversation.get("url") is not None:
        data["url"] = found.conversation["url"]
    draft.event(found.unit, f"agent-trace/{pseudo or 'range'}", data, timestamp=created, actor=SYSTEM)
    for who in (found.conversation.get("contributor"), value.get("contributor")):
        draft.saw_model(who.get("model_id") if isinstance(who, dict) else None)
    return None if pseudo or not isinstance(path, str) else _range(draft, value)


def _files(
    draft: SessionDraft, record: Mapping[str, Any], attributed: Mapping[tuple[int, int], list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """``file-attribution``: files and conversations keep their order; one without a range left is left out."""
    for number, file in _objects(record, "files"):
        conversations = []
        for index, conversation in _objects(file, "conversations"):
            ranges = attributed.get((number, index))
            if ranges:
                conversations.append(_conversation(draft, conversation, ranges))
        if conversations:
            yield {"path": file["path"], "conversations": conversations}


def _conversation(draft: SessionDraft, conversation: Mapping[str, Any], ranges: list[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    url = _uri(conversation, "url")
    if url is not None:
        made["url"] = url
    contributor = _contributor(draft, conversation.get("contributor"))
    if contributor is not None:
        made["contributor"] = contributor
    made["ranges"] = ranges
    related = [
        {"type": item["type"], "url": item["url"]}
        for _, item in _objects(conversation, "related")
        if isinstance(item.get("type"), str) and _uri(item, "url") is not None
    ]
    if related:
        made["related"] = related
    return made


def _range(draft: SessionDraft, value: Mapping[str, Any]) -> dict[str, Any] | None:
    start, end = value.get("start_line"), value.get("end_line")
    if not (type(start) is int and type(end) is int and 1 <= start <= _UINT_MAX and 1 <= end <= _UINT_MAX):
        return None
    made: dict[str, Any] = {"start-line": start, "end-line": end}
    content_hash = value.get("content_hash")
    if isinstance(content_hash, str):
        made["content-hash"], made["content-hash-alg"] = _hash(content_hash)
    contributor = _contributor(draft, value.get("contributor"))
    if contributor is not None:
        made["contributor"] = contributor
    return made


def _hash(stated: str) -> tuple[str, str]:
    """Digest and algorithm. A cut digest keeps the name ``sha256``: it is no SHA-256, and must not pass for one."""
    algorithm, colon, digest = stated.partition(":")
    if not colon:
        # Absent would mean sha-256 (-00 §6), which nobody said.
        return stated, UNKNOWN
    if algorithm == "sha256" and _SHA256.fullmatch(digest):
        return digest, "sha-256"
    return digest, algorithm


def _contributor(draft: SessionDraft, value: object) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    kind, model = value.get("type"), value.get("model_id")
    if kind not in CONTRIBUTORS:
        kind = UNKNOWN
        if "contributor.type" not in draft.filled:
            draft.filled.append("contributor.type")
    return {"type": str(kind)} | ({"model-id": model} if isinstance(model, str) else {})


def _uri(value: Mapping[str, Any], name: str) -> str | None:
    """The draft's uri-regexp takes any text but one with a line break after the ``#`` (``.`` does not match it)."""
    found = text(value, name)
    return None if found is None or re.search(r"#.*[\r\n]", found, re.DOTALL) else found


def _flat(draft: SessionDraft, files: dict[str, list[dict[str, Any]]], source: _Source) -> None:
    """A line of the flat dialect: who contributed is not said, so it is not said here either."""
    value, unit = source.value, _whole(source)
    draft.units += 1
    stamp = value.get("timestamp")
    draft.event(unit, "agent-trace/range", {name: held for name, held in value.items() if name != "timestamp"},
                timestamp=stamp)  # fmt: skip
    path = value.get("file_path")
    made = _range(draft, {name: value.get(name) for name in _FLAT_LINES})
    if isinstance(path, str) and made is not None:
        files.setdefault(path, []).append(made)


def _stray(source: _Source, format: Format) -> SessionDraft:  # noqa: A002
    """A document that is no trace record (such as an outcome): kept whole, as a session of its own."""
    draft = _synthetic(format, name_uuid(hashlib.sha256(source.raw).hexdigest()))
    draft.units += 1
    stamp = source.value.get("timestamp") if isinstance(source.value, dict) else None
    draft.unknown(_whole(source), "record", timestamp=stamp)
    return draft
