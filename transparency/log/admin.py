"""The admin route: commands work on a folder that nobody owns directly, and through its socket when a server does.

The socket is ``DIR/admin.sock``, mode 0600: whoever may open it may already read the folder's keys. One request, one
answer, each a 4-byte length and a CBOR map. Same effect either way, in force from the next batch, no restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from transparency import errors
from transparency.cose.cbor import decode, encode
from transparency.errors import (
    FolderOwnedError,
    MalformedError,
    NotLeadingError,
    PassphraseError,
    RunningElsewhereError,
    StoreError,
    TransparencyError,
    UnreachableError,
)
from transparency.log import erasure
from transparency.log.access_log import record_local
from transparency.log.appender import Clock
from transparency.log.door import reachable
from transparency.log.folder import Folder, Passphrase
from transparency.log.log import Log, system_clock
from transparency.log.reading import ReadOnlyAdmin
from transparency.log.settled import is_behind
from transparency.statements.statement import entry_id

MAX_FRAME = 8 * 1024 * 1024
TIMEOUT = 60.0
_LENGTH = struct.Struct(">I")
# sun_path holds 108 bytes on Linux, 104 on macOS.
_READING = frozenset({"status", "documents"})
_NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Admin(Protocol):
    """What a command may ask of a log, wherever it runs. Answers are plain maps."""

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]: ...  # noqa: ANN401 - CBOR values


@contextlib.contextmanager
def open_admin(
    data: Path,
    *,
    watermark: Path | None = None,
    clock: Clock = system_clock,
    allow_lost_key: bool = False,
    reading: bool = False,
    passphrase: Passphrase | None = None,
) -> Iterator[Admin]:
    """The admin face of the log in *data*. *allow_lost_key* is for the command that replaces the key.

    *reading* is for those that change nothing: they also work on a folder that this user cannot write, and need no
    passphrase; and one that lacks what its mark keeps they leave as it is.
    """
    if reading and is_behind(Folder(data.absolute())):
        yield ReadOnlyAdmin(Folder(data.absolute()))
        return
    try:
        log = Log.open(data, watermark=watermark, clock=clock, allow_lost_key=allow_lost_key, passphrase=passphrase)
    except NotLeadingError:
        if not reading:
            raise
        yield ReadOnlyAdmin(Folder(data.absolute()))
        return
    except RunningElsewhereError:
        raise  # nobody owns this folder, so nobody answers on its socket
    except FolderOwnedError:
        yield _SocketAdmin(Folder(data.absolute()))
        return
    except (OSError, PassphraseError) as error:
        if not reading or (isinstance(error, OSError) and error.errno not in _NOT_WRITABLE):
            raise
        yield ReadOnlyAdmin(Folder(data.absolute()))
        return
    with asyncio.Runner() as runner:
        # One operation, then it is closed: what waits in the intake is the server's to bring in.
        runner.run(log.start(drain=False))
        try:
            yield _LocalAdmin(log, runner)
        finally:
            runner.run(log.stop())


async def handle(log: Log, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Carry out one operation on an open log and record it: the one implementation behind both ways."""
    if operation in _READING:
        return await _carry_out(log, operation, arguments)
    try:
        answer = await _carry_out(log, operation, arguments)
    except TransparencyError:
        await asyncio.to_thread(record_local, log.data, log.origin, operation, done=False)
        raise
    what = answer.get("entry", "")
    await asyncio.to_thread(record_local, log.data, log.origin, operation, str(what))
    return answer


