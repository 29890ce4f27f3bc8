"""VAC to VAC: a record of the 19 Feb profile as one of -00; a record of -00 as itself (formats.md 8.2, at its end).

Nothing is invented and nothing lost. What -00 requires and the record lacks becomes null and is listed in
``source.filled``; a map that lacks its required member moves whole to ``native``; a tool-call without a name becomes an
event that holds it. The record keeps its own id, times and recording-agent, and gains ``source``, which names the
original by hash. What these rules do not make valid is refused: it was valid by neither profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import strict_json, vac_cbor
from transparency.records.canonical import NULLABLE, UNKNOWN, source_map
from transparency.records.extents import Extents
from transparency.records.format import VAC_CBOR, VAC_JSON, Format
from transparency.records.strict_json import without_bom
from transparency.records.timestamps import rfc3339
from transparency.records.unit import Unit
from transparency.records.vac_check import FEBRUARY, PUBLISHED, check_vac, is_valid
from transparency.records.vac_pointer import Path, pointer
from transparency.records.violation import Violation

_RANGE: Final = ("start_line", "end_line", "content_hash", "content_hash_alg")


def read(data: bytes) -> tuple[Any, Format]:
    """The value of a record in either form. The first byte tells: JSON text never starts as a CBOR map or tag does."""
    if data[:1] >= b"\xa0":
        return vac_cbor.loads(data), VAC_CBOR
    return strict_json.loads(data), VAC_JSON


def check(data: bytes, format: Format) -> list[Violation]:  # noqa: A002, ARG001 - the converters' common interface
    """The violations of the nearest profile, and the warnings: none of the first where either profile is met."""
    verdict = check_vac(read(data)[0])
    wrong = () if verdict.profile != "none" else verdict.violations[verdict.nearest]
    return [*wrong, *verdict.warnings]


def units(data: bytes) -> Iterator[Unit]:
    """The session's own entries; those nested in ``children`` belong to the entry that holds them."""
    value, form = read(data)
    yield from _units(data, value, form)


def _units(data: bytes, value: object, form: Format) -> Iterator[Unit]:
    session = value.get("session") if isinstance(value, dict) else None
    entries = session.get("entries") if isinstance(session, dict) else None
    if not isinstance(entries, list):
        return
    if form == VAC_CBOR:
        for index, (start, end) in enumerate(vac_cbor.entries(data)):
            yield Unit({"index": index}, data[start:end], entries[index])
        return
    for index, raw, entry in Extents(data, value).items(entries):
        yield Unit({"index": index}, raw, entry)


def itself(data: bytes) -> bytes | None:
    """``data``, if it is a valid -00 record and so converts to itself, byte for byte; else None."""
    try:
        value, _ = read(data)
    except MalformedError:  # a byte order mark, for instance, which converting takes off
        return None
    return data if is_valid(value, PUBLISHED) else None


def upgrade(data: bytes) -> list[dict[str, Any]]:
    """The record as -00, in values that JSON can hold: unchanged if it is that already.

    A CBOR record with byte strings is written as ``vac_cbor.json_form`` says, which ``source.json-form`` lists. Hash
    and size in ``source`` are of *data* as it was given, a byte order mark included.
    """
    body = without_bom(data)
    value, form = read(body)
    shown = vac_cbor.json_form(value) if form == VAC_CBOR else vac_cbor.JsonForm(value, ())
    if not isinstance(shown.value, dict):
        raise MalformedError("a VAC record is a map")
    if not shown.changed and is_valid(value, PUBLISHED):
        return [shown.value]
    profile = next((name for name in (PUBLISHED, FEBRUARY) if is_valid(value, name)), "neither")
    upgrading = _Upgrade(list(_units(body, value, form)))
    record = upgrading.record(shown.value)
    _set(record, "source", upgrading.source(data, form, profile, shown.changed))
    _refuse_invalid(record)
    return [record]


def _refuse_invalid(record: dict[str, Any]) -> None:
    verdict = check_vac(record)
    if verdict.violations[PUBLISHED]:
        first = verdict.violations[PUBLISHED][0]
        raise MalformedError(f"the record is valid by neither VAC profile, at {first.pointer!a}: {first.message}")
    if strict_json.is_deeper(record):
        raise MalformedError(f"upgraded, the record would be nested more than {strict_json.MAX_DEPTH} deep")


