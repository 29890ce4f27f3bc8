"""Members of a native object while it is mapped: what a converter takes is canonical, the rest goes under ``native``.

A member counts as taken only if it had the type that its canonical place asks for. So a number where a text should
stand is neither forced into the schema nor lost (formats.md 8.1 rule 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from transparency.records.canonical import NULLABLE, SessionDraft, rest
from transparency.records.unit import Unit

T = TypeVar("T")


class Members:
    """One native object, and what of it nobody has taken yet."""

    __slots__ = ("left", "value")

    def __init__(self, value: object, *taken: str) -> None:
        self.value: Mapping[str, Any] = value if isinstance(value, dict) else {}
        self.left: dict[str, Any] = {name: member for name, member in self.value.items() if name not in taken}

    def text(self, name: str) -> str | None:
        """The member if it is a text that says something."""
        found = text(self.left, name)
        if found is not None:
            del self.left[name]
        return found

    def take(self, name: str, kind: type[T]) -> T | None:
        """The member, if it is exactly of that type (a bool is no int); else it stays."""
        value = self.left.get(name)
        if type(value) is not kind:
            return None
        del self.left[name]
        return value

    def any(self, name: str) -> Any:  # noqa: ANN401 - a JSON value
        """The member, whatever it is; null and absent both give None."""
        return self.left.pop(name, None)

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """Those of *names* that are not null."""
        return {name: self.left.pop(name) for name in names if self.left.get(name) is not None}

    def done(self, *names: str) -> None:
        """Say that these have been read elsewhere."""
        for name in names:
            self.left.pop(name, None)

    def rest(self) -> dict[str, Any]:
        """What nobody took, verbatim, null included."""
        return rest(self.left, ())


def text(value: object, name: str) -> str | None:
    """The member if it is a text that says something (and so can be looked up: a list cannot)."""
    # First what nearly all are: asking an abstract class costs ten times as much.
    return said(value.get(name)) if isinstance(value, dict) or isinstance(value, Mapping) else None  # noqa: SIM101


def said(value: object) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value else None


def required(draft: SessionDraft, unit: Unit, kind: str, native: Mapping[str, Any], source: str) -> Any:  # noqa: ANN401
    """What the schema requires of an entry of *kind*: null stays null; absent becomes null, and is told."""
    if source not in native:
        place = " ".join(str(part) for item in unit.ref.items() for part in item)
        draft.filled.append(f"{kind} {NULLABLE[kind]} ({place})")
    return native.get(source)


def count(value: object) -> int | None:
    """A number of tokens: the schema's ``uint``. A bool is not a number, nor is 12.0."""
    return value if type(value) is int and 0 <= value < 1 << 64 else None
