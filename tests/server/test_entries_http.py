"""POST /entries and GET /entries/{id}, as SCRAPI-11 has them (sections 2.3 and 2.4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.server.served import Served, SlowDisk, served, until_found
from transparency.cose.cbor import decode
from transparency.cose.sign1 import Sign1
from transparency.errors import OverloadedError
from transparency.log.log import Registered
from transparency.log.store import IntakeRow
from transparency.policy import keyset
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts, receipts_of


def verify(site: Served, receipt: bytes, statement: bytes, payload: bytes | None = None) -> Receipt:
    parsed = Receipt.from_bytes(receipt)
    key = site.log.service_keys.by_kid(keyset.RECEIPTS, parsed.kid or b"")
    assert key is not None
    parsed.verify_inclusion(Statement.from_bytes(statement, payload).entry, key)
    return parsed


async def test_a_statement_is_registered_and_its_receipt_verifies(site: Served) -> None:
    """API-1, REG-13: 201, Location, application/cose, and the body is a receipt for these very bytes."""
    statement = site.statement()
    reply = await site.post(statement)

    assert reply.status == 201
    assert reply.headers["Content-Type"] == "application/cose"
    assert reply.headers["Location"] == f"{site.url}/entries/{Statement.from_bytes(statement).entry_id}"
    verify(site, reply.body, statement)


async def test_the_same_statement_again_gives_the_same_location_and_receipt(site: Served) -> None:
    """API-3, REG-18, LEAF-7: sync, async, or again, it is one entry."""
    statement = site.statement()
    first = await site.post(statement)
    again = await site.post(statement)
    later = await site.post(statement, Prefer="respond-async")
    size = site.log.newest_head().size

    assert first.status == again.status == later.status == 201
    assert first.headers["Location"] == again.headers["Location"] == later.headers["Location"]
    assert first.body == again.body == later.body
    assert size == 3


async def test_asked_to_respond_async_the_service_answers_202_and_registers_later(site: Served) -> None:
    """API-2, API-3, API-12, REG-23: an empty 202 with Location and Retry-After, then the receipt is found there."""
    statement = site.statement()
    reply = await site.post(statement, Prefer='foo="x", respond-async; wait=10')

    assert reply.status == 202
    assert reply.body == b""
    assert reply.headers["Content-Length"] == "0"
    assert int(reply.headers["Retry-After"]) >= 1
    assert reply.headers["Preference-Applied"] == "respond-async"
    assert reply.headers["Location"] == f"{site.url}/entries/{Statement.from_bytes(statement).entry_id}"

    answer = await until_found(site, reply.headers["Location"])
    verify(site, answer.body, statement)


async def test_a_batch_that_is_slow_is_answered_202_after_the_statement_is_durable(tmp_path: Path) -> None:
    """API-2, API-3, REG-23: the same Location as a 201 would have, and the entry arrives."""
    async with served(tmp_path, slow_after=0.05) as site:
        real = site.log.register

        async def slow(data: bytes | Statement) -> Registered:
            await asyncio.sleep(1.0)
            return await real(data)

        site.log.register = slow  # type: ignore[method-assign]
        statement = site.statement()
        reply = await site.post(statement)

        assert reply.status == 202
        assert "Preference-Applied" not in reply.headers
        assert reply.headers["Location"].endswith(Statement.from_bytes(statement).entry_id)
        answer = await until_found(site, reply.headers["Location"])
        verify(site, answer.body, statement)


async def test_behind_a_slow_disk_the_next_batch_is_acknowledged_before_it_is_sequenced(tmp_path: Path) -> None:
    """API-2, API-3, REG-23: the first waits for its own flush, the second is durable in the intake after it."""
    async with served(tmp_path, slow_after=0.1) as site:
        disk = SlowDisk(site.log)
        statement = site.statement(b"2")
        first = asyncio.create_task(site.post(site.statement(b"1")))
        await disk.until_waiting(1)
        posting = asyncio.create_task(site.post(statement))
        await disk.until_waiting(2)
        disk.let_one_pass()
        second = await posting
        pending = await site.get(second.headers["Location"])
        disk.let_one_pass()

        assert (await first).status == 201
        assert second.status == 202
        assert pending.status == 204
        answer = await until_found(site, second.headers["Location"])
        verify(site, answer.body, statement)
        again = await site.post(statement)
        assert again.headers["Location"] == second.headers["Location"]
        assert site.log.newest_head().size == 4


async def test_where_the_intake_is_full_too_the_slow_registration_is_waited_for(tmp_path: Path) -> None:
    """REG-23: no 202 without durability; the answer is then what became of the registration."""
    async with served(tmp_path, slow_after=0.05) as site:
        real = site.log.register

        async def slow(data: bytes | Statement) -> Registered:
            await asyncio.sleep(0.3)
            return await real(data)

        async def full(data: bytes | Statement) -> Registered:
            raise OverloadedError("too many statements are waiting")

        site.log.register = slow  # type: ignore[method-assign]
        site.log.accept = full  # type: ignore[method-assign]
        reply = await site.post(site.statement())

        assert reply.status == 201


async def test_a_full_queue_is_503_with_retry_after(site: Served) -> None:
    """API-8, API-12: nothing was accepted, and the client is told when to come back."""

    async def full(data: bytes | Statement) -> Registered:
        raise OverloadedError("too many statements are waiting; nothing was accepted", retry_after=2.5)

    site.log.register = full  # type: ignore[method-assign]
    reply = await site.post(site.statement())

    assert reply.status == 503
    assert reply.title == "Service Unavailable"
    assert reply.detail == "too many statements are waiting; nothing was accepted"
    assert 3 <= int(reply.headers["Retry-After"]) <= 5


async def test_a_receipt_is_found_again_with_etag_and_location(site: Served) -> None:
    """API-4: 200 with Location, ETag, a short max-age, Vary; a client that has it gets 304."""
    posted = await site.post(site.statement())
    got = await site.get(posted.headers["Location"])

    assert got.status == 200
    assert got.body == posted.body
    assert got.headers["Content-Type"] == "application/cose"
    assert got.headers["Location"] == posted.headers["Location"]
    assert got.headers["Vary"] == "Accept"
    assert got.headers["Cache-Control"] == "public, max-age=60"

    again = await site.get(posted.headers["Location"], If_None_Match=f'"other", {got.headers["ETag"]}')
    assert again.status == 304
    assert again.body == b""
    assert again.headers["ETag"] == got.headers["ETag"]
    assert (await site.get(posted.headers["Location"], If_None_Match='"other"')).status == 200


async def test_a_receipt_under_a_named_head_never_changes(site: Served) -> None:
    """API-4: ?size=S proves the entry under that head and is immutable; a size that is no head is 404."""
    first = await site.post(site.statement(b"1"))
    await site.post(site.statement(b"2"))
    named = await site.get(first.headers["Location"] + "?size=4")

    assert named.status == 200
    assert Receipt.from_bytes(named.body).tree_size == 4
    assert "immutable" in named.headers["Cache-Control"]
    verify(site, named.body, site.log.statement(2))
    for size in ("2", "5", "9223372036854775807"):
        missing = await site.get(first.headers["Location"] + f"?size={size}")
        assert (missing.status, missing.title) == (404, "Not Found")
    for size in ("", "+4", "04", "4.0", " 4", "4_0", "٤", "9223372036854775808", "4&size=4"):
        wrong = await site.get(first.headers["Location"] + f"?size={size}")
        assert (wrong.status, wrong.title) == (400, "Malformed request"), size


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/cose"),
        ("*/*", "application/cose"),
        ("application/cose", "application/cose"),
        ('application/cose; cose-type="cose-sign1"', "application/cose"),
        ("application/scitt-receipt+cose", "application/scitt-receipt+cose"),
        ("application/cose;q=0.2, application/scitt-receipt+cose", "application/scitt-receipt+cose"),
        ("application/scitt-receipt+cose;q=0, application/*", "application/cose"),
    ],
)
async def test_a_receipt_comes_in_the_form_that_was_asked_for(site: Served, accept: str | None, kind: str) -> None:
    """API-15: application/cose unless application/scitt-receipt+cose is asked for."""
    headers = {} if accept is None else {"Accept": accept}
    posted = await site.post(site.statement(), **headers)
    got = await site.get(posted.headers["Location"], **headers)

    assert posted.headers["Content-Type"] == kind
    assert got.headers["Content-Type"] == kind
    assert got.body == posted.body


async def test_what_a_client_accepts_does_not_stop_a_registration(site: Served) -> None:
    """REG-15: a header never decides; only a GET can be 406."""
    posted = await site.post(site.statement(), Accept="text/html")
    got = await site.get(posted.headers["Location"], Accept="text/html")

    assert posted.status == 201
    assert (got.status, got.title) == (406, "Not Acceptable")


async def test_while_an_entry_is_pending_the_answer_is_204(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-5, API-12: no body, Retry-After, no-store; its statement cannot be fetched yet."""
    release = asyncio.Event()
    real = site.log.intake._bring_in

    async def held(row: IntakeRow) -> str | None:
        await release.wait()
        return await real(row)

    monkeypatch.setattr(site.log.intake, "_bring_in", held)
    accepted = await site.post(site.statement(), Prefer="respond-async")
    pending = await site.get(accepted.headers["Location"])
    unread = await site.get(accepted.headers["Location"] + "/statement")
    release.set()

    assert accepted.status == 202
    assert pending.status == 204
    assert pending.body == b""
    assert pending.headers["Cache-Control"] == "no-store"
    assert int(pending.headers["Retry-After"]) >= 1
    assert "Content-Type" not in pending.headers
    assert (unread.status, unread.title) == (404, "Not Found")
    assert (await until_found(site, accepted.headers["Location"])).status == 200


