"""The client against a log that answers from a script: every flow of SCRAPI-11, and what is not one."""

from __future__ import annotations

import asyncio
from email.utils import formatdate

import aiohttp
import pytest
from aiohttp import web

from tests.client.scripted import (
    ISSUER_KEY,
    LOG_KEY,
    NOW,
    OTHER_KEY,
    STATEMENT,
    accepted,
    answer,
    created,
    entry_id,
    found,
    in_memory,
    key_set,
    pending,
    problem,
    receipt_for,
    scripted,
)
from transparency.client import LogClient, SyncLogClient
from transparency.cose.cbor import encode
from transparency.errors import (
    MalformedError,
    OverloadedError,
    ProofError,
    ServiceRefusedError,
    SignatureInvalidError,
    UnreachableError,
)
from transparency.statements.statement import sign_statement
from transparency.statements.transparent import attach_receipts

OTHER_STATEMENT = sign_statement(b"other", ISSUER_KEY, iss="https://issuer.example", sub="x", content_type=None)


async def test_a_created_registration_gives_location_and_receipt() -> None:
    """API-1: 201, Location, receipt."""
    async with scripted(created()) as (log, script):
        submission = await log.submit(STATEMENT)

    assert submission.receipt == receipt_for(STATEMENT)
    assert submission.entry_id == entry_id()
    assert submission.location == f"http://log.example/entries/{entry_id()}"
    method, path, headers, body = script.asked[0]
    assert (method, path, body) == ("POST", "/entries", STATEMENT)
    assert headers["Content-Type"] == "application/cose"
    assert "Authorization" not in headers


async def test_an_accepted_registration_is_followed_until_there_is_a_receipt() -> None:
    """API-2, API-5: 202, then 204 while pending, then the receipt."""
    async with scripted(accepted(), pending(), pending(), found()) as (log, script):
        submission = await log.submit(STATEMENT)

    assert submission.receipt == receipt_for(STATEMENT)
    assert script.paths == ["POST /entries"] + [f"GET /entries/{entry_id()}"] * 3
    assert len(script.slept) == 3


async def test_retry_after_is_a_minimum_while_polling() -> None:
    """API-12 and client duties: Retry-After in seconds, and as a date, is never undercut."""
    date = formatdate(NOW + 9, usegmt=True)
    async with scripted(accepted(Retry_After="3"), pending(Retry_After=date), found()) as (log, script):
        await log.submit(STATEMENT)

    assert 3 <= script.slept[0] <= 4
    assert 9 <= script.slept[1] <= 10


async def test_without_waiting_an_accepted_registration_comes_back_pending() -> None:
    async with scripted(accepted()) as (log, script):
        submission = await log.submit(STATEMENT, wait=False)

    assert submission.receipt is None
    assert submission.entry_id == entry_id()
    assert script.asked[0][2]["Prefer"] == "respond-async"
    assert script.slept == []


async def test_a_registration_that_stays_pending_is_given_up_with_its_location() -> None:
    async with scripted(accepted(), pending(Retry_After="20")) as (log, script):
        with pytest.raises(OverloadedError, match="still pending"):
            await log.submit(STATEMENT)

    assert sum(script.slept) <= 60


async def test_a_registration_that_failed_after_being_accepted_says_why() -> None:
    """API-6: 404 Registration Failed."""
    async with scripted(accepted(), problem(404, "Registration Failed", "the policy changed")) as (log, _):
        with pytest.raises(ServiceRefusedError, match="Registration Failed: the policy changed") as caught:
            await log.submit(STATEMENT)

    assert caught.value.status == 404


async def test_a_detached_statement_travels_with_its_payload() -> None:
    """AMB-9: multipart/form-data with the parts statement and payload, as any server parses it."""
    detached = sign_statement(
        b"\r\n--hello", ISSUER_KEY, iss="https://i.example", sub="s", content_type=None, detached=True
    )
    seen: dict[str, bytes] = {}

    async def handle(request: web.Request) -> web.Response:
        async for part in await request.multipart():
            assert isinstance(part, aiohttp.BodyPartReader)
            assert part.name is not None
            seen[part.name] = bytes(await part.read())
        receipt = receipt_for(detached, payload=b"\r\n--hello")
        return web.Response(
            status=201, body=receipt, content_type="application/cose", headers={"Location": "/entries/x"}
        )

    app = web.Application()
    app.router.add_post("/entries", handle)
    async with in_memory(app) as session:
        log = LogClient("http://log.example", session=session, pinned_keys=[LOG_KEY.public])
        submission = await log.submit(detached, b"\r\n--hello")

    assert seen == {"statement": detached, "payload": b"\r\n--hello"}
    assert submission.receipt is not None


async def test_a_token_goes_in_the_authorization_header() -> None:
    async with scripted(created(), token="tl_abc_DEF-1") as (log, script):
        await log.submit(STATEMENT)

    assert script.asked[0][2]["Authorization"] == "Bearer tl_abc_DEF-1"


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX-Evil: 1", "tö", "a=b"])
def test_what_cannot_be_a_token_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(MalformedError) as caught:
        LogClient("http://log.example", token=token)

    assert not token or token not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "log.example", "ftp://x", "http://", "http://a:b@x", "http://x/?q=1", "http://x:99999"]
)
def test_what_cannot_be_a_logs_address_is_refused(url: str) -> None:
    with pytest.raises(MalformedError, match="https://host"):
        LogClient(url)


# --- pinned keys ----------------------------------------------------------------------------------------------------


