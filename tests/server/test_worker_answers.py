"""Two readers of one protocol: a table of requests, and each gets the same answer from a worker and from the owner."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.server.served import ISS, Reply, Served, parse_raw, served
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey
from transparency.statements.statement import Statement

HEAD = b"POST /entries HTTP/1.1\r\nHost: log.example\r\n"
COSE = b"Content-Type: application/cose\r\n"
# What differs between any two answers, and what aiohttp says about itself.
UNSTEADY = frozenset({"date", "server", "retry-after"})


def post(body: bytes, *lines: bytes, head: bytes = HEAD + COSE) -> bytes:
    more = b"".join(line + b"\r\n" for line in (*lines, b"Connection: close"))
    return head + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def detached(site: Served) -> bytes:
    return Statement.from_bytes(site.statement()).message.with_payload(None).to_bytes()


def damaged(site: Served) -> bytes:
    return site.statement()[:-1] + bytes([site.statement()[-1] ^ 1])


def bearer(site: Served, scope: str, issuers: tuple[str, ...] = ()) -> bytes:
    return b"Authorization: Bearer " + site.tokens.create((scope,), issuers=issuers)[1].encode()


def submitter(site: Served) -> bytes:
    return bearer(site, "submit")


OTHER = PrivateKey.generate(algorithm("ES256").id)
TABLE: dict[str, Callable[[Served], bytes]] = {
    "registered": lambda site: post(site.statement(), submitter(site)),
    "scitt type": lambda site: post(
        site.statement(), submitter(site), head=HEAD + b"Content-Type: application/scitt-statement+cose\r\n"
    ),
    "another issuer": lambda site: post(site.statement(iss="https://stranger.example"), submitter(site)),
    "another key": lambda site: post(site.statement(signer=OTHER), submitter(site)),
    "damaged signature": lambda site: post(damaged(site), submitter(site)),
    "no payload": lambda site: post(detached(site), submitter(site)),
    "empty": lambda site: post(b"", submitter(site)),
    "not COSE": lambda site: post(b"hello", submitter(site)),
    "truncated": lambda site: post(site.statement()[:-1], submitter(site)),
    "trailing byte": lambda site: post(site.statement() + b"\x00", submitter(site)),
    "too large for the policy": lambda site: post(site.statement(bytes(3_000)), submitter(site)),
    "too large for anything": lambda site: post(bytes(300_000), submitter(site)),
    "no token": lambda site: post(site.statement()),
    "wrong token": lambda site: post(site.statement(), b"Authorization: Bearer tl_wrong"),
    "no bearer": lambda site: post(site.statement(), b"Authorization: Basic YTpi"),
    "read token": lambda site: post(site.statement(), bearer(site, "read")),
    "token for others": lambda site: post(
        site.statement(), bearer(site, "submit", issuers=("https://other.example",))
    ),
    "token for it": lambda site: post(site.statement(), bearer(site, "submit", issuers=(ISS,))),
    "accepts JSON": lambda site: post(site.statement(), submitter(site), b"Accept: application/json"),
    "accepts receipts": lambda site: post(
        site.statement(), submitter(site), b"Accept: application/scitt-receipt+cose"
    ),
    "another type": lambda site: post(site.statement(), submitter(site), head=HEAD + b"Content-Type: text/plain\r\n"),
    "no type": lambda site: post(site.statement(), submitter(site), head=HEAD),
    "no host": lambda site: post(
        site.statement(), submitter(site), head=b"POST /entries HTTP/1.1\r\nContent-Type: application/cose\r\n"
    ),
    "odd host": lambda site: post(
        site.statement(), submitter(site), head=b"POST /entries HTTP/1.1\r\nHost: a b\r\n" + COSE
    ),
    "HTTP/1.0": lambda site: post(
        site.statement(), submitter(site), head=b"POST /entries HTTP/1.0\r\nHost: log.example\r\n" + COSE
    ),
    "query": lambda site: post(
        site.statement(), submitter(site), head=b"POST /entries?a=b HTTP/1.1\r\nHost: log.example\r\n" + COSE
    ),
    "compressed": lambda site: post(site.statement(), submitter(site), b"Content-Encoding: gzip"),
    "two lengths": lambda site: post(site.statement(), submitter(site), b"Content-Length: 1"),
    "folded": lambda site: post(site.statement(), submitter(site), b"X-Long: a\r\n b"),
    "space before colon": lambda site: post(site.statement(), submitter(site), b"X-Odd : a"),
    "bare LF": lambda site: post(site.statement(), submitter(site), b"X-Odd: a\nX-More: b"),
    "chunked": lambda site: (
        HEAD + COSE + submitter(site) + b"\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n%b\r\n0\r\n\r\n" % (len(site.statement()), site.statement())
    ),
    "both framings": lambda site: post(site.statement(), submitter(site), b"Transfer-Encoding: chunked"),
    "lower-case method": lambda site: post(
        site.statement(), submitter(site), head=b"post /entries HTTP/1.1\r\nHost: log.example\r\n" + COSE
    ),
    "absolute form": lambda site: post(
        site.statement(), submitter(site), head=b"POST http://x/entries HTTP/1.1\r\nHost: x\r\n" + COSE
    ),
    "batch without a token": lambda _: post(
        b"", head=b"POST /entries/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/cbor-seq\r\n"
    ),
    "batch of COSE": lambda site: post(
        b"", submitter(site), head=b"POST /entries/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/cose\r\n"
    ),
    "GET": lambda _: b"GET /entries HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "garbage": lambda _: b"\x16\x03\x01\x00\x01\r\n\r\n",
}  # fmt: skip


async def table(tmp_path: Path, workers: int) -> dict[str, tuple[int, dict[str, str], bytes | str]]:
    """Each request's answer, in a log of its own, as far as two logs can agree on it."""
    answers = {}
    async with served(tmp_path, workers=workers, open=False) as site:
        policy = site.log.policy
        policy = replace(policy.following(site.log.policy_entry_id, policy.issuers), max_statement_size=2_048)
        await site.log.update_policy(site.document(policy))
        for name, make in TABLE.items():
            answers[name] = _steady(parse_raw(await site.raw(make(site))))
    return answers