async def test_a_registration_that_failed_after_202_says_why(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-6, REG-8, REG-23: its issuer was removed before its place came: 404 "Registration Failed" with the reason."""
    release = asyncio.Event()
    real = site.log.intake._bring_in

    async def held(row: IntakeRow) -> str | None:
        await release.wait()
        return await real(row)

    monkeypatch.setattr(site.log.intake, "_bring_in", held)
    accepted = await site.post(site.statement(), Prefer="respond-async")
    await site.remove_issuer()
    release.set()
    reply = await site.get(accepted.headers["Location"])
    while reply.status == 204:
        await asyncio.sleep(0.02)
        reply = await site.get(accepted.headers["Location"])

    assert accepted.status == 202
    assert (reply.status, reply.title) == (404, "Registration Failed")
    assert "the issuer (iss) is not registered" in reply.detail


async def test_an_unknown_entry_is_404_and_a_bad_locator_400(site: Served) -> None:
    """API-6: the words of SCRAPI §2.4.3."""
    unknown = "A" * 43
    missing = await site.get(f"/entries/{unknown}")

    assert missing.status == 404
    assert missing.title == "Not Found"
    assert missing.detail == f"Receipt with entry ID {unknown} not known to this Transparency Service"
    for text in ("A" * 42, "A" * 44, "A" * 42 + "B", "A" * 42 + "=", "A" * 42 + "+", "0", "%20" + "A" * 42):
        bad = await site.get(f"/entries/{text}")
        assert bad.status == 400, text
        assert bad.problem == {-1: "Invalid locator", -2: "Operation locator is not in a valid form"}


async def test_every_registered_statement_has_a_receipt(site: Served) -> None:
    """REG-14, REG-17, REG-19: also many at once, sharing a head, and the service's own two."""
    statements = [site.statement(b"%d" % number) for number in range(40)]
    replies = await asyncio.gather(*(site.post(statement) for statement in statements))
    size = site.log.newest_head().size

    assert {reply.status for reply in replies} == {201}
    assert size == 42
    indexes = set()
    for index in range(size):
        stored = site.log.statement(index)
        receipt = await site.get(f"/entries/{Statement.from_bytes(stored).entry_id}")
        indexes.add(verify(site, receipt.body, stored).inclusion[0].index)
    assert indexes == set(range(size))


async def test_headers_and_query_strings_change_nothing(site: Served) -> None:
    """REG-15: the same refusal and the same entry, whatever stands around the signed bytes."""
    statement = site.statement()
    plain = await site.post(statement)
    noisy = await site.post(
        statement, "/entries?iss=https://other.example&accept=1", X_Issuer="x", Cookie="a=b", X_Forwarded_For="1.1.1.1"
    )
    refused = await site.post(
        site.statement(iss="https://stranger.example"), "/entries?force=1", X_Policy="accept", Prefer="handling=lenient"
    )

    assert plain.body == noisy.body
    assert plain.headers["Location"] == noisy.headers["Location"]
    assert refused.title == "Rejected"


async def test_a_transparent_statement_is_registered_by_its_signed_bytes(site: Served) -> None:
    """REG-12, REG-16: with receipts attached it is still the same entry, and the unprotected header is not kept."""
    statement = site.statement(unprotected={100: {"claimed": "anything"}})
    first = await site.post(statement)
    again = await site.post(attach_receipts(statement, [first.body]))
    stored = await site.get(first.headers["Location"] + "/statement")

    assert again.status == 201
    assert again.headers["Location"] == first.headers["Location"]
    assert again.body == first.body
    assert set(Sign1.from_bytes(stored.body).unprotected) == {394}


async def test_the_statement_is_served_with_its_receipt(site: Served) -> None:
    """LEAF-4, TSt-1: from /statement anyone recomputes the leaf."""
    statement = site.statement()
    posted = await site.post(statement)
    reply = await site.get(posted.headers["Location"] + "/statement")

    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/cose"
    message = Sign1.from_bytes(reply.body)
    assert receipts_of(message) == (posted.body,)
    verify(site, posted.body, reply.body)
    assert (await site.get("/entries/" + "A" * 43 + "/statement")).status == 404


async def test_siblings_are_other_signatures_over_the_same_bytes(site: Served) -> None:
    """LEAF-7: the (r, n-s) twin is another entry, and each shows the other."""
    statement = site.statement()
    message = Sign1.from_bytes(statement)
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    s = order - int.from_bytes(message.signature[32:], "big")
    twin = Sign1(
        message.protected, message.headers, {}, message.payload, message.signature[:32] + s.to_bytes(32, "big")
    ).to_bytes()
    first = await site.post(statement)
    second = await site.post(twin)
    await site.log.sequencer.index_all()
    reply = await site.get(first.headers["Location"] + "/siblings")

    assert first.status == second.status == 201
    assert first.headers["Location"] != second.headers["Location"]
    assert reply.headers["Content-Type"] == "application/cbor"
    assert decode(reply.body) == [Statement.from_bytes(twin).entry_id]
