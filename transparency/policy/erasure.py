"""The erasure: the service states that content of certain entries goes, by what rule and on whose word (REG-20).

It is registered before a byte goes, so a log tells for ever what is missing from it and why. It names index and entry
id and never a digest of what is erased: whoever guesses a short record could prove the guess with one. The digest of an
artifact stands in its envelope, which stays.

Canonical CBOR: ``{"log", "items": [{"index", "entry", "what", "rule", "authoriser", "time"}, …]}``. An entry that
refers to the same artifact, was registered before the erasure, and is not named by it or an earlier one, keeps it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.policy.fields import as_map, number, read_map, text
from transparency.statements.statement import parse_entry_id

ARTIFACT: Final = "artifact"
PAYLOAD: Final = "payload"
MAX_ITEMS: Final = 1_000
MAX_RULE: Final = 1_000
MAX_NAME: Final = 256
MAX_LOG: Final = 8_192
_MEMBERS: Final = frozenset({"log", "items"})
_ITEM: Final = frozenset({"index", "entry", "what", "rule", "authoriser", "time"})


@dataclass(frozen=True, slots=True)
class Item:
    """What goes of one entry: its artifact, or the statement with its payload."""

    index: int
    entry: str
    what: str
    rule: str
    authoriser: str
    time: int

    @classmethod
    def from_map(cls, value: object) -> Item:
        members = as_map(value, "an item of an erasure", _ITEM)
        entry = text(members["entry"], "erasure.entry", MAX_NAME)
        parse_entry_id(entry)
        if members["what"] not in (ARTIFACT, PAYLOAD):
            raise MalformedError(f"erasure.what is {ARTIFACT} or {PAYLOAD}")
        return cls(
            index=number(members["index"], "erasure.index"),
            entry=entry,
            what=members["what"],
            rule=text(members["rule"], "erasure.rule", MAX_RULE),
            authoriser=text(members["authoriser"], "erasure.authoriser", MAX_NAME),
            time=number(members["time"], "erasure.time"),
        )


@dataclass(frozen=True, slots=True)
class Erasure:
    log: str
    items: tuple[Item, ...]

    @classmethod
    def from_bytes(cls, data: bytes) -> Erasure:
        members = read_map(data, "an erasure", _MEMBERS, max_items=16 * MAX_ITEMS)
        items = members["items"]
        if not isinstance(items, list) or not 1 <= len(items) <= MAX_ITEMS:
            raise MalformedError(f"erasure.items is an array of 1 to {MAX_ITEMS}")
        erasure = cls(
            text(members["log"], "erasure.log", MAX_LOG),
            tuple(Item.from_map(item) for item in items),
        )
        indexes = [item.index for item in erasure.items]
        if indexes != sorted(set(indexes)):
            raise MalformedError("erasure.items stand in the order of their indexes, each index once")
        if erasure.to_bytes() != data:
            raise MalformedError("an erasure is deterministic CBOR")
        return erasure

    def to_bytes(self) -> bytes:
        return cbor.encode({"log": self.log, "items": [asdict(item) for item in self.items]})
