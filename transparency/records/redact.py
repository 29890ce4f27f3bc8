"""Redaction before signing: secrets leave a record, and the statement says where, without saying what.

String values (never keys) are rewritten inside the native file as ``[REDACTED:<rule>:<n>]``; the result is of the same
format, has as many lines, and differs from the original in these characters alone. For every mark the statement gets
a commitment (:mod:`disclosure`) and the owner a line in a side file. Marks are numbered as they stand in the file, so
what a session that grows had already written is redacted alike each time: an earlier checkpoint stays a prefix.

A record in CBOR is rewritten alike: its texts change, and nothing else does.

Pure: salts are passed in. Memory is for the file, the result and one JSON value; JSONL is worked through line by line.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.records import format as known
from transparency.records import json_sequence, strict_json, tree, vac_cbor
from transparency.records.detect import Detected, UnknownFormatError, detect
from transparency.records.disclosure import (
    MAX_LOCATION,
    MAX_REDACTIONS,
    PSEUDONYM,
    Disclosure,
    Location,
    Redaction,
    commit,
    mark_of,
)
from transparency.records.format import Format
from transparency.records.json_text import Edit, Path, Walker, decoded, edited, object_end, pointer, replaced
from transparency.records.omission import Omission
from transparency.records.pseudonym import Renaming
from transparency.records.redaction_rules import EMAIL, URL_PASSWORD, Rule
from transparency.records.strict_json import BOM, without_bom
from transparency.records.unit import MAX_LINE_BYTES

# Of the 256 KiB that a protected header may have (cose/sign1.py); the rest is for claims and trace-metadata.
MAX_HEADER_BYTES: Final = 224 * 1024
MAX_SIDE_BYTES: Final = 256 * 1024 * 1024
_SIDE_VERSION: Final = "transparency-redactions"


@dataclass(frozen=True, slots=True)
class Redacted:
    """A redacted record, what its owner keeps (``side_file``), and what its statement says (label -70103)."""

    data: bytes
    side_file: dict[str, Any]
    header: list[Any]
    counts: Mapping[str, int]
    """How often each rule was applied."""
    mixed: int = 0
    """How many of the units left out held something of another kind too."""


def redact(
    data: bytes,
    format: Format,  # noqa: A002 - the word of the converters
    rules: Sequence[Rule],
    salts: Callable[[], bytes],
    *,
    omit: Collection[str] = (),
    pseudonym_key: bytes | None = None,
) -> Redacted:
    """Redact *data*, a record of *format*: apply *rules*, leave out the kinds in *omit*, replace its session id.

    *salts* gives 32 fresh random bytes a call. MalformedError where the record is not strict, or has more to redact
    than a statement can declare.
    """
    if format is known.COSE:
        raise MalformedError(f"a {format.name} is not redacted; redact the record, and sign it then")
    detected = Detected(format)
    renaming = Renaming.of(data, detected, pseudonym_key)
    omission = Omission(data, detected, omit) if omit else None
    work = _Redaction(rules, salts, renaming, omission)
    for identity, name in renaming.names.items():
        work.note(PSEUDONYM, Location(0, 0, name), identity)
    body = without_bom(data)
    if format is known.VAC_CBOR:
        redacted = b"".join(work.in_cbor(body))
    else:
        redacted = work.packed(body) if tree.is_packed(body) else b"".join(work.body(body, format, 1))
    if len(body) != len(data):
        redacted = BOM + redacted
    _check_same_shape(data, redacted, format)
    if omission is not None:
        omission.check(redacted)
    return work.result(redacted, data, format)


@dataclass(frozen=True, slots=True)
class SideFile:
    """The owner's side file, read back: hashes of the redacted and the original record, and every item."""

    record: str
    original: str
    items: list[Disclosure]


def side_file_bytes(side_file: Mapping[str, Any]) -> bytes:
    """A side file as it is written."""
    return json.dumps(side_file, ensure_ascii=True, indent=1).encode() + b"\n"


def read_side_file(data: bytes) -> SideFile:
    """MalformedError where *data* is no side file."""
    value = strict_json.loads(data, max_size=MAX_SIDE_BYTES)
    if not isinstance(value, dict) or value.get(_SIDE_VERSION) != 1:
        raise MalformedError(f'not a file of redactions: "{_SIDE_VERSION}": 1 is missing')
    record, original, items = value.get("record-sha-256"), value.get("original-sha-256"), value.get("items")
    if not isinstance(record, str) or not isinstance(original, str) or not isinstance(items, list):
        raise MalformedError("a file of redactions has record-sha-256, original-sha-256 and items")
    read = [Disclosure.from_item(item) for item in items]
    if [item.number for item in read] != list(range(1, len(read) + 1)):
        raise MalformedError("the items of a file of redactions are numbered from 1")
    return SideFile(record, original, read)


