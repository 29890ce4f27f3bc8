"""A TCP proxy that can be cut: what it was carrying is neither delivered nor ended, as when a cable is pulled."""

from __future__ import annotations

import asyncio
import contextlib


class Proxy:
    """From a port of its own to *target*. Owner: the event loop."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._server: asyncio.Server | None = None
        self._through = asyncio.Event()
        self._through.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.end_all()

    def cut(self) -> None:
        """Nothing comes through from now on; connections stay open, and new ones lead nowhere."""
        self._through.clear()

    def mend(self) -> None:
        """What was open when it was cut is ended; new connections come through."""
        self.end_all()
        self._through.set()

    def end_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._through.wait()
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                _, ending = await asyncio.wait(
                    [
                        asyncio.ensure_future(self._carry(reader, there_writer)),
                        asyncio.ensure_future(self._carry(there_reader, writer)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for each in ending:
                    each.cancel()
            finally:
                there_writer.close()
        writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._through.wait()
                writer.write(data)
                await writer.drain()
