"""The strings of a JSON text where they stand: for changing some of them and not one byte of anything else.

The text has been read strictly before; here its tokens are walked without building values, each string with the path
that leads to it. Offsets count characters of the *decoded* string (code points), whatever escapes it is written in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

# Possessive (Python 3.11): a string is passed over once, whatever it holds.
_TOKEN: Final = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"|[{}\[\],]', re.DOTALL)
# An escape is one character; so is a surrogate pair written as two.
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)

Path = tuple[str | int, ...]


class Token(NamedTuple):
    """A string (``kind`` "key" or "value", the span is inside its quotes) or the bracket that opens an object ("{")."""

    kind: str
    start: int
    end: int
    path: Path


class Walker:
    """Walks the tokens of one JSON text; ``skip_to`` goes on after an object that is to be taken whole."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._steps: list[str | int] = []
        self._wants_key = False

    def skip_to(self, position: int) -> None:
        """Go on at *position*, the end of the object just given; it is as if the object had been a plain value."""
        self._position = position
        self._leave()

    def __iter__(self) -> Iterator[Token]:
        text, steps = self._text, self._steps
        while (match := _TOKEN.search(text, self._position)) is not None:
            self._position = match.end()
            first = text[match.start()]
            if first == '"':
                start, end = match.span(1)
                if self._wants_key:
                    self._wants_key = False
                    steps[-1] = decoded(text[start:end])
                    yield Token("key", start, end, tuple(steps))
                else:
                    yield Token("value", start, end, tuple(steps))
            elif first == "{":
                path = tuple(steps)
                steps.append("")
                self._wants_key = True
                yield Token("{", match.start(), match.end(), path)
            elif first == "[":
                steps.append(0)
                self._wants_key = False
            elif first == ",":
                step = steps[-1]
                self._wants_key = isinstance(step, str)
                if isinstance(step, int):
                    steps[-1] = step + 1
            else:
                self._leave()

    def _leave(self) -> None:
        self._steps.pop()
        self._wants_key = False


def object_end(text: str, start: int) -> int:
    """Where the object that opens at *start* has ended."""
    depth = 0
    for match in _TOKEN.finditer(text, start):
        first = text[match.start()]
        if first in "{[":
            depth += 1
        elif first in "}]":
            depth -= 1
            if not depth:
                return match.end()
    return len(text)


def decoded(raw: str) -> str:
    """The string that stands as *raw* between quotes."""
    return str(json.loads(f'"{raw}"')) if "\\" in raw else raw


class Edit(NamedTuple):
    """Characters *start* to *end* of a decoded string become *text*, which needs no escapes."""

    start: int
    end: int
    text: str


def edited(raw: str, edits: Sequence[Edit]) -> str:
    """*raw* with the edits made; they are in order and do not overlap. What is not edited keeps its spelling."""
    places = _raw_offsets(raw, [offset for edit in edits for offset in (edit.start, edit.end)])
    spans = zip(places[::2], places[1::2], strict=True)
    return replaced(raw, [Edit(start, end, edit.text) for (start, end), edit in zip(spans, edits, strict=True)])


def replaced(text: str, edits: Sequence[Edit]) -> str:
    """A decoded string with the edits made."""
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += (text[position : edit.start], edit.text)
        position = edit.end
    pieces.append(text[position:])
    return "".join(pieces)


def _raw_offsets(raw: str, wanted: Sequence[int]) -> list[int]:
    """For each character offset of the decoded string, in order, where that character begins in *raw*."""
    if "\\" not in raw:
        return list(wanted)
    found: list[int] = []
    # Before the current escape, raw offset = decoded offset + surplus.
    surplus, number = 0, 0
    for match in _ESCAPE.finditer(raw):
        at = match.start() - surplus
        while number < len(wanted) and wanted[number] <= at:
            found.append(wanted[number] + surplus)
            number += 1
        if number == len(wanted):
            return found
        surplus += match.end() - match.start() - 1
    return found + [offset + surplus for offset in wanted[number:]]


def pointer(path: Path) -> str:
    """RFC 6901."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def follow(value: object, text: str) -> object:
    """What an RFC 6901 pointer leads to in *value*; KeyError where it leads nowhere."""
    if not text:
        return value
    if not text.startswith("/"):
        raise KeyError(text)
    for step in text[1:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[name]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", name) and int(name) < len(value):
            value = value[int(name)]
        else:
            raise KeyError(text)
    return value
