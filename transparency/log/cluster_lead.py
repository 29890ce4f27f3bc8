"""What must be true before a node with the lease leads: all that a start checks, and that no failover lost anything.

A standby that was promoted may have less than the primary had acknowledged. It is known by its timeline, or by being
another server. Then somebody has to vouch for its tip: the high-water mark in a second store, which was written before
each receipt left; or the operator, who has looked, and names size and root. Else no node leads. Behind the mark is
refused always.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from transparency.errors import TipMovedError
from transparency.log.appender import Appender, Clock
from transparency.log.documents import InForce
from transparency.log.durable import DurableFile
from transparency.log.folder import Config, Folder
from transparency.log.lease_table import Taken, failed_over
from transparency.log.mark import Mark, MarkValue, check_outside
from transparency.log.mark_postgres import PostgresMark
from transparency.log.opening import INIT_SIZE, make_ready, open_file_mark, wanted_key
from transparency.log.store import Store, Tip


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the operator found the database to hold, and says is all there ever was."""

    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Vouching:
    """Who can tell the newest state from an older one. A file is this machine's: it knows what this node released."""

    file: Path
    url: str | None = None
    accepted: Accepted | None = None


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """*name* is how other nodes and people call this one: where it is reached, best of all."""

    url: str
    vouching: Vouching
    name: str = ""
    # Whether it leads when it can. One that does not only hands over.
    candidate: bool = True
    # A standby, for what reads much.
    read_url: str | None = None


READS_ONLY: Final = "transparency reader"
OpenStore = Callable[[str, str], Store]
"""The store at a URL, by sessions of this name; by that of READS_ONLY for reading, from a standby too."""


@dataclass(frozen=True, slots=True)
class Leading:
    """The parts of a leader. Closed when it leads no more."""

    store: Store
    mark: Mark
    in_force: InForce
    appender: Appender

    def close(self) -> None:
        self.mark.close()
        self.store.close()


def prepare(
    folder: Folder, config: Config, taken: Taken, vouching: Vouching, clock: Clock, open_store: Callable[[], Store]
) -> Leading:
    """Check everything, and be ready to append. For a thread: it reads much and waits for other machines."""
    store = open_store()
    try:
        _check_vouched(store.tip(), taken, vouching)
        in_force, mark, appender = make_ready(
            config, store, taken.tip, lambda: _open_mark(folder, config, taken, vouching), clock, wanted_key(folder)
        )
    except BaseException:
        store.close()
        raise
    return Leading(store, mark, in_force, appender)


def _check_vouched(tip: Tip, taken: Taken, vouching: Vouching) -> None:
    if tip != taken.tip:
        raise TipMovedError("another node has taken the lease meanwhile")
    accepted = vouching.accepted
    if not taken.failed_over or vouching.url is not None:
        return  # with a mark in another store it is held against that in a moment
    if accepted is not None and (accepted.size, accepted.root) == (tip.size, tip.root):
        return
    raise failed_over(taken)


def _file_has(path: Path, origin: str, value: MarkValue) -> bool:
    """Whether this machine released the tip itself: then a mark that is moved to another store may begin there."""
    if not path.exists():
        return False
    with closing(Mark.open(path, origin)) as mark:
        return mark.value == value


def _open_mark(folder: Folder, config: Config, taken: Taken, vouching: Vouching) -> Mark:
    tip, accepted = taken.tip, vouching.accepted
    if vouching.url is None:
        check_outside(vouching.file, folder.path)
        if not vouching.file.exists():
            # This machine never led. What others released is in their files; here it begins.
            vouching.file.parent.mkdir(parents=True, exist_ok=True)
            Mark.create(vouching.file, config.origin, MarkValue(tip.size, tip.root)).close()
        return open_file_mark(vouching.file, config.origin, tip, DurableFile)
    value = MarkValue(tip.size, tip.root)
    named = accepted is not None and (accepted.size, accepted.root) == (tip.size, tip.root)
    begins = tip.size == INIT_SIZE or named or _file_has(vouching.file, config.origin, value)
    first = value if begins else None
    return cast("Mark", PostgresMark.open(vouching.url, config.origin, tip.epoch, taken.now, first))
