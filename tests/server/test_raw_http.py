"""What arrives broken: every 4xx and 5xx is problem details, also where aiohttp's parser decides (API-8)."""

from __future__ import annotations

import asyncio
import logging
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.server.served import PROBLEM, Served, parse_raw, served, to_the_end
from transparency.errors import StoreError

HEAD = b"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/cose\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50) + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"BREW /entries HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n: novalue\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 10_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(200)) + b"\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1_0\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, identity\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_a_request_that_cannot_be_parsed_is_400_in_cbor(
    site: Served, caplog: pytest.LogCaptureFixture, request_bytes: bytes
) -> None:
    """API-8: malformed request lines, bad and oversized headers, contradicting lengths, broken chunks."""
    reply = parse_raw(await site.raw(request_bytes))

    assert (reply.status, reply.title) == (400, "Malformed request")
    assert reply.headers["Content-Type"] == PROBLEM
    assert caplog.records == []


async def test_a_transfer_coding_that_nobody_undoes_is_501(site: Served) -> None:
    """RFC 9112 §6.1: what came would be taken for what was sent."""
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(site.statement()), site.statement())
    reply = parse_raw(await site.raw(HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + body))

    assert (reply.status, reply.title) == (501, "Not Implemented")


async def test_a_truncated_body_is_400_if_the_sender_still_listens(site: Served) -> None:
    """API-8: the sender ended its side inside the body; it is told, and nothing is registered."""
    statement = site.statement()
    head = HEAD + b"Content-Length: %d\r\n\r\n" % len(statement)
    length = parse_raw(await site.raw(head + statement[:-1], end=True))
    chunked = parse_raw(await site.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", end=True))

    for reply in (length, chunked):
        assert (reply.status, reply.title) == (400, "Malformed request")
        assert "ended early" in reply.detail
    assert site.log.newest_head().size == 2


async def test_a_sender_that_is_done_sending_still_gets_its_receipt(site: Served) -> None:
    """API-1: half-closing after a whole request is a thing clients do."""
    statement = site.statement()
    reply = parse_raw(await site.raw(HEAD + b"Content-Length: %d\r\n\r\n" % len(statement) + statement, end=True))

    assert reply.status == 201


async def test_a_slow_body_is_408(tmp_path: Path) -> None:
    """API-8: a client that trickles is answered and let go; others are served meanwhile."""
    async with served(tmp_path, body_timeout=0.3) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        reading = asyncio.create_task(to_the_end(reader))
        writer.write(HEAD + b"Content-Length: 1000\r\n\r\n")
        for _ in range(3):
            writer.write(b"x")
            await asyncio.sleep(0.05)
        meanwhile = await site.post(site.statement())
        answer = parse_raw(await reading)
        writer.close()

        assert meanwhile.status == 201
        assert (answer.status, answer.title) == (408, "Request Timeout")
        assert answer.headers["Connection"] == "close"
        assert site.service.bodies.held == 0


async def test_a_head_that_never_ends_is_hung_up_on(tmp_path: Path) -> None:
    """API-10: connections cannot be collected by sending nothing."""
    async with served(tmp_path, idle_timeout=0.3) as site:
        assert await site.raw(b"POST /entries HTTP/1.1\r\nHost:") == b""
        assert await site.raw(b"") == b""


async def test_a_post_without_a_length_is_411(site: Served) -> None:
    """API-8."""
    reply = parse_raw(await site.raw(HEAD + b"Connection: close\r\n\r\n"))

    assert (reply.status, reply.title) == (411, "Length Required")


async def test_an_oversized_body_is_refused_before_it_is_sent(site: Served) -> None:
    """LEAF-8, API-8: with Expect: 100-continue the client never sends it."""
    reply = parse_raw(await site.raw(HEAD + b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n"))

    assert (reply.status, reply.title) == (413, "Content Too Large")


async def test_a_client_that_breaks_off_a_refused_body_leaves_no_trace(
    site: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """API-8: 413 is sent at once; what becomes of the rest of the upload is no fault of ours."""
    reply = parse_raw(await site.raw(HEAD + b"Content-Length: 99999999\r\n\r\n" + bytes(100_000), end=True))

    assert reply.status == 413
    assert caplog.records == []


async def test_a_client_may_ask_first_and_send_then(tmp_path: Path) -> None:
    """API-1, API-8: 100 Continue comes after authorisation; an unknown expectation is 417."""
    async with served(tmp_path, open=False) as site:
        statement = site.statement()
        head = HEAD + b"Connection: close\r\nContent-Length: %d\r\n" % len(statement)
        token = b"Authorization: " + site.bearer("submit").encode() + b"\r\n"
        stranger = parse_raw(await site.raw(head + b"Expect: 100-continue\r\n\r\n"))
        known = await site.raw(head + token + b"Expect: 100-continue\r\n\r\n" + statement)
        unknown = parse_raw(await site.raw(head + token + b"Expect: miracles\r\n\r\n" + statement))
        lost = parse_raw(
            await site.raw(b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: miracles\r\n\r\n")
        )

        assert stranger.status == 401
        assert known.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n")
        assert (unknown.status, unknown.title) == (417, "Expectation Failed")
        assert (lost.status, lost.title) == (417, "Expectation Failed")


async def test_unknown_routes_are_404_and_wrong_methods_405(site: Served) -> None:
    """API-8, API-13, API-16: also for the paths of older SCRAPI drafts."""
    for path in (
        "/",
        "/nothing",
        "/entries/",
        "/operations/1",
        "/.well-known/transparency-configuration",
        "/a%00b",
        "//",
    ):
        reply = await site.get(path)
        assert (reply.status, reply.title) == (404, "Not Found"), path
    for method, path, allowed in (
        ("GET", "/entries", "POST"),
        ("PUT", "/entries", "POST"),
        ("DELETE", "/entries/x", "GET,HEAD"),
        ("POST", "/.well-known/scitt-keys", "GET,HEAD"),
        ("PATCH", "/policy", "GET,HEAD,POST"),
        ("OPTIONS", "/entries", "POST"),
    ):
        reply = await site.ask(method, path)
        assert (reply.status, reply.title) == (405, "Method Not Allowed"), method
        assert reply.headers["Allow"] == allowed


async def test_a_fault_of_ours_is_500_without_a_word_about_it(
    site: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """API-8: generic words for the client; type and place, not the message, for the log."""

    async def broken(*_: Any) -> Any:
        raise RuntimeError("secret payload bytes")

    monkeypatch.setattr(site.log, "register", broken)
    reply = await site.post(site.statement())

    assert (reply.status, reply.title) == (500, "Internal Server Error")
    assert b"secret" not in reply.body
    assert "RuntimeError" in caplog.text
    assert "POST /entries" in caplog.text
    assert "secret" not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_failing_store_is_503_and_stops_the_service_loudly(
    site: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """API-8: nobody knows what was kept, so nothing more is accepted."""

    async def failing(*_: Any) -> Any:
        raise StoreError("disk I/O error")

    monkeypatch.setattr(site.log, "register", failing)
    reply = await site.post(site.statement())

    assert (reply.status, reply.title) == (503, "Service Unavailable")
    assert int(reply.headers["Retry-After"]) >= 5
    assert site.service.failed.is_set()
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL]
    assert "disk I/O error" in caplog.text, "the operator is told why"
    assert "disk I/O error" not in reply.detail


async def test_bodies_share_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    """API-8, API-10: many large requests at once are shed with 503; memory comes back."""
    async with served(tmp_path, max_body_bytes=1_000_000) as site:
        shed = await site.post(site.statement(bytes(1_500_000)))
        held = site.service.bodies.held
        fits = await site.post(site.statement(bytes(500_000)))

        assert (shed.status, shed.title) == (503, "Service Unavailable")
        assert held == 0
        assert fits.status == 201


async def test_pipelined_requests_are_answered_in_order(site: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.05)
    writer.write(b"NONSENSE\r\n\r\n")
    answer = await to_the_end(reader)
    writer.close()

    assert re.findall(rb"HTTP/1\.[01] (\d+) ", answer) == [b"200", b"404", b"400"]
    assert answer.count(PROBLEM.encode()) == 2


async def test_random_bytes_never_get_an_answer_that_is_not_a_problem(site: Served) -> None:
    """API-8: any malformed input is answered 4xx, in bounded time."""
    chance = random.Random(20261116)
    valid = HEAD + b"Content-Length: 4\r\n\r\nabcd"
    for _ in range(60):
        data = bytearray(valid)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        answer = await site.raw(bytes(data) + b"\r\n\r\n", end=True)
        if answer:
            head, _, rest = answer.partition(b"\r\n\r\n")
            status = int(head.split(b" ")[1])
            assert 400 <= status < 500, bytes(data)
            assert PROBLEM.encode() in head, bytes(data)
            assert rest
