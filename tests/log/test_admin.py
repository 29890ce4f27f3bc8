"""The admin route: the same effect on a folder that nobody owns and through the socket of one that a server does."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from transparency.cli.rotation import rotate_key
from transparency.errors import FolderOwnedError, MalformedError, RefusedError, StoreError, UnreachableError
from transparency.log.admin import MAX_FRAME, AdminServer, open_admin
from transparency.log.documents import sign_document
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.policy import keyset
from transparency.policy.document import Policy
from transparency.statements.receipt import Receipt
from transparency.testing import Fault, MadeLog, SampleIssuer, make_log, running

OTHER = SampleIssuer(iss="https://second.example")


def next_policy(made: MadeLog, documents: dict[str, Any]) -> bytes:
    policy = Policy.from_toml(documents["policy"])
    signer = Folder(made.data).load_key(keyset.POLICY, policy.policy_key)
    changed = policy.with_issuer(OTHER.iss, (OTHER.key.public,), previous=documents["policy-entry"])
    return sign_document(changed, signer, "https://admin.example")


def add_issuer(made: MadeLog) -> dict[str, Any]:
    """What `issuer add` does, in a thread of its own as a command is a process of its own."""
    with open_admin(made.data, watermark=made.watermark, clock=made.clock) as admin:
        return admin.call("update-policy", statement=next_policy(made, admin.call("documents")))


async def test_without_an_owner_the_command_works_on_the_folder(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")

    answer = await asyncio.to_thread(add_issuer, made)

    assert answer["index"] == 2
    async with running(made) as log:
        assert log.policy.generation == 2
        await log.register(OTHER.sign(b"welcome"))


async def test_with_an_owner_it_goes_through_the_socket_and_is_in_force_at_once(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        server = AdminServer(log)
        await server.start()
        try:
            with pytest.raises(RefusedError):
                await log.register(OTHER.sign(b"too early"))
            answer = await asyncio.to_thread(add_issuer, made)

            assert (answer["index"], answer["new"], log.policy.generation) == (2, True, 2)
            await log.register(OTHER.sign(b"welcome"))
            assert stat.S_IMODE((made.data / "admin.sock").stat().st_mode) == 0o600
        finally:
            await server.stop()
    assert not (made.data / "admin.sock").exists()


async def test_a_folder_deeper_than_a_socket_path_may_be_works_too(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60) / "log"
    deep.parent.mkdir(parents=True)
    made = make_log(deep)
    async with running(made) as log:
        server = AdminServer(log)
        await server.start()
        try:
            assert (await asyncio.to_thread(add_issuer, made))["index"] == 2
        finally:
            await server.stop()


def call(made: MadeLog, operation: str, **arguments: Any) -> dict[str, Any]:
    with open_admin(made.data) as admin:
        return admin.call(operation, **arguments)


async def test_refusals_come_back_as_what_they_are(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        server = AdminServer(log)
        await server.start()
        try:
            with pytest.raises(RefusedError):
                await asyncio.to_thread(call, made, "update-policy", statement=made.issuer.sign(b"no policy"))
            with pytest.raises(MalformedError, match="needs a statement"):
                await asyncio.to_thread(call, made, "update-keys")
            with pytest.raises(MalformedError, match="does not know"):
                await asyncio.to_thread(call, made, "sudo")
            status = await asyncio.to_thread(call, made, "status")
            assert (status["size"], status["alive"], status["origin"]) == (2, True, log.origin)
        finally:
            await server.stop()


async def test_an_owner_that_does_not_listen_is_said(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made):
        with pytest.raises(FolderOwnedError):
            Log.open(made.data)
        with pytest.raises(UnreachableError, match="in use by another process"):
            await asyncio.to_thread(call, made, "status")


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\0", b"\0\0\0\x01\xff", b"\xff\xff\xff\xff", b"\0\0\0\x05hello", (MAX_FRAME + 1).to_bytes(4, "big")],
)
async def test_garbage_on_the_socket_is_dropped_and_the_next_caller_served(tmp_path: Path, garbage: bytes) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        server = AdminServer(log)
        await server.start()
        try:
            await asyncio.to_thread(_send, made.data, garbage)
            assert (await asyncio.to_thread(call, made, "status"))["size"] == 2
        finally:
            await server.stop()


def _send(data: Path, garbage: bytes) -> None:
    import os

    descriptor = os.open(data, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(f"/proc/self/fd/{descriptor}/admin.sock")
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(100)
    finally:
        os.close(descriptor)


async def test_a_command_that_hangs_does_not_hold_up_the_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        server = AdminServer(log)
        await server.start()
        _, writer = await asyncio.open_unix_connection(str(made.data / "admin.sock"))
        writer.write(b"\0\0")
        await writer.drain()
        await asyncio.sleep(0.01)

        async with asyncio.timeout(PATIENCE):
            await server.stop()
        await asyncio.sleep(0.01)
        writer.close()
    assert caplog.records == []


async def test_an_in_doubt_answer_is_never_taken_for_a_refusal(tmp_path: Path) -> None:
    """The log may have committed a rotation that it could not confirm: then it needs the new key."""
    made = make_log(tmp_path / "log")
    log, faulty = made.open_faulty()
    await log.start()
    server = AdminServer(log)
    await server.start()
    faulty.fail("commit", Fault.FAILS_BUT_PERSISTS)
    try:
        with pytest.raises(StoreError):
            await asyncio.to_thread(rotate, made)
    finally:
        await server.stop()
        await log.stop()

    async with running(made) as again:
        assert again.service_keys.generation == 2
        assert Receipt.from_bytes((await again.register(made.issuer.sign(b"x"))).receipt).kid
    assert made.fsck().clean


def rotate(made: MadeLog) -> None:
    with open_admin(made.data, clock=made.clock, allow_lost_key=True) as admin:
        rotate_key(admin, Folder(made.data), keyset.RECEIPTS)


async def test_a_lost_key_is_replaced_although_202s_are_waiting(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    data = made.issuer.sign(b"acknowledged")
    log = made.open()
    await log.start(drain=False)
    await log.accept(data)
    await log.stop()
    (lost,) = Folder(made.data).keys.glob("receipts-*.pem")
    lost.unlink()

    await asyncio.to_thread(rotate, made)

    async with running(made) as again:
        assert again.service_keys.generation == 2
        await again.register(data)
