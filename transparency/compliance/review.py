"""A review: a person looked at an entry, and says what they think of it, as a statement of their own.

The payload is deterministic CBOR; what is accepted prints back the same. Whoever may register may review; who it was
is the statement's issuer, and by name the ``reviewer``, which is only as good as the issuer's word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.policy.fields import number, read_map, text
from transparency.statements.statement import parse_entry_id

CONTENT_TYPE: Final = "application/vnd.agent-transparency.review+cbor"
ACCEPTED: Final = "accepted"
VERDICTS: Final = (ACCEPTED, "concern", "rejected")
MAX_NOTE: Final = 4_000
MAX_NAME: Final = 300
_ENTRY_CHARS: Final = 43
_MEMBERS: Final = frozenset({"entry", "verdict", "note", "reviewer", "time"})


@dataclass(frozen=True, slots=True)
class Review:
    """``entry`` is what was looked at; ``time`` (seconds since 1970) is when, by the reviewer's clock."""

    entry: str
    verdict: str
    note: str
    reviewer: str
    time: int

    def to_bytes(self) -> bytes:
        value: dict[str, Any] = {name: getattr(self, name) for name in _MEMBERS}
        return cbor.encode(value)

    @classmethod
    def from_bytes(cls, data: bytes) -> Review:
        """Read one; MalformedError for whatever is not the one form."""
        said = read_map(data, "a review", _MEMBERS)
        entry = text(said["entry"], "review.entry", _ENTRY_CHARS)
        parse_entry_id(entry)
        if said["verdict"] not in VERDICTS:
            raise MalformedError(f"review.verdict is one of {', '.join(VERDICTS)}")
        review = cls(
            entry,
            said["verdict"],
            words(said["note"], "review.note", MAX_NOTE),
            text(said["reviewer"], "review.reviewer", MAX_NAME),
            number(said["time"], "review.time"),
        )
        if review.to_bytes() != data:
            raise MalformedError("a review is deterministic CBOR")
        return review


def words(value: object, what: str, most: int) -> str:
    """Printable text of several lines."""
    if not isinstance(value, str):
        raise MalformedError(f"{what} is not text")
    text(value.replace("\n", " "), what, most)
    return value
