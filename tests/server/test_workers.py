"""Workers: what they answer is what the owner of the log would have answered, and it is as durable."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.server.served import Reply, Served, SlowDisk, parse_raw, served, until_found
from transparency.client.pinning import check_receipt
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey
from transparency.statements.statement import Statement

WORKERS = 2
HEAD = b"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/cose\r\n"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, workers=WORKERS) as running:
        yield running


def request(statement: bytes, *lines: bytes) -> bytes:
    more = b"".join(line + b"\r\n" for line in lines)
    return HEAD + more + b"Content-Length: %d\r\n\r\n" % len(statement) + statement


async def answers(reader: asyncio.StreamReader, count: int) -> list[Reply]:
    """The next answers on a connection that stays open."""
    got = []
    for _ in range(count):
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        reply = parse_raw(head)
        body = await asyncio.wait_for(reader.readexactly(int(reply.headers["Content-Length"])), PATIENCE)
        got.append(Reply(reply.status, reply.headers, body))
    return got


def checked(site: Served, statement: bytes, reply: Reply) -> None:
    assert reply.status == 201
    check_receipt(reply.body, Statement.from_bytes(statement).entry, site.log.receipt_keys())


async def metric(site: Served, line: str) -> None:
    """Wait until the metrics have *line*: workers tell what they counted now and then."""
    async with asyncio.timeout(PATIENCE):
        while line.encode() not in (await site.get("/metrics")).body:  # noqa: ASYNC110 - it is told by another process
            await asyncio.sleep(0.05)


# -- registering -------------------------------------------------------------------------------------------------------


async def test_what_a_worker_registers_has_a_receipt_that_verifies_and_is_there_to_be_read(site: Served) -> None:
    """API-1, REG-18: and the same statement again has the same receipt, on whichever worker."""
    statement = site.statement()
    first = await site.post(statement)
    again = [parse_raw(await site.raw(request(statement, b"Connection: close"))) for _ in range(6)]
    found = await site.get(f"/entries/{Statement.from_bytes(statement).entry_id}")

    checked(site, statement, first)
    assert first.headers["Location"] == f"{site.url}/entries/{Statement.from_bytes(statement).entry_id}"
    assert {reply.body for reply in again} == {first.body} == {found.body}
    assert site.log.newest_head().size == 3


async def test_the_same_statement_sent_by_many_at_once_is_one_entry(site: Served) -> None:
    """LEAF-7."""
    statement = site.statement()
    replies = await asyncio.gather(*(site.raw(request(statement, b"Connection: close")) for _ in range(20)))

    assert {parse_raw(reply).status for reply in replies} == {201}
    assert site.log.newest_head().size == 3


async def test_a_policy_that_was_changed_is_in_force_for_the_next_request_on_every_worker(site: Served) -> None:
    """REG-21: an issuer that was added, then removed; what was registered keeps its receipt (LEAF-7)."""
    key = PrivateKey.generate(algorithm("ES256").id)
    name = "https://later.example"

    async def post(number: int) -> int:
        statement = site.statement(b"%d" % number, iss=name, signer=key)
        return parse_raw(await site.raw(request(statement, b"Connection: close"))).status

    before = [await post(number) for number in range(8)]
    policy = site.log.policy.with_issuer(name, (key.public,), previous=site.log.policy_entry_id)
    await site.log.update_policy(site.document(policy))
    added = [await post(number) for number in range(8)]
    policy = site.log.policy.without_issuer(name, previous=site.log.policy_entry_id)
    await site.log.update_policy(site.document(policy))
    known = [await post(number) for number in range(8)]
    removed = [await post(number) for number in range(8, 16)]

    assert (set(before), set(added), set(known), set(removed)) == ({400}, {201}, {201}, {400})


async def test_a_token_that_was_revoked_is_refused_by_every_worker(tmp_path: Path) -> None:
    async with served(tmp_path, workers=WORKERS, open=False) as site:
        number, secret = site.tokens.create(("submit",))
        line = b"Authorization: Bearer " + secret.encode()

        async def post() -> int:
            return parse_raw(await site.raw(request(site.statement(), line, b"Connection: close"))).status

        good = [await post() for _ in range(4)]
        site.tokens.revoke(number)

        assert set(good) == {201}
        assert {await post() for _ in range(6)} == {401}


# -- slow --------------------------------------------------------------------------------------------------------------


async def test_behind_a_slow_disk_a_worker_answers_202_and_the_entry_arrives(tmp_path: Path) -> None:
    """API-2, API-3, REG-23."""
    async with served(tmp_path, workers=WORKERS, slow_after=0.1) as site:
        disk = SlowDisk(site.log)
        statement = site.statement(b"2")
        first = asyncio.create_task(site.post(site.statement(b"1")))
        await disk.until_waiting(1)
        posting = asyncio.create_task(site.post(statement))
        await disk.until_waiting(2)
        disk.let_one_pass()
        second = await posting
        disk.let_one_pass()

        assert (await first).status in (201, 202)
        assert second.status == 202
        assert "Preference-Applied" not in second.headers
        assert int(second.headers["Retry-After"]) >= 1
        found = await until_found(site, second.headers["Location"])
        check_receipt(found.body, Statement.from_bytes(statement).entry, site.log.receipt_keys())
        assert site.log.newest_head().size == 4


async def test_who_prefers_not_to_wait_does_not(site: Served) -> None:
    """RFC 7240: the owner answers that."""
    reply = await site.post(site.statement(), Prefer="respond-async")

    assert (reply.status, reply.headers["Preference-Applied"]) == (202, "respond-async")
    await until_found(site, reply.headers["Location"])


# -- counting ----------------------------------------------------------------------------------------------------------


async def test_what_workers_answered_is_in_the_metrics_and_their_access_log(tmp_path: Path) -> None:
    lines = tmp_path / "access.jsonl"
    async with served(tmp_path, workers=WORKERS, access_log=str(lines)) as site:
        for number in range(5):
            statement = site.statement(b"%d" % number)
            assert parse_raw(await site.raw(request(statement, b"Connection: close"))).status == 201
        await site.post(b"\x00")
        await metric(site, 'transparency_requests_total{method="POST",route="/entries",status="201"} 5.0')
        await metric(site, 'transparency_requests_total{method="POST",route="/entries",status="400"} 1.0')
        await metric(site, 'transparency_refusals_total{title="Malformed request"} 1.0')
    told = [json.loads(line) for line in lines.read_text().splitlines()]
    posted = [line for line in told if line["route"] == "/entries"]

    assert sorted(line["status"] for line in posted) == [201] * 5 + [400]
    assert {line["method"] for line in posted} == {"POST"}
    assert {line["client"] for line in posted} == {"127.0.0.1"}
    assert Statement.from_bytes(statement).entry_id in [line.get("entry") for line in posted]


async def test_the_rate_limit_is_one_for_all_workers(tmp_path: Path) -> None:
    """API-9: connections that end up with different workers do not multiply it."""
    async with served(tmp_path, workers=WORKERS, rate_limit=6, rate_period=3600.0) as site:
        replies = [
            parse_raw(await site.raw(request(site.statement(b"%d" % number), b"Connection: close")))
            for number in range(14)
        ]
        taken = [reply.status for reply in replies]

        assert taken.count(201) == 6
        assert taken[6:] == [429] * 8
        assert replies[-1].title == "Too Many Requests"
        assert int(replies[-1].headers["Retry-After"]) >= 1


# -- connections -------------------------------------------------------------------------------------------------------


async def test_a_connection_goes_on_with_the_owner_when_something_else_is_asked(site: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    statement = site.statement()
    writer.write(request(statement))
    [created] = await answers(reader, 1)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    [healthy] = await answers(reader, 1)
    writer.write(request(statement))
    [again] = await answers(reader, 1)
    writer.close()

    assert (created.status, healthy.status, again.status) == (201, 200, 201)
    assert again.body == created.body


async def test_pipelined_requests_are_answered_in_order_whoever_answers_them(site: Served) -> None:
    statements = [site.statement(b"%d" % number) for number in range(5)]
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    posts = [request(statement) for statement in statements]
    writer.write(b"".join([*posts[:3], b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", *posts[3:]]))
    replies = await answers(reader, 6)
    writer.close()

    assert [reply.status for reply in replies] == [201, 201, 201, 404, 201, 201]
    for statement, reply in zip(statements, replies[:3] + replies[4:], strict=True):
        checked(site, statement, reply)


async def test_a_thousand_refused_requests_sent_ahead_are_all_answered(tmp_path: Path) -> None:
    async with served(tmp_path, workers=1, open=False) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(request(b"x") * 1_000)
        replies = await answers(reader, 1_000)
        writer.close()

        assert {reply.status for reply in replies} == {401}


async def test_large_statements_sent_at_once_all_reach_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies too large for workers go to the owner with what was read of them, also where buffers are small."""
    monkeypatch.setattr("transparency.server.workers.PACKET_BUFFER", 212_992)  # what Linux gives by default
    async with served(tmp_path, workers=1) as site:
        statements = [site.statement(bytes([number]) * 700_000) for number in range(16)]
        replies = await asyncio.gather(*(site.post(statement) for statement in statements))

        for statement, reply in zip(statements, replies, strict=True):
            checked(site, statement, reply)


