"""What a monitor says: alarms, each with its own code, and entries that it was asked to watch for."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transparency.verifier.evidence import Evidence
    from transparency.witness.monitor_views import View

Code = Literal[
    "split-view", "rollback", "frozen", "missing-quorum", "unreachable", "bad-tile", "bad-checkpoint", "not-compared",
    "watch-failed",
]  # fmt: skip

MEANINGS: Final[Mapping[Code, str]] = MappingProxyType({
    "split-view": "the log signed two trees of which neither continues the other",
    "rollback": "the log shows a smaller tree than before",
    "frozen": "the log shows nothing new",
    "missing-quorum": "not enough witnesses have cosigned what the log shows",
    "unreachable": "a log or a witness does not answer",
    "bad-tile": "the log serves tiles or entries that are not those of its checkpoint",
    "bad-checkpoint": "the log serves something that is no checkpoint signed by a known key of it",
    "not-compared": "the log signed a smaller tree that could not be compared with the one that was followed",
    "watch-failed": "the log could not be searched for what is being watched",
})  # fmt: skip

STAYING: Final = "split-view "
"""How the key of an alarm begins that never ends by itself: what was signed stays signed."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a round looked at of a log, so that an alarm ends only over what was checked.

    ``answered``: the places that gave a checkpoint of it; ``heard``: those that gave any answer; ``read``: those whose
    tiles gave the root that they show. ``searched``: what is watched was searched for.
    """

    answered: AbstractSet[str]
    heard: AbstractSet[str]
    read: AbstractSet[str] = frozenset()
    searched: bool = True

    def has_ended(self, code: str, place: str) -> bool:
        """Whether an alarm that was not found again is over, or only was not looked into."""
        checked = {
            "split-view": False,
            "frozen": bool(self.answered),
            "watch-failed": self.searched,
            "bad-tile": place in self.read,
            "unreachable": place in self.heard,
            "not-compared": True,
        }
        return checked.get(code, place in self.answered)


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something is wrong with a log, at *place*: a URL of it, or a witness. *detail* says what was seen.

    ``views``: of a split view, the two.
    """

    code: Code
    origin: str
    place: str
    detail: str
    evidence: Evidence | None = None
    views: tuple[View, ...] = ()

    @property
    def key(self) -> str:
        """What makes it the same alarm in the next round, so that it is told once."""
        return f"{self.code} {self.place}"

    def to_json(self) -> dict[str, Any]:
        event: dict[str, Any] = {
            "event": "alarm",
            "code": self.code,
            "meaning": MEANINGS[self.code],
            "log": self.origin,
            "place": self.place,
            "detail": self.detail,
        }
        if self.views:
            event["views"] = [{"place": view.place, "size": view.size, "root": view.root.hex()} for view in self.views]
        return event


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that was watched for, as the log's search says; nothing of it is proven by that."""

    origin: str
    place: str
    watch: str
    value: str
    index: int
    entry_id: str

    def to_json(self) -> dict[str, Any]:
        return {
            "event": "match",
            "log": self.origin,
            "place": self.place,
            self.watch: self.value,
            "index": self.index,
            "entry": self.entry_id,
        }
