"""The lines of the access log, both ways: one JSON object each, chained by SHA-256, in the one form that is read back.

    {"n":17,"time":"2026-11-16T12:00:00.000Z","who":"token:0123456789ab","action":"read-statement",
     "what":"<entry id>","status":200,"chain":"<hex>"}

``chain`` is SHA-256 over the chain of the line before and this line without it. A segment (a file) opens with a line of
its own, ``{"n","time","log","segment","previous","chain"}``, which repeats the chain before it: a segment can be
checked without those before it, once their end is known from a registered digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Final

from transparency.errors import MalformedError
from transparency.records.strict_json import loads
from transparency.records.timestamps import instant, rfc3339

# An origin may be long, and each of its characters six bytes; any other line has some hundred.
MAX_LINE: Final = 65_536
NO_CHAIN: Final = bytes(32)
_CHAIN: Final = re.compile(rb',"chain":"([0-9a-f]{64})"\}')
_CHAIN_LENGTH: Final = len(b',"chain":""}') + 64
# Names and numbers only: nothing that a client wrote freely has a place in the log.
_WORD: Final = re.compile(r"[A-Za-z0-9_.,:=/-]{0,200}")
_USE: Final = ("n", "time", "who", "action", "what", "status")
_OPENING: Final = ("n", "time", "log", "segment", "previous")


@dataclass(frozen=True, slots=True)
class Use:
    """Somebody used the log: *who* by token, address or ``local``; *what* an entry, a digest or a kind of query."""

    number: int
    time: int  # milliseconds since 1970
    who: str
    action: str
    what: str
    status: int

    def to_body(self) -> bytes:
        for word in (self.who, self.action, self.what):
            if not _WORD.fullmatch(word):
                raise MalformedError("the access log holds names and numbers, no other text")
        return _json(dict(zip(_USE, (self.number, _time(self.time), *self._words(), self.status), strict=True)))

    def _words(self) -> tuple[str, str, str]:
        return self.who, self.action, self.what


@dataclass(frozen=True, slots=True)
class Opening:
    """The first line of a segment."""

    number: int
    time: int
    log: str
    segment: int
    previous: bytes

    def to_body(self) -> bytes:
        values = (self.number, _time(self.time), self.log, self.segment, self.previous.hex())
        return _json(dict(zip(_OPENING, values, strict=True)))


Line = Use | Opening


def chain_of(previous: bytes, body: bytes) -> bytes:
    return hashlib.sha256(previous + body).digest()


def write_line(line: Line, previous: bytes) -> tuple[bytes, bytes]:
    """The bytes of a line that follows the chain *previous*, and the chain after it."""
    body = line.to_body()
    chain = chain_of(previous, body)
    return b'%s,"chain":"%s"}\n' % (body[:-1], chain.hex().encode()), chain


def read_line(data: bytes) -> tuple[Line, bytes, bytes]:
    """A line without its end: what it says, the bytes its chain is over, and the chain it states."""
    match = _CHAIN.fullmatch(data, max(0, len(data) - _CHAIN_LENGTH))
    if match is None or len(data) > MAX_LINE:
        raise MalformedError("not a line of the access log")
    body = data[: match.start()] + b"}"
    line = _line(loads(body, max_size=MAX_LINE))
    if line.to_body() != body:
        raise MalformedError("not in the form in which the access log writes")
    return line, body, bytes.fromhex(match[1].decode())


def _line(members: object) -> Line:
    if not isinstance(members, dict):
        raise MalformedError("not an object")
    values = list(members.values())
    time = instant(members.get("time"))
    if time is None or not all(type(members.get(name, 0)) is int for name in ("n", "segment", "status")):
        raise MalformedError("a time or number is none")
    if not all(isinstance(members.get(name, ""), str) for name in ("who", "action", "what", "log", "previous")):
        raise MalformedError("a name is none")
    if tuple(members) == _USE:
        return Use(values[0], time, *values[2:])
    if tuple(members) == _OPENING:
        try:
            return Opening(values[0], time, values[2], values[3], bytes.fromhex(values[4]))
        except ValueError:
            raise MalformedError("the chain before a segment is hexadecimal") from None
    raise MalformedError("not the members of a line")


def _time(milliseconds: int) -> str:
    text = rfc3339(milliseconds)
    if text is None:
        raise MalformedError("the clock shows no date")
    return text


def _json(members: dict[str, object]) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode("ascii")
