"""Many statements in one exchange: results in order, whatever happens to the connection on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import cbor2
import pytest
from aiohttp import web

from tests.client.scripted import ISSUER_KEY, LOG_KEY, receipt_for
from tests.server.served import Served, served
from transparency.client import LogClient, Submission, SyncLogClient
from transparency.client import batch as module
from transparency.client.pinning import check_receipt
from transparency.cose.sequence import item_end
from transparency.errors import MalformedError, ServiceRefusedError, SignatureInvalidError, UnreachableError
from transparency.statements.statement import Statement, sign_statement

SEQUENCE = "application/cbor-seq"


@pytest.fixture(params=[0, 1], ids=["owner", "worker"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, workers=request.param) as running:
        yield running


def statements(site: Served, count: int) -> list[bytes]:
    return [site.statement(b'{"n":%d}' % number) for number in range(count)]


async def all_of(client: LogClient, source: Any) -> list[Any]:
    return [result async for result in client.submit_batch(source)]


async def test_every_statement_gets_its_own_receipt_in_order(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are under way at once; taken from an iterator only as there is room."""
    monkeypatch.setattr(module, "MAX_UNDER_WAY", 16)
    sent = statements(site, 100)
    taken = 0

    def source() -> Iterator[bytes]:
        nonlocal taken
        for each in sent:
            taken += 1
            yield each

    async with LogClient(site.url, pinned_keys=site.log.receipt_keys()) as client:
        results: list[Any] = []
        async for result in client.submit_batch(source()):
            results.append(result)
            assert taken <= len(results) + 16

    assert [result.entry_id for result in results] == [Statement.from_bytes(each).entry_id for each in sent]
    for each, result in zip(sent, results, strict=True):
        check_receipt(result.receipt, Statement.from_bytes(each).entry, site.log.receipt_keys())
        assert result.location == f"{site.url}/entries/{result.entry_id}"
    assert site.log.newest_head().size == 102


async def test_a_refusal_is_a_result_in_its_place_and_stops_nothing(site: Served) -> None:
    good = site.statement()
    stranger = site.statement(iss="https://stranger.example")
    async with LogClient(site.url) as client:
        first, second, third = await all_of(client, [good, stranger, good])

    assert isinstance(first, Submission)
    assert isinstance(second, ServiceRefusedError)
    assert (second.status, second.title) == (400, "Rejected")
    assert third == first


async def test_no_statements_are_no_results(site: Served) -> None:
    async with LogClient(site.url) as client:
        assert await all_of(client, []) == []


async def test_receipts_of_another_key_are_not_taken(site: Served) -> None:
    async with LogClient(site.url, pinned_keys=[LOG_KEY.public]) as client:
        with pytest.raises(SignatureInvalidError):
            await all_of(client, [site.statement()])


async def test_what_goes_wrong_where_statements_come_from_is_raised_after_the_results_before_it(site: Served) -> None:
    def source() -> Iterator[bytes]:
        yield site.statement()
        raise MalformedError("that file cannot be read")

    async with LogClient(site.url) as client:
        results = client.submit_batch(source())
        first = await anext(results)
        with pytest.raises(MalformedError, match="cannot be read"):
            await anext(results)

    assert isinstance(first, Submission)