async def test_a_receipt_by_a_pinned_key_is_taken() -> None:
    async with scripted(created(), pinned_keys=[OTHER_KEY.public, LOG_KEY.public]) as (log, _):
        assert (await log.submit(STATEMENT)).receipt == receipt_for(STATEMENT)


async def test_a_receipt_by_another_key_is_refused() -> None:
    async with scripted(created(), pinned_keys=[OTHER_KEY.public]) as (log, _):
        with pytest.raises(SignatureInvalidError, match="not pinned"):
            await log.submit(STATEMENT)


async def test_a_receipt_whose_kid_is_pinned_but_whose_signature_is_not_is_refused() -> None:
    lying = OTHER_KEY.with_kid(LOG_KEY.public.kid)
    async with scripted(created(receipt_for(STATEMENT, lying)), pinned_keys=[LOG_KEY.public]) as (log, _):
        with pytest.raises(SignatureInvalidError, match="not signed by any pinned key"):
            await log.submit(STATEMENT)


async def test_a_receipt_for_another_statement_is_refused() -> None:
    async with scripted(created(receipt_for(OTHER_STATEMENT)), pinned_keys=[LOG_KEY.public]) as (log, _):
        with pytest.raises(SignatureInvalidError):
            await log.submit(STATEMENT)


async def test_no_pinned_key_at_all_means_none_is_good() -> None:
    async with scripted(created(), pinned_keys=[]) as (log, _):
        with pytest.raises(SignatureInvalidError):
            await log.submit(STATEMENT)


async def test_a_receipt_fetched_later_is_checked_against_the_entry_its_id_names() -> None:
    async with scripted(found(), pinned_keys=[LOG_KEY.public]) as (log, _):
        assert await log.receipt(entry_id()) == receipt_for(STATEMENT)
        with pytest.raises(SignatureInvalidError):
            await log.receipt(entry_id(OTHER_STATEMENT))


async def test_a_statement_fetched_must_be_the_one_asked_for() -> None:
    body = attach_receipts(STATEMENT, [receipt_for(STATEMENT)])
    async with scripted(found(body), pinned_keys=[LOG_KEY.public]) as (log, script):
        assert await log.statement(entry_id()) == body
        with pytest.raises(ProofError, match="another statement"):
            await log.statement(entry_id(OTHER_STATEMENT))

    assert script.paths[0] == f"GET /entries/{entry_id()}/statement"


async def test_a_statement_without_a_receipt_is_refused_when_keys_are_pinned() -> None:
    async with scripted(found(STATEMENT), pinned_keys=[LOG_KEY.public]) as (log, _):
        with pytest.raises(ProofError, match="without a receipt"):
            await log.statement(entry_id())


# --- keys -------------------------------------------------------------------------------------------------------------


async def test_keys_are_asked_for_as_cbor_at_the_well_known_place() -> None:
    """KEY-1, KEY-2: Accept: application/cbor; API-14: the well-known path does not move with a prefix."""
    async with scripted(key_set(), url="http://log.example/scitt/") as (log, script):
        assert await log.keys() == (LOG_KEY.public,)

    assert script.paths == ["GET /.well-known/scitt-keys"]
    assert script.asked[0][2]["Accept"] == "application/cbor"


async def test_entries_move_with_a_prefix() -> None:
    """API-14."""
    async with scripted(created(), url="http://log.example/scitt/") as (log, script):
        await log.submit(STATEMENT)

    assert script.paths == ["POST /scitt/entries"]


async def test_one_key_by_its_kid() -> None:
    """KEY-3, KEY-5: one COSE_Key at base64url(kid)."""
    async with scripted(answer(200, LOG_KEY.public.to_cose_key_bytes(), "application/cbor")) as (log, script):
        assert await log.key(LOG_KEY.public.kid) == LOG_KEY.public

    assert script.paths[0].startswith("GET /.well-known/scitt-keys/")
    assert "=" not in script.paths[0]


@pytest.mark.parametrize("body", [b"", b"\x80", b"<html>", encode([{1: 2}]), b"\x81" * 1000])
async def test_garbage_instead_of_keys_is_not_a_log(body: bytes) -> None:
    async with scripted(answer(200, body, "application/cbor")) as (log, _):
        with pytest.raises(UnreachableError, match="key set is malformed"):
            await log.keys()


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
        await asyncio.sleep(5)
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


# --- the rest ---------------------------------------------------------------------------------------------------------


async def test_the_clock_of_a_log_is_compared_with_ours() -> None:
    date = formatdate(NOW + 100, usegmt=True)
    async with scripted(answer(200, b"ok", "text/plain", Date=date)) as (log, _):
        assert await log.clock_skew() == 100.0


@pytest.mark.parametrize("name", ["a/b", "../x", "a?b", "ü"])
async def test_an_entry_id_stays_one_segment_of_the_path(name: str) -> None:
    async with scripted(found()) as (log, script):
        await log.receipt(name)

    assert script.asked[0][1].count("/") == 2
    assert "?" not in script.asked[0][1]


def test_the_synchronous_face_gives_the_same_errors() -> None:
    with SyncLogClient("http://127.0.0.1:1", retries=0) as log, pytest.raises(UnreachableError):
        log.keys()


async def test_the_synchronous_face_says_so_inside_a_running_loop() -> None:
    log = SyncLogClient("http://127.0.0.1:1", retries=0)
    with pytest.raises(RuntimeError):
        log.keys()
