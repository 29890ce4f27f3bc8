"""Members of a native object while it is mapped: what a converter takes is canonical, the rest goes under ``native``.

A member counts as taken only if it had the type that its canonical place asks for. So a number where a text should
stand is neither forced into the schema nor lost (formats.md 8.1 rule 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from transparency.records.canonical import SessionDraft, rest
from transparency.records.unit import Unit

# What converters write under ``native`` themselves. A file must not be able to: a reader passes over what repeats.
MARKS: Final = frozenset(
    {"duplicate-of", "superseded-by", "rewound-by", "replaced-by", "changed-by", "line", "verbatim"}
)
REQUIRED: Final = {"tool-call": "input", "tool-result": "output", "reasoning": "content"}


class Members:
    """One native object and the names taken from it so far."""

    __slots__ = ("_taken", "value")

    def __init__(self, value: Mapping[str, Any], *taken: str) -> None:
        self.value = value
        self._taken = set(taken)

    def text(self, name: str) -> str | None:
        """The member if it is a text that says something."""
        found = text(self.value, name)
        if found is not None:
            self._taken.add(name)
        return found

    def any(self, name: str) -> Any:  # noqa: ANN401 - a JSON value
        """The member, whatever it is; null and absent both give None, but only what is there counts as taken."""
        if name in self.value:
            self._taken.add(name)
        return self.value.get(name)

    def rest(self) -> dict[str, Any]:
        """What nobody took, verbatim, null included; a member with the name of a mark of ours under ``verbatim``."""
        left = rest(self.value, self._taken)
        named_alike = {name: left.pop(name) for name in MARKS & left.keys()}
        return {**left, "verbatim": named_alike} if named_alike else left


def text(value: Mapping[str, Any], name: str) -> str | None:
    """The member if it is a text that says something (and so can be looked up: a list cannot)."""
    found = value.get(name)
    return found if isinstance(found, str) and found else None


def required(draft: SessionDraft, unit: Unit, kind: str, native: Mapping[str, Any], source: str) -> Any:  # noqa: ANN401
    """What the schema requires of an entry of *kind*: null stays null; absent becomes null, and is told."""
    if source not in native:
        place = " ".join(str(part) for item in unit.ref.items() for part in item)
        draft.filled.append(f"{kind} {REQUIRED[kind]} ({place})")
    return native.get(source)


def count(value: object) -> int | None:
    """A number of tokens: the schema's ``uint``. A bool is not a number, nor is 12.0."""
    return value if type(value) is int and 0 <= value < 1 << 64 else None
