"""Which rule is for which issuer: an exact ``iss`` first, then the longest pattern that matches.

In a pattern ``*`` is one or more characters within one label of a host, or within one segment of a path; ``**`` is
anything, also nothing. A pattern is run as a set of states, one step a character: no text makes it slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

from transparency.errors import MalformedError

LONGEST_PATTERN: Final = 512
# Patterns are for names of people's making; a longer iss is matched exactly or not at all.
LONGEST_MATCHED: Final = 1024
_PIECE: Final = re.compile(r"\*\*|\*|[^*]")
_NOT_IN_LABEL: Final = frozenset("./:@?#")
_NOT_IN_SEGMENT: Final = frozenset("/?#")
_CACHED: Final = 4096


class Pattern:
    """One pattern, compiled. ``length`` is what makes it more or less specific."""

    __slots__ = ("_any", "_final", "_label", "_letters", "_prefix", "_segment", "length", "text")

    def __init__(self, text: str) -> None:
        if not 0 < len(text) <= LONGEST_PATTERN or "***" in text:
            raise MalformedError(f"a pattern has 1 to {LONGEST_PATTERN} characters, and of asterisks * and ** only")
        self.text = text
        self.length = len(text)
        self._prefix = text.partition("*")[0]
        self._letters: dict[str, int] = {}
        self._any = self._label = self._segment = 0
        pieces = _PIECE.findall(text)
        for number, piece in enumerate(pieces):
            state = 1 << number
            if piece == "**":
                self._any |= state
            elif piece == "*":
                if _in_path("".join(pieces[:number])):
                    self._segment |= state
                else:
                    self._label |= state
            else:
                self._letters[piece] = self._letters.get(piece, 0) | state
        self._final = 1 << len(pieces)

    def matches(self, text: str) -> bool:
        if not text.startswith(self._prefix) or len(text) > LONGEST_MATCHED:
            return False
        # Bit n: the text so far may be followed by piece n. A `**` may be passed over at any time.
        states = self._closed(1)
        for letter in text:
            stay = states & self._any
            if letter not in _NOT_IN_SEGMENT:
                stay |= states & self._segment
                if letter not in _NOT_IN_LABEL:
                    stay |= states & self._label
            moved = states & self._letters.get(letter, 0)
            # One or more: a `*` that took a letter may take another or be done.
            states = self._closed((moved << 1) | stay | ((stay & ~self._any) << 1))
            if not states:
                return False
        return bool(states & self._final)

    def _closed(self, states: int) -> int:
        while (more := states | ((states & self._any) << 1)) != states:
            states = more
        return states


def _in_path(before: str) -> bool:
    """Whether a star after *before* stands in a path, as of ``https://host/``, and not in a host or a bare name."""
    _, slashes, rest = before.partition("//")
    return "/" in rest if slashes else "/" in before


class Named(Protocol):
    """Something that is for one ``iss``, or for those of a ``pattern``: the other one is empty."""

    @property
    def iss(self) -> str: ...
    @property
    def pattern(self) -> str: ...


_T = TypeVar("_T", bound=Named)


class Index(Generic[_T]):
    """Finds the rule for an issuer. Immutable but for a bounded memory of what patterns matched."""

    __slots__ = ("_exact", "_patterns", "_seen")

    def __init__(self, items: Iterable[_T]) -> None:
        items = tuple(items)
        self._exact = {item.iss: item for item in reversed(items) if item.iss}
        found = [(Pattern(item.pattern), item) for item in items if item.pattern]
        # A stable sort: of two that are as long, the first in the document.
        self._patterns = sorted(found, key=lambda pair: -pair[0].length)
        self._seen: dict[str, _T] = {}

    def find(self, iss: str) -> _T | None:
        found = self._exact.get(iss)
        if found is not None or not self._patterns:
            return found
        return self._seen.get(iss) or self._search(iss)

    def _search(self, iss: str) -> _T | None:
        found = next((item for pattern, item in self._patterns if pattern.matches(iss)), None)
        if found is not None:
            if len(self._seen) >= _CACHED:
                self._seen.clear()
            self._seen[iss] = found
        return found
