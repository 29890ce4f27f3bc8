"""The client against a log that answers from a script: every flow of SCRAPI-11, and what is not one."""

from __future__ import annotations

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


# --- the rest ---------------------------------------------------------------------------------------------------------


async def test_the_clock_of_a_log_is_compared_with_ours() -> None:
    date = formatdate(NOW + 100, usegmt=True)
    async with scripted(answer(200, b"ok", "text/plain", Date=date)) as (log, _):
        assert await log.clock_skew() == 100.5


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
