"""Detached payloads: multipart/form-data with the parts statement and payload (AMB-9)."""

from __future__ import annotations

import contextlib

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.served import Reply, Served
from transparency.cose.cbor import decode
from transparency.server.forms import StatementForm
from transparency.server.problems import ProblemError
from transparency.statements.statement import Statement

PAYLOAD = b'{"a":1}\r\n--x\r\n\x00\xff'


async def send(site: Served, body: bytes, boundary: str = "bound") -> Reply:
    return await site.post(body, Content_Type=f"multipart/form-data; boundary={boundary}")


def form(*parts: tuple[str, bytes], boundary: bytes = b"bound") -> bytes:
    body = b""
    for name, content in parts:
        body += (
            b"--" + boundary + f'\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + content + b"\r\n"
        )
    return body + b"--" + boundary + b"--\r\n"


async def test_a_detached_statement_is_registered_with_its_payload(site: Served) -> None:
    """AMB-9, LEAF-1, SS-12: attached or detached is only transport: one entry, one receipt."""
    attached = await site.post(site.statement(PAYLOAD))
    detached = await send(site, form(("statement", site.statement(PAYLOAD, detached=True)), ("payload", PAYLOAD)))
    turned = await send(site, form(("payload", PAYLOAD), ("statement", site.statement(PAYLOAD, detached=True))))

    assert attached.status == detached.status == turned.status == 201
    assert attached.body == detached.body == turned.body
    assert attached.headers["Location"] == detached.headers["Location"]


async def test_forms_as_a_library_writes_them_are_taken(site: Served) -> None:
    """AMB-9: with file names, types and lengths of the parts."""
    data = aiohttp.FormData()
    data.add_field("statement", site.statement(b"x", detached=True), filename="s.cose", content_type="application/cose")
    data.add_field("payload", b"x", filename='odd "name".json', content_type="application/json")
    reply = await site.ask("POST", "/entries", data=data)

    assert reply.status == 201


async def test_a_detached_statement_without_its_payload_is_told_how_to_send_it(site: Served) -> None:
    """SS-12, API-8: 400 "Payload Missing", pointing to the form and to RFC 9995."""
    reply = await site.post(site.statement(detached=True))

    assert (reply.status, reply.title) == (400, "Payload Missing")
    assert "multipart/form-data" in reply.detail
    assert "RFC 9995" in reply.detail


async def test_another_payload_than_the_signed_one_is_rejected(site: Served) -> None:
    """REG-2: the signature covers the payload, however it came."""
    wrong = await send(site, form(("statement", site.statement(b"x", detached=True)), ("payload", b"y")))
    beside = await send(site, form(("statement", site.statement(b"x")), ("payload", b"y")))

    assert (wrong.status, wrong.title) == (400, "Rejected")
    assert (beside.status, beside.title) == (400, "Malformed request")


async def test_an_empty_payload_is_a_payload(site: Served) -> None:
    """LEAF-1."""
    reply = await send(site, form(("statement", site.statement(b"", detached=True)), ("payload", b"")))

    assert reply.status == 201
    assert reply.headers["Location"].endswith(Statement.from_bytes(site.statement(b"")).entry_id)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--bound",
        b"--bound--",
        b"--bound--\r\n",
        b"preamble\r\n" + form(("statement", b"s"), ("payload", b"p")),
        form(("statement", b"s")),
        form(("payload", b"p")),
        form(("statement", b"s"), ("statement", b"s")),
        form(("statement", b"s"), ("payload", b"p"), ("payload", b"p")),
        form(("statement", b"s"), ("payload", b"p"), ("more", b"m")),
        form(("statement", b"s"), ("other", b"p")),
        form(("statement", b"s"), ("payload", b"p"))[:-4],
        form(("statement", b"s"), ("payload", b"p")) + b"epilogue",
        b"--bound\r\n\r\ns\r\n--bound--",
        b'--bound\r\nContent-Disposition: attachment; name="statement"\r\n\r\ns\r\n--bound--',
        b"--bound\r\nContent-Disposition: form-data\r\n\r\ns\r\n--bound--",
        b'--bound\r\nContent-Disposition: form-data; name="statement"\r\n\r\n--bound--',
        b"--bound\r\n" + b"X: " + b"y" * 10_000 + b"\r\n\r\ns\r\n--bound--",
        b'--bound\r\nContent-Disposition: form-data; name="statement"\r\nContent-Type: text/html\r\n\r\ns\r\n--bound--',
        b'--bound\r\nContent-Disposition: form-data; name="payload"\r\nContent-Transfer-Encoding: base64\r\n\r\ncA==',
        b'--bound\r\nContent-Disposition: form-data; name="statement"\r\nX: \xff\r\n\r\ns\r\n--bound--',
        b"--boundary\r\n",
        form(("statement", b"s"), ("payload", b"")).replace(b"\r\n\r\n\r\n--", b"\r\n\r\n--"),
    ],
)
def test_other_forms_are_malformed_requests(body: bytes) -> None:
    """AMB-9, API-8: unknown, missing, repeated and broken parts are 400."""
    with pytest.raises(ProblemError) as raised:
        StatementForm.from_bytes(body, "bound")
    assert (raised.value.status, raised.value.title) == (400, "Malformed request")


async def test_a_broken_form_around_a_good_statement_registers_nothing(site: Served) -> None:
    """AMB-9, API-8: over HTTP, with everything right but the form."""
    good = ("statement", site.statement(b"x", detached=True)), ("payload", b"x")
    for body in (form(good[0]), form(good[1]), form(*good, good[1]), form(*good) + b"more", form(*good)[:-4]):
        reply = await send(site, body)
        assert (reply.status, reply.title) == (400, "Malformed request")
        assert "form" in reply.detail
    assert site.log.newest_head().size == 2
    assert (await send(site, form(*good))).status == 201


@pytest.mark.parametrize("boundary", [None, "", "x" * 71, "a b ", "ü", "a\r\nb"])
def test_a_boundary_has_1_to_70_characters_of_its_alphabet(boundary: str | None) -> None:
    with pytest.raises(ProblemError) as raised:
        StatementForm.from_bytes(b"", boundary)
    assert raised.value.status == 400
    assert decode(raised.value.to_bytes())[-1] == "Malformed request"


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_without_the_boundary_come_through_unchanged(statement: bytes, payload: bytes) -> None:
    """AMB-9: a payload is bytes, not text: nothing is decoded, trimmed or normalised."""
    body = form(("statement", statement), ("payload", payload), boundary=b"7d9f2c")
    if body.count(b"--7d9f2c") == 3:
        assert StatementForm.from_bytes(body, "7d9f2c") == StatementForm(statement, payload)


@given(st.binary(max_size=200))
def test_no_form_makes_the_reader_fail(tail: bytes) -> None:
    for body in (tail, b"--b" + tail, b'--b\r\nContent-Disposition: form-data; name="payload"' + tail):
        with contextlib.suppress(ProblemError):
            StatementForm.from_bytes(body, "b")


async def test_a_form_is_bounded_like_any_body(site: Served) -> None:
    """LEAF-8, API-8."""
    limit = site.log.policy.max_statement_size
    body = form(("statement", site.statement(bytes(limit), detached=True)), ("payload", bytes(limit)))
    reply = await send(site, body)

    assert (reply.status, reply.title) == (413, "Content Too Large")
