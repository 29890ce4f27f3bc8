"""Checking attributed ranges against a text: whether it holds the lines whose hash was recorded, and where.

Who made a hash does not always say of what. So the lines are tried with and without the ending of the last one, and
with CRLF as LF and as they are. A digest that was cut is not taken for the whole one: that would be easy to forge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.records.hashes import BY_NAME, Hash
from transparency.records.murmur3 import murmur3_hex

MATCH: Final = "match"
MOVED: Final = "moved"
CHANGED: Final = "changed"
MISSING: Final = "missing"
UNVERIFIABLE: Final = "unverifiable"

# Looking for lines that moved hashes every place they could be at: this many bytes, then it ends.
_MAX_SEARCH: Final = {"murmur3": 4 << 20}
_MAX_SEARCH_SHA: Final = 256 << 20
# Lines as short as a bracket are everywhere: they are not said to have moved.
_LEAST: Final = 24


def _hex(algorithm: Hash) -> Callable[[bytes], str]:
    return lambda data: algorithm.digest(data).hex()


_ALGORITHMS: Final[Mapping[str, tuple[int, Callable[[bytes], str]]]] = {
    **{name: (2 * algorithm.size, _hex(algorithm)) for name, algorithm in BY_NAME.items()},
    "murmur3": (8, murmur3_hex),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a range; *line* is where its first line stands now, if it does."""

    outcome: str
    line: int | None = None
    detail: str = ""


class Text:
    """A file's bytes as lines. ``lines`` are without their endings; ``raw`` keep a CR before the LF."""

    def __init__(self, data: bytes) -> None:
        self.raw = data.split(b"\n")
        if self.raw[-1] == b"":
            self.raw.pop()
        self.lines = [line.removesuffix(b"\r") for line in self.raw] if b"\r" in data else self.raw

    def forms(self, start: int, end: int) -> Iterator[bytes]:
        """Lines *start* to *end* in every form that a hash may have been made of; ours first."""
        for lines in (self.lines,) if self.lines is self.raw else (self.lines, self.raw):
            joined = b"\n".join(lines[start - 1 : end])
            yield joined
            yield joined + b"\n"


def check_range(found: Mapping[str, Any], text: Text) -> Verdict:
    """Whether *text* holds the lines of a range of -00: there, elsewhere, or not."""
    start, end = found.get("start-line"), found.get("end-line")
    digest, name = found.get("content-hash"), found.get("content-hash-alg", "sha-256")
    if type(start) is not int or type(end) is not int or not 1 <= start <= end:
        return Verdict(UNVERIFIABLE, detail="the range is none")
    if not isinstance(digest, str):
        return Verdict(UNVERIFIABLE, detail="no hash was recorded")
    name = name.lower() if isinstance(name, str) else ""
    length, hashed = _ALGORITHMS.get({"sha256": "sha-256"}.get(name, name), (0, None))
    if hashed is None:
        return Verdict(UNVERIFIABLE, detail=f"the hash is of an unknown kind ({name or 'not a name'})")
    if len(digest) != length or not re.fullmatch(r"[0-9a-fA-F]+", digest):
        return Verdict(UNVERIFIABLE, detail=f"the hash is not {length} hexadecimal digits")
    wanted = digest.lower()
    if end <= len(text.lines) and any(hashed(form) == wanted for form in text.forms(start, end)):
        return Verdict(MATCH, start)
    return _searched(text, end - start + 1, lambda data: hashed(data) == wanted, _MAX_SEARCH.get(name, _MAX_SEARCH_SHA))


def _searched(text: Text, count: int, is_it: Callable[[bytes], bool], most: int) -> Verdict:
    """Look for the lines at every other place, in the two forms without CR."""
    whole = b"\n".join(text.lines) + b"\n"
    starts = [0]
    for line in text.lines:
        starts.append(starts[-1] + len(line) + 1)
    places: list[int] = []
    for first in range(len(text.lines) - count + 1):
        with_end = whole[starts[first] : starts[first + count]]
        most -= 2 * len(with_end)
        if most < 0:
            return Verdict(CHANGED, detail="not at its place; the file is too large to look everywhere else")
        if is_it(with_end[:-1]) or is_it(with_end):
            places.append(first + 1)
    if not places:
        return Verdict(CHANGED)
    found = whole[starts[places[0] - 1] : starts[places[0] - 1 + count]]
    if len(places) > 1 or len(b"".join(found.split())) < _LEAST:
        return Verdict(CHANGED, detail="not at its place; lines like these stand elsewhere, but are too common to tell")
    return Verdict(MOVED, places[0])
