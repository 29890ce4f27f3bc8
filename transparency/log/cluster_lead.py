"""What must be true before a node with the lease leads: all that a start checks, and that no failover lost anything.

A standby that was promoted may have less than the primary had acknowledged. It is known by its timeline, or by being
another server. Then somebody has to vouch for its tip: the high-water mark in a second store, which was written before
each receipt left; or the operator, who has looked, and names size and root. Else no node leads. Behind the mark is
refused always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from transparency.errors import TipMovedError
from transparency.log.appender import Appender, Clock
from transparency.log.documents import InForce
from transparency.log.folder import Config, Folder
from transparency.log.lease_table import Taken, failed_over
from transparency.log.mark import Mark, MarkValue, check_outside, retire
from transparency.log.mark_moving import IntoDatabase
from transparency.log.mark_named import check_file, remember
from transparency.log.opening import INIT_SIZE, check_mark, make_ready, missing_mark, wanted_key
from transparency.log.store import Store, Tip

if TYPE_CHECKING:
    from transparency.log.postgres import PostgresStore


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
    # The mark that the configuration names, where it is another than these say: it is closed (mark_moving.py).
    leaving: Path | str | None = None


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
            config,
            store,
            taken.tip,
            lambda: _open_mark(folder, config, store, taken, vouching),
            clock,
            wanted_key(folder),
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


def _open_mark(folder: Folder, config: Config, store: Store, taken: Taken, vouching: Vouching) -> Mark:
    tip, accepted = taken.tip, vouching.accepted
    value = MarkValue(tip.size, tip.root)
    vouched = accepted is not None and (accepted.size, accepted.root) == (tip.size, tip.root)

    database = cast("PostgresStore", store)
    named = remember(folder, database.named_mark())

    def check(mark: MarkValue) -> None:
        check_mark(store, tip, mark, config.origin)

    if vouching.url is None:
        check_file(named)
        begin_file(folder, config, store, tip, vouching)
        mark = Mark.open(vouching.file, config.origin)
        if isinstance(vouching.leaving, Path):
            try:
                mark.own()
                check(mark.value)
                retire(vouching.leaving, config.origin, vouching.file, check, vouched=vouched)
            except BaseException:
                mark.close()
                raise
        return mark
    moving = IntoDatabase(
        vouching.url, config.origin, tip.epoch, taken.now, file=vouching.file, leaving=vouching.leaving,
        named=named, vouched=vouched,
    )  # fmt: skip
    shared = moving.open(value, check, may_begin=tip.size == INIT_SIZE)
    try:
        database.name_mark(shared.named, tip.epoch)
        remember(folder, shared.named)
    except BaseException:
        shared.close()
        raise
    return cast("Mark", shared)


def begin_file(folder: Folder, config: Config, store: Store, tip: Tip, vouching: Vouching) -> None:
    """The mark of this machine, if it is not there: with a new log, or by the operator's word for a tree in *store*."""
    file, accepted = vouching.file, vouching.accepted
    check_outside(file, folder.path)
    if file.exists():
        return
    value = MarkValue(tip.size, tip.root)
    if tip.size != INIT_SIZE:
        if accepted is None:
            raise missing_mark(file, value)
        # The tree may have grown since it was looked at; what was there then must be there still.
        value = MarkValue(accepted.size, accepted.root)
        check_mark(store, tip, value, config.origin)
    file.parent.mkdir(parents=True, exist_ok=True)
    Mark.create(file, config.origin, value).close()
