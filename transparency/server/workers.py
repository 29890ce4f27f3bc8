"""The workers: processes that accept connections for the owner of a log, started, watched, replaced and stopped here.

A worker that dies is replaced; its clients see their connections end, and what they had not been acknowledged they send
again. Workers that keep dying right after their start are not a thing to go on with: the service stops and says so.
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

from transparency.errors import StoreError
from transparency.server.hub import Hub, Link
from transparency.server.runner import Site
from transparency.server.service import Service
from transparency.server.settings import ServerSettings

_logger = logging.getLogger("transparency.server")
# More than the head of a request and what was read behind it, for some connections at once.
PACKET_BUFFER = 8 * 1024 * 1024
MAX_PACKET = 1024 * 1024
START_SECONDS = 30.0
# What goes with the sockets to listen on.
LISTEN = b"listen"
# A worker that lives shorter than this was not killed by chance; so many in a row and the service gives up.
SHORT_LIFE_SECONDS = 2.0
MAX_SHORT_LIVES = 5


class Workers:
    """Owner: the event loop's thread."""

    def __init__(self, service: Service, site: Site, access: Path, count: int) -> None:
        self._service = service
        self._site = site
        self._access = access
        self._count = count
        self._hub = Hub(service)
        self._watching: set[asyncio.Task[None]] = set()
        self._processes: dict[asyncio.subprocess.Process, Link] = {}
        self._stopping = False
        self._short_lives = 0

    async def start(self) -> None:
        """Return once all accept connections."""
        # One that dies meanwhile is replaced, and it is the other that is then waited for.
        started = [asyncio.Event() for _ in range(self._count)]
        for ready in started:
            await self._spawn(ready)
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.gather(*(ready.wait() for ready in started))
        except TimeoutError:
            raise StoreError("the worker processes do not start") from None

    async def stop(self) -> None:
        """Have them end their requests; those that do not in time are ended."""
        self._stopping = True
        for link in self._processes.values():
            link.stop()
        if self._watching:
            _, late = await asyncio.wait(self._watching, timeout=self._service.settings.drain_timeout + 1.0)
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
        inherited = [stream.fileno(), handing.fileno()]
        loop = asyncio.get_running_loop()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "transparency.server.worker", stdin=subprocess.PIPE, pass_fds=inherited
            )
            assert process.stdin is not None  # noqa: S101 - a pipe was asked for
            process.stdin.write(self._orders(inherited))
            process.stdin.close()
        finally:
            stream.close()
            handing.close()

        def give_sockets() -> None:
            listening = self._site.listening()
            with contextlib.suppress(OSError):  # it has died
                socket.send_fds(packets, [LISTEN], [own.fileno() for own in listening])
                ready.set()
            for own in listening:
                own.close()

        _, link = await loop.create_connection(lambda: self._hub.link(give_sockets), sock=mine)
        loop.add_reader(packets, self._adopt, packets)
        self._processes[process] = link
        task = asyncio.create_task(self._watch(process, link, packets, ready))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    def _orders(self, inherited: list[int]) -> bytes:
        stream, packets = inherited
        orders = {
            "settings": _plain(self._share()),
            "access": str(self._access),
            "stream": stream,
            "packets": packets,
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
        """A connection on which something else is asked than what workers answer."""
        try:
            data, descriptors, _, _ = socket.recv_fds(packets, MAX_PACKET, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            asyncio.get_running_loop().remove_reader(packets)
        for descriptor in descriptors:
            accepted = socket.socket(fileno=descriptor)
            try:
                address = accepted.getpeername()[0]
            except OSError:  # it has gone already
                accepted.close()
                continue
            self._site.adopt(accepted, address, data[1:])

    async def _watch(
        self, process: asyncio.subprocess.Process, link: Link, packets: socket.socket, ready: asyncio.Event
    ) -> None:
        started = asyncio.get_running_loop().time()
        code = await process.wait()
        loop = asyncio.get_running_loop()
        loop.remove_reader(packets)
        packets.close()
        link.abort()
        del self._processes[process]
        if self._stopping:
            return
        _logger.error("a worker process ended by itself (%s); another takes its place", _words(code))
        self._short_lives = self._short_lives + 1 if loop.time() - started < SHORT_LIFE_SECONDS else 0
        if self._short_lives >= MAX_SHORT_LIVES:
            self._service.stop_for(StoreError("the worker processes end right after their start"))
            return
        try:
            await self._spawn(ready)
        except OSError as error:
            _logger.critical("no worker process can be started: %s", error.strerror)
            self._service.stop_for(StoreError("no worker process can be started"))


def _plain(settings: ServerSettings) -> dict[str, Any]:
    """For another process. Workers terminate no TLS: where there is any, there are no workers."""
    values = {each.name: getattr(settings, each.name) for each in dataclasses.fields(settings)}
    return {name: str(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}


def _words(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
