"""Whether a store that is only looked at has all that was acknowledged: a batch may be in the journal first.

A running log has it in the store a moment later (decision 0020), so who looks waits for that moment: long where a
server answers at the folder's door, for its disk may be slow, and shortly elsewhere. If it does not come the log was
not stopped in order, and its next start brings back what the journal keeps.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import Final

from transparency.errors import LogUnusableError, TransparencyError
from transparency.log import redo
from transparency.log.door import is_served
from transparency.log.durable import DurableFile
from transparency.log.folder import Config, Folder
from transparency.log.mark import Mark, MarkValue
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Store

SERVED_SECONDS: Final = 10.0
UNSERVED_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.02
_logger = logging.getLogger("transparency.log")


class UnsettledError(LogUnusableError):
    """The journal keeps what the store does not have."""


class _ReadOnlyFile(DurableFile):
    """The mark of a log that is looked at only: it may lie on a read-only disk, or be another user's."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def read_settled(folder: Folder, path: Path, origin: str, store: Store) -> MarkValue:
    """The mark in the file *path*, when *store* has all that its journal keeps; UnsettledError if it does not get it.

    Any other LogUnusableError is about the mark itself.
    """
    with contextlib.closing(Mark.open(path, origin, _ReadOnlyFile)) as mark:
        until: float | None = None
        while lost := redo.lost(tip := store.tip(), mark.kept):
            now = time.monotonic()
            if until is None:
                until = now + (SERVED_SECONDS if is_served(folder) else UNSERVED_SECONDS)
            if now >= until:
                last = lost[-1].after[0] - 1
                raise UnsettledError(
                    f"entries {tip.size} to {last} were acknowledged and are not in {folder.path}, but in the journal "
                    f"of {path}: the log was killed or lost power, or stands still. Start it, which brings them back, "
                    "and look again"
                )
            time.sleep(_LOOK_SECONDS)
        return mark.value


def is_behind(folder: Folder) -> bool:
    """Whether the folder lacks, at this moment, what the journal of its mark keeps, and no server is there to mend it.

    Who took it over would take that out of the journal, for good, into this folder: which may be a copy.
    """
    with contextlib.suppress(TransparencyError, OSError):  # what is wrong is said by who opens it
        config = Config.read(folder.config)
        if config.db is None and not is_served(folder):
            with (
                contextlib.closing(SqliteStore.for_reading(folder.database)) as store,
                contextlib.closing(Mark.open(config.watermark, config.origin, _ReadOnlyFile)) as mark,
            ):
                return bool(redo.lost(store.tip(), mark.kept))
    return False


def wait_for(folder: Folder, config: Config, store: Store) -> None:
    """Have *store* hold what was acknowledged before, if the log runs and its mark can be read. For any who look."""
    if not os.access(config.watermark, os.R_OK):
        return
    try:
        read_settled(folder, config.watermark, config.origin, store)
    except UnsettledError as error:
        _logger.warning("%s; until then this is about what is there", error)
    except (TransparencyError, OSError):
        return  # what is wrong with a mark is said by who asks for it
