"""Redactions as others see them: what a statement commits to, and one original that its owner has disclosed.

Label -70103 of the protected header lists [rule, location, SHA-256(salt ‖ original)] for every redaction. The salt is
256 random bits that only the owner has, so a commitment says nothing of its original, however few originals there could
be (a card number, a name); with salt and original anybody can check it. Item *n* of the list is the mark
``[REDACTED:<rule>:<n>]`` in the record.

A location is ``line:start:pointer``: the line of the record (from 1), the offset of the mark in the decoded string
(characters, from 0), and the RFC 6901 pointer to that string from the JSON value that stands on that line. A
pseudonym stands in many places: its location is ``0:0:`` and the pseudonym.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import json_sequence, strict_json, vac_cbor
from transparency.records.json_text import follow
from transparency.records.strict_json import without_bom

PSEUDONYM: Final = "pseudonym"
SALT_BYTES: Final = 32
DIGEST_BYTES: Final = 32
MAX_REDACTIONS: Final = 3500
MAX_LOCATION: Final = 4096
_VERSION: Final = "transparency-disclosure"
_RULE: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
_LOCATION: Final = re.compile(r"(0|[1-9][0-9]{0,14}):(0|[1-9][0-9]{0,14}):(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a mark stands in the redacted record."""

    line: int
    start: int
    pointer: str

    @classmethod
    def from_text(cls, text: str) -> Location:
        match = _LOCATION.fullmatch(text) if len(text) <= MAX_LOCATION else None
        if match is None:
            raise MalformedError("a redaction's location is line:start:pointer")
        return cls(int(match[1]), int(match[2]), match[3])

    def __str__(self) -> str:
        return f"{self.line}:{self.start}:{self.pointer}"


@dataclass(frozen=True, slots=True)
class Redaction:
    """One item of label -70103; ``number`` counts from 1."""

    number: int
    rule: str
    location: Location
    commitment: bytes

    @property
    def mark(self) -> str:
        return mark_of(self.rule, self.number)

    def to_header(self) -> list[Any]:
        return [self.rule, str(self.location), self.commitment]


def mark_of(rule: str, number: int) -> str:
    return f"[REDACTED:{rule}:{number}]"


def commit(salt: bytes, original: str) -> bytes:
    """SHA-256(salt ‖ original in UTF-8); the salt has one length, so no two pairs give the same input."""
    if len(salt) != SALT_BYTES:
        raise MalformedError(f"a salt has {SALT_BYTES} bytes")
    return hashlib.sha256(salt + original.encode()).digest()


def read_header(value: object) -> tuple[Redaction, ...]:
    """The redactions that a protected header declares; MalformedError where it is no such list."""
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_REDACTIONS:
        raise MalformedError(f"label -70103 (redactions) is a list of 1 to {MAX_REDACTIONS} items")
    return tuple(_read_item(number, item) for number, item in enumerate(value, 1))


def _read_item(number: int, item: object) -> Redaction:
    if not isinstance(item, list | tuple) or len(item) != 3:
        raise MalformedError(f"redaction {number} is not [rule, location, commitment]")
    rule, location, commitment = item
    if not isinstance(rule, str) or not _RULE.fullmatch(rule):
        raise MalformedError(f"redaction {number} names no rule")
    if not isinstance(location, str):
        raise MalformedError(f"redaction {number} has no location")
    if not isinstance(commitment, bytes) or len(commitment) != DIGEST_BYTES:
        raise MalformedError(f"redaction {number} has no commitment of {DIGEST_BYTES} bytes")
    return Redaction(number, rule, Location.from_text(location), commitment)


