"""The client against a log in trouble, or something that is no log: when it asks again, and what it never takes."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from tests.client.scripted import (
    STATEMENT,
    accepted,
    answer,
    created,
    found,
    in_memory,
    problem,
    receipt_for,
    scripted,
)
from transparency.client import LogClient
from transparency.cose.cbor import encode
from transparency.errors import (
    ServiceRefusedError,
    UnreachableError,
)

# --- trying again -----------------------------------------------------------------------------------------------------


async def test_a_log_that_is_busy_is_asked_again_not_before_it_said() -> None:
    """API-9: 429 + Retry-After, 503 likewise."""
    busy = problem(429, "Too Many Requests", Retry_After="2")
    full = problem(503, "Overloaded", Retry_After="4")
    async with scripted(busy, full, created()) as (log, script):
        await log.submit(STATEMENT)

    assert len(script.asked) == 3
    assert 2 <= script.slept[0] <= 3
    assert 4 <= script.slept[1] <= 5


async def test_without_retry_after_the_pauses_grow() -> None:
    async with scripted(problem(503, "Overloaded"), retries=4) as (log, script):
        with pytest.raises(ServiceRefusedError):
            await log.submit(STATEMENT)

    assert script.slept == [0.125, 0.25, 0.5, 1.0]


async def test_a_log_that_asks_for_an_hour_is_given_up_at_once() -> None:
    async with scripted(problem(429, "Too Many Requests", Retry_After="3600")) as (log, script):
        with pytest.raises(ServiceRefusedError) as caught:
            await log.submit(STATEMENT)

    assert caught.value.retry_after == 3600
    assert script.slept == []


async def test_a_refusal_is_not_repeated() -> None:
    async with scripted(problem(400, "Rejected", "unknown issuer")) as (log, script):
        with pytest.raises(ServiceRefusedError, match="Rejected: unknown issuer"):
            await log.submit(STATEMENT)

    assert len(script.asked) == 1


@pytest.mark.parametrize(("status", "attempts"), [(499, 1), (599, 3)])
async def test_an_unknown_code_is_treated_as_its_class(status: int, attempts: int) -> None:
    async with scripted(answer(status), retries=2) as (log, script):
        with pytest.raises(ServiceRefusedError, match=f"HTTP status {status}"):
            await log.submit(STATEMENT)

    assert len(script.asked) == attempts


async def test_a_connection_that_breaks_is_tried_again_and_the_statement_sent_whole() -> None:
    def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with scripted(drop, drop, created()) as (log, script):
        submission = await log.submit(STATEMENT)

    assert submission.receipt is not None
    assert [body for _, _, _, body in script.asked] == [STATEMENT] * 3


async def test_nobody_there_is_unreachable_and_says_where() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with LogClient("http://127.0.0.1:1", retries=2, sleep=sleep) as log:
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1 cannot be reached: connection refused"):
            await log.keys()

    assert len(pauses) == 2


async def test_a_log_that_never_answers_times_out() -> None:
    async def handle(_: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with in_memory(app) as session:
        log = LogClient("http://log.example", session=session, timeout=0.05, retries=0)
        with pytest.raises(UnreachableError, match="no answer in time"):
            await log.keys()


# --- what is not a log ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "location",
    ["https://log.example/entries/x", "http://evil.example/entries/x", "//evil/x", "http://log.example:81/x"],
)
async def test_a_location_on_another_server_is_not_followed(location: str) -> None:
    async with scripted(accepted(location), token="secret") as (log, script):
        with pytest.raises(UnreachableError, match="another server"):
            await log.submit(STATEMENT)

    assert len(script.asked) == 1


async def test_a_relative_location_is_followed() -> None:
    async with scripted(accepted("entries/abc"), found()) as (log, script):
        submission = await log.submit(STATEMENT)

    assert script.paths[1] == "GET /entries/abc"
    assert submission.entry_id == "abc"


async def test_a_registration_without_a_location_is_not_one() -> None:
    """API-1: Location is a MUST."""
    async with scripted(answer(201, receipt_for(STATEMENT), "application/cose")) as (log, _):
        with pytest.raises(UnreachableError, match="no Location"):
            await log.submit(STATEMENT)


@pytest.mark.parametrize("status", [302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    """API-16: SCRAPI-11 redirects nowhere, and a token would follow."""
    async with scripted(answer(status, Location="/elsewhere"), token="secret") as (log, script):
        with pytest.raises(UnreachableError, match=str(status)):
            await log.submit(STATEMENT)

    assert len(script.asked) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", STATEMENT, receipt_for(STATEMENT)[:-1]])
async def test_what_is_not_a_receipt_is_not_taken_for_one(body: bytes) -> None:
    async with scripted(created(body)) as (log, _):
        with pytest.raises(UnreachableError, match="not a receipt"):
            await log.submit(STATEMENT)


async def test_an_endless_answer_is_cut() -> None:
    async with scripted(created(b"x" * 600_000)) as (log, _):
        with pytest.raises(UnreachableError, match="more than"):
            await log.submit(STATEMENT)


# --- problem details --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", encode("text"), encode({-1: 5, -2: b"x"}), encode({-1: "t"}) + b"\x00", b"\x9f" * 10_000],
)
async def test_malformed_problem_details_are_a_problem_without_words(body: bytes) -> None:
    """API-8: the object is what counts; where it is broken only the class of the code is left."""
    async with scripted(answer(400, body, "application/concise-problem-details+cbor")) as (log, _):
        with pytest.raises(ServiceRefusedError, match="HTTP status 400"):
            await log.submit(STATEMENT)


async def test_a_logs_words_cannot_write_on_the_terminal() -> None:
    async with scripted(problem(400, "\x1b[2JRejected", "a\r\nb\x07" + "x" * 10_000)) as (log, _):
        with pytest.raises(ServiceRefusedError) as caught:
            await log.submit(STATEMENT)

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1200


async def test_text_that_only_looks_like_problem_details_is_not_read() -> None:
    async with scripted(answer(400, encode({-1: "t", -2: "d"}), "application/cbor")) as (log, _):
        with pytest.raises(ServiceRefusedError, match="no problem details"):
            await log.submit(STATEMENT)
