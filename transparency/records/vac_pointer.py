"""Where in a record: a path kept as linked pairs while walking, written as a JSON pointer (RFC 6901) when needed."""

from __future__ import annotations

from typing import Any, Final

from transparency.records.violation import token

# (path of the parent, key or index); None is the record itself. Linked, so that a step costs one small tuple.
Path = tuple[Any, "str | int"] | None

_LONGEST_TOKEN: Final = 256
_LONGEST_QUOTE: Final = 40


def pointer(path: Path) -> str:
    """The JSON pointer. A key of more than 256 characters is cut, so that a report stays smaller than its record."""
    tokens: list[str] = []
    while path is not None:
        path, key = path
        tokens.append(str(key) if type(key) is int else _short(str(key)))
    tokens.append("")
    return "/".join(reversed(tokens))


def _short(key: str) -> str:
    return token(key if len(key) <= _LONGEST_TOKEN else key[:_LONGEST_TOKEN] + "…")


def quoted(text: str) -> str:
    """Untrusted text for a message: short, and with everything but printable ASCII escaped."""
    return ascii(text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…")
