"""``POST /entries/batch``: the same, whoever reads the connection, a worker or the owner of the log."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import cbor2
import pytest

from tests.patience import PATIENCE
from tests.server.served import Served, parse_raw, served, to_the_end
from transparency.client.pinning import check_receipt
from transparency.cose.sequence import item_end
from transparency.log import gathering
from transparency.server.chunked import LAST_CHUNK, Body, chunk
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement

SEQUENCE = "application/cbor-seq"
HEAD = b"POST /entries/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/cbor-seq\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
Serve = Callable[..., Any]


@pytest.fixture(params=[0, 1], ids=["owner", "worker"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Serve:
    return lambda **settings: served(tmp_path, workers=request.param, **settings)


def items(sequence: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(sequence):
        end = item_end(sequence, at, 10**6)
        assert end is not None
        found.append(sequence[at:end])
        at = end
    return found


async def send(site: Served, body: bytes | AsyncIterator[bytes], **headers: str) -> list[bytes]:
    async with site.session.post(
        f"{site.url}/entries/batch",
        data=io.BytesIO(body) if isinstance(body, bytes) else body,
        headers={"Content-Type": SEQUENCE, **headers},
    ) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == SEQUENCE
        return items(await response.read())


async def test_each_statement_gets_its_receipt_in_order(serve: Serve) -> None:
    async with serve() as site:
        statements = [site.statement(b'{"n":%d}' % number) for number in range(40)]
        first = await send(site, b"".join(statements))
        again = await send(site, b"".join(reversed(statements)))
        keys = site.log.receipt_keys()

        for data, receipt in zip(statements, first, strict=True):
            check_receipt(receipt, Statement.from_bytes(data).entry, keys)
        assert site.log.newest_head().size == 42
        assert [Receipt.from_bytes(each).inclusion[0].index for each in reversed(again)] == [
            Receipt.from_bytes(each).inclusion[0].index for each in first
        ]


async def test_what_is_refused_is_a_problem_in_its_place(serve: Serve) -> None:
    async with serve() as site:
        good = site.statement()
        stranger = site.statement(iss="https://stranger.example")
        detached = Statement.from_bytes(good).message.with_payload(None).to_bytes()
        results = [cbor2.loads(each) for each in await send(site, good + stranger + b"\x01" + detached + good)]

        assert [getattr(each, "tag", None) or (each[-4], each[-1]) for each in results] == [
            18, (400, "Rejected"), (400, "Malformed request"), (400, "Payload Missing"), 18,
        ]  # fmt: skip
        assert site.log.newest_head().size == 3


async def test_a_statement_beyond_the_policys_size_is_413_among_others(serve: Serve) -> None:
    """LEAF-8."""
    async with serve() as site:
        limit = site.log.policy.max_statement_size
        results = [cbor2.loads(each) for each in await send(site, site.statement(bytes(limit)) + site.statement())]

        assert (results[0][-4], results[0][-1]) == (413, "Content Too Large")
        assert results[1].tag == 18


async def test_results_come_while_statements_are_still_being_sent(serve: Serve) -> None:
    """Whoever waits for each receipt before the next statement is not kept waiting."""
    async with serve() as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(CHUNKED)
        body = Body(None)
        content = b""
        for number in range(3):
            statement = site.statement(b'{"n":%d}' % number)
            writer.write(chunk(statement))
            if number == 0:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
                assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            while item_end(content, 0, 10**6) is None:
                content += body.feed(await asyncio.wait_for(reader.read(65536), PATIENCE))[0]
            check_receipt(content, Statement.from_bytes(statement).entry, site.log.receipt_keys())
            content = b""
        writer.write(LAST_CHUNK)
        while not body.complete:
            body.feed(await asyncio.wait_for(reader.read(65536), PATIENCE))
        writer.close()


async def test_the_last_of_a_batch_do_not_wait_for_others(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "PATIENT_SECONDS", 3600.0)
    async with serve() as site, asyncio.timeout(PATIENCE):
        for number in range(3):
            assert len(await send(site, site.statement(b"%d" % number) + site.statement(b"again %d" % number))) == 2


async def test_no_statements_are_no_results(serve: Serve) -> None:
    async with serve() as site:
        assert await send(site, b"") == []


@pytest.mark.parametrize("rest", [b"zz\r\n", b"9\r\nshort", chunk(b"\xd2\x84"), b""])
async def test_a_body_that_breaks_off_is_answered_for_what_came(serve: Serve, rest: bytes) -> None:
    async with serve(body_timeout=5.0) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(CHUNKED + chunk(site.statement()))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        came = await asyncio.wait_for(reader.readuntil(b"\r\n"), PATIENCE)
        writer.write(rest)
        writer.write_eof()
        content, _ = Body(None).feed(came + await to_the_end(reader))
        writer.close()
        first, *more = items(content)

        assert head.startswith(b"HTTP/1.1 200 OK")
        check_receipt(first, Statement.from_bytes(site.statement()).entry, site.log.receipt_keys())
        # 408: of a body that breaks in the middle aiohttp says nothing, and it is waited for.
        assert [cbor2.loads(each)[-4] for each in more] in ([400], [408])


async def test_a_body_shorter_than_its_length_is_not_taken_for_whole(serve: Serve) -> None:
    """Also where it breaks off between two statements."""
    async with serve(body_timeout=5.0) as site:
        statements = [site.statement(b"%d" % number) for number in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(HEAD + b"Content-Length: 9999\r\n\r\n" + b"".join(statements))
        writer.write_eof()
        head, _, body = (await to_the_end(reader)).partition(b"\r\n\r\n")
        writer.close()

        if head.startswith(b"HTTP/1.1 400"):  # without workers, and noticed before the first result was sent
            assert b"ended early" in body
            return
        *receipts, problem = items(Body(None).feed(body)[0])
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert len(receipts) == 2
        assert cbor2.loads(problem)[-4] in (400, 408)


async def test_a_batch_needs_a_token_and_the_right_type(serve: Serve) -> None:
    async with serve(open=False) as site:
        statement = site.statement()
        token = site.bearer("submit")
        nobody = await site.ask("POST", "/entries/batch", data=statement, headers={"Content-Type": SEQUENCE})
        reader = await site.ask(
            "POST", "/entries/batch", data=statement,
            headers={"Content-Type": SEQUENCE, "Authorization": site.bearer("read")},
        )  # fmt: skip
        other = await site.ask(
            "POST", "/entries/batch", data=statement,
            headers={"Content-Type": "application/cose", "Authorization": token},
        )  # fmt: skip
        known = await send(site, statement, Authorization=token)

        assert (nobody.status, reader.status, other.status) == (401, 403, 415)
        assert other.headers["Accept-Post"] == SEQUENCE
        assert len(known) == 1


async def test_a_token_for_other_issuers_is_told_so_of_each(serve: Serve) -> None:
    async with serve(open=False) as site:
        _, secret = site.tokens.create(("submit",), issuers=("https://other.example",))
        [result] = await send(site, site.statement(), Authorization=f"Bearer {secret}")

        assert cbor2.loads(result)[-4] == 403


async def test_the_rate_limit_counts_statements(serve: Serve) -> None:
    """API-9: a batch is no way around it."""
    async with serve(rate_limit=5, rate_period=3600.0) as site:
        body = b"".join(site.statement(b'{"n":%d}' % number) for number in range(10))
        results = [cbor2.loads(each) for each in await send(site, body)]

        taken = [getattr(each, "tag", None) or each[-4] for each in results]
        assert set(taken) == {18, 429}
        assert taken.count(18) in (4, 5)
        assert len(taken) == 10


async def test_a_client_may_ask_first(serve: Serve) -> None:
    async with serve() as site:
        statement = site.statement()
        head = HEAD + b"Content-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n" % len(statement)
        answer = await site.raw(head + statement)

        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


async def test_a_batch_without_framing_is_411_and_a_compressed_one_415(serve: Serve) -> None:
    async with serve() as site:
        bare = parse_raw(await site.raw(HEAD + b"Connection: close\r\n\r\n"))
        packed = parse_raw(
            await site.raw(HEAD + b"Connection: close\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx")
        )

        assert (bare.status, packed.status) == (411, 415)


async def test_fifteen_hundred_statements_through_one_connection(serve: Serve) -> None:
    """More than are ever under way at once, sent by one who reads only while sending."""
    async with serve() as site:
        statements = [site.statement(b'{"n":%d}' % number) for number in range(1_500)]

        async def body() -> AsyncIterator[bytes]:
            for start in range(0, 1_500, 100):
                yield b"".join(statements[start : start + 100])

        results = await send(site, body())

        assert len(results) == 1_500
        assert site.log.newest_head().size == 1_502
        check_receipt(results[-1], Statement.from_bytes(statements[-1]).entry, site.log.receipt_keys())
