"""Detection: which format a file is in, from its bytes alone and in the order of formats.md 9.

Only as much is parsed as is needed to tell: of JSONL some lines, of a sequence of values the first ones. Reading here
is lenient on purpose; whoever converts or checks the record reads it again, strictly, and says line and column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import format as known
from transparency.records import json_sequence, recognise, strict_json, tree, vac_cbor
from transparency.records.format import Format
from transparency.records.reading import current
from transparency.records.strict_json import without_bom
from transparency.records.unit import lines

# A file is what one of its first lines (or values) shows; summaries and snapshots may come before it.
_LINES: Final = 64
_VALUES: Final = 256
_SMALL: Final = 64 * 1024
_PEEK_DEPTH: Final = 3

_TEXT: Final = re.compile(rb"[ \t\r\n]*+([^ \t\r\n])")

_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (b"SQLite format 3\x00", "an SQLite database (of OpenCode: give what `opencode export` writes)"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip-compressed data: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "Zstandard-compressed data: unpack it first"),
    (b"%PDF", "a PDF file"),
    (b"-----BEGIN ", "a PEM file"),
    (b"\xff\xfe", "UTF-16 text: records are UTF-8"),
    (b"\xfe\xff", "UTF-16 text: records are UTF-8"),
    (b"\x89PNG", "a PNG image"),
    (b"<", "markup (XML or HTML)"),
)


class UnknownFormatError(MalformedError):
    """The bytes are in no format that is read here; the message names what was seen."""


@dataclass(frozen=True, slots=True)
class Detected:
    """``profile`` is of VAC only: "-00" or "19 Feb". ``note`` is what a user may want to know beside it."""

    format: Format
    profile: str | None = None
    note: str = ""


def detect(data: bytes) -> Detected:
    """The format; UnknownFormatError that names what was seen."""
    body = without_bom(data)
    found = _detect(body)
    if len(body) == len(data):
        return found
    note = "begins with a byte order mark, which is not part of the record's text"
    return Detected(found.format, found.profile, f"{found.note}; {note}" if found.note else note)


def _detect(data: bytes) -> Detected:
    text = _TEXT.match(data)
    if text is None:
        raise UnknownFormatError("unknown format: nothing but white space" if data else "unknown format: no bytes")
    first = data[0]
    # Tag 18, or an array of four whose first item is a byte string: the protected header.
    if first == 0xD2 or (first == 0x84 and len(data) > 1 and 0x40 <= data[1] <= 0x5B):
        return Detected(known.COSE)
    if 0xA0 <= first <= 0xBF or data.startswith(vac_cbor.TAG_HEAD):
        return _cbor(data)
    if tree.is_packed(data):
        try:
            return _packed(data)
        except UnknownFormatError:
            raise
        except MalformedError as error:
            raise UnknownFormatError(f"unknown format: a packed folder that is not whole ({error})") from error
    for magic, seen in _MAGIC:
        if data.startswith(magic):
            raise UnknownFormatError(f"unknown format: {seen}")
    if text.group(1) not in (b"{", b"["):
        raise UnknownFormatError(f"unknown format: {_not_json(data)}")
    return _json(data)


def _not_json(data: bytes) -> str:
    """What stands there instead of an object or array: bytes, words, or a JSON value that holds no record."""
    if len(data) <= _SMALL:
        try:
            return recognise.what(strict_json.loads(data))
        except MalformedError:
            pass
    try:
        data[:4096].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < min(len(data), 4096) - 4:
            return f"binary data that begins with the bytes {data[:4].hex(' ')}"
    return "text that is not JSON"


def _cbor(data: bytes) -> Detected:
    try:
        value = vac_cbor.loads(data)
    except MalformedError as error:
        raise UnknownFormatError(
            f"unknown format: begins as a CBOR map and is none in canonical form ({error})"
        ) from None
    if isinstance(value, Mapping) and recognise.is_vac(value):
        return Detected(known.VAC_CBOR, vac_profile(value))
    seen = recognise.what(dict(value) if isinstance(value, Mapping) else value).replace("JSON", "CBOR")
    raise UnknownFormatError(f"unknown format: {seen}")


def _packed(data: bytes) -> Detected:
    """A folder: Claude Code keeps JSONL, OpenCode's storage tree one JSON object a file."""
    seen = ""
    for file in islice(tree.unpack(data), _VALUES):
        if file.path.endswith(".jsonl"):
            if detect(file.data).format is known.CLAUDE:
                return Detected(known.CLAUDE, note="a session with the files of its sub-agents")
            break
        if file.path.endswith(".json") and recognise.piece(_parse(file.data)) is known.OPENCODE:
            return Detected(known.OPENCODE, note="a packed storage tree")
        seen = seen or file.path
    what = f' ("{recognise.name(seen)}" is the first file)' if seen else ""
    raise UnknownFormatError(f"unknown format: a folder that is no session of a known agent{what}")