def _check_same_shape(before: bytes, after: bytes, format_: Format) -> None:
    """What is promised, held against the result: it would be signed."""
    if format_ is not known.VAC_CBOR and before.count(b"\n") != after.count(b"\n"):
        raise MalformedError("redacted, the record would have another number of lines")
    try:
        same = detect(after).format is format_
    except UnknownFormatError:
        same = False
    if not same:
        raise MalformedError(f"redacted like this, the record would be no {format_.name} any more")


class _Redaction:
    """One run over one record: the items so far, in the order of their marks."""

    def __init__(
        self, rules: Sequence[Rule], salts: Callable[[], bytes], renaming: Renaming, omission: Omission | None
    ) -> None:
        self._rules = rules
        self._salts = salts
        self._renaming = renaming
        self._omission = omission
        self._items: list[Disclosure] = []
        self._header: list[Any] = []
        self._header_bytes = 3

    def note(self, rule: str, location: Location, original: str) -> None:
        """Declare one redaction; MalformedError when a header has no room for it."""
        salt, place = self._salts(), str(location)
        item = Disclosure(len(self._items) + 1, rule, place, salt, original)
        self._items.append(item)
        self._header.append(Redaction(item.number, rule, location, commit(salt, original)).to_header())
        self._header_bytes += len(cbor.encode(self._header[-1]))
        too_long = len(place) > MAX_LOCATION
        if too_long or len(self._items) > MAX_REDACTIONS or self._header_bytes > MAX_HEADER_BYTES:
            raise MalformedError(
                f"redaction {item.number}, on line {location.line}, does not fit: a statement declares at most"
                f" {MAX_REDACTIONS} redactions in {MAX_HEADER_BYTES // 1024} KiB; split the session, or use fewer rules"
            )

    def result(self, redacted: bytes, original: bytes, format_: Format) -> Redacted:
        side_file = {
            _SIDE_VERSION: 1,
            "format": format_.trace_format,
            "record-sha-256": hashlib.sha256(redacted).hexdigest(),
            "original-sha-256": hashlib.sha256(original).hexdigest(),
            "items": [item.to_item() for item in self._items],
        }
        counts = Counter(item.rule for item in self._items)
        return Redacted(redacted, side_file, self._header, counts, self._omission.mixed if self._omission else 0)

    # --- the file ---------------------------------------------------------------------------------------------------

    def packed(self, data: bytes) -> bytes:
        """A folder: the names of its files may hold the session id, and their order follows their names."""
        files = sorted(((self._renaming.text(file.path), file) for file in tree.unpack(data)), key=_by_name)
        line = 1
        made: dict[str, bytes] = {}
        for name, file in files:
            jsonl = known.CLAUDE if name.endswith(".jsonl") else known.OPENCODE
            made[name] = b"".join(self.body(file.data, jsonl, line + 1))
            line += 2 + file.data.count(b"\n")
        if len(made) != len(files):
            raise MalformedError("two files of the folder would have one name")
        return tree.pack(made)

    def body(self, data: bytes, format_: Format, line: int) -> Iterator[bytes]:
        """The pieces of the redacted file; *line* is the number of its first line."""
        position = 0
        for start, raw in _lines(data, line) if format_.content_type == known.JSONL else _values(data):
            line += data.count(b"\n", position, start)
            yield data[position:start]
            yield self._value(raw, line)
            line += raw.count(b"\n")
            position = start + len(raw)
        yield data[position:]

    def in_cbor(self, data: bytes) -> Iterator[bytes]:
        """The pieces of a record in CBOR. It has no lines: each location is on line 1, and its pointer as for JSON."""
        vac_cbor.loads(data)
        position = 0
        for text in vac_cbor.texts(data):
            plain = data[text.start : text.end].decode()
            spans = self._spans(plain, self._rules if not text.is_key else ())
            if spans:
                yield data[position : text.head]
                yield cbor.encode(replaced(plain, self._edits(plain, spans, text.path, 1)))
                position = text.end
        yield data[position:]

    def _value(self, raw: bytes, line: int) -> bytes:
        """One JSON value, which has been read strictly."""
        text = raw.decode()
        # An escape can hide any character, so a text with one is always looked at.
        hidden = "\\u" in text or "\\/" in text
        rules = [rule for rule in self._rules if hidden or rule.may_be_in(text)]
        if not rules and self._omission is None and not (hidden or self._renaming.may_be_in(text)):
            return raw
        return "".join(self._pieces(text, rules, line)).encode()

    def _pieces(self, text: str, rules: Sequence[Rule], line: int) -> Iterator[str]:
        position = counted = 0
        walker = Walker(text)
        for token in walker:
            if token.kind == "{":
                if self._omission is None or not self._omission.may_be(token.path):
                    continue
                end = object_end(text, token.start)
                unit = text[token.start : end]
                kind = self._omission.kind_of(token.path, unit)
                if kind is None:
                    continue
                line, counted = line + text.count("\n", counted, token.start), token.start
                yield text[position : token.start]
                yield self._left_out(unit, kind, token.path, line)
                walker.skip_to(end)
                position = end
                continue
            raw = text[token.start : token.end]
            plain = decoded(raw)
            spans = self._spans(plain, rules if token.kind == "value" else ())
            if not spans:
                continue
            line, counted = line + text.count("\n", counted, token.start), token.start
            yield text[position : token.start]
            yield edited(raw, self._edits(plain, spans, token.path, line))
            position = token.end
        yield text[position:]

    def _left_out(self, unit: str, kind: str, path: Path, line: int) -> str:
        assert self._omission is not None  # noqa: S101 - the caller asked it
        rule = f"omit-{kind}"
        stub, inside = self._omission.stub(unit, mark_of(rule, len(self._items) + 1), self._renaming.text)
        self.note(rule, Location(line, 0, pointer(path + inside)), unit)
        return stub

    def _spans(self, text: str, rules: Sequence[Rule]) -> list[_Span]:
        """What is to be replaced in a string, in order; spans that overlap become one, under the first of their rules.

        A session id inside something redacted goes with it. A password and its host look like an e-mail address; the
        host of ``user:password@host`` stays.
        """
        found = [_Span(start, end, len(rules), "") for start, end in self._renaming.find(text)]
        for number, rule in enumerate(rules):
            if rule.may_be_in(text):
                found += [_Span(start, end, number, rule.name) for start, end in rule.find(text) if start < end]
        hosts = {span.end for span in found if span.rule == URL_PASSWORD}
        if hosts:
            found = [span for span in found if span.rule != EMAIL or text.find("@", span.start) not in hosts]
        merged: list[_Span] = []
        for span in sorted(found):
            last = merged[-1] if merged else None
            if last is None or span.start >= last.end:
                merged.append(span)
            else:
                first = min(last, span, key=lambda one: one.precedence)
                merged[-1] = _Span(last.start, max(last.end, span.end), first.precedence, first.rule)
        return merged

    def _edits(self, text: str, spans: Sequence[_Span], path: Path, line: int) -> list[Edit]:
        edits: list[Edit] = []
        shift = 0
        for start, end, _, rule in spans:
            original = text[start:end]
            if rule:
                written = mark_of(rule, len(self._items) + 1)
                self.note(rule, Location(line, start + shift, pointer(path)), original)
            else:
                written = self._renaming.text(original)
            edits.append(Edit(start, end, written))
            shift += len(written) - len(original)
        return edits


class _Span(NamedTuple):
    """Characters of a decoded string; no rule: a session id that gets its pseudonym."""

    start: int
    end: int
    precedence: int
    rule: str


def _lines(data: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    """Start and bytes of the value on each line that is not blank, read strictly; *first* numbers the first line."""
    position, number = 0, first
    while position < len(data):
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        if end - position > MAX_LINE_BYTES:
            raise MalformedError(f"line {number}: longer than {MAX_LINE_BYTES} bytes")
        line = data[position:end]
        raw = line.strip(b" \t\r")
        if raw:
            try:
                strict_json.loads(raw)
            except MalformedError as error:
                raise MalformedError(str(error).replace("line 1,", f"line {number},", 1)) from None
            yield position + len(line) - len(line.lstrip(b" \t\r")), raw
        position, number = end + 1, number + 1


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    return ((found.extent.start, found.raw) for found in json_sequence.values(data))


def _by_name(item: tuple[str, tree.PackedFile]) -> bytes:
    return item[0].encode()
