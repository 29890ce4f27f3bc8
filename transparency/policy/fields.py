"""The members of what the service states about itself, read strictly: whole numbers, and text that is bounded."""

from __future__ import annotations

from typing import Any, Final

from transparency.cose import cbor
from transparency.errors import MalformedError

MAX_NUMBER: Final = 2**53


def read_map(data: bytes, what: str, members: frozenset[str], *, max_items: int = 64) -> dict[str, Any]:
    """The CBOR map of exactly *members* that is all of *data*."""
    return as_map(cbor.decode(data, max_depth=4, max_items=max_items), what, members)


def as_map(value: object, what: str, members: frozenset[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != members:
        raise MalformedError(f"{what} is a map of {', '.join(sorted(members))}")
    return value


def number(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_NUMBER:
        raise MalformedError(f"{what} is not a whole number from 0 to {MAX_NUMBER}")
    return value


def text(value: object, what: str, most: int) -> str:
    """Printable text of 1 to *most* characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= most or not value.isprintable():
        raise MalformedError(f"{what} is not printable text of 1 to {most} characters")
    return value