@dataclass(frozen=True, slots=True)
class Disclosure:
    """One item's salt and original, as its owner hands them to somebody."""

    number: int
    rule: str
    location: str
    salt: bytes
    original: str

    @classmethod
    def from_json(cls, data: bytes) -> Disclosure:
        value = strict_json.loads(data)
        if not isinstance(value, dict) or value.get(_VERSION) != 1:
            raise MalformedError(f'not a disclosure: "{_VERSION}": 1 is missing')
        disclosure = cls.from_item(value)
        if value != disclosure.to_json():
            # What is not checked must not stand beside what is: a reader would take it for verified.
            raise MalformedError("a disclosure has other members than it may")
        return disclosure

    @classmethod
    def from_item(cls, value: object) -> Disclosure:
        """From an item of the owner's side file, or a disclosure: they have the same members."""
        if not isinstance(value, Mapping):
            raise MalformedError("a disclosure is an object")
        number, rule, location = value.get("item"), value.get("rule"), value.get("location")
        salt, original = value.get("salt"), value.get("original")
        if type(number) is not int or number < 1:
            raise MalformedError("a disclosure says which item it is of")
        if not isinstance(rule, str) or not isinstance(location, str) or not isinstance(original, str):
            raise MalformedError("a disclosure has rule, location and original as text")
        if not isinstance(salt, str) or not re.fullmatch(r"[0-9a-f]{64}", salt):
            raise MalformedError(f"a disclosure's salt is {SALT_BYTES} bytes in lower-case hex")
        return cls(number, rule, location, bytes.fromhex(salt), original)

    def to_json(self) -> dict[str, Any]:
        return {_VERSION: 1, **self.to_item()}

    def to_item(self) -> dict[str, Any]:
        return {
            "item": self.number,
            "rule": self.rule,
            "location": self.location,
            "salt": self.salt.hex(),
            "original": self.original,
        }

    def matches(self, redaction: Redaction) -> bool:
        """Whether this is what the statement committed to, at that place and under that rule."""
        same = (self.rule, self.location) == (redaction.rule, str(redaction.location))
        return same and hmac.compare_digest(commit(self.salt, self.original), redaction.commitment)


def strings_at(record: bytes, locations: Iterable[Location], *, by_line: bool) -> dict[tuple[int, str], str]:
    """The decoded strings that locations point to, by line and pointer; those that lead nowhere are left out.

    *by_line*: every line of the record is a JSON value (JSONL), so that only the lines in question need be read.
    MalformedError where the record is not strict JSON.
    """
    wanted: dict[int, set[str]] = {}
    for location in locations:
        wanted.setdefault(location.line, set()).add(location.pointer)
    found: dict[tuple[int, str], str] = {}
    if not wanted:
        return found
    data = without_bom(record)
    if data[:1] >= b"\xa0":  # CBOR, which has no lines: no JSON text begins with such a byte
        value = vac_cbor.json_form(vac_cbor.loads(data)).value
        return {(1, text): target for text in wanted.get(1, ()) if (target := _string_at(value, text)) is not None}
    line, position = 1, 0
    for extent, value in _lines(data, frozenset(wanted)) if by_line else _values(data):
        line += data.count(b"\n", position, extent.start)
        last = line + data.count(b"\n", extent.start, extent.end)
        for number in _between(wanted, line, last):
            for text in wanted[number]:
                target = _string_at(value, text)
                if target is not None:
                    found[number, text] = target
        line, position = last, extent.end
    return found


def _string_at(value: object, text: str) -> str | None:
    try:
        target = follow(value, text)
    except KeyError:
        return None
    return target if isinstance(target, str) else None


def _between(wanted: Mapping[int, object], first: int, last: int) -> Sequence[int]:
    if last - first < len(wanted):
        return [number for number in range(first, last + 1) if number in wanted]
    return [number for number in wanted if first <= number <= last]


def _values(data: bytes) -> Iterator[tuple[json_sequence.Extent, Any]]:
    return ((found.extent, found.value) for found in json_sequence.values(data))


def _lines(data: bytes, wanted: frozenset[int]) -> Iterator[tuple[json_sequence.Extent, Any]]:
    position, last = 0, max(wanted)
    for number in range(1, last + 1):
        if position >= len(data):
            return
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        if number in wanted and data[position:end].strip(b" \t\r"):
            yield json_sequence.Extent(position, end), strict_json.loads(data[position:end])
        position = end + 1
