"""On which line of a TOML document a member stands. tomllib tells lines of syntax errors only, not where a value is.

A scanner for text that tomllib has read already: it need not know a valid document from a broken one, only where each
key, table and array item begins. Lines count from 1 and end in LF, as in TOML itself (never by ``str.splitlines``).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable

Path = tuple[str | int, ...]

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*+")
_BLANK = re.compile(r"[ \t]*+")
_BARE = re.compile(r"[A-Za-z0-9_-]++")
# A multi-line string may end in up to two quotes of its own before the three that close it.
_STRING = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"{3,5}'
    r"|'''(?:[^']|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'"
)
_SCALAR = re.compile(r"[^,\]}#\n]++")


def line_of(data: bytes, path: Path) -> int:
    """The line of *path*; where the document has none (a member that is missing), that of the nearest table above."""
    try:
        lines = lines_of(data.decode("utf-8"))
    except RecursionError:  # nested as deep as tomllib could just read it
        return 1
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def lines_of(text: str) -> dict[Path, int]:
    """The line of everything in the document: tables by their heading, members by their key, items by their value."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted = 0
        self._line = 1
        self._arrays: dict[Path, int] = {}
        self.lines: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        self._skip(_SPACE)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._heading()
            else:
                self._member(table)
            self._skip(_SPACE)

    def _heading(self) -> Path:
        line = self._here()
        array = self._text.startswith("[[", self._at)
        self._at += 2 if array else 1
        names = self._key()
        self._at += 2 if array else 1
        path = self._resolve((), names[:-1], line) + names[-1:]
        if not array:
            self._note(path, line)
            return path
        self._note(path, line)
        number = self._arrays.get(path, -1) + 1
        self._arrays[path] = number
        self._note((*path, number), line)
        return (*path, number)

    def _resolve(self, table: Path, names: Iterable[str | int], line: int) -> Path:
        """A name on the way that is an array of tables means the last one of them."""
        path = table
        for name in names:
            path = (*path, name)
            self._note(path, line)
            if path in self._arrays:
                path = (*path, self._arrays[path])
        return path

    def _member(self, table: Path) -> None:
        line = self._here()
        names = self._key()
        path = self._resolve(table, names[:-1], line) + names[-1:]
        self._note(path, line)
        self._at += 1  # the equals sign
        self._skip(_BLANK)
        self._value(path)

    def _key(self) -> tuple[str, ...]:
        names: list[str] = []
        while True:
            self._skip(_BLANK)
            bare = _BARE.match(self._text, self._at)
            if bare is not None:
                names.append(bare[0])
                self._at = bare.end()
            else:
                start = self._at
                self._skip(_STRING)
                names.append(tomllib.loads(f"x = {self._text[start : self._at]}")["x"])
            self._skip(_BLANK)
            if self._text[self._at] != ".":
                return tuple(names)
            self._at += 1

    def _value(self, path: Path) -> None:
        opening = self._text[self._at]
        if opening == "[":
            self._items(path)
        elif opening == "{":
            self._inline(path)
        else:
            self._skip(_STRING if opening in "\"'" else _SCALAR)

    def _items(self, path: Path) -> None:
        self._at += 1
        self._skip(_SPACE)
        number = 0
        while self._text[self._at] != "]":
            self._note((*path, number), self._here())
            self._value((*path, number))
            number += 1
            self._skip(_SPACE)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip(_SPACE)
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._at += 1
        self._skip(_SPACE)
        while self._text[self._at] != "}":
            self._member(path)
            self._skip(_SPACE)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip(_SPACE)
        self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at + 1

    def _note(self, path: Path, line: int) -> None:
        self.lines.setdefault(path, line)

    def _here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line
