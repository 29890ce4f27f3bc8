"""Strict JSON: one value, in exactly the form RFC 8259 gives it, or an error that says where it is not.

Records are evidence, so two readers must never see two contents in the same bytes. Python's ``json`` alone
would let that happen: it keeps the last of two equal keys, takes ``NaN``, turns ``1e999`` into infinity and
an escaped lone surrogate into half a character. The fast path is the C parser with hooks; only when a hook
objects is the text walked a second time, slowly, to name line and column.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from transparency.errors import MalformedError
from transparency.records.reading import NOTHING, current

MAX_DEPTH: Final = 64
MAX_SIZE: Final = 64 * 1024 * 1024
# An empty object is two bytes of text and 64 of memory, one with a member 230: they are counted before any is made.
MAX_CONTAINERS: Final = 4_000_000
# A number of more digits than this has no use in a record, and quadratic cost in Python.
MAX_NUMBER: Final = 400

_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Every token of a text that the C parser took (or took up to where it objected).
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
BOM: Final = b"\xef\xbb\xbf"


def without_bom(data: bytes) -> bytes:
    """The text after a byte order mark: records are read from here on, their hashes are of the whole."""
    return data.removeprefix(BOM)


class _ObjectionError(Exception):
    """A hook refused something whose place it does not know; ``_locate`` finds it."""


def loads(data: bytes, *, max_depth: int = MAX_DEPTH, max_size: int = MAX_SIZE) -> Any:  # noqa: ANN401 - JSON
    """The one JSON value in ``data``; MalformedError with line and column where it is not strict JSON."""
    if len(data) > max_size:
        msg = f"the JSON text has {len(data)} bytes, more than the {max_size} that are read"
        raise MalformedError(msg)
    known = current()
    if known is not None and max_depth == MAX_DEPTH:
        value = known.take(data)
        if value is not NOTHING:
            return value
    text = _decode(data)
    containers = _bound_containers(text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        _fail(text, error.pos, _PHRASES.get(error.msg, error.msg))
    except (_ObjectionError, RecursionError):
        _locate(text, max_depth)
    if containers > max_depth and is_deeper(value, max_depth):  # nested lists have no hook in the parser
        _locate(text, max_depth)
    # The escapes are searched in the text because the parsed value no longer knows where they stood.
    if _SURROGATE_ESCAPE.search(text):
        _refuse_lone_surrogates(text)
    if known is not None and max_depth == MAX_DEPTH:
        known.keep(data, value)
    return value


# The parser ends these with "at" and the place, which is said before them here.
_PHRASES: Final = {
    "Unterminated string starting at": "a string that begins here has no end",
    "Invalid control character at": "a control character inside a string",
    "Extra data": "something follows the value",
}


def _decode(data: bytes) -> str:
    if data.startswith(BOM):
        msg = "line 1, column 1: a byte order mark, which JSON must not have (RFC 8259 §8.1)"
        raise MalformedError(msg)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        _fail(data[: error.start].decode("utf-8"), error.start, "not UTF-8", at_end=True)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _ObjectionError
    return members


def _number(text: str) -> float:
    value = float(text) if len(text) <= MAX_NUMBER else math.inf
    if not math.isfinite(value):
        raise _ObjectionError
    return value


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER:
        raise _ObjectionError
    return int(text)


def _constant(_: str) -> NoReturn:
    raise _ObjectionError


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_number, parse_int=_integer, parse_constant=_constant
)


def _bound_containers(text: str) -> int:
    """How many objects and arrays there are at most: brackets in strings count too, which is quick.

    Only a text with very many is looked at without its strings.
    """
    most = text.count("{") + text.count("[")
    if most <= MAX_CONTAINERS:
        return most
    bare = _STRING.sub("", text)
    most = bare.count("{") + bare.count("[")
    if most > MAX_CONTAINERS:
        raise MalformedError(f"the JSON text has more than {MAX_CONTAINERS} objects and arrays, which are not read")
    return most


def is_deeper(value: object, max_depth: int = MAX_DEPTH) -> bool:
    """Whether containers nest more than *max_depth* deep. Level by level, never recursing."""
    level: list[Any] = [value] if type(value) in (dict, list) else []
    for _ in range(max_depth):
        if not level:
            return False
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) in (dict, list)
        ]
    return bool(level)


def _refuse_lone_surrogates(text: str) -> None:
    """Each high half must be followed at once by a low one; nothing else is a character (RFC 8259 §8.2)."""
    high: re.Match[str] | None = None
    for match in _ESCAPE.finditer(text):
        digits = match.group(1)
        unit = int(digits, 16) if digits else 0
        if high is not None:
            if match.start() != high.end() or not 0xDC00 <= unit <= 0xDFFF:
                _fail(text, high.start(), "half of a surrogate pair")
            high = None
        elif 0xD800 <= unit <= 0xDBFF:
            high = match
        elif 0xDC00 <= unit <= 0xDFFF:
            _fail(text, match.start(), "half of a surrogate pair")
    if high is not None:
        _fail(text, high.start(), "half of a surrogate pair")


def _locate(text: str, max_depth: int) -> NoReturn:
    """Walk the tokens to the first thing the hooks object to, and refuse it there."""
    keys: list[set[str] | None] = []
    expecting_key = False
    for match in _TOKEN.finditer(text):
        start, first = match.start(), text[match.start()]
        if first in "{[":
            keys.append(set() if first == "{" else None)
            expecting_key = first == "{"
            if len(keys) > max_depth:
                _fail(text, start, f"nested more than {max_depth} deep")
        elif first in "}]":
            keys = keys[:-1]
            expecting_key = False
        elif first == ",":
            expecting_key = bool(keys) and keys[-1] is not None
        elif first == '"':
            if expecting_key:
                _note_key(keys[-1], match.group(), text, start)
            expecting_key = False
        elif first != ":":
            _judge_scalar(match.group(), text, start)
    # Only a text nested deeper than the parser goes, and not deeper than the caller allows, comes here.
    msg = "nested too deep to be read"
    raise MalformedError(msg)


def _note_key(seen: set[str] | None, literal: str, text: str, position: int) -> None:
    if seen is None:
        return
    key = json.loads(literal, strict=False)
    if key in seen:
        _fail(text, position, "this key stands twice in one object")
    seen.add(key)


def _judge_scalar(literal: str, text: str, position: int) -> None:
    if literal in ("NaN", "Infinity", "-Infinity"):
        _fail(text, position, f"{literal} is not JSON")
    if literal[0] not in "-0123456789":
        return
    if len(literal) > MAX_NUMBER or math.isinf(_as_float(literal)):
        _fail(text, position, "a number too large to be kept")


def _as_float(literal: str) -> float:
    try:
        return float(literal)
    except ValueError:
        return 0.0


def _fail(text: str, position: int, what: str, *, at_end: bool = False) -> NoReturn:
    position = len(text) if at_end else position
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    msg = f"line {line}, column {column}: {what}"
    raise MalformedError(msg) from None
