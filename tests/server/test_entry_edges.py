"""The edges of /entries: sizes, hosts, prefixes, HEAD, and clients that go away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.server.served import COSE, Served, served, until_found
from transparency.statements.statement import Statement


async def test_a_statement_beyond_the_policys_size_is_413(site: Served) -> None:
    """LEAF-8, API-8: 413 with problem details, whether the length was announced or only found out."""
    limit = site.log.policy.max_statement_size
    small = await site.post(site.statement(bytes(limit)))
    announced = await site.post(bytes(limit + 300_000))

    async def chunks() -> Any:
        for _ in range(80):
            yield bytes(65536)

    unannounced = await site.ask("POST", "/entries", data=chunks(), headers=COSE)
    for reply in (small, announced, unannounced):
        assert (reply.status, reply.title) == (413, "Content Too Large")
    # Labels that registration drops do not count.
    padded = site.statement(bytes(limit - 1000), unprotected={-70999: bytes(100_000)})
    assert (await site.post(padded)).status == 201


async def test_a_prefix_before_the_service_shows_in_locations(tmp_path: Path) -> None:
    """API-14: Location is what a client follows."""
    async with served(tmp_path, base_url="https://log.example/scitt/") as site:
        statement = site.statement()
        reply = await site.post(statement)

        assert (
            reply.headers["Location"] == f"https://log.example/scitt/entries/{Statement.from_bytes(statement).entry_id}"
        )


async def test_a_made_up_host_is_not_repeated(site: Served) -> None:
    """API-1: Location is then the path alone, which is a URL reference too."""
    reply = await site.post(site.statement(), Host='evil"><script>')

    assert reply.headers["Location"].startswith("/entries/")


async def test_head_is_get_without_its_body(site: Served) -> None:
    posted = await site.post(site.statement())
    reply = await site.ask("HEAD", posted.headers["Location"])

    assert reply.status == 200
    assert reply.body == b""
    assert int(reply.headers["Content-Length"]) == len(posted.body)


async def test_a_client_that_goes_away_does_not_take_its_entry_with_it(site: Served) -> None:
    """REG-13: once the statement is in, it is registered."""
    statement = site.statement()
    head = f"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Length: {len(statement)}\r\n"
    _, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(head.encode() + b"Content-Type: application/cose\r\n\r\n" + statement)
    await writer.drain()
    await asyncio.sleep(0.01)
    writer.transport.abort()
    location = f"/entries/{Statement.from_bytes(statement).entry_id}"

    assert (await until_found(site, location)).status == 200
