"""A worker process: accepts connections, reads and judges statements, and gives the owner's receipts back.

Started by the owner of the log (server/workers.py) with two things on inherited descriptors: the stream they talk
over (server/handing.py) and a packet socket by which the sockets to listen on come, and connections go to the owner.
It has no key and writes nothing to the log's folder. When the owner goes, it goes: nothing can be registered without.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, cast

import cbor2

from transparency.errors import MalformedError
from transparency.server.acceptor import Acceptor, address_of
from transparency.server.access_target import access_log
from transparency.server.balance import TO, TO_OWNER, Share
from transparency.server.connections import LOOK_SECONDS, Connections
from transparency.server.desk import Desk, drained
from transparency.server.frames import FrameReader, frame
from transparency.server.garbage import collect_rarely
from transparency.server.handing import Kind, Receipts
from transparency.server.lean import LeanConnection
from transparency.server.limits import RateLimiter
from transparency.server.packets import receive
from transparency.server.registrar import RemoteRegistrar
from transparency.server.settings import BODY_MARGIN, ServerSettings
from transparency.server.tokens import TokenStore
from transparency.server.unexpected import log_unexpected

COUNT_SECONDS = 0.5
# Few, so that workers that were all woken by a crowd of clients share it.
ACCEPTS_AT_ONCE = 8
# More connections than this on their way to an owner who does not take them: it has enough to do.
MAX_HANDING = 256
# And to another worker: beyond it this one serves them itself.
MAX_PASSING = 64
# Everybody waits for the owner, who commits, and it for nobody but the disk: when it wakes it is to have a processor
# at once, and not when a worker has had its turn of some milliseconds (docs/performance.md). By no more than that: what
# else runs on the machine must not keep workers from theirs.
NICE = 5
LOST = 70
MAX_NAME = 64
MAX_SOCKETS = 64


class Worker(asyncio.Protocol):
    """Owner: this process' event loop."""

    def __init__(self, settings: ServerSettings, tokens: TokenStore, packets: socket.socket, share: Share) -> None:
        self._settings = settings
        self._packets = packets
        self._share = share
        # Connections on their way to the owner, or by way of it to another worker: for whom, and what was read of each.
        self._handing: deque[tuple[int, int, bytes]] = deque()
        self._reader = FrameReader()
        self._stream: asyncio.Transport | None = None
        self.ready = asyncio.Event()
        self.told_to_stop = asyncio.Event()
        self.lost = asyncio.Event()
        limiter = RateLimiter(
            settings.rate_limit, settings.rate_period, max_clients=settings.max_clients, clock=time.monotonic
        )
        self._registrar = RemoteRegistrar(self._say, limiter.limits, BODY_MARGIN)
        self.desk = Desk(
            self._registrar,
            settings,
            tokens,
            limiter,
            Connections(
                most=settings.max_connections,
                most_per_address=settings.max_connections_per_address,
                most_unsent=settings.max_unsent_bytes,
                grace=settings.connection_grace,
                every=min(LOOK_SECONDS, settings.header_timeout / 4, settings.send_timeout / 4),
            ),
            self._hand_over,
            share,
        )
        self.acceptor = Acceptor(self._admit, at_once=ACCEPTS_AT_ONCE)
        # Under a thousand connections a turn takes most of a second, and a crowd at the door would wait for many turns.
        self._registrar.in_pause = self.acceptor.look

    # -- the owner -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._stream = None
        self._registrar.lost()
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        try:
            for kind, value in self._reader.feed(data):
                self._heard(kind, value)
        except MalformedError as error:
            log_unexpected("what the owner of the log sent", error)
            self.lost.set()

    def _heard(self, kind: int, value: Any) -> None:  # noqa: ANN401 - by kind
        match kind:
            case Kind.RECEIPTS:
                self._registrar.heard_receipts(Receipts._make(value))
            case Kind.ANSWERS:
                self._registrar.heard(value)
            case Kind.IN_FORCE:
                self._registrar.put_in_force(*value)
                self.ready.set()
            case Kind.STOP:
                self.told_to_stop.set()

    def _say(self, kind: Kind, value: object = None) -> None:
        if self._stream is not None:
            self._stream.write(frame(kind, value))

    def say_ready(self) -> None:
        self._say(Kind.READY)

    def count(self) -> None:
        """Tell the owner what was answered here, and be it nothing: that this process runs is worth knowing, too."""
        spent = [[client, number, rate] for (client, rate), number in self.desk.spent.items()]
        self.desk.spent.clear()
        self._say(Kind.COUNTED, [self.desk.tally.take(), spent])

    # -- connections ---------------------------------------------------------------------------------------------

    def open_for(self, sockets: list[socket.socket]) -> None:
        self._share.enter()
        self.acceptor.start(sockets)
        asyncio.get_running_loop().add_reader(self._packets, self._adopt)

    def _adopt(self) -> None:
        """Connections that other workers pass on."""
        found, more = receive(self._packets)
        if not more:  # the owner is gone
            asyncio.get_running_loop().remove_reader(self._packets)
        for begun, accepted in found:
            address = address_of(accepted)
            if address is None:
                accepted.close()
            else:
                self.acceptor.take(accepted, address, begun)

    def _admit(self, client: str) -> LeanConnection | None:
        if not self.desk.connections.admit(client):
            return None
        connection = LeanConnection(self.desk, client)
        self.desk.connections.add(connection)
        return connection

    def _hand_over(self, descriptor: int, begun: bytes, to: int) -> bool:
        """Whether the owner has it or will: a packet may have to wait until it has taken others."""
        if len(self._handing) >= (MAX_HANDING if to == TO_OWNER else MAX_PASSING):
            os.close(descriptor)
            return False
        self._handing.append((descriptor, to, begun))
        if len(self._handing) == 1:
            self._hand_on()
        return True

    def _hand_on(self) -> None:
        loop = asyncio.get_running_loop()
        while self._handing:
            descriptor, to, begun = self._handing[0]
            try:
                socket.send_fds(self._packets, [TO.pack(to), begun], [descriptor])
            except BlockingIOError:
                loop.add_writer(self._packets, self._hand_on)
                return
            except (BrokenPipeError, ConnectionResetError):
                pass  # the owner is gone: that is said once, for all of them
            except OSError as error:  # it would never take so large a packet
                log_unexpected("handing a connection over", error)
            # The owner has its own now.
            os.close(descriptor)
            self._handing.popleft()
        loop.remove_writer(self._packets)

    async def drain(self) -> None:
        """Nobody is let in any more; who waits for an answer gets it."""
        self.acceptor.stop()
        await drained(self.desk, self._settings.drain_timeout, lambda: bool(self._handing))

    def close(self) -> None:
        """Take nothing more from anybody: a connection let in while the loop ends would be left half made."""
        self.acceptor.stop()
        asyncio.get_running_loop().remove_reader(self._packets)


