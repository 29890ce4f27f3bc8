"""Who may do what: tokens, scopes, and what --open lifts (design §5)."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import stat
from pathlib import Path

import pytest

from tests.server.served import Served, served
from transparency.errors import NotFoundError
from transparency.server.limits import client_of_address
from transparency.server.tokens import Scope, TokenEndedError, TokenStore


async def test_without_a_token_only_public_things_are_given(tmp_path: Path) -> None:
    """REG-1: client authentication comes first; receipts, keys and policy are public."""
    async with served(tmp_path, open=False) as site:
        refused = await site.post(site.statement())
        posted = await site.post(site.statement(), Authorization=site.bearer("submit"))
        receipt = await site.get(posted.headers["Location"])
        statement = await site.get(posted.headers["Location"] + "/statement")
        siblings = await site.get(posted.headers["Location"] + "/siblings")

        assert (refused.status, refused.title) == (401, "Unauthorized")
        assert refused.headers["WWW-Authenticate"] == 'Bearer realm="transparency"'
        assert posted.status == 201
        assert receipt.status == 200
        assert statement.status == siblings.status == 401
        for path in ("/policy", "/policy/history", "/.well-known/scitt-keys", "/consistency?from=2&to=3", "/healthz"):
            assert (await site.get(path)).status == 200, path


async def test_each_scope_opens_its_own_door(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site:
        submit, read, admin = (site.bearer(scope) for scope in ("submit", "read", "admin"))
        posted = await site.post(site.statement(), Authorization=submit)
        location = posted.headers["Location"] + "/statement"

        assert (await site.get(location, Authorization=read)).status == 200
        for wrong in (submit, admin):
            reply = await site.get(location, Authorization=wrong)
            assert (reply.status, reply.title) == (403, "Forbidden")
            assert 'error="insufficient_scope"' in reply.headers["WWW-Authenticate"]
        for path in ("/policy", "/keys"):
            assert (await site.post(b"", path, Authorization=read)).status == 403
            assert (await site.post(b"", path, Authorization=admin)).title == "Malformed request"
        assert (await site.post(site.statement(b"2"), Authorization=admin)).status == 403


async def test_open_lifts_submitting_and_reading_and_nothing_else(site: Served) -> None:
    """REG-2: signatures and policy always apply; the admin routes stay closed."""
    posted = await site.post(site.statement())

    assert posted.status == 201
    assert (await site.get(posted.headers["Location"] + "/statement")).status == 200
    assert (await site.post(site.statement(iss="https://stranger.example"))).title == "Rejected"
    for path in ("/policy", "/keys"):
        assert (await site.post(b"", path)).status == 401
        assert (await site.post(b"", path, Authorization=site.bearer("submit", "read"))).status == 403


async def test_public_lifts_reading_only(tmp_path: Path) -> None:
    async with served(tmp_path, open=False, public=True) as site:
        posted = await site.post(site.statement(), Authorization=site.bearer("submit"))

        assert (await site.get(posted.headers["Location"] + "/statement")).status == 200
        assert (await site.post(site.statement())).status == 401


async def test_a_token_that_is_not_valid_is_401(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site:
        good = site.bearer("submit")
        other = site.bearer("submit")
        swapped = good[: len("Bearer tl_") + 12] + other[len("Bearer tl_") + 12 :]
        for wrong in (
            good + "A",
            good[:-1],
            swapped,
            "Bearer",
            "Bearer x",
            "Basic " + good[7:],
            good[7:],
            "Bearer tl_",
        ):
            reply = await site.post(site.statement(), Authorization=wrong)
            assert (reply.status, reply.title) == (401, "Unauthorized"), wrong
            assert 'error="invalid_token"' in reply.headers["WWW-Authenticate"]
            assert wrong[-20:] not in reply.detail
        # The scheme's name is case-insensitive (RFC 9110 §11.1).
        assert (await site.post(site.statement(), Authorization="bearer" + good[6:])).status == 201


async def test_a_revoked_or_expired_token_is_refused_at_once(tmp_path: Path) -> None:
    """Revocation by another process (another connection) is in force from the next request on."""
    now = [1_000.0]
    async with served(tmp_path, open=False, token_clock=lambda: now[0]) as site:
        token_id, secret = site.tokens.create(["submit"])
        _, brief = site.tokens.create(["submit"], expires=1_010)
        before = await site.post(site.statement(), Authorization=f"Bearer {secret}")
        short = await site.post(site.statement(), Authorization=f"Bearer {brief}")
        elsewhere = TokenStore(tmp_path / "log" / "access.sqlite")
        elsewhere.revoke(token_id)
        elsewhere.close()
        now[0] = 1_010.0

        assert before.status == short.status == 201
        revoked = await site.post(site.statement(), Authorization=f"Bearer {secret}")
        expired = await site.post(site.statement(), Authorization=f"Bearer {brief}")
        guessed = await site.post(site.statement(), Authorization=f"Bearer {brief[:-3]}xyz")

        assert [reply.status for reply in (revoked, expired, guessed)] == [401, 401, 401]
        assert revoked.detail.startswith("The token was revoked at ")
        assert expired.detail == "The token expired at 1970-01-01T00:16:50.000Z"
        assert guessed.detail == "The token is not valid", "why it ended is told to nobody without the secret"


async def test_a_token_ends_at_once_also_for_a_connection_that_stays_open(tmp_path: Path) -> None:
    """One connection, many requests: what counts is the token's state at each of them, not at the first."""
    now = [1_000.0]
    async with served(tmp_path, open=False, token_clock=lambda: now[0]) as site:
        posted = await site.post(site.statement(), Authorization=site.bearer("submit"))
        path = posted.headers["Location"].removeprefix(site.url) + "/statement"
        _, brief = site.tokens.create(["read"], expires=1_010)
        token_id, secret = site.tokens.create(["read"])
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)

        async def ask(token: str) -> tuple[int, bytes]:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: ([0-9]+)", head)
            assert length is not None
            return int(head.split(b" ")[1]), await reader.readexactly(int(length[1]))

        try:
            async with asyncio.timeout(20):
                before = [(await ask(brief))[0], (await ask(secret))[0]]
                now[0] = 1_010.0
                expired = await ask(brief)
                still = await ask(secret)
                site.tokens.revoke(token_id)
                revoked = await ask(secret)
        finally:
            writer.close()

    assert before == [200, 200]
    assert (expired[0], b"The token expired at" in expired[1]) == (401, True)
    assert still[0] == 200
    assert (revoked[0], b"The token was revoked at" in revoked[1]) == (401, True)