async def test_a_log_that_lets_nobody_in_raises(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site, LogClient(site.url) as client:
        with pytest.raises(ServiceRefusedError) as caught:
            await all_of(client, statements(site, 3))

    assert caught.value.status == 401


async def test_a_log_that_is_not_there_is_unreachable() -> None:
    async with LogClient("http://127.0.0.1:1", retries=1, random=lambda: 0.0) as client:
        with pytest.raises(UnreachableError):
            await all_of(client, [b"x"])


# -- a log with whims ----------------------------------------------------------------------------------------------


class Whims:
    """Takes statements off the body and does with each what the script says."""

    def __init__(self, *script: str) -> None:
        self.script = list(script)
        self.exchanges = 0
        self.singles = 0

    async def batch(self, request: web.Request) -> web.StreamResponse:
        self.exchanges += 1
        if self.script and self.script[0].isdigit():
            return web.Response(status=int(self.script.pop(0)), headers={"Retry-After": "0"})
        response = web.StreamResponse(headers={"Content-Type": SEQUENCE})
        await response.prepare(request)
        held = b""
        async for piece in request.content.iter_any():
            held += piece
            while (end := item_end(held, 0, 10**6)) is not None:
                statement, held = held[:end], held[end:]
                match self.script.pop(0) if self.script else "ok":
                    case "ok":
                        await response.write(receipt_for(statement))
                    case "erased":
                        await response.write(b"\x81" + receipt_for(statement))
                    case "busy":
                        await response.write(cbor2.dumps({-1: "Service Unavailable", -2: "full", -4: 503}))
                    case "cut":
                        assert request.transport is not None
                        request.transport.abort()
                        return response
                    case "end":
                        return response
                    case "twice":
                        await response.write(receipt_for(statement) * 2)
                    case odd:
                        await response.write(bytes.fromhex(odd.removeprefix("hex:")))
        return response

    async def single(self, request: web.Request) -> web.Response:
        self.singles += 1
        body = await request.read()
        where = f"/entries/{Statement.from_bytes(body).entry_id}"
        return web.Response(
            status=201, body=receipt_for(body), headers={"Location": where, "Content-Type": "application/cose"}
        )


@pytest.fixture
async def whims() -> AsyncIterator[Any]:
    runners = []

    async def start(log: Whims, *, batches: bool = True) -> LogClient:
        app = web.Application()
        if batches:
            app.router.add_post("/entries/batch", log.batch)
        app.router.add_get("/entries/{id}", log.single)
        app.router.add_post("/entries", log.single)
        runner = web.AppRunner(app)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()

        async def no_sleep(_: float) -> None: ...

        return LogClient(f"http://127.0.0.1:{runner.addresses[0][1]}", retries=3, sleep=no_sleep)

    yield start
    for runner in runners:
        await runner.cleanup()


def signed(count: int) -> list[bytes]:
    return [
        sign_statement(b"%d" % number, ISSUER_KEY, iss="https://issuer.example", sub="x", content_type="text/plain")
        for number in range(count)
    ]


@pytest.mark.parametrize(
    "script",
    [
        ("ok", "busy", "ok", "ok"),
        ("busy", "busy", "busy"),
        ("ok", "cut"),
        ("cut", "cut", "ok", "cut"),
        ("ok", "ok", "end"),
        ("503", "429", "ok", "cut"),
        ("busy", "cut", "end", "503"),
    ],
)
async def test_what_was_put_off_or_cut_off_is_sent_again_and_the_order_stays(whims: Any, script: tuple[str]) -> None:
    sent = signed(6)
    log = Whims(*script)
    async with await whims(log) as client:
        results = await all_of(client, sent)

    assert [result.entry_id for result in results] == [Statement.from_bytes(each).entry_id for each in sent]
    assert log.exchanges > 1


async def test_a_log_that_is_busy_for_good_is_given_up_on(whims: Any) -> None:
    log = Whims(*["busy"] * 100)
    async with await whims(log) as client:
        results = await all_of(client, signed(2))

    assert [result.status for result in results] == [503, 503]
    assert log.exchanges <= 8


async def test_a_log_that_always_hangs_up_is_unreachable(whims: Any) -> None:
    async with await whims(Whims(*["cut"] * 50)) as client:
        with pytest.raises(UnreachableError):
            await all_of(client, signed(2))


@pytest.mark.parametrize("odd", ["twice", "hex:ff", "hex:01", "hex:d28440a04040", "hex:a12063616263", "hex:a12318c8"])
async def test_what_is_no_result_is_not_taken_for_one(whims: Any, odd: str) -> None:
    async with await whims(Whims(*[odd] * 9)) as client:
        with pytest.raises(UnreachableError, match="does not answer as a transparency log does"):
            await all_of(client, signed(1))


async def test_that_a_log_has_erased_one_is_told(whims: Any) -> None:
    async with await whims(Whims("ok", "erased")) as client:
        assert [result.erased for result in await all_of(client, signed(2))] == [False, True]


async def test_an_older_log_is_asked_one_by_one(whims: Any) -> None:
    log = Whims()
    sent = signed(4)
    async with await whims(log, batches=False) as client:
        results = await all_of(client, iter(sent))

    assert [result.entry_id for result in results] == [Statement.from_bytes(each).entry_id for each in sent]
    assert log.singles == 4


async def test_who_stops_reading_leaves_nothing_open(whims: Any) -> None:
    async with await whims(Whims()) as client:
        results = client.submit_batch(signed(50))
        first = await anext(results)
        await results.aclose()
        again = await all_of(client, signed(2))

    assert isinstance(first, Submission)
    assert again[0] == first


def test_without_an_event_loop_it_is_an_iterator() -> None:
    with SyncLogClient("http://127.0.0.1:1", retries=0) as client, pytest.raises(UnreachableError):
        list(client.submit_batch([b"x"]))