async def _carry_out(log: Log, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if operation == "status":
        status = log.status()
        return {name: getattr(status, name) for name in status.__dataclass_fields__}
    if operation == "documents":
        return {
            "policy": log.policy_document,
            "policy-entry": log.policy_entry_id,
            "keys": log.service_keys_document,
            "keys-entry": log.service_keys_entry_id,
            # A key that is in use from this moment on is in use at the very next head, whatever clock the command has.
            "time": log.sequencer.decision_time(),
        }
    if operation in ("update-policy", "update-keys"):
        statement = arguments.get("statement")
        if not isinstance(statement, bytes):
            raise MalformedError(f"{operation} needs a statement")
        update = log.update_policy if operation == "update-policy" else log.update_keys
        registered = await update(statement)
        return {"entry": entry_id(registered.entry), "index": registered.index, "new": registered.new}
    if operation == "manifest":
        made = await log.manifests.make()
        return {"entries": [one.entry_id for one in made], "covered": log.manifests.covered}
    if operation.startswith("retention-"):
        return await erasure.handle(log.erasures, operation, arguments)
    raise MalformedError("the log's owner does not know this admin operation; is it an older version?")


class AdminServer:
    """Listens on the folder's socket for as long as the log is owned. Belongs to the process that holds the lock."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._folder = Folder(log.data)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        # Ours is the lock, so a socket that lies here is a dead owner's.
        with contextlib.suppress(FileNotFoundError):
            self._folder.socket.unlink()
        with reachable(self._folder.socket) as path:
            previous = os.umask(0o177)
            try:
                self._server = await asyncio.start_unix_server(self._serve, path)
            finally:
                os.umask(previous)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            # A command that hangs must not hold up the stop: since Python 3.12 wait_closed waits for connections too.
            for task in self._serving:
                task.cancel()
            await self._server.wait_closed()
        with contextlib.suppress(FileNotFoundError):
            self._folder.socket.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        try:
            async with asyncio.timeout(TIMEOUT):
                request = decode(await _read_frame(reader.readexactly), max_depth=4)
                writer.write(_frame(await self._answer(request)))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, MalformedError):
            pass  # the command on the other side went away or speaks something else; it gets no answer
        except asyncio.CancelledError:
            pass  # by stop, which wants it gone; asyncio would print a traceback for a cancelled connection
        finally:
            writer.close()

    async def _answer(self, request: object) -> dict[str, Any]:
        try:
            if not isinstance(request, dict) or not isinstance(request.get("operation"), str):
                raise MalformedError("not an admin request")
            return {"ok": await handle(self._log, request["operation"], request)}
        except TransparencyError as error:
            return {"error": type(error).__name__, "message": str(error)}


class _LocalAdmin:
    def __init__(self, log: Log, runner: asyncio.Runner) -> None:
        self._log = log
        self._runner = runner

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        return self._runner.run(handle(self._log, operation, arguments))


class _SocketAdmin:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        try:
            with reachable(self._folder.socket) as path, socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(TIMEOUT)
                connection.connect(path)
                connection.sendall(_frame({"operation": operation, **arguments}))
                answer = decode(_read_frame_now(connection), max_depth=4)
        except OSError as error:
            raise UnreachableError(
                f"{self._folder.path} is in use by another process that does not answer on {self._folder.socket.name}: "
                f"{error.strerror or error}; wait for it to end, or stop it"
            ) from error
        if "ok" in answer:
            return dict(answer["ok"])
        raise _error_of(answer)


def _error_of(answer: dict[str, Any]) -> TransparencyError:
    """The error of the other process, by its name. One that is not known here is never taken for a plain "no"."""
    message = str(answer.get("message", "the log's owner failed"))
    kind = getattr(errors, str(answer.get("error")), StoreError)
    if not (isinstance(kind, type) and issubclass(kind, TransparencyError)) or kind is errors.ServiceRefusedError:
        kind = StoreError
    return kind(message)


def _frame(value: object) -> bytes:
    data = encode(value)
    return _LENGTH.pack(len(data)) + data


async def _read_frame(read: Callable[[int], Awaitable[bytes]]) -> bytes:
    return await read(_checked_length(await read(_LENGTH.size)))


def _read_frame_now(connection: socket.socket) -> bytes:
    def exactly(count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = connection.recv(min(count - len(parts), 65536))
            if not part:
                raise ConnectionResetError(104, "the connection ended early")
            parts += part
        return bytes(parts)

    return exactly(_checked_length(exactly(_LENGTH.size)))


def _checked_length(head: bytes) -> int:
    (length,) = _LENGTH.unpack(head)
    if length > MAX_FRAME:
        raise MalformedError(f"an admin message has at most {MAX_FRAME} bytes")
    return int(length)
