"""What a token may do less than its scope says: for some issuers only, at some rate; and what a witness may."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest

from tests.server.served import ISS, Served, served
from transparency.errors import MalformedError
from transparency.policy.document import Policy
from transparency.server.tokens import MAX_ISSUERS, Scope, TokenStore
from transparency.statements.statement import Statement

OTHER = "https://other.example"


def limited(site: Served, *issuers: str) -> str:
    return f"Bearer {site.tokens.create(['submit'], issuers=issuers)[1]}"


async def test_a_token_for_other_issuers_is_403_before_anything_is_judged(tmp_path: Path) -> None:
    """REG-15: what is signed as iss decides, and the answer says so; a known statement makes no difference."""
    async with served(tmp_path, open=False) as site:
        statement = site.statement()
        refused = await site.post(statement, Authorization=limited(site, OTHER))
        known = await site.post(statement, Authorization=limited(site, ISS))
        again = await site.post(statement, Authorization=limited(site, OTHER))
        judged = []
        site.log.judge.judge = lambda *_: judged.append(1)  # type: ignore[method-assign,assignment]
        new = await site.post(site.statement(b"2"), Authorization=limited(site, OTHER))

        assert [reply.status for reply in (refused, known, again, new)] == [403, 201, 403, 403]
        assert refused.title == "Forbidden"
        assert ISS in refused.detail
        assert judged == []


async def test_a_statement_is_read_once_whatever_the_token_is_limited_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, open=False) as site:
        statement, read = site.statement(), []

        def from_bytes(data: bytes, payload: bytes | None = None) -> Statement:
            read.append(data)
            return original(data, payload)

        original = Statement.from_bytes
        monkeypatch.setattr(Statement, "from_bytes", from_bytes)
        reply = await site.post(statement, Authorization=limited(site, ISS))

    assert reply.status == 201
    assert read == [statement]


async def test_a_token_never_widens_what_the_policy_accepts(tmp_path: Path) -> None:
    """REG-15: a token for every issuer there is makes no issuer of a stranger."""
    async with served(tmp_path, open=False) as site:
        reply = await site.post(site.statement(iss=OTHER), Authorization=limited(site, "https://**"))

        assert (reply.status, reply.title) == (400, "Rejected")


@pytest.mark.parametrize(
    ("issuer", "allowed"),
    [
        (ISS, True),
        ("https://*.example", True),
        ("https://**", True),
        ("https://issuer.example/*", False),
        ("https://Issuer.example", False),
        ("https://issuer", False),
    ],
)
async def test_a_limit_is_a_name_or_a_pattern(tmp_path: Path, issuer: str, allowed: bool) -> None:
    async with served(tmp_path, open=False) as site:
        reply = await site.post(site.statement(), Authorization=limited(site, OTHER, issuer))

        assert reply.status == (201 if allowed else 403)


async def test_an_artifact_is_as_large_as_the_tokens_issuers_may_have_it(tmp_path: Path) -> None:
    """413 beyond the policy's limit for them; 403 where the policy knows none of them."""
    async with served(tmp_path, open=False) as site:
        document = site.log.policy.following(site.log.policy_entry_id, site.log.policy.issuers).to_toml().decode()
        lines = [line + "\nmax-artifact-size = 10" if line == "[[issuer]]" else line for line in document.splitlines()]
        policy = Policy.from_toml("\n".join(lines).encode() + b"\n")
        await site.log.update_policy(site.document(policy))

        async def keep(size: int, token: str) -> int:
            body = bytes(size)
            path = f"/artifacts/{hashlib.sha256(body).hexdigest()}"
            headers = {"Authorization": token, "Content-Type": "application/octet-stream"}
            return (await site.ask("PUT", path, data=body, headers=headers)).status

        named, pattern = limited(site, ISS), limited(site, "https://**")
        assert [await keep(size, named) for size in (10, 11)] == [201, 413]
        assert [await keep(size, pattern) for size in (9, 12)] == [201, 413]
        assert await keep(8, limited(site, OTHER)) == 403
        assert await keep(100, site.bearer("submit")) == 201


async def test_a_token_may_have_a_rate_of_its_own(tmp_path: Path) -> None:
    """API-9: less than others have, more than they have, and also where others have no limit."""
    async with served(tmp_path, clock=lambda: 0.0, rate_limit=2, rate_period=60.0) as site:
        slow, fast = (f"Bearer {site.tokens.create(['read'], rate=rate)[1]}" for rate in (1, 3))
        assert [(await site.get("/policy", Authorization=slow)).status for _ in range(2)] == [200, 429]
        replies = [await site.get("/policy", Authorization=fast) for _ in range(4)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429]
        assert replies[-1].detail == "Only 3 requests per minute are allowed."
    async with served(tmp_path / "lifted", clock=lambda: 0.0, rate_limit=None) as site:
        slow = f"Bearer {site.tokens.create(['read'], rate=1)[1]}"
        assert [(await site.get("/policy", Authorization=slow)).status for _ in range(2)] == [200, 429]
        assert (await site.get("/policy")).status == 200


async def test_a_witness_reads_and_exports_and_does_nothing_else(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site:
        witness = site.bearer("witness")
        posted = await site.post(site.statement(), Authorization=site.bearer("submit"))
        location = posted.headers["Location"]
        for path in (f"{location}/statement", f"{location}/siblings", "/export/entries", "/export/heads"):
            assert (await site.get(path, Authorization=witness)).status == 200, path
        missing = await site.get(f"/artifacts/{'0' * 64}", Authorization=witness)

        assert missing.status == 404
        assert (await site.get("/search?issuer=x", Authorization=witness)).status == 403
        for path in ("/entries", "/policy", "/keys"):
            assert (await site.post(site.statement(b"2"), path, Authorization=witness)).status == 403, path
        refused = await site.get("/export/heads")
        assert refused.detail == "A token for 'read' or 'witness' is needed"


def test_limits_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "access.sqlite")
    many = [f"https://{number}.example" for number in range(MAX_ISSUERS + 1)]
    for options in (
        {"scopes": ["read"], "issuers": [ISS]},
        {"scopes": ["submit"], "issuers": [""]},
        {"scopes": ["submit"], "issuers": many},
        {"scopes": ["submit"], "rate": 0},
    ):
        with pytest.raises(ValueError, match=r"issuer|rate"):
            store.create(**options)
    with pytest.raises(MalformedError):
        store.create(["submit"], issuers=["https://***"])
    assert store.list() == []
    store.close()


def test_tokens_of_an_older_version_stay_in_force_and_have_no_limits(tmp_path: Path) -> None:
    path = tmp_path / "access.sqlite"
    store = TokenStore(path)
    _, secret = store.create(["submit"])
    store.close()
    with sqlite3.connect(path) as connection:
        for column in ("issuers", "rate"):
            connection.execute(f"ALTER TABLE tokens DROP COLUMN {column}")
    connection.close()

    store = TokenStore(path)
    token = store.check(secret)
    store.close()

    assert token is not None
    assert (token.scopes, token.issuers, token.rate) == (frozenset({Scope.SUBMIT}), (), None)
    assert token.may_submit_for("https://anybody.example")
