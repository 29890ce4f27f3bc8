"""Workers as processes: one that dies is replaced, all end with their owner, and no end loses what was acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.patience import PATIENCE
from tests.server.served import COSE, ISS, Reply, Served, parse_raw, served, to_the_end
from tests.server.test_serve import missing, new_log
from transparency.cose.keys import PrivateKey
from transparency.errors import WorkersError
from transparency.log.log import Log
from transparency.server import workers as module
from transparency.server.worker import NICE
from transparency.statements.statement import Statement, sign_statement

# More than the workers accept in the turns that their loops take to end.
CROWD = 400

PROGRAM = """
import asyncio, sys
from pathlib import Path
from transparency.log.log import Log
from transparency.server.serve import serve
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore

async def main():
    data = Path(sys.argv[1])
    log = Log.open(data, watermark=Path(sys.argv[2]))
    tokens = TokenStore(data / "access.sqlite")
    settings = ServerSettings(port=0, open=True, workers=2, search=False)
    await serve(log, settings, tokens, lambda url: print(url, flush=True))
    print("stopped", flush=True)

asyncio.run(main())
"""


def workers_of(pid: int) -> set[int]:
    """The workers whose parent is *pid*, and that still run."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            words = (stat.parent / "cmdline").read_bytes()
            if int(parent) == pid and state != "Z" and b"transparency.server.worker" in words:
                found.add(int(stat.parent.name))
    return found


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Service:
    process: asyncio.subprocess.Process
    url: str
    issuer: PrivateKey
    acknowledged: list[str] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def post(self, session: aiohttp.ClientSession, payload: bytes) -> int:
        statement = sign_statement(payload, self.issuer, iss=ISS, sub="urn:x", content_type="text/plain")
        async with session.post(f"{self.url}/entries", data=statement, headers=COSE) as response:
            await response.read()
            if response.status in (201, 202):
                self.acknowledged.append(Statement.from_bytes(statement).entry_id)
            return response.status

    async def posting(self, session: aiohttp.ClientSession, who: int) -> None:
        """Without end; a connection that is lost is made anew."""
        for count in range(10**6):
            try:
                assert await self.post(session, b"%d-%d" % (who, count)) in (201, 202, 503)
            except aiohttp.ClientError:
                await asyncio.sleep(0.01)

    async def until_acknowledged(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.acknowledged) < count:  # noqa: ASYNC110 - a count, not an event
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[tuple[Service, aiohttp.ClientSession, Path, Path]]:
    data, mark, issuer = new_log(tmp_path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(data), str(mark), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()
    service = Service(process, url, issuer)
    async with aiohttp.ClientSession() as session:
        service.tasks = [asyncio.create_task(service.posting(session, who)) for who in range(4)]
        try:
            yield service, session, data, mark
        finally:
            for task in service.tasks:
                task.cancel()
            await asyncio.gather(*service.tasks, return_exceptions=True)
            if process.returncode is None:
                process.kill()
                await process.wait()


async def lost(data: Path, mark: Path, acknowledged: list[str]) -> list[str]:
    """What a log that is opened again does not have, once it has put its intake in the tree."""
    log = Log.open(data, watermark=mark)
    await log.start()
    try:
        return await missing(log, acknowledged)
    finally:
        await log.stop()


async def test_a_signal_drains_the_workers_and_what_they_acknowledged_is_there(tmp_path: Path) -> None:
    """REG-13, REG-23."""
    async with running(tmp_path) as (service, _, data, mark):
        await service.until_acknowledged(30)
        workers = workers_of(service.process.pid)
        os.kill(service.process.pid, signal.SIGTERM)
        out, errors = await asyncio.wait_for(service.process.communicate(), PATIENCE)

        assert len(workers) == 2
        assert (service.process.returncode, out.decode().strip(), errors) == (0, "stopped", b"")
        assert not any(runs(pid) for pid in workers)
    assert await lost(data, mark, service.acknowledged) == []


async def test_a_worker_that_is_killed_is_replaced_and_the_service_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path) as (service, session, data, mark):
        await service.until_acknowledged(20)
        before = workers_of(service.process.pid)
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while len(workers_of(service.process.pid) - {victim}) < 2:  # noqa: ASYNC110 - another process' doing
                await asyncio.sleep(0.02)
        await service.until_acknowledged(len(service.acknowledged) + 20)
        async with session.get(f"{service.url}/readyz") as response:
            assert response.status == 200
        os.kill(service.process.pid, signal.SIGTERM)
        _, errors = await asyncio.wait_for(service.process.communicate(), PATIENCE)

        assert service.process.returncode == 0
        assert errors.count(b"a worker process ended by itself (signal 9); another takes its place") == 1
    assert await lost(data, mark, service.acknowledged) == []


async def test_workers_leave_the_processor_to_the_owner(tmp_path: Path) -> None:
    async with served(tmp_path, workers=2):
        own = os.getpriority(os.PRIO_PROCESS, 0)

        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in workers_of(os.getpid())} == {min(own + NICE, 19)}


