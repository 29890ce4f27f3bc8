"""A node of a cluster: one of several processes that serve one log from one PostgreSQL. One of them leads.

Towards the server a node is a :class:`Log` like any other. While it leads (cluster_leader.py) it sequences, as the
owner of a folder does, what comes to it and what the others put into the intake. While another leads it hands over
(cluster_handover.py), and shows what that one has released (cluster_follow.py). Which of the two it is changes while it
runs, and who waits does not notice.

Ownership: everything here belongs to the event loop. The keeper of the lease and the listener have threads, and tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, cast

from transparency.errors import LogUnusableError, RefusedError, StoreError, TransparencyError
from transparency.log import cluster_bell as bells
from transparency.log.appender import Clock
from transparency.log.cluster_bell import Listener, Ringer
from transparency.log.cluster_follow import Follower, NodeParts, newer_in_force
from transparency.log.cluster_handover import HandOver
from transparency.log.cluster_lead import READS_ONLY, ClusterSettings, Leading, OpenStore, prepare
from transparency.log.cluster_leader import Leader, Surroundings
from transparency.log.cluster_outlook import Outlook
from transparency.log.cluster_receipts import BatchReceipts
from transparency.log.cluster_rows import row_candidate, sequence_row
from transparency.log.cluster_scans import Scans
from transparency.log.cluster_sequencer import NodeSequencer
from transparency.log.cluster_start import say_that_nobody_leads, until_ready
from transparency.log.cluster_store import LeadersStore, SteadyStore
from transparency.log.cluster_tasks import Tasks
from transparency.log.cluster_trouble import Trouble
from transparency.log.documents import InForce
from transparency.log.erasure import Erasures
from transparency.log.export import write_entries
from transparency.log.folder import Folder, Passphrase
from transparency.log.intake import Intake
from transparency.log.lease_keeper import LeaseKeeper
from transparency.log.lease_table import Seen, Taken
from transparency.log.log import Log, system_clock
from transparency.log.manifests import Manifests
from transparency.log.opening import Opened
from transparency.log.postgres_connection import BRIEF, connect, passing
from transparency.log.role import Role
from transparency.log.sequencer import Sequencer
from transparency.log.store import Store
from transparency.policy.judge import Judgement
from transparency.statements.statement import Statement

STOP_SECONDS: Final = 5.0
# A node that failed as a leader lets another try first.
PAUSE_SECONDS: Final = 1.0
_BELLS: Final = (bells.INTAKE, bells.PUBLISHED, bells.SETTLED, bells.IN_FORCE, bells.LEASE)
_SESSION: Final = "transparency node"

_logger = logging.getLogger("transparency.cluster")


class ClusterLog(Log):
    """Made by :meth:`join`, then :meth:`start`."""

    def __init__(self, parts: NodeParts, settings: ClusterSettings, open_store: OpenStore, clock: Clock) -> None:
        super().__init__(cast("Opened", parts), clock)
        self._parts = parts
        self._settings = settings
        self._open_store = open_store
        # As pg_stat_activity can show it: by this name the next leader ends its sessions.
        self.holder = f"{settings.name[:40].encode('ascii', 'replace').decode()} {secrets.token_hex(6)}"
        self.role = Role.FRONT_END
        # Who leads, as far as is known; "" if nobody does.
        self.leader = ""
        self._leader: Leader | None = None
        self._makes_manifests = False
        self._ready = asyncio.Event()
        read_url = settings.read_url
        self._scans = Scans(parts.store, None if read_url is None else lambda: open_store(read_url, READS_ONLY))
        self._failure: TransparencyError | None = None
        self._trouble = Trouble()
        self._outlook = Outlook()
        self._tasks = Tasks()
        session = partial(connect, settings.url, _SESSION, BRIEF)
        self._ringer = Ringer(session)
        self._listener = Listener(session, _BELLS, self._on_bell)
        self._keeper = LeaseKeeper(session, self.holder, self, candidate=settings.candidate)
        self._follower = Follower(parts, self)
        self._hand_over: HandOver | None = None
        self._node: NodeSequencer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def join(
        cls,
        data: Path,
        settings: ClusterSettings,
        open_store: OpenStore,
        *,
        clock: Clock = system_clock,
        passphrase: Passphrase | None = None,
    ) -> ClusterLog:
        """A node over the folder *data*, which has the log's configuration and keys, and the database it names."""
        parts = NodeParts.open(
            Folder(data.absolute(), passphrase), lambda: SteadyStore.of(lambda: open_store(settings.url, _SESSION))
        )
        return cls(parts, settings, open_store, clock)

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self, *, drain: bool = True, manifests: bool = False, in_place: bool = False) -> None:
        """Take part. Returns when this node leads, or knows who does; one that never leads when it can show a tree."""
        del drain, in_place  # a leader always drains, and never flushes over a network on the event loop's thread
        self._loop = asyncio.get_running_loop()
        self._makes_manifests = manifests
        receipts = BatchReceipts(self._store)

        def open_steady() -> Store:
            return SteadyStore.of(lambda: self._open_store(self._settings.url, _SESSION))

        self._hand_over = await asyncio.to_thread(
            HandOver, open_steady, self._ringer, receipts.make, self._clock, self._trouble
        )
        self._node = NodeSequencer(self, self._store, self._hand_over, self._clock)
        self._hand_over.start(0)
        self._ringer.start()
        self._listener.start()
        self._keeper.start()
        await until_ready(self._ready, self._trouble, candidate=self._settings.candidate)
        if self._failure is not None:
            raise self._failure
        if not self.leader:
            say_that_nobody_leads(self.published)

    async def stop(self) -> None:
        """As a log's: what it queued is committed. The lease is released, so that another leads at once."""
        try:
            if self._node is not None:
                await self._stop_leading(self._node)
        finally:
            await self._tasks.wait(STOP_SECONDS)
            await self._follower.stop()
            if self._hand_over is not None:
                await self._hand_over.stop()
                await asyncio.to_thread(self._listener.stop, STOP_SECONDS)
                await asyncio.to_thread(self._ringer.stop, STOP_SECONDS)
            self._scans.close()
            self._opened.close()

    async def _stop_leading(self, node: NodeSequencer) -> None:
        node.stopping = True
        try:
            leader = self._leader
            if leader is not None:
                await leader.stop()
                self._forget_leader()
        finally:
            await asyncio.to_thread(self._keeper.stop, STOP_SECONDS)
            self._ringer.ring(bells.LEASE)

    # -- what a log is asked -------------------------------------------------------------------------------------

    @property
    def node(self) -> NodeSequencer:
        if self._node is None:
            raise StoreError("this node has not started")
        return self._node

    @property
    def leads(self) -> bool:
        return self._leader is not None

    @property
    def published(self) -> int:
        return self._parts.tip.size

    @property
    def head_time(self) -> int:
        return self._parts.head_time

    @property
    def sequencer(self) -> Sequencer:
        return cast("Sequencer", self.node)

    @property
    def intake(self) -> Intake:
        return cast("Intake", self.node)

    @property
    def manifests(self) -> Manifests:
        return self._led().manifests

    @property
    def erasures(self) -> Erasures:
        return self._led().erasures

    def _led(self) -> Leader:
        if self._leader is None:
            raise self.node.elsewhere()
        return self._leader

    def check_newest_head(self) -> None:
        """And nothing is known to be in the way of statements."""
        self._handing.trouble.check()
        if self.leads or not self.leader or self._outlook.now:
            self._trouble.check()
        if not self.leads:
            self._outlook.check()
            self._handing.check_progress()
        super().check_newest_head()

    def export_entries(self, start: int) -> bytes:
        size = self.published
        return write_entries(self._scans.store(size).entries(start, size))

    # -- who leads: told by the keeper's thread ------------------------------------------------------------------

    def lease_taken(self, taken: Taken) -> None:
        self._soon(lambda: self._tasks.begin(self._begin_to_lead(taken)))

    def lease_lost(self, reason: str) -> None:
        self._soon(lambda: self._step_down(StoreError(f"the lease is lost: {reason}")))

    def lease_seen(self, seen: Seen) -> None:
        self._soon(lambda: self._tasks.begin(self._note(seen)))

    def lease_unreachable(self, reason: str) -> None:
        _logger.warning("the database of this log cannot be asked who leads: %s", reason)

    def lease_alive(self, answer: Callable[[], None]) -> None:
        self._soon(answer)

    async def _begin_to_lead(self, taken: Taken) -> None:
        self.leader = ""  # who led does no more, and this node does not yet
        self._outlook.saw(taken.tip.epoch)
        believes = partial(self._keeper.believes, taken.tip.epoch)

        def open_store() -> Store:
            return LeadersStore.of(self._open_store(self._settings.url, self.holder), believes)

        parts = self._parts
        try:
            await self._follower.check_still_there()
            leading = await asyncio.to_thread(
                prepare, parts.folder, parts.config, taken, self._settings.vouching, self._clock, open_store
            )
        except Exception as error:  # noqa: BLE001 - a lease that is renewed for nobody would stop the log
            if isinstance(error, LogUnusableError) and not passing(error):
                self.gone(error)
            else:
                self._trouble.note("this node has the lease and cannot lead", error)
                self._keeper.give_up(taken.tip.epoch, PAUSE_SECONDS)
        else:
            if believes() and not self.node.stopping and self._failure is None:
                await self._lead(leading)
            else:
                self._keeper.give_up(taken.tip.epoch, PAUSE_SECONDS)
                await asyncio.to_thread(leading.close)

    async def _lead(self, leading: Leading) -> None:
        parts, node = self._parts, self.node
        around = Surroundings(
            parts.folder.path, self.origin, self._store, partial(sequence_row, self, self._sequence), self.operate,
            self._handing.pending, partial(row_candidate, self), lambda: self.published, self._ringer, self._clock,
        )  # fmt: skip
        parts.show(leading.appender.tip, leading.appender.decision_time())
        super()._put_in_force(leading.in_force)
        leader = Leader(leading, around, node.counters, manifests=self._makes_manifests)
        self._step_down(StoreError("it leads anew"))
        leader.sequencer.on_failure = partial(self._step_down, leader=leader)
        leader.sequencer.on_published.extend((self._released, lambda _: self._trouble.over()))
        self._leader, self.leader, self.role = leader, self.holder, Role.LEADER
        self._outlook.led()
        node.lead(leader.sequencer, leader.intake)
        try:
            await leader.start()
        except Exception as error:  # noqa: BLE001 - as above
            self._step_down(error, leader)
            return
        _logger.info("this node leads the log from size %d on, in epoch %d", self.published, parts.tip.epoch)
        self._released(self.published)
        self._keeper.leads = True
        self._keeper.look()  # so that who missed the bell reads it
        self._ready.set()

    def _step_down(self, error: BaseException, leader: Leader | None = None) -> None:
        """At once: nothing more is sequenced here. Who waits is handed over; what was open closes behind."""
        # Who names it found it failing. It will fail again, for the same reason, until that is mended.
        failing, leader = leader is not None, leader or self._leader
        if leader is None or leader is not self._leader:
            return
        self._forget_leader()
        self._trouble.note("this node leads no more", error, lasting=failing)
        leader.fail(error)
        self._keeper.give_up(leader.tip.epoch, PAUSE_SECONDS)
        self._tasks.begin(leader.retire())

    def _forget_leader(self) -> None:
        self._leader, self.leader, self.role = None, "", Role.FRONT_END
        self.node.lead(None, None)

    def gone(self, error: LogUnusableError) -> None:
        """There is no going on: the state that is there is not one that this log may be continued from."""
        self._keeper.withdraw()
        self._failure = error
        self._ready.set()
        self.node.failed = error
        self._failed(error)

    # -- following -----------------------------------------------------------------------------------------------

    def _on_bell(self, bell: str, said: str) -> None:
        """By the listener's thread."""
        self._soon(lambda: self._heard(bell, said))

    def _heard(self, bell: str, said: str) -> None:
        match bell:
            case bells.INTAKE if self._leader is not None:
                self._leader.intake.look()
            case bells.SETTLED:
                self._handing.look()
            case bells.PUBLISHED if not self.leads and said.isascii() and said.isdigit():
                self._outlook.led()
                self._follower.follow(int(said))
            case bells.IN_FORCE if not self.leads:
                self._follower.follow(self.published, refresh=True)
            case bells.LEASE if not self.leads:
                self._keeper.look()

    async def _note(self, seen: Seen) -> None:
        if not self.leads:
            # One of its own was given up, and ends: this node does not lead by it.
            self.leader = seen.holder if seen.left > 0 and seen.holder != self.holder else ""
            self._outlook.saw(seen.epoch)
            await self._follower.note(seen)

    def _released(self, size: int) -> None:
        """A batch of this leader: committed, its mark written."""
        leader = self._leader
        if leader is not None:
            self._parts.show(leader.tip, leader.sequencer.decision_time())
            self._keeper.published = size
            self._ringer.ring(bells.PUBLISHED, str(size))
            self._tasks.begin(self.shown(size))

    async def shown(self, size: int) -> None:
        """This node may show the tree up to *size*."""
        await self._handing.published(size)
        for tell in self.node.on_published:
            tell(size)
        if size and (self.leader or not self._settings.candidate):
            self._ready.set()

    async def refresh_in_force(self) -> bool:
        """Read what is in force from the store, if it is another than what is known here; whether it was."""
        newer = await asyncio.to_thread(newer_in_force, self._parts, self._in_force)
        if newer is None or self.leads:
            return False
        super()._put_in_force(newer)
        return True

    def _put_in_force(self, in_force: InForce) -> None:
        super()._put_in_force(in_force)
        self._ringer.ring(bells.IN_FORCE)

    # -- registration --------------------------------------------------------------------------------------------

    async def _judgement(self, statement: Statement) -> Judgement:
        try:
            return await super()._judgement(statement)
        except RefusedError:
            # The leader may have a policy that admits it, since a moment ago.
            if self.leads or not await self.refresh_in_force():
                raise
        return await super()._judgement(statement)

    # -- small ---------------------------------------------------------------------------------------------------

    @property
    def _handing(self) -> HandOver:
        if self._hand_over is None:
            raise StoreError("this node has not started")
        return self._hand_over

    def _soon(self, call: Callable[[], object]) -> None:
        """From another thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(call)
