"""Artifacts over HTTP: uploaded with a submit token, read with a read token, and never other bytes than asked for."""

from __future__ import annotations

import asyncio
import hashlib
import io
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.served import Reply, Served, parse_raw, served

DATA = bytes(range(256)) * 8192
DIGEST = hashlib.sha256(DATA).hexdigest()


async def put(site: Served, data: bytes = DATA, digest: str = DIGEST, **headers: str) -> Reply:
    return await site.ask("PUT", f"/artifacts/{digest}", data=io.BytesIO(data), headers=headers)


def kept(site: Served) -> list[Path]:
    return [path for path in (site.log.data / "artifacts").rglob("*") if path.is_file()]


async def test_an_artifact_is_kept_once_and_comes_back_to_the_byte(site: Served) -> None:
    first, again = await put(site), await put(site)
    back = await site.get(f"/artifacts/{DIGEST}")

    assert (first.status, again.status) == (201, 200)
    assert first.headers["Location"] == again.headers["Location"] == f"{site.url}/artifacts/{DIGEST}"
    assert back.body == DATA
    assert back.headers["Content-Type"] == "application/octet-stream"
    assert back.headers["X-Content-Type-Options"] == "nosniff"
    (file,) = kept(site)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_the_empty_artifact_is_one_too(site: Served) -> None:
    digest = hashlib.sha256(b"").hexdigest()

    assert (await put(site, b"", digest)).status == 201
    assert (await site.get(f"/artifacts/{digest}")).body == b""


async def test_other_bytes_than_the_path_names_are_400_and_not_kept(site: Served) -> None:
    reply = await put(site, DATA[:-1])

    assert (reply.status, reply.title) == (400, "Wrong digest")
    assert kept(site) == []
    assert (await site.get(f"/artifacts/{DIGEST}")).status == 404


@pytest.mark.parametrize("digest", ["x", DIGEST.upper(), DIGEST[:-1], "..%2f..%2fconfig.toml"])
async def test_a_name_that_is_no_digest_is_400(site: Served, digest: str) -> None:
    assert (await put(site, digest=digest)).status == 400
    assert (await site.get(f"/artifacts/{digest}")).title == "Invalid locator"


async def test_too_large_is_413_by_its_length_and_while_it_arrives(tmp_path: Path) -> None:
    async with served(tmp_path, max_artifact_bytes=1000) as site:
        announced = await put(site, DATA)

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(4):
                yield DATA[:500]

        streamed = await site.ask("PUT", f"/artifacts/{DIGEST}", data=pieces())

        assert (announced.status, streamed.status) == (413, 413)
        assert "1000 bytes" in streamed.detail
        assert kept(site) == []


async def test_upload_needs_submit_and_download_needs_read(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site:
        submit, read = site.bearer("submit"), site.bearer("read")

        assert (await put(site)).status == 401
        assert (await put(site, Authorization=read)).status == 403
        assert (await put(site, Authorization=submit)).status == 201
        assert (await site.get(f"/artifacts/{DIGEST}")).status == 401
        assert (await site.get(f"/artifacts/{DIGEST}", Authorization=submit)).status == 403
        assert (await site.get(f"/artifacts/{DIGEST}", Authorization=read)).body == DATA


async def test_a_public_log_lets_everybody_read_and_nobody_upload(tmp_path: Path) -> None:
    async with served(tmp_path, open=False, public=True) as site:
        await put(site, Authorization=site.bearer("submit"))

        assert (await site.get(f"/artifacts/{DIGEST}")).body == DATA
        assert (await put(site)).status == 401


async def test_head_and_if_none_match_spare_the_bytes(site: Served) -> None:
    await put(site)

    head = await site.ask("HEAD", f"/artifacts/{DIGEST}")
    again = await site.get(f"/artifacts/{DIGEST}", If_None_Match=head.headers["ETag"])

    assert (head.status, head.headers["Content-Length"], head.body) == (200, str(len(DATA)), b"")
    assert (again.status, again.body) == (304, b"")
    assert (await site.get(f"/artifacts/{DIGEST}", Accept="image/png")).status == 406


async def test_only_so_many_are_uploaded_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, max_uploads=1) as site:
        _, slow = await asyncio.open_connection("127.0.0.1", site.port)
        slow.write(f"PUT /artifacts/{DIGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(DATA)}\r\n\r\n".encode())
        while site.service.uploads == 0:  # noqa: ASYNC110 - the service has no event for it
            await asyncio.sleep(0.01)

        refused = await put(site)
        slow.close()
        while site.service.uploads:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

        assert refused.status == 503
        assert int(refused.headers["Retry-After"]) >= 1
        assert (await put(site)).status == 201


@pytest.mark.parametrize(("ends", "patience", "status"), [(False, 0.2, 408), (True, 60.0, 400)])
async def test_a_body_that_does_not_come_is_408_and_one_that_ends_early_400(
    tmp_path: Path, ends: bool, patience: float, status: int
) -> None:
    async with served(tmp_path, body_timeout=patience) as site:
        head = f"PUT /artifacts/{DIGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(DATA)}\r\n\r\n".encode()

        reply = parse_raw(await site.raw(head + DATA[:10], end=ends))

        assert reply.status == status
        assert kept(site) == []


async def test_no_length_is_411_and_an_encoding_415(site: Served) -> None:
    head = f"PUT /artifacts/{DIGEST} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode()

    assert parse_raw(await site.raw(head + b"\r\n")).status == 411
    assert (await put(site, b"x", **{"Content-Encoding": "gzip"})).status == 415


async def test_what_a_crash_left_of_an_upload_is_gone_at_the_next_start(tmp_path: Path) -> None:
    async with served(tmp_path):
        left = tmp_path / "log" / "artifacts" / "incoming" / "half"
        left.parent.mkdir(parents=True)
        left.write_bytes(b"half")

    from transparency.log.log import Log
    from transparency.server.app import create_app
    from transparency.server.settings import ServerSettings
    from transparency.server.tokens import TokenStore

    log = Log.open(tmp_path / "log", watermark=tmp_path / "mark")
    tokens = TokenStore(tmp_path / "log" / "access.sqlite")
    try:
        create_app(log, ServerSettings(), tokens)
    finally:
        await log.stop()
        tokens.close()

    assert not left.exists()