def _steady(reply: Reply) -> tuple[int, dict[str, str], bytes | str]:
    headers = {name.lower(): value for name, value in reply.headers.items() if name.lower() not in UNSTEADY}
    if reply.status == 201:
        headers["location"] = re.sub(r"[A-Za-z0-9_-]{43}$", "ENTRY", headers["location"])
        return reply.status, {**headers, "content-length": "n"}, "a receipt"
    return reply.status, headers, reply.body


async def test_a_worker_answers_every_request_as_the_owner_does(tmp_path: Path) -> None:
    """API-8: in status, headers and body."""
    (tmp_path / "0").mkdir()
    (tmp_path / "2").mkdir()
    alone, shared = await asyncio.gather(table(tmp_path / "0", 0), table(tmp_path / "2", 2))

    assert {name: shared[name] for name in TABLE} == {name: alone[name] for name in TABLE}
    assert alone["registered"][0] == 201
    assert {status for status, _, _ in alone.values()} >= {201, 400, 401, 403, 405, 413, 415}


@pytest.mark.parametrize("workers", [0, 2])
async def test_a_statement_beyond_the_policys_size_is_413(tmp_path: Path, workers: int) -> None:
    """LEAF-8."""
    async with served(tmp_path, workers=workers) as site:
        limit = site.log.policy.max_statement_size
        fits = await site.post(site.statement(bytes(limit - 2_000)))
        beyond = await site.post(site.statement(bytes(limit)))

        assert fits.status == 201
        assert (beyond.status, beyond.title) == (413, "Content Too Large")
        assert "The policy takes statements of up to" in beyond.detail
