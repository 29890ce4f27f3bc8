"""What a client asks of a log's search, and the answer, read with care: a page is data from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from transparency.cose.cbor import decode
from transparency.errors import MalformedError
from transparency.statements.statement import parse_entry_id

MAX_ANSWER: Final = 64 * 1024 * 1024
_TEXTS: Final = ("issuer", "subject", "content", "format", "vendor", "agent", "version", "folder", "record")
_LISTS: Final = ("sessions", "models", "tools", "paths")
_NUMBERS: Final = ("start", "end")


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One entry; *facts* is what the log said of it, by the names of its API. Nothing of it is proven by being there.

    With proofs asked for, *receipt* is the entry's.
    """

    index: int
    entry_id: str
    time: int
    facts: Mapping[str, Any]
    receipt: bytes | None = None


@dataclass(frozen=True, slots=True)
class SearchPage:
    """*after* is None on the last page; else ask again with *size* and *after*."""

    hits: tuple[SearchHit, ...]
    size: int
    indexed: int
    lag: int
    after: int | None


def query_string(parameters: Sequence[tuple[str, str]]) -> str:
    """Every value escaped, so that it arrives as it is: a space is not a plus."""
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters)


def read_page(data: bytes) -> SearchPage:
    """A page from its CBOR; MalformedError for anything else."""
    value = decode(data)
    if not isinstance(value, Mapping) or not isinstance(value.get("entries"), list | tuple):
        raise MalformedError("a page of search results is a map with entries")
    after = None if value.get("after") is None else _number(value, "after")
    hits = tuple(_hit(entry) for entry in value["entries"])
    return SearchPage(hits, _number(value, "size"), _number(value, "indexed"), _number(value, "lag"), after)


def _hit(value: object) -> SearchHit:
    if not isinstance(value, Mapping):
        raise MalformedError("an entry among search results is not a map")
    identity, receipt = value.get("entry"), value.get("receipt")
    if not isinstance(identity, str) or not isinstance(receipt, bytes | None):
        raise MalformedError("an entry among search results has no entry id, or a receipt that is no byte string")
    parse_entry_id(identity)
    return SearchHit(_number(value, "index"), identity, _number(value, "time"), _facts(value), receipt)


def _facts(value: Mapping[Any, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {name: value[name] for name in _TEXTS if isinstance(value.get(name), str)}
    for name in _LISTS:
        listed = value.get(name)
        if isinstance(listed, list | tuple):
            facts[name] = [item for item in listed if isinstance(item, str)]
    facts |= {name: value[name] for name in _NUMBERS if type(value.get(name)) is int}
    facts |= {name: value[name] for name in ("complete", "erased") if isinstance(value.get(name), bool)}
    return facts


def _number(value: Mapping[Any, Any], name: str) -> int:
    found = value.get(name)
    if type(found) is not int or found < 0:
        raise MalformedError(f"'{name}' among search results is not a number")
    return found