async def run(settings: ServerSettings, access: Path, stream: int, packets: int, share: Share) -> int:
    loop = asyncio.get_running_loop()
    # Signals to the group are the owner's to act on: it tells its workers.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: None)
    with contextlib.closing(TokenStore(access)) as tokens, access_log(settings.access_log) as lines:
        handing = _socket(packets)
        worker = Worker(settings, tokens, handing, share)
        worker.desk.lines = lines
        await loop.create_connection(lambda: worker, sock=_socket(stream))
        await _first(worker.ready, worker.lost)
        # The sockets to listen on come when all else is there: who starts must not keep a port.
        loop.add_reader(handing, _listen, worker, handing)
        worker.say_ready()
        counting = asyncio.create_task(_count(worker))
        try:
            await _first(worker.told_to_stop, worker.lost)
            counting.cancel()
            if worker.lost.is_set():
                # One write: every worker says it, and at the same time.
                sys.stderr.write("transparency: a worker stops, because the owner of the log is gone\n")
                return LOST
            await worker.drain()
            worker.count()
            await asyncio.sleep(0)
        finally:
            worker.close()
    return 0


def _listen(worker: Worker, handing: socket.socket) -> None:
    """Take the sockets to listen on, once."""
    try:
        _, descriptors, _, _ = socket.recv_fds(handing, MAX_NAME, MAX_SOCKETS)
    except (BlockingIOError, InterruptedError):
        return
    except OSError:
        descriptors = []
    asyncio.get_running_loop().remove_reader(handing)
    worker.open_for([_socket(number) for number in descriptors])


async def _count(worker: Worker) -> None:
    while True:
        await asyncio.sleep(COUNT_SECONDS)
        worker.count()


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


def _socket(descriptor: int) -> socket.socket:
    own = socket.socket(fileno=descriptor)
    own.setblocking(False)
    return own


def main() -> None:
    """``python -m transparency.server.worker``: what to do comes as CBOR on standard input."""
    given = cbor2.loads(sys.stdin.buffer.read())
    settings = ServerSettings(**given["settings"])
    share = Share(given["balance"], given["place"])
    collect_rarely()
    os.nice(NICE)
    sys.exit(asyncio.run(run(settings, Path(given["access"]), given["stream"], given["packets"], share)))


if __name__ == "__main__":
    main()
