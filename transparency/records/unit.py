"""The unit: the smallest native piece of a record, which every canonical entry made from it names.

A unit is a line (JSONL), a message (Gemini JSON, OpenCode export), an object (OpenCode), an event (AgentLog), a step
(A2A), a file range (Agent Trace): formats.md 9. Its exact bytes are hashed, so that a reviewer can walk back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import strict_json

# A unit is an entry of its own, and an entry is 1 to 2 KB in memory however small its unit.
MAX_UNITS: Final = 1_000_000
MAX_LINE_BYTES: Final = 64 * 1024 * 1024


@dataclass(slots=True)
class Unit:
    """``ref`` says where it stands: ``{"line": 3}``, ``{"index": 2}`` or ``{"path": "message/…/msg_1.json"}``.

    A message with many parts is named by an entry for each of them, so it is hashed once.
    """

    ref: Mapping[str, str | int]
    raw: bytes
    value: Any
    _digest: str = field(default="", repr=False, compare=False)

    def source_ref(self) -> dict[str, str | int]:
        """The ``source-ref`` of every entry made from this unit (formats.md 8.1 rule 4)."""
        if not self._digest:
            self._digest = hashlib.sha256(self.raw).hexdigest()
        return {**self.ref, "sha-256": self._digest}

    def without_bytes(self) -> Unit:
        """The unit known by its hash: who holds all units of a large source must not hold its bytes twice."""
        self.source_ref()
        return Unit(self.ref, b"", self.value, self._digest)


def lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of each line that is not blank, without its ending; nothing is copied but the line."""
    start, number = 0, 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        number += 1
        line = data[start:end]
        if line.strip(b" \t\r"):
            yield number, line.removesuffix(b"\r")
        start = end + 1


def jsonl_units(data: bytes) -> Iterator[Unit]:
    """Every line as a unit, parsed strictly; the error names the line of the file, not of the unit."""
    for count, (number, line) in enumerate(lines(data)):
        if count >= MAX_UNITS:
            raise MalformedError(f"line {number}: more than {MAX_UNITS} lines are not read")
        if len(line) > MAX_LINE_BYTES:
            raise MalformedError(f"line {number}: longer than {MAX_LINE_BYTES} bytes")
        try:
            value = strict_json.loads(line)
        except MalformedError as error:
            raise MalformedError(str(error).replace("line 1,", f"line {number},", 1)) from None
        yield Unit({"line": number}, line, value)
