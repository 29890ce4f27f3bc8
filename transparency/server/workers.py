"""The workers: processes that accept connections for the owner of a log, started, watched, replaced and stopped here.

A worker that dies is replaced; its clients see their connections end, and what they had not been acknowledged they send
again. One that served, however shortly, is replaced whatever ended it: a service that gives up because somebody keeps
killing its workers would be the smaller half of the harm. Workers that die before they listen are not a thing to go on
with: there is something that no further start mends, and the service stops and says so. One that says nothing for long
(it is stopped, or turns in a circle) keeps its share of the connections waiting: it is ended, and replaced.
When the owner dies, its workers see their stream end and stop by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import cbor2

from transparency.errors import WorkersError
from transparency.log.waiting import is_set_within
from transparency.server.acceptor import address_of
from transparency.server.balance import TO, TO_DESK, TO_OWNER, Balance
from transparency.server.hub import Hub, Link
from transparency.server.own_desk import OwnDesk
from transparency.server.packets import MAX_PACKET, receive
from transparency.server.runner import Site
from transparency.server.service import Service
from transparency.server.settings import ServerSettings

_logger = logging.getLogger("transparency.server")
# For some connections at once.
PACKET_BUFFER = 8 * MAX_PACKET
# One that starts has this long: where many processes want the machine, that is seconds, and ending it helps nobody.
START_SECONDS = 120.0
# What goes with the sockets to listen on.
LISTEN = b"listen"
# So many in a row that died before they listened, and the service gives up.
MAX_FALSE_STARTS = 5
# A worker that listened for less than this is followed only after a pause, which doubles with each in a row.
SHORT_LIFE_SECONDS = 2.0
# Looked at this often; not heard of between so many looks in a row, it is ended.
LOOK_SECONDS = 5.0
MAX_SILENCES = 4
FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 2.0


class Workers:
    """Owner: the event loop's thread."""

    def __init__(
        self, service: Service, site: Site, access: Path, count: int, lines: logging.Logger | None = None
    ) -> None:
        self._service = service
        self._site = site
        self._access = access
        self._count = count
        self._hub = Hub(service)
        self._balance = Balance(count)
        self._desk = OwnDesk(self._hub, self._share(), self._balance.own_share(), site.adopt, self._pass_on, lines)
        # To each that serves, by its place.
        self._packets: dict[int, socket.socket] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._processes: dict[asyncio.subprocess.Process, Link] = {}
        # Those that got as far as their sockets, and say something twice a second from then on.
        self._serving: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()
        self._false_starts = 0
        self._pause = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return once all accept connections."""
        self._site.statements_go_to(self._desk.take)
        # One that dies meanwhile is replaced, and it is the other that is then waited for.
        self._looking = asyncio.create_task(self._look_after(), name="looking after workers")
        started = [asyncio.Event() for _ in range(self._count)]
        for ready in started:
            await self._spawn(ready)
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.gather(*(ready.wait() for ready in started))
        except TimeoutError:
            raise WorkersError("the worker processes do not start") from None

    async def stop(self) -> None:
        """Have them end their requests; those that do not in time are ended."""
        self._stopping.set()
        self._site.statements_go_to(None)
        if self._looking is not None:
            self._looking.cancel()
        for link in self._processes.values():
            link.stop()
        # Both have the same time, and have it at once.
        await asyncio.gather(self._desk.stop(), self._all_ended())
        self._balance.close()

    async def _all_ended(self) -> None:
        now = asyncio.get_running_loop().time
        until = now() + self._service.settings.drain_timeout + 1.0
        while self._watching:  # one that was being replaced is followed by one more
            _, late = await asyncio.wait(self._watching, timeout=max(until - now(), 0.0))
            if late:
                for process in list(self._processes):
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                await asyncio.wait(late)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    async def _spawn(self, ready: asyncio.Event) -> None:
        """Start one; *ready* is set when it has the sockets to listen on.

        It gets those only then: one that is still starting when the owner dies must not keep the port.
        """
        mine, stream = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        packets, handing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (packets, handing):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PACKET_BUFFER)
            end.setblocking(False)
        mine.setblocking(False)
        inherited = [stream.fileno(), handing.fileno(), self._balance.descriptor]
        place = self._balance.enter()
        loop = asyncio.get_running_loop()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "transparency.server.worker", stdin=subprocess.PIPE, pass_fds=inherited
            )
            assert process.stdin is not None  # noqa: S101 - a pipe was asked for
            process.stdin.write(self._orders(inherited, place))
            process.stdin.close()
        finally:
            stream.close()
            handing.close()

        def give_sockets() -> None:
            listening = self._site.listening()
            with contextlib.suppress(OSError):  # it has died
                socket.send_fds(packets, [LISTEN], [own.fileno() for own in listening])
                self._serving.add(process)
                self._packets[place] = packets
                ready.set()
            for own in listening:
                own.close()

        _, link = await loop.create_connection(lambda: self._hub.link(give_sockets), sock=mine)
        loop.add_reader(packets, self._adopt, packets)
        self._processes[process] = link
        if self._stopping.is_set():
            # It came too late to be told so.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        task = asyncio.create_task(self._watch(process, link, packets, ready, place))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    def _orders(self, inherited: list[int], place: int) -> bytes:
        stream, packets, balance = inherited
        orders = {
            "settings": _plain(self._share()),
            "access": str(self._access),
            "stream": stream,
            "packets": packets,
            "balance": balance,
            "place": place,
        }
        return cbor2.dumps(orders)

    def _share(self) -> ServerSettings:
        """Of what all connections together may have, each worker gives its part. One address may be anywhere."""
        settings = self._service.settings
        return dataclasses.replace(
            settings,
            max_connections=math.ceil(settings.max_connections / self._count),
            max_body_bytes=math.ceil(settings.max_body_bytes / self._count),
            max_unsent_bytes=math.ceil(settings.max_unsent_bytes / self._count),
        )

    def _adopt(self, packets: socket.socket) -> None:
        """Connections on which something else is asked than what workers answer, or for another of them."""
        found, more = receive(packets)
        if not more:
            asyncio.get_running_loop().remove_reader(packets)
        for data, accepted in found:
            (to,), begun = TO.unpack_from(data), data[TO.size :]
            if to == TO_DESK and not self._stopping.is_set():
                self._desk.take(accepted, begun)
                continue
            if to not in (TO_OWNER, TO_DESK) and self._pass_on(accepted, to, begun):
                continue
            address = address_of(accepted)
            if address is None:
                accepted.close()
            else:
                self._site.adopt(accepted, address, begun)

    def _pass_on(self, accepted: socket.socket, place: int, begun: bytes) -> bool:
        """Whether the worker of that *place* has it. Nobody may be there any more, or not for long."""
        packets = self._packets.get(place)
        if packets is None or self._stopping.is_set():
            return False
        try:
            socket.send_fds(packets, [begun], [accepted.fileno()])
        except OSError:
            return False
        accepted.close()
        return True

    async def _look_after(self) -> None:
        silences: dict[asyncio.subprocess.Process, int] = {}
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # Counted, not timed: when all of us were suspended together, that is one look without a word.
            silences = {
                process: 0 if link.heard else silences.get(process, 0) + 1 for process, link in self._processes.items()
            }
            for process, count in silences.items():
                self._processes[process].heard = False
                if count >= (MAX_SILENCES if process in self._serving else START_SECONDS / LOOK_SECONDS):
                    _logger.error("worker process %d has not been heard of for long; it is ended", process.pid)
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()

    async def _watch(
        self,
        process: asyncio.subprocess.Process,
        link: Link,
        packets: socket.socket,
        ready: asyncio.Event,
        place: int,
    ) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        code = await process.wait()
        loop.remove_reader(packets)
        self._packets.pop(place, None)
        packets.close()
        link.abort()
        del self._processes[process]
        listened = process in self._serving
        self._serving.discard(process)
        self._balance.leave(place)
        if self._stopping.is_set():
            return
        _logger.error("a worker process ended by itself (%s); another takes its place", _words(code))
        if self._beyond_hope(listened=listened, lived=loop.time() - started):
            self._service.stop_for(WorkersError("the worker processes end before they serve anything"))
            return
        if await is_set_within(self._stopping, self._pause):
            return
        try:
            await self._spawn(ready)
        except OSError as error:
            _logger.critical("no worker process can be started: %s", error.strerror)
            self._service.stop_for(WorkersError("no worker process can be started"))

    def _beyond_hope(self, *, listened: bool, lived: float) -> bool:
        """Whether to give up; if not, ``_pause`` is how long to wait before the next."""
        self._false_starts = 0 if listened else self._false_starts + 1
        short = lived < SHORT_LIFE_SECONDS
        self._pause = min(max(2 * self._pause, FIRST_PAUSE_SECONDS), MAX_PAUSE_SECONDS) if short else 0.0
        return self._false_starts >= MAX_FALSE_STARTS


def _plain(settings: ServerSettings) -> dict[str, Any]:
    """For another process. Workers terminate no TLS: where there is any, there are no workers."""
    values = {each.name: getattr(settings, each.name) for each in dataclasses.fields(settings)}
    return {name: str(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}


def _words(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
