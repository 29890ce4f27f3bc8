"""The owner's own desk: one connection that the owner of the log serves itself, as a worker would.

A lone client's request is read, judged, sequenced and answered within one process: between two it would wait for both
of them to wake, twice. So the first connection that comes while no worker has any is passed on to here, and goes to a
worker with its next request when another has come (server/balance.py): the one process that everybody waits for checks
signatures only while nobody else waits for it. Batches go to a worker, if there is one that can take them.

Everything is as it is there: the connection (server/lean.py), the registrar (server/registrar.py), and the link to the
hub (server/hub.py), but that what is said over it is a call. What the owner has anyway is not had twice: what is in
force, and the limiter that counts for all.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence

from transparency.log.store import Kind as EntryKind
from transparency.log.store import NewEntry
from transparency.policy.judge import Judgement
from transparency.server.acceptor import Acceptor, address_of
from transparency.server.access import Client
from transparency.server.balance import TO_OWNER, Shared
from transparency.server.connections import LOOK_SECONDS, Connections
from transparency.server.desk import Desk, drained
from transparency.server.handing import Kind
from transparency.server.hub import Hub, Link
from transparency.server.lean import LeanConnection
from transparency.server.outcome import Answered
from transparency.server.registrar import RemoteRegistrar, UnderWay
from transparency.server.settings import BODY_MARGIN, ServerSettings

Adopt = Callable[[socket.socket, str, bytes], None]
"""Takes a connection on which something else is asked, with what was read of it."""
PassOn = Callable[[socket.socket, int, bytes], bool]
"""Takes a connection to the worker of a place; False if nobody is there."""


class OwnLink(Link):
    """A link whose other end is in this process."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub, lambda: None, hub.service.settings.slow_after)
        self.registrar = OwnRegistrar(self)
        hub.joined(self)

    @property
    def alive(self) -> bool:
        return True

    def registered(self, numbers: Sequence[int], receipts: Sequence[bytes]) -> None:
        """At once: there is nobody whose answer could leave with this one."""
        for number, receipt in zip(numbers, receipts, strict=True):
            self._waiting.pop(number, None)
            self.registrar.heard_receipt(number, receipt)

    def forget(self) -> None:
        """Nobody waits any more: nothing is taken into the intake for who was told that it failed."""
        self._waiting.clear()

    def hand(self, number: int, new: NewEntry, judgement: Judgement, *, patient: bool) -> None:
        self._hub.take_one(self, number, new, judgement, patient=patient)

    def say(self, kind: Kind, value: object = None) -> None:
        match kind, value:
            case Kind.ANSWERS, list():
                self.registrar.heard(value)
            case Kind.IN_FORCE, _:
                # Read by this process already: a large policy takes a second, and all would wait meanwhile.
                log = self._hub.service.log
                self.registrar.judge_by(log.judge, log.service_keys, log.newest_head().time)
            case _:
                raise ValueError(f"nobody here is told {kind.name}")


class OwnRegistrar(RemoteRegistrar):
    """What a worker would put into a frame is handed over as it is."""

    def __init__(self, link: OwnLink) -> None:
        # The desk's limiter is the one that counts for all: the hub need not count again.
        super().__init__(link.take_up, lambda _: False, BODY_MARGIN)
        self._link = link

    def submit(self, data: bytes, client: Client, answered: Answered, *, patient: bool) -> None:
        """At once, and not when all have come that this turn of the event loop brings: nobody else does."""
        if patient:
            super().submit(data, client, answered, patient=patient)
        else:
            self._work_on([(data, client, answered, patient)])
            self._flush()

    def _flush(self) -> None:
        """What goes wrong would end a worker, and its connections with it. Here it must not leave anybody waiting."""
        try:
            super()._flush()
        except Exception as error:  # noqa: BLE001 - API-8: every error is answered with a problem
            self._asked = []
            self._link.forget()
            self.lost(error)

    def _hand(self, handed: list[tuple[int, UnderWay, Judgement]]) -> None:
        for number, under_way, judgement in handed:
            statement = under_way.statement
            new = NewEntry(
                statement.entry,
                EntryKind.STATEMENT,
                judgement.generation,
                under_way.tbs_digest,
                statement.normalised,
                judgement.collateral,
            )
            self._link.hand(number, new, judgement, patient=under_way.patient)


class OwnDesk:
    """Owner: the event loop of the process that owns the log."""

    def __init__(
        self,
        hub: Hub,
        settings: ServerSettings,
        share: Shared,
        adopt: Adopt,
        pass_on: PassOn,
        lines: logging.Logger | None,
    ) -> None:
        self._settings = settings
        self._adopt = adopt
        self._pass_on = pass_on
        service = hub.service
        self._desk = Desk(
            OwnLink(hub).registrar,
            settings,
            service.tokens,
            service.limiter,
            Connections(
                most=settings.max_connections,
                most_per_address=settings.max_connections_per_address,
                most_unsent=settings.max_unsent_bytes,
                grace=settings.connection_grace,
                every=min(LOOK_SECONDS, settings.header_timeout / 4, settings.send_timeout / 4),
            ),
            self._hand_over,
            share,
            lines,
            service.metrics.tally,
            counts_for_all=True,
        )
        self._acceptor = Acceptor(self._admit, at_once=1)

    def take(self, accepted: socket.socket, begun: bytes) -> None:
        """A connection that a worker passed on, and what it read of it."""
        address = address_of(accepted)
        if address is None:
            accepted.close()
        else:
            self._acceptor.take(accepted, address, begun)

    async def stop(self) -> None:
        """Who waits for an answer gets it."""
        self._acceptor.stop()
        await drained(self._desk, self._settings.drain_timeout)
        self._desk.connections.cut_all()
        self._desk.connections.close()

    def _admit(self, client: str) -> LeanConnection | None:
        if not self._desk.connections.admit(client):
            return None
        connection = LeanConnection(self._desk, client)
        self._desk.connections.add(connection)
        return connection

    def _hand_over(self, descriptor: int, begun: bytes, to: int) -> bool:
        leaving = socket.socket(fileno=descriptor)
        if to != TO_OWNER:
            if self._pass_on(leaving, to, begun):
                return True
            leaving.close()
            return False
        address = address_of(leaving)
        if address is None:
            leaving.close()
        else:
            self._adopt(leaving, address, begun)
        return True
