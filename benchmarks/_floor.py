"""The floor under a lone registration: what no server in this language on this machine and this disk can go below.

A bare asyncio protocol that for each request verifies one ES256 signature, makes one, writes 4 KB in place and syncs
them, and answers with as many bytes as a receipt has. No statement is parsed, no policy asked, no tree, no store: these
are the four things that a durable receipt over HTTP cannot do without. A lone client's wait is held against it, because
the time that two signatures and a request take does not shrink with a disk whose flush takes less than either.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

_BLOCK = 4096
_PLACES = 256
_RECEIPT_BYTES = 700
_ANSWER = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % _RECEIPT_BYTES + bytes(_RECEIPT_BYTES)
_END = b"\r\n\r\n"
_LENGTH = b"Content-Length: "


class _Floor(asyncio.Protocol):
    def __init__(self, file: int) -> None:
        self._file = file
        self._place = 0
        self._got = b""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._public = self._key.public_key()
        self._ecdsa = ec.ECDSA(utils.Prehashed(hashes.SHA256()))
        self._signature = self._key.sign(bytes(32), self._ecdsa)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(_END)
        if end < 0:
            return
        at = self._got.index(_LENGTH) + len(_LENGTH)
        if len(self._got) < end + len(_END) + int(self._got[at : self._got.index(b"\r", at)]):
            return
        self._got = b""
        self._public.verify(self._signature, bytes(32), self._ecdsa)
        self._key.sign(bytes(32), self._ecdsa)
        os.pwrite(self._file, bytes(_BLOCK), self._place % _PLACES * _BLOCK)
        os.fdatasync(self._file)
        self._place += 1
        self._transport.write(_ANSWER)


class FloorServer:
    """In a process of its own, as the log is. Its file lies in *folder*, beside the log's."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), str(folder / "floor")]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)


async def _serve(path: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(file, bytes(_PLACES * _BLOCK), 0)
    os.fsync(file)
    server = await asyncio.get_running_loop().create_server(lambda: _Floor(file), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
