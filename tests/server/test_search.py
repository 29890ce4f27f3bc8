"""Search over HTTP: what is found, in which form, who may ask, and which queries are refused by name."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.log.searching import indexed, put, session
from tests.server.served import ISS, SUB, Reply, Served, served
from transparency.cose import base64url
from transparency.cose.cbor import decode
from transparency.cose.keys import PrivateKey
from transparency.log.folder import Folder
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement, parse_entry_id, sign_envelope
from transparency.testing import settled


async def fill(site: Served) -> list[str]:
    """Two sessions and an envelope (entries 2 to 4), indexed; their entry ids."""
    record = session("s-3", path="/home/a/src/z.py", model="m ü+3")
    put(site.log.data, record)
    envelope = sign_envelope(hashlib.sha256(record).digest(), site.issuer, iss=ISS, sub="urn:example:e")
    statements = [site.statement(session("s-1")), site.statement(session("s-2", tool="Write")), envelope]
    for each in statements:
        await site.log.register(each)
    await index(site)
    return [Statement.from_bytes(each).entry_id for each in statements]


async def index(site: Served) -> None:
    await settled(site.log)
    with indexed(site.log.data):
        pass


async def ask(site: Served, query: str = "", **headers: str) -> dict[str, Any]:
    reply = await site.get(f"/search{'?' if query else ''}{query}", **headers)
    assert reply.status == 200, reply.problem
    found = json.loads(reply.body)
    assert isinstance(found, dict)
    return found


def indexes(answer: dict[str, Any]) -> list[int]:
    return [entry["index"] for entry in answer["entries"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [4, 3, 2, 1, 0]),
        ("order=oldest", [0, 1, 2, 3, 4]),
        (f"issuer={ISS}", [4, 3, 2]),
        (f"issuer={quote(ISS, safe='')}&subject={quote(SUB, safe='')}", [3, 2]),
        ("session=s-1", [2]),
        ("session=s-1&session=s-2", []),
        ("agent=claude-code%2F2.1.0&tool=Write", [3]),
        ("model=m%20%C3%BC%2B3", [4]),
        ("model=m+%C3%BC%2B3", [4]),
        ("path=src/x.py", [3, 2]),
        ("path=src/*", [4, 3, 2]),
        ("path=/home/a/*&tool=Edit", [4, 2]),
        ("path=/home/a/src/x.py", [3, 2]),
        ("from=0&to=1", []),
        ("from=2020-01-01T00:00:00Z&session=s-1", [2]),
        ("to=2020-01-01T00:00:00.5%2B01:00", []),
        (f"content={hashlib.sha256(session('s-1')).hexdigest()}", [2]),
        ("content=" + "0" * 128, []),
    ],
)
async def test_what_is_asked_for_is_found(site: Served, query: str, expected: list[int]) -> None:
    await fill(site)

    assert indexes(await ask(site, query)) == expected


async def test_an_answer_says_what_it_speaks_of_and_an_entry_what_is_known_of_it(site: Served) -> None:
    ids = await fill(site)

    answer = await ask(site, "session=s-3")

    (entry,) = answer.pop("entries")
    assert answer == {"size": 5, "indexed": 5, "lag": 0}
    assert entry.pop("time") == site.log.newest_head().time
    assert entry.pop("content") == hashlib.sha256(session("s-3", path="/home/a/src/z.py", model="m ü+3")).hexdigest()
    assert entry == {
        "index": 4,
        "entry": ids[2],
        "issuer": ISS,
        "subject": "urn:example:e",
        "format": "claude-jsonl",
        "sessions": ["s-3"],
        "vendor": "anthropic",
        "agent": "claude-code",
        "version": "2.1.0",
        "models": ["m ü+3"],
        "tools": ["Edit"],
        "folder": "/home/a",
        "paths": ["src/z.py"],
        "start": 1772445600000,
        "end": 1772445600000,
    }


async def test_json_and_cbor_say_the_same(site: Served) -> None:
    await fill(site)

    reply = await site.get("/search?limit=2", Accept="application/cbor")

    assert reply.headers["Content-Type"] == "application/cbor"
    assert decode(reply.body) == await ask(site, "limit=2")
    assert (await site.get("/search", Accept="text/html")).status == 406


async def test_pages_go_on_where_the_last_one_ended_and_stay_when_entries_are_added(site: Served) -> None:
    await fill(site)
    first = await ask(site, "limit=2")
    second = await ask(site, f"limit=2&size={first['size']}&after={first['after']}")

    await site.log.register(site.statement(session("later")))
    await index(site)

    assert (indexes(first), indexes(second)) == ([4, 3], [2, 1])
    assert (await ask(site, f"limit=2&size={first['size']}"))["entries"] == first["entries"]
    again = await ask(site, f"limit=2&size={first['size']}&after={first['after']}")
    assert again["entries"] == second["entries"]
    last = await ask(site, f"limit=2&size={first['size']}&after={second['after']}")
    assert (indexes(last), "after" in last) == ([0], False)


async def test_receipts_on_request_verify(site: Served) -> None:
    await fill(site)
    keys = {key.kid: key for key in site.log.receipt_keys()}

    answer = await ask(site, "proofs=receipts&session=s-1")
    binary = decode((await site.get("/search?proofs=receipts&session=s-1", Accept="application/cbor")).body)

    (entry,) = answer["entries"]
    data = base64url.decode(entry["receipt"])
    assert binary["entries"][0]["receipt"] == data
    receipt = Receipt.from_bytes(data)
    receipt.verify_inclusion(parse_entry_id(entry["entry"]), keys[receipt.kid or b""])
    assert receipt.inclusion[0].index == 2
    assert "receipt" not in (await ask(site, "session=s-1"))["entries"][0]


async def test_siblings_are_found_by_one_of_them_or_by_what_they_sign(site: Served) -> None:
    """LEAF-7: every signature over the same bytes, the one that was named included."""
    statement = site.statement(b"twice")
    twin = site.statement(b"twice", signer=Salted(site.issuer))
    await site.log.register(statement)
    await site.log.register(twin)
    await index(site)
    parsed = Statement.from_bytes(statement)

    assert parsed.entry != Statement.from_bytes(twin).entry
    assert indexes(await ask(site, f"sibling={parsed.entry_id}")) == [3, 2]
    assert indexes(await ask(site, f"sibling={parsed.tbs_digest.hex()}")) == [3, 2]
    assert (await site.get("/search?sibling=" + "A" * 43)).status == 404


class Salted:
    """Signs the same bytes with another nonce: (r, n-s) is a second signature (LEAF-7)."""

    ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self.public = key.public
        self.alg = key.alg

    def sign(self, data: bytes) -> bytes:
        signature = self._key.sign(data)
        other = self.ORDER - int.from_bytes(signature[32:], "big")
        return signature[:32] + other.to_bytes(32, "big")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("iss=x", "'iss' is not known here; known are issuer"),
        ("Issuer=x", "'Issuer' is not known"),
        ("issuer=x&", "'a parameter' is not known"),
        ("issuer", "'issuer' is not of the form"),
        ("issuer=", "'issuer' is empty"),
        ("issuer=a=b", "'issuer' is not of the form"),
        ("issuer=%zz", "'issuer' is not of the form"),
        ("issuer=%ff", "'issuer' is not UTF-8"),
        ("issuer=a&issuer=b", "'issuer' is there more than once"),
        ("limit=0", "'limit' is 1 to 1000"),
        ("limit=1001", "'limit' is 1 to 1000"),
        ("limit=%201", "'limit' is not a number"),
        ("limit=1_0", "'limit' is not a number"),
        ("limit=01", "'limit' is not a number"),
        ("size=-1", "'size' is not a number"),
        ("size=100000", "'size' is beyond this log, which has 2 entries"),
        ("after=99999999999999999999", "'after' is not a number"),
        ("from=yesterday", "'from' is neither a time"),
        ("to=2026-11-16", "'to' is neither a time"),
        ("from=2026-11-16T07:00:00+01:00", "%2B"),
        ("order=random", "'order' is newest or oldest"),
        ("proofs=1", "'proofs' is receipts"),
        ("content=ABCD", "'content' is a SHA-256"),
        ("content=" + "A" * 64, "lower-case"),
        ("path=src*", "a folder as src/*"),
        ("path=*", "a folder as src/*"),
        ("sibling=short", "'sibling' is an entry id"),
        ("&".join(f"tool=t{n}" for n in range(17)), "more than 16 conditions"),
    ],
)
async def test_a_query_that_is_not_understood_is_400_and_says_what(site: Served, query: str, words: str) -> None:
    reply = await site.get(f"/search?{query}") if "%" not in query and "+" not in query else await raw(site, query)

    assert (reply.status, reply.title) == (400, "Malformed request")
    assert words in reply.detail


async def raw(site: Served, query: str) -> Reply:
    """As the bytes stand: a client library would put escapes right."""
    from tests.server.served import parse_raw

    answer = await site.raw(f"GET /search?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    return parse_raw(answer)


async def test_search_needs_a_token_that_may_read(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site:
        await index(site)
        read, submit = site.bearer("read"), site.bearer("submit")

        assert (await site.get("/search")).status == 401
        assert (await site.get("/search", Authorization=submit)).status == 403
        assert (await site.get("/search", Authorization=read)).status == 200


async def test_before_there_is_an_index_the_answer_is_503(site: Served) -> None:
    reply = await site.get("/search")

    assert (reply.status, "Retry-After" in reply.headers) == (503, True)


async def test_a_damaged_index_stops_searches_and_nothing_else(site: Served) -> None:
    await fill(site)
    Folder(site.log.data).search.write_bytes(b"not a database" * 1000)

    assert (await site.get("/search")).status == 503
    assert (await site.post(site.statement(b"still registered"))).status == 201
    assert not site.service.failed.is_set()
    await index(site)
    assert indexes(await ask(site, "limit=1")) == [5]


async def test_a_size_beyond_the_index_is_503_until_it_caught_up(site: Served) -> None:
    await fill(site)
    await site.log.register(site.statement(b"more"))

    assert (await site.get("/search?size=6")).status == 503
    assert (await ask(site))["lag"] == 1
    assert b"transparency_search_lag 1.0" in (await site.get("/metrics")).body
    await index(site)
    assert indexes(await ask(site, "size=6&limit=1")) == [5]
    assert b"transparency_search_lag 0.0" in (await site.get("/metrics")).body


async def test_of_an_erased_entry_its_place_is_shown_and_no_more(site: Served) -> None:
    ids = await fill(site)
    await settled(site.log)
    with indexed(site.log.data) as found:
        found.index.erase(2)

    (entry,) = (entry for entry in (await ask(site))["entries"] if entry["index"] == 2)

    assert entry == {"index": 2, "entry": ids[0], "time": entry["time"], "erased": True}
    assert indexes(await ask(site, "session=s-1")) == []
