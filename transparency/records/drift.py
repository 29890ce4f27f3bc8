"""Drift: what a native record holds that this reader does not know. Each thing is said once, with its count.

Native formats have no specification, so nothing in them is a violation; but a vendor's new kind of line should be seen
by somebody, and a million of them should not be a million messages.
"""

from __future__ import annotations

from transparency.records.violation import MAX_VIOLATIONS, Violation

_LONGEST = 80


class Drift:
    """What has been seen so far: message → where it was seen first, and how often."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, int]] = {}

    def saw(self, message: str, line: int, pointer: str = "") -> None:
        """*line* is 0 where the pointer alone says the place."""
        where, times = self._seen.get(message, (f"line {line}: {pointer}" if line else pointer, 0))
        if times or len(self._seen) < MAX_VIOLATIONS:
            self._seen[message] = (where, times + 1)

    def unknown(self, what: str, kind: object, line: int, pointer: str) -> None:
        """A kind that is not known; it is kept whole by the conversion all the same."""
        named = repr(kind[:_LONGEST]) if isinstance(kind, str) else f"without a name ({type(kind).__name__})"
        self.saw(f"unknown {what} {named}: kept as an event", line, pointer)

    def warnings(self) -> list[Violation]:
        return [
            Violation("warning", where, message if times == 1 else f"{message} ({times} times)")
            for message, (where, times) in self._seen.items()
        ]
