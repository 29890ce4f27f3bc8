"""How it stands with each log that a mirror follows, and the word that is said when that changes: the alarms."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from transparency.display import safe_text

_logger = logging.getLogger("transparency.mirror")


class Code(StrEnum):
    CURRENT = "current"
    UNREACHABLE = "unreachable"
    """No answer, or an error."""
    BAD_CHECKPOINT = "bad-checkpoint"
    """Something else than a checkpoint signed by a key on the list."""
    BAD_TILE = "bad-tile"
    """Tiles or entries that are not those of the checkpoint."""
    ROLLBACK = "rollback"
    """A smaller tree than was shown before."""
    SPLIT_VIEW = "split-view"
    """A tree that does not extend the one before. What the log signed is kept as evidence."""
    BUSY = "busy"
    """The log's own limit on new checkpoints, or somebody else moved it meanwhile: tried again."""
    DAMAGED = "damaged"
    """Not the log, but what is kept of it here. Nothing of it is cosigned until it is whole."""


_LEVELS: Final = {
    Code.CURRENT: logging.INFO,
    Code.BUSY: logging.INFO,
    Code.ROLLBACK: logging.ERROR,
    Code.BAD_TILE: logging.ERROR,
    Code.SPLIT_VIEW: logging.CRITICAL,
}


@dataclass(frozen=True, slots=True)
class Condition:
    code: Code
    detail: str = ""


class Conditions:
    """By origin. Owner: the event loop's thread. *damaged* are the logs that the mirror itself knows this of."""

    def __init__(self, damaged: Callable[[], Mapping[str, str]] = dict) -> None:
        self._known: dict[str, Condition] = {}
        self._damaged = damaged

    @property
    def all(self) -> Mapping[str, Condition]:
        damaged = {origin: Condition(Code.DAMAGED, words) for origin, words in self._damaged().items()}
        return {**self._known, **damaged}

    def of(self, origin: str) -> Condition | None:
        """None for a log that is not followed, but only pushed, and sound."""
        return self.all.get(origin)

    def note(self, origin: str, found: Condition) -> None:
        """Said when it is another than the last time, not every round."""
        before = self._known.get(origin)
        self._known[origin] = found
        if before is None and found.code is Code.CURRENT:
            return
        if before is None or before.code is not found.code:
            level = _LEVELS.get(found.code, logging.WARNING)
            _logger.log(level, "%s: %s: %s", safe_text(origin, 100), found.code, safe_text(found.detail, 300) or "well")

    def forget(self, origin: str) -> None:
        self._known.pop(origin, None)
