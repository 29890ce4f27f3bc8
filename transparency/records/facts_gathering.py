"""Gathering: facts as a walk finds them in one record, and the lenient reading that the walks share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.records.reading import NOTHING, current
from transparency.records.unit import MAX_LINE_BYTES, lines

MAX_SESSIONS: Final = 64
MAX_MODELS: Final = 64
MAX_TOOLS: Final = 256
MAX_PATHS: Final = 512
MAX_CHARS: Final = 1024
MAX_DOCUMENT: Final = 64 * 1024 * 1024
MAX_ARGUMENTS: Final = 256 * 1024

# What tools call the file they work on.
PATHS: Final = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file")
PATCH: Final = "*** "
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)


@dataclass(slots=True)
class Gathering:
    """Dictionaries for their order; every adder takes anything and keeps only fitting texts."""

    sessions: dict[str, None] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)
    tools: dict[str, None] = field(default_factory=dict)
    paths: dict[str, None] = field(default_factory=dict)
    vendor: str | None = None
    agent: str | None = None
    version: str | None = None
    folder: str | None = None
    complete: bool = True
    start: object = None
    end: object = None
    first: object = None
    last: object = None

    def session(self, value: object) -> None:
        self.add_to(self.sessions, value, MAX_SESSIONS)

    def model(self, value: object) -> None:
        self.add_to(self.models, value, MAX_MODELS)

    def tool(self, value: object) -> None:
        self.add_to(self.tools, value, MAX_TOOLS)

    def path(self, value: object) -> None:
        self.add_to(self.paths, value, MAX_PATHS)

    def call(self, name: object, given: object) -> None:
        """A tool call: its name, and the files that its input names."""
        self.tool(name)
        if isinstance(given, Mapping):
            for member in PATHS:
                if member in given:
                    self.path(given[member])
        elif isinstance(given, str) and PATCH in given:
            for match in _PATCHED.finditer(given[:MAX_ARGUMENTS]):
                self.path(match[1] or match[2])

    def by(self, *, vendor: object = None, agent: object = None, version: object = None) -> None:
        """Who made the record; what was said first stays."""
        self.vendor = self.vendor or self._fitting(vendor)
        self.agent = self.agent or self._fitting(agent)
        self.version = self.version or self._fitting(version)

    def within(self, folder: object) -> None:
        self.folder = self.folder or self._fitting(folder)

    def time(self, value: object) -> None:
        """A time in the order of the record; numbers and texts as formats write them."""
        if value is not None:
            self.first = value if self.first is None else self.first
            self.last = value

    def span(self, start: object, end: object) -> None:
        """What the record states of the whole; it counts more than the times of its parts."""
        self.start = start if self.start is None else self.start
        self.end = end if end is not None else self.end

    def add_to(self, where: dict[str, None], value: object, most: int) -> None:
        if not isinstance(value, str) or value in where:
            return
        fitting = self._fitting(value)
        if fitting is None:
            return
        if len(where) < most:
            where[fitting] = None
        else:
            self.complete = False

    def _fitting(self, value: object) -> str | None:
        if not isinstance(value, str) or not value:
            return None
        if len(value) > MAX_CHARS:
            self.complete = False
            return None
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:  # half a surrogate pair: no query can hold it
                return None
        return value


def json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    for _, line in lines(data):
        if len(line) > MAX_LINE_BYTES:
            continue
        try:
            value = _loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def document(data: bytes) -> Any:  # noqa: ANN401 - JSON
    if len(data) > MAX_DOCUMENT:
        raise ValueError("too large to be parsed whole")
    return _loads(data)


def _loads(data: bytes) -> Any:  # noqa: ANN401 - JSON
    """Leniently; what a strict reader has made of it already is taken as it is."""
    known = current()
    value = NOTHING if known is None else known.take(data)
    return json.loads(data) if value is NOTHING else value


def as_map(value: object) -> Mapping[str, Any]:
    # First what nearly all are: asking an abstract class costs ten times as much.
    return value if isinstance(value, dict) or isinstance(value, Mapping) else {}  # noqa: SIM101


def maps(value: object) -> Iterable[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list | tuple) else ()


def one_or_lines(data: bytes) -> Iterable[dict[str, Any]]:
    """The one object that *data* is, else every line that is one."""
    try:
        value = document(data)
    except ValueError:
        return json_lines(data)
    return [value] if isinstance(value, dict) else []