@dataclass(slots=True)
class _Upgrade:
    """One record being upgraded. The original is never changed: every map on the way is copied first."""

    units: list[Unit]
    filled: list[str] = field(default_factory=list)

    def source(self, data: bytes, form: Format, profile: str, changed: tuple[str, ...]) -> dict[str, Any]:
        source = source_map(form, data, hashlib.sha256(data).hexdigest(), len(self.units), self.filled, {})
        return source | {"profile": profile} | ({"json-form": list(changed)} if changed else {})

    def record(self, original: dict[str, Any]) -> dict[str, Any]:
        record = dict(original)
        _time(record, "created")
        _require(record, "recording-agent", "name")
        _require(record, "vcs", "type")
        _replace(record, "file-attribution", _attribution)
        if "session" in record:
            _replace(record, "session", self.session)
        else:
            record["session"] = _synthetic(record)
            self.filled.append("/session")
        return record

    def session(self, original: dict[str, Any]) -> dict[str, Any]:
        session = dict(original)
        _time(session, "session-start")
        _time(session, "session-end")
        _require(session, "environment", "working-dir")
        _replace(session, "environment", _environment)
        if isinstance(session.get("entries"), list):
            path: Path = ((None, "session"), "entries")
            session["entries"] = self.entries(session["entries"], path)
            for entry, unit in zip(session["entries"], self.units, strict=True):
                if isinstance(entry, dict):
                    _set(entry, "source-ref", unit.source_ref())
        return session

    def entries(self, originals: list[Any], path: Path) -> list[Any]:
        """Recursion is bounded by the readers, which stop at a depth of 64."""
        return [
            self.entry(entry, (path, index)) if isinstance(entry, dict) else entry
            for index, entry in enumerate(originals)
        ]

    def entry(self, original: dict[str, Any], path: Path) -> dict[str, Any]:
        kind = original.get("type")
        nameless = kind == "tool-call" and "name" not in original
        entry = _event(original) if nameless else dict(original)
        # An event made here holds the original time in its data.
        _time(entry, "timestamp", keep=not nameless)
        if isinstance(entry.get("children"), list):
            entry["children"] = self.entries(entry["children"], (path, "children"))
        if nameless or not isinstance(kind, str):
            return entry
        needed = NULLABLE.get(kind)
        if needed is not None and needed not in entry:
            entry[needed] = None
            self.filled.append(pointer((path, needed)))
        if kind == "system-event" and "event-type" not in entry:
            entry["event-type"] = UNKNOWN
            self.filled.append(pointer((path, "event-type")))
        return entry


def _event(call: dict[str, Any]) -> dict[str, Any]:
    """A tool-call that does not say of which tool: an event that holds it whole, but for what events have too."""
    data = {name: member for name, member in call.items() if name != "children"}
    shared: dict[str, Any] = {name: call[name] for name in ("timestamp", "id", "children") if name in call}
    return {"type": "system-event", "event-type": "vac/tool-call", "data": data, **shared}


def _keep(holder: dict[str, Any], name: str, value: object) -> None:
    """Put a value under ``native``; what stands there already is never overwritten."""
    native = holder.get("native", {})
    if not isinstance(native, dict) or name in native:
        native = {"native": native}
    holder["native"] = {**native, name: value}


def _set(holder: dict[str, Any], name: str, value: object) -> None:
    if name in holder:
        _keep(holder, name, holder[name])
    holder[name] = value


def _replace(holder: dict[str, Any], name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    if isinstance(holder.get(name), dict):
        holder[name] = change(holder[name])


def _require(holder: dict[str, Any], name: str, needed: str) -> None:
    """Move a map without its required member to ``native``, whole."""
    if isinstance(holder.get(name), dict) and needed not in holder[name]:
        _keep(holder, name, holder.pop(name))


def _environment(original: dict[str, Any]) -> dict[str, Any]:
    environment = dict(original)
    _require(environment, "vcs", "type")
    return environment


def _time(holder: dict[str, Any], name: str, *, keep: bool = True) -> None:
    """A float or negative time as RFC 3339, its original under ``native``; without a calendar date, only there."""
    value = holder.get(name)
    if type(value) is not float and not (type(value) is int and value < 0):
        return
    text = rfc3339(value)
    if keep:
        _keep(holder, name, value)
    if text is None:
        del holder[name]
    else:
        holder[name] = text


def _synthetic(record: Mapping[str, Any]) -> dict[str, Any]:
    """The session that -00 requires of a record that is attribution alone, as for Agent Trace (formats.md 8.2)."""
    model = next(_models(record.get("file-attribution")), UNKNOWN)
    provider, slash, _ = model.partition("/")
    return {
        "session-id": record.get("id"),
        "agent-meta": {"model-id": model, "model-provider": provider if slash and provider else UNKNOWN},
        "entries": [],
        "synthetic": True,
    }


def _maps(holder: object, name: str) -> list[dict[str, Any]]:
    items = holder.get(name) if isinstance(holder, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _models(attribution: object) -> Iterator[str]:
    for file in _maps(attribution, "files"):
        for conversation in _maps(file, "conversations"):
            for holder in (conversation, *_maps(conversation, "ranges")):
                contributor = holder.get("contributor")
                model = contributor.get("model-id") if isinstance(contributor, dict) else None
                if isinstance(model, str) and model:
                    yield model


def _attribution(original: dict[str, Any]) -> dict[str, Any]:
    """Every name of the closed maps with ``-`` for ``_``."""
    return _each(original, "files", lambda file: _each(file, "conversations", _conversation))


def _conversation(original: dict[str, Any]) -> dict[str, Any]:
    return _each(_with_contributor(original), "ranges", lambda range_: _with_contributor(_renamed(range_, _RANGE)))


def _with_contributor(original: dict[str, Any]) -> dict[str, Any]:
    made = dict(original)
    _replace(made, "contributor", lambda contributor: _renamed(contributor, ("model_id",)))
    return made


def _each(original: dict[str, Any], name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    items = original.get(name)
    if not isinstance(items, list):
        return original
    return {**original, name: [change(item) if isinstance(item, dict) else item for item in items]}


def _renamed(original: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """In place, so that order stays; a name that is taken already is left, and refused with the record."""
    new = {name: name.replace("_", "-") for name in names}
    return {
        (new[name] if name in new and new[name] not in original else name): member for name, member in original.items()
    }