def test_only_the_hash_of_a_secret_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "access.sqlite"
    store = TokenStore(path)
    token_id, secret = store.create([Scope.READ, "submit"], note="the CI")
    store.close()

    assert secret.startswith(f"tl_{token_id}_")
    assert len(secret) == len("tl_") + 12 + 1 + 43
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        assert secret.encode() not in content
        assert secret[-43:].encode() not in content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with sqlite3.connect(path) as connection:
        assert [len(row[0]) for row in connection.execute("SELECT digest FROM tokens")] == [32]
    connection.close()


def test_tokens_are_listed_and_revoked_by_id(tmp_path: Path) -> None:
    now = [500.0]
    store = TokenStore(tmp_path / "access.sqlite", clock=lambda: now[0])
    token_id, secret = store.create(["admin"], note="ops", expires=900)
    known = store.check(secret)
    (listed,) = store.list()
    now[0] = 600.0
    revoked = store.revoke(token_id)
    now[0] = 700.0
    again = store.revoke(token_id)

    assert known == listed
    assert listed.scopes == frozenset({Scope.ADMIN})
    assert (listed.note, listed.created, listed.expires, listed.revoked) == ("ops", 500, 900, None)
    assert revoked.revoked == again.revoked == 600
    with pytest.raises(TokenEndedError, match="revoked"):
        store.check(secret)
    with pytest.raises(NotFoundError):
        store.revoke("000000000000")
    for scopes in ([], ["root"], ["Submit"]):
        with pytest.raises(ValueError, match=r"scope|Scope"):
            store.create(scopes)
    store.close()


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        (None, "unknown"),
        ("", "unknown"),
        ("junk", "unknown"),
    ],
)
def test_an_anonymous_client_is_its_address_or_its_ipv6_network(address: str | None, client: str) -> None:
    assert client_of_address(address) == client
