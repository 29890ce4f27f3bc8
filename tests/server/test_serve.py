"""Serving until told to stop: the whole process, its signals, TLS, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.patience import PATIENCE
from tests.server.served import COSE, ISS, Served, served, to_the_end
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey
from transparency.errors import StoreError
from transparency.log.create import create_log
from transparency.log.log import Log, Pending, Registered, system_clock
from transparency.policy.document import Issuer
from transparency.server.serve import serve
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore
from transparency.statements.statement import Statement, parse_entry_id, sign_statement

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
    await serve(log, ServerSettings(port=0, open=True), tokens, lambda url: print(url, flush=True))
    print("stopped", flush=True)

asyncio.run(main())
"""


def new_log(tmp_path: Path) -> tuple[Path, Path, PrivateKey]:
    issuer = PrivateKey.generate(algorithm("ES256").id)
    create_log(
        tmp_path / "log",
        clock=system_clock,
        watermark=tmp_path / "mark",
        issuers=(Issuer(ISS, (issuer.public,)),),
    )
    return tmp_path / "log", tmp_path / "mark", issuer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_process_drains_on_a_signal_and_what_it_acknowledged_is_there(tmp_path: Path, number: int) -> None:
    """REG-13, REG-23: stopped in the middle of many posts, every 201 and 202 is in the log afterwards."""
    data, mark, issuer = new_log(tmp_path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(data), str(mark), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()
    acknowledged: list[str] = []
    socket_seen = (data / "admin.sock").exists()

    async def post_for_ever(worker: int, session: aiohttp.ClientSession) -> None:
        for count in range(10_000):
            statement = sign_statement(
                b"%d-%d" % (worker, count), issuer, iss=ISS, sub="urn:x", content_type="text/plain"
            )
            headers = {**COSE, **({"Prefer": "respond-async"} if worker % 2 else {})}
            async with session.post(f"{url}/entries", data=statement, headers=headers) as response:
                await response.read()
                if response.status in (201, 202):
                    acknowledged.append(Statement.from_bytes(statement).entry_id)
                else:
                    assert response.status == 503

    async with aiohttp.ClientSession() as session:
        workers = [asyncio.create_task(post_for_ever(worker, session)) for worker in range(6)]
        while len(acknowledged) < 30:  # noqa: ASYNC110 - a count, not an event
            await asyncio.sleep(0.01)
        os.kill(process.pid, number)
        rest, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
        for worker in workers:
            with contextlib.suppress(aiohttp.ClientError):
                await worker

    assert url.startswith("http://127.0.0.1:")
    assert socket_seen
    assert process.returncode == 0
    assert rest.decode().strip() == "stopped"
    assert errors == b""
    log = Log.open(data, watermark=mark)
    await log.start()
    assert await missing(log, acknowledged) == []
    await log.stop()


async def missing(log: Log, acknowledged: list[str]) -> list[str]:
    """What a log that was opened again does not have, nor its intake: what is pending is on its way into the tree."""
    entries = {text: parse_entry_id(text) for text in acknowledged}
    async with asyncio.timeout(PATIENCE):
        while any(isinstance(log.lookup(entry), Pending) for entry in entries.values()):  # noqa: ASYNC110 - as a client
            await asyncio.sleep(0.02)
    return [text for text, entry in entries.items() if log.sequencer.find(entry) is None]


async def test_a_request_in_flight_is_answered_before_the_connection_closes(tmp_path: Path) -> None:
    """REG-13: the stop waits for it."""
    async with served(tmp_path) as site:
        real = site.log.register
        begun = asyncio.Event()

        async def slow(data: bytes | Statement) -> Registered:
            begun.set()
            await asyncio.sleep(0.5)
            return await real(data)

        site.log.register = slow  # type: ignore[method-assign]
        posting = asyncio.create_task(raw_post(site, site.statement()))
        await begun.wait()
    assert b"HTTP/1.1 201 Created" in await posting


async def test_a_body_that_is_still_arriving_at_the_end_is_answered_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-8: nothing was accepted, and the client is told so."""
    monkeypatch.setattr("transparency.server.site.BODY_GRACE_SECONDS", 0.1)
    async with served(tmp_path, drain_timeout=5.0) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(
            b"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/cose\r\nContent-Length: 99\r\n\r\nx"
        )
        async with asyncio.timeout(PATIENCE):
            while not site.service.bodies._reading:  # noqa: ASYNC110 - the event is in another part
                await asyncio.sleep(0.01)
    answer = await to_the_end(reader)
    writer.close()

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"application/concise-problem-details+cbor" in answer


async def test_a_failing_store_ends_serving_with_its_error(tmp_path: Path) -> None:
    """Design §4: the process stops rather than guess, and whoever runs it sees why."""
    data, mark, issuer = new_log(tmp_path)
    log = Log.open(data, watermark=mark)
    tokens = TokenStore(data / "access.sqlite")
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(log, ServerSettings(port=0, open=True), tokens, ready.set_result))
    url = await ready

    def broken(*_: Any, **__: Any) -> Any:
        raise StoreError("disk I/O error")

    log._opened.appender.append = broken  # type: ignore[method-assign]
    statement = sign_statement(b"x", issuer, iss=ISS, sub="urn:x", content_type="text/plain")
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/entries", data=statement, headers=COSE) as response,
    ):
        status = response.status
    with pytest.raises(StoreError):
        await asyncio.wait_for(serving, PATIENCE)
    tokens.close()

    assert status == 503
    assert not (data / "admin.sock").exists()
    reopened = Log.open(data, watermark=mark)
    await reopened.start()
    assert reopened.newest_head().size == 2
    await reopened.stop()


async def test_with_certificate_and_key_it_speaks_tls_only(tmp_path: Path) -> None:
    """API-11: TLS 1.2 or newer; errors of broken requests are problems there too."""
    cert, key = certificate(tmp_path)
    async with served(tmp_path, tls_cert=cert, tls_key=key) as site:
        context = ssl.create_default_context(cafile=str(cert))
        async with site.session.get(f"{site.url}/healthz", ssl=context) as response:
            status = response.status
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=context)
        writer.write(b"NONSENSE\r\n\r\n")
        answer = await to_the_end(reader)
        writer.close()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", site.port, ssl=old)

        assert site.url.startswith("https://")
        assert status == 200
        assert answer.startswith(b"HTTP/1.0 400 ")
        assert b"application/concise-problem-details+cbor" in answer
        posted = await raw_post(site, site.statement(), context)
        assert b"Location: https://" in posted


async def raw_post(site: Served, statement: bytes, context: ssl.SSLContext | None = None) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=context)
    head = f"POST /entries HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(statement)}\r\nConnection: close\r\n"
    writer.write(head.encode() + b"Content-Type: application/cose\r\n\r\n" + statement)
    answer = await to_the_end(reader)
    writer.close()
    return answer


def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_path.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_path, key_path