def _json(data: bytes) -> Detected:
    leading = list(islice(lines(data), 2))
    first, alone = leading[0][1], len(leading) == 1
    value = _parse(first) if len(first) <= strict_json.MAX_SIZE else None
    if alone:
        return _document(data, value)
    if value is not None:
        by_line = _by_lines(data)
        if by_line is not None:
            return Detected(by_line)
        return _sequence(data)
    if len(data) > strict_json.MAX_SIZE:
        return _large(data)
    whole = _parse(data)
    return _document(data, whole) if whole is not None else _sequence(data)


def _by_lines(data: bytes) -> Format | None:
    """What the first line that tells anything tells; a line that is not JSON is for the strict reader to refuse."""
    for _, raw in islice(lines(data), _LINES):
        found = recognise.line(_parse(raw)) if len(raw) <= strict_json.MAX_SIZE else None
        if found is not None:
            return found
    return None


def _document(data: bytes, value: object) -> Detected:
    """One value is the whole file: a document, else a JSONL file of one line, else one object of OpenCode's."""
    if value is None:
        return _large(data) if len(data) > strict_json.MAX_SIZE else _sequence(data)
    found = recognise.document(value) or recognise.line(value) or recognise.piece(value)
    if found is None:
        raise UnknownFormatError(f"unknown format: {recognise.what(value)}")
    if found is known.VAC_JSON and isinstance(value, dict):
        return Detected(found, vac_profile(value))
    return Detected(known.AGENT_TRACE if found is known.AGENT_TRACE_JSONL else found)


def _sequence(data: bytes) -> Detected:
    """Several values one after another: OpenCode's objects, or nothing we know."""
    first: object = None
    try:
        for count, found in enumerate(islice(json_sequence.values(data), _VALUES)):
            first = found.value if not count else first
            if recognise.piece(found.value) is known.OPENCODE:
                return Detected(known.OPENCODE)
    except MalformedError as error:
        raise UnknownFormatError(f"unknown format: not JSON ({error})") from None
    raise UnknownFormatError(f"unknown format: several JSON values, of which the first is {recognise.what(first)}")


def _large(data: bytes) -> Detected:
    """A value too large to be parsed whole is known by its members, of which only the small ones are read."""
    try:
        skeleton = {member: _peek(data, extent) for member, extent in json_sequence.members(data)}
    except MalformedError:
        return _sequence(data)
    found = recognise.document(skeleton)
    if found is None:
        raise UnknownFormatError(f"unknown format: {recognise.what(skeleton)}")
    return Detected(found, vac_profile(skeleton) if found is known.VAC_JSON else None)


def _peek(data: bytes, extent: json_sequence.Extent, depth: int = 0) -> object:
    """A small value itself; of a large array its first item, of a large object its members, of other values nothing."""
    if extent.end - extent.start <= _SMALL:
        return json_sequence.read(data, extent).value
    opening = data[extent.start : extent.start + 1]
    if depth >= _PEEK_DEPTH or opening not in (b"[", b"{"):
        return {} if opening == b"{" else [] if opening == b"[" else ""
    if opening == b"[":
        return [_peek(data, item, depth + 1) for item in islice(json_sequence.items(data, extent), 1)]
    return {member: _peek(data, place, depth + 1) for member, place in json_sequence.members(data, extent)}


def _parse(data: bytes) -> Any:  # noqa: ANN401 - JSON
    """A JSON value, leniently; None for what is none, and for null, which is no record either."""
    if current() is not None:
        with suppress(MalformedError):
            return strict_json.loads(data)  # kept for whoever reads it next
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def vac_profile(record: Mapping[str, Any]) -> str:
    """Which of the two profiles a record is written in, by what only 19 Feb has or lacks (formats.md 2.2)."""
    session = record.get("session")
    if not isinstance(session, Mapping) or _joined_by_underscore(record.get("file-attribution")):
        return "19 Feb"
    parts = (
        (record.get("recording-agent"), "name"),
        (session.get("environment"), "working-dir"),
        (record.get("vcs"), "type"),
    )
    if any(isinstance(part, Mapping) and required not in part for part, required in parts):
        return "19 Feb"
    return "19 Feb" if any(_is_old_entry(entry) for entry in _entries(session)) else "-00"


_NEW_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "tool-call": ("name", "input"),
    "tool-result": ("output",),
    "reasoning": ("content",),
    "system-event": ("event-type",),
}


def _is_old_entry(entry: Mapping[str, Any]) -> bool:
    kind, time = entry.get("type"), entry.get("timestamp")
    required = _NEW_MEMBERS.get(kind, ()) if isinstance(kind, str) else ()
    return any(member not in entry for member in required) or isinstance(time, float)


def _entries(session: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    waiting: list[Any] = [session.get("entries")]
    while waiting:
        found = waiting.pop()
        for entry in found if isinstance(found, list | tuple) else ():
            if isinstance(entry, Mapping):
                yield entry
                waiting.append(entry.get("children"))


def _joined_by_underscore(attribution: object) -> bool:
    """Whether a closed map of the attribution spells a member as 19 Feb does; bounded by the record's own size."""
    names = {"start_line", "end_line", "content_hash", "content_hash_alg", "model_id"}
    waiting: list[Any] = [attribution]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            if names & node.keys():
                return True
            waiting += node.values()
        elif isinstance(node, list | tuple):
            waiting += node
    return False
