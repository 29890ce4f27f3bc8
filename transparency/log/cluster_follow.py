"""Following: what a node shows of a log that another node leads, and how it keeps up.

Nothing is shown that the leader has not released: committed, and its mark written. The leader says so with a bell, and
with each renewal of its lease. When another takes over, what was shown before must still be there: a database that has
less, or something else, is not the log that this node has spoken for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from transparency.errors import LogUnusableError, TransparencyError
from transparency.log.documents import InForce, load_in_force
from transparency.log.folder import Config, Folder, Ownership
from transparency.log.lease_table import Seen
from transparency.log.mark_named import remember
from transparency.log.store import Kind, Store, Tip

if TYPE_CHECKING:
    from transparency.log.postgres import PostgresStore


@dataclass(slots=True)
class NodeParts:
    """What a log is opened from (``opening.Opened``), as a node has it. ``tip`` is how far it may be shown."""

    folder: Folder
    config: Config
    ownership: Ownership
    store: Store
    in_force: InForce
    tip: Tip
    head_time: int = 0

    @classmethod
    def open(cls, folder: Folder, open_store: Callable[[], Store]) -> NodeParts:
        """Over a folder which has the log's configuration and keys."""
        config = Config.read(folder.config)
        ownership = Ownership(folder.lock)
        try:
            store = open_store()
            try:
                in_force = load_in_force(store, config.origin, config.policy_key)
            except BaseException:
                store.close()
                raise
        except BaseException:
            ownership.release()
            raise
        return cls(folder, config, ownership, store, in_force, Tip(0, b"", 0))

    @property
    def appender(self) -> NodeParts:
        """Whose ``tip`` is asked for."""
        return self

    def close(self) -> None:
        self.store.close()
        self.ownership.release()

    def show(self, tip: Tip, time: int) -> None:
        self.tip = tip
        self.head_time = time


def newer_in_force(parts: NodeParts, known: InForce) -> InForce | None:
    """What is in force by the store, if it is another than what is *known*. For a thread."""
    store, config = parts.store, parts.config
    size = store.tip().size
    newest = [store.newest_documents(kind, size, 1)[0].index for kind in (Kind.POLICY, Kind.KEYS)]
    if newest == [known.policy.index, known.keys.index]:
        return None
    return load_in_force(store, config.origin, config.policy_key)


class Follows(Protocol):
    """Whoever follows: told in the event loop."""

    @property
    def leads(self) -> bool: ...
    async def shown(self, size: int) -> None: ...
    async def refresh_in_force(self) -> bool: ...
    def gone(self, error: LogUnusableError) -> None: ...


class Follower:
    """Owner: the event loop."""

    def __init__(self, parts: NodeParts, node: Follows) -> None:
        self._parts = parts
        self._node = node
        self._target = 0
        self._epoch = 0
        self._refresh = True
        self._knows_mark = False
        self._task: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def follow(self, size: int, *, refresh: bool = False) -> None:
        """The tree is released up to *size*; with *refresh* something else may be in force."""
        self._target = max(self._target, size)
        self._refresh |= refresh
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._catch_up(), name="following")

    async def note(self, seen: Seen) -> None:
        """The lease, as it is every second while another has it."""
        if seen.epoch != self._epoch:
            try:
                await self.check_still_there()
            except LogUnusableError as error:
                self._node.gone(error)
                return
            except TransparencyError:
                return
            self._epoch = seen.epoch
        if not self._knows_mark:
            # Whoever led for the first time with a mark for all named it: not to be forgotten, should the database.
            with contextlib.suppress(TransparencyError, OSError):
                self._knows_mark = await asyncio.to_thread(self._note_mark)
        self.follow(seen.published, refresh=True)

    def _note_mark(self) -> bool:
        named = cast("PostgresStore", self._parts.store).named_mark()
        return remember(self._parts.folder, named) is not None

    async def check_still_there(self) -> None:
        """What this node has shown is in the database, whichever that is now."""
        shown = self._parts.tip
        if not shown.size:
            return
        head = await asyncio.to_thread(self._parts.store.head, shown.size)
        if head is None or head.root != shown.root:
            raise LogUnusableError(
                f"the database has not the tree of size {shown.size} that this node has shown: an older state was put "
                "in its place, or a standby that lagged was promoted"
            )

    async def _catch_up(self) -> None:
        while not self._node.leads and (self._refresh or self._target > self._parts.tip.size):
            try:
                await self._one_step()
            except TransparencyError:
                return  # every second there is another look

    async def _one_step(self) -> None:
        size, refresh = self._target, self._refresh
        if size > self._parts.tip.size:
            head = await asyncio.to_thread(self._parts.store.head, size)
            if head is None:
                self._target = self._parts.tip.size  # nobody has released that; the next word is better
            elif not self._node.leads:
                self._parts.show(Tip(head.size, head.root, self._epoch), head.time)
        if refresh:
            await self._node.refresh_in_force()
            self._refresh = False
        await self._node.shown(self._parts.tip.size)