async def test_when_the_owner_is_killed_its_workers_end_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """REG-13: a 201 is durable whatever dies next."""
    async with running(tmp_path) as (service, _, data, mark):
        await service.until_acknowledged(30)
        workers = workers_of(service.process.pid)
        os.kill(service.process.pid, signal.SIGKILL)
        _, errors = await asyncio.wait_for(service.process.communicate(), PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while any(runs(pid) for pid in workers):  # noqa: ASYNC110 - other processes' doing
                await asyncio.sleep(0.02)

        assert len(workers) == 2
        assert errors.count(b"a worker stops, because the owner of the log is gone") == 2
        assert b"Traceback" not in errors
    assert await lost(data, mark, service.acknowledged) == []


async def test_workers_whose_owner_is_killed_while_a_crowd_waits_at_the_door_end_with_that_one_line(
    tmp_path: Path,
) -> None:
    """A connection that was let in while the loop ended was reported as a task destroyed, with a traceback."""
    async with running(tmp_path) as (service, _, _, _):
        await service.until_acknowledged(10)
        workers = workers_of(service.process.pid)
        host, port = service.url.removeprefix("http://").split(":")
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        crowd = [socket.create_connection((host, int(port)), PATIENCE) for _ in range(CROWD)]
        os.kill(service.process.pid, signal.SIGKILL)
        while runs(service.process.pid):  # noqa: ASYNC110 - another process' doing
            await asyncio.sleep(0.01)
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        _, errors = await asyncio.wait_for(service.process.communicate(), PATIENCE)
        for one in crowd:
            one.close()

        line = b"transparency: a worker stops, because the owner of the log is gone\n"
        assert (len(workers), errors) == (2, 2 * line)


async def test_workers_that_end_before_they_listen_stop_the_service_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_PAUSE_SECONDS", 0.05)
    async with served(tmp_path, workers=1) as site:
        monkeypatch.setattr(sys, "executable", "/bin/false")  # from now on none gets as far as its sockets
        await end_all_workers()
        async with asyncio.timeout(PATIENCE):
            await site.service.failed.wait()

        assert isinstance(site.service.failure, WorkersError)
        assert "before they serve anything" in str(site.service.failure)
        assert caplog.text.count("ended by itself (exit code 1)") == module.MAX_FALSE_STARTS
        assert "the store failed" not in caplog.text


async def test_workers_that_somebody_keeps_killing_are_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PAUSE_SECONDS", 0.05)
    async with served(tmp_path, workers=1) as site:
        for number in range(module.MAX_FALSE_STARTS + 2):
            await end_all_workers()
            assert (await registered(site, site.statement(b"%d" % number))).status == 201
        assert not site.service.failed.is_set()


async def test_a_worker_that_is_stopped_is_ended_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 1.0)
    monkeypatch.setattr(module, "MAX_SILENCES", 2)
    async with served(tmp_path, workers=1) as site:
        [stopped] = workers_of(os.getpid())
        os.kill(stopped, signal.SIGSTOP)
        async with asyncio.timeout(PATIENCE):
            while runs(stopped):  # noqa: ASYNC110 - another process' doing
                await asyncio.sleep(0.05)

        assert (await registered(site, site.statement())).status == 201
        assert f"worker process {stopped} has not been heard of" in caplog.text


async def test_a_worker_that_takes_long_to_start_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many processes want the machine. It has nothing to say before it serves, and that is no silence."""
    slow = tmp_path / "slow-python"
    slow.write_text(f'#!/bin/sh\nsleep 2\nexec {sys.executable} "$@"\n')
    slow.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(slow))
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(module, "MAX_SILENCES", 2)
    async with served(tmp_path, workers=1) as site:
        assert not site.service.failed.is_set()


async def registered(site: Served, statement: bytes) -> Reply:
    """The answer, once there is a worker that gives one."""
    async with asyncio.timeout(PATIENCE):
        while (reply := await _posted(site, statement)) is None:  # noqa: ASYNC110 - another process' doing
            await asyncio.sleep(0.02)
    return reply


async def _posted(site: Served, statement: bytes) -> Reply | None:
    try:
        # A connection for one request stays with the worker that took it.
        return await site.post(statement, Connection="close")
    except aiohttp.ClientError:  # the connection of the one that was killed
        return None


async def end_all_workers() -> None:
    async with asyncio.timeout(PATIENCE):
        while not (found := workers_of(os.getpid())):  # noqa: ASYNC110 - another process' doing
            await asyncio.sleep(0.02)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        while any(runs(pid) for pid in found):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_half_a_request_does_not_hold_a_stop_for_long(tmp_path: Path) -> None:
    """API-8: it is told that nothing was accepted."""
    async with served(tmp_path, workers=1) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        # Behind a whole one: when that is answered, the half is there.
        statement = site.statement()
        head = b"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/cose\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(statement) + statement + head % 99 + b"x")
        created = parse_raw(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE))
        await asyncio.wait_for(reader.readexactly(int(created.headers["Content-Length"])), PATIENCE)
        assert created.status == 201
    answer = await to_the_end(reader)
    writer.close()

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"is stopping; nothing was accepted" in answer


async def test_a_worker_that_is_being_replaced_when_the_service_stops_is_ended_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not there yet when all are told to stop."""
    started: list[asyncio.subprocess.Process] = []
    coming = asyncio.Event()
    create = asyncio.create_subprocess_exec

    async def slow_to_replace(*command: str, **options: Any) -> asyncio.subprocess.Process:
        started.append(await create(*command, **options))
        if len(started) > 1:
            coming.set()
            await asyncio.sleep(0.3)
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow_to_replace)
    async with asyncio.timeout(PATIENCE):
        async with served(tmp_path, workers=1):
            started[0].kill()
            await coming.wait()

        assert len(started) == 2
        assert all(process.returncode is not None for process in started)