async def test_a_half_closed_client_gets_its_receipt_and_a_truncated_body_400(site: Served) -> None:
    """API-1, API-8."""
    statement = site.statement()
    whole = parse_raw(await site.raw(request(statement), end=True))
    short = parse_raw(await site.raw(request(statement)[:-1], end=True))
    nothing = await site.raw(b"", end=True)

    checked(site, statement, whole)
    assert (short.status, short.title) == (400, "Malformed request")
    assert nothing == b""


async def test_slow_heads_slow_bodies_and_idle_connections_end(tmp_path: Path) -> None:
    """API-8, API-10."""
    async with served(tmp_path, workers=1, header_timeout=2.0, body_timeout=2.0, idle_timeout=2.0) as site:
        head, body, idle = await asyncio.gather(
            site.raw(HEAD[:40]),
            site.raw(HEAD + b"Content-Length: 9\r\n\r\nx"),
            site.raw(b""),
        )

        assert (parse_raw(head).status, parse_raw(body).status) == (408, 408)
        assert parse_raw(body).title == "Request Timeout"
        assert parse_raw(body).headers["Connection"] == "close"
        assert idle == b""
        assert (await site.post(site.statement())).status == 201


async def test_a_client_that_does_not_read_is_not_read_from_and_then_cut_off(tmp_path: Path) -> None:
    """API-10: it sends on and on and takes no answer."""
    async with served(tmp_path, workers=1, send_timeout=0.5) as site:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", site.port))
            deaf.setblocking(False)
            sent, flood = 0, request(b"x") * 100
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(PATIENCE):
                    while True:
                        await asyncio.get_running_loop().sock_sendall(deaf, flood)
                        sent += len(flood)

        assert sent < 64 * 1024 * 1024
        assert (await site.post(site.statement())).status == 201


async def test_connections_beyond_the_limit_are_told_to_come_back(tmp_path: Path) -> None:
    async with served(tmp_path, workers=1, max_connections=2, connection_grace=60.0) as site:
        held = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(2)]
        reply = parse_raw(await site.raw(request(site.statement())))
        for _, writer in held:
            writer.close()

        assert reply.status == 503
