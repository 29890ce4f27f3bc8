"""What POST /entries takes and what it refuses, with the words of SCRAPI-11 section 2.3.3."""

from __future__ import annotations

import pytest

from tests.server.served import ISS, Served
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1, sign1


@pytest.mark.parametrize(
    "kind",
    [
        "application/cose",
        'application/cose; cose-type="cose-sign1"',
        "application/cose;cose-type=cose-sign1",
        "Application/COSE",
        "application/scitt-statement+cose",
    ],
)
async def test_the_types_a_statement_may_have(site: Served, kind: str) -> None:
    """API-15: what RFC 9943 registers is taken as well as what SCRAPI says."""
    assert (await site.post(site.statement(), Content_Type=kind)).status == 201


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "application/cbor",
        'application/cose; cose-type="cose-sign"',
        "application/cose; cose-type=cose-sign1; cose-type=cose-sign1",
        "application/cose application/cose",
        "multipart/mixed; boundary=x",
        "text",
        "",
    ],
)
async def test_other_types_are_415(site: Served, kind: str) -> None:
    """API-8: 415 as problem details, and what would be taken."""
    reply = await site.post(site.statement(), Content_Type=kind)

    assert (reply.status, reply.title) == (415, "Unsupported Media Type")
    assert "application/cose" in reply.headers["Accept-Post"]


async def test_a_compressed_body_is_415(site: Served) -> None:
    """API-8: a small request cannot become a large one."""
    reply = await site.post(site.statement(), Content_Encoding="gzip")

    assert (reply.status, reply.title) == (415, "Unsupported Media Type")


async def test_what_is_not_a_statement_is_a_malformed_request(site: Served) -> None:
    """API-8, SS-1, LEAF-3: 400 with what was wrong."""
    statement = site.statement()
    for wrong in (b"", b"\x00", statement[1:], statement + b"\x00", statement[:-1], b"\xff" * 100):
        reply = await site.post(wrong)
        assert (reply.status, reply.title) == (400, "Malformed request"), wrong
    assert site.log.newest_head().size == 2


async def test_an_unknown_algorithm_is_named_as_such(site: Served) -> None:
    """API-8: 400 "Bad Signature Algorithm"."""
    statement = site.statement()
    at = statement.index(b"\x01\x26", 0, 12)  # {1: -7, …
    reply = await site.post(statement[:at] + b"\x01\x2d" + statement[at + 2 :])

    assert (reply.status, reply.title) == (400, "Bad Signature Algorithm")
    assert reply.detail.startswith("Signed Statement contained a non-supported algorithm")


async def test_a_bad_signature_an_unknown_issuer_and_an_unknown_key_are_rejected(site: Served) -> None:
    """REG-2, API-8: 400 "Rejected" with the reason, and no entry."""
    good = Sign1.from_bytes(site.statement())
    forged = Sign1(good.protected, good.headers, {}, good.payload, bytes(64)).to_bytes()
    stranger = PrivateKey.generate(algorithm("ES256").id)
    for statement, reason in (
        (forged, "signature"),
        (site.statement(iss="https://stranger.example"), "issuer"),
        (site.statement(signer=stranger), "kid"),
    ):
        reply = await site.post(statement)
        assert (reply.status, reply.title) == (400, "Rejected")
        assert reply.detail.startswith("Signed Statement not accepted by the current Registration Policy: ")
        assert reason in reply.detail
        later = await site.post(statement, Prefer="respond-async")
        assert (later.status, later.title) == (400, "Rejected")
    assert site.log.newest_head().size == 2


async def test_what_must_be_protected_counts_only_there(site: Served) -> None:
    """REG-3, REG-4, REG-5: claims or a kid in the unprotected header are as good as none, whatever the policy."""
    claims = {1: ISS, 2: "urn:x"}
    kid = site.issuer.public.kid
    for protected, unprotected in (
        ({1: -7, 4: kid}, {15: claims}),
        ({1: -7, 15: claims}, {4: kid}),
        ({1: -7, 4: kid, 15: {2: "urn:x"}}, {}),
        ({1: -7, 4: kid, 15: {1: ISS}}, {}),
    ):
        reply = await site.post(sign1(protected, b"x", site.issuer, unprotected=unprotected).to_bytes())
        assert (reply.status, reply.title) == (400, "Malformed request"), protected
    whole = sign1({1: -7, 4: kid, 15: claims}, b"x", site.issuer).to_bytes()
    assert (await site.post(whole)).status == 201
