"""The token store: who may submit, read, witness or administer over HTTP. Only SHA-256 of a secret is kept.

A secret is ``tl_<id>_<256 random bits>``. The id finds the row, so no search is done on the secret itself, and with 256
random bits a plain hash needs no salt and no stretching. Every check asks the database: a token revoked by another
process (``transparency token revoke``) is refused by the next request.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from transparency.cose import base64url
from transparency.errors import NotFoundError, TransparencyError
from transparency.policy.patterns import Pattern
from transparency.records.timestamps import rfc3339

_SECRET = re.compile(r"tl_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_ID_BYTES = 6
_SECRET_BYTES = 32
_NO_DIGEST = bytes(32)
MAX_NOTE_CHARS = 200
MAX_ISSUERS = 64
_COLUMNS = "id, scopes, note, created, expires, revoked, issuers, rate"
_STAR = "*"


class TokenEndedError(TransparencyError):
    """The secret is right, and its token is not in force any more; the message says since when."""


class Scope(StrEnum):
    """What a token allows. Each stands for itself: an admin token does not submit."""

    SUBMIT = "submit"
    READ = "read"
    ADMIN = "admin"
    WITNESS = "witness"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is known here: everything but the secret. Times are seconds since 1970.

    ``issuers`` are those it may submit for, each an ``iss`` or a pattern (policy/patterns.py); none is all of them.
    ``rate`` is how many requests a minute it may send, instead of what the server gives to each client.
    """

    id: str
    scopes: frozenset[Scope]
    note: str
    created: int
    expires: int | None
    revoked: int | None
    issuers: tuple[str, ...] = ()
    rate: int | None = None

    def in_force(self, now: float) -> bool:
        return not self.ended(now)

    def ended(self, now: float) -> str:
        """Why it is not in force at *now*; "" if it is."""
        if self.revoked is not None:
            return f"was revoked at {_time(self.revoked)}"
        if self.expires is not None and now >= self.expires:
            return f"expired at {_time(self.expires)}"
        return ""

    def may_submit_for(self, iss: str) -> bool:
        return not self.issuers or any(names(issuer, iss) for issuer in self.issuers)


def names(issuer: str, iss: str) -> bool:
    """Whether *issuer*, as a token has it, is *iss* or a pattern that matches it."""
    return issuer == iss or (_STAR in issuer and _pattern(issuer).matches(iss))


@lru_cache(maxsize=1024)
def _pattern(text: str) -> Pattern:
    return Pattern(text)


class TokenStore:
    """``DIR/access.sqlite``. One connection for one thread; other processes may write the file meanwhile."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        path.touch(mode=0o600, exist_ok=True)
        # Autocommit: a check must see what another process committed a moment ago, never an old snapshot.
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=5.0)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        _create_schema(self._connection)

    def close(self) -> None:
        self._connection.close()

    def create(
        self,
        scopes: Iterable[Scope | str],
        note: str = "",
        expires: int | None = None,
        *,
        issuers: Iterable[str] = (),
        rate: int | None = None,
    ) -> tuple[str, str]:
        """A new token: its id, and its secret, which is shown this once and not kept."""
        wanted = sorted({Scope(scope) for scope in scopes})
        limits = sorted(set(issuers))
        if not wanted:
            raise ValueError("a token needs at least one scope: submit, read, witness or admin")
        if len(note) > MAX_NOTE_CHARS:
            raise ValueError(f"a token's note has at most {MAX_NOTE_CHARS} characters")
        if len(limits) > MAX_ISSUERS or "" in limits:
            raise ValueError(f"a token is for at most {MAX_ISSUERS} issuers, each a name or a pattern")
        if limits and Scope.SUBMIT not in wanted:
            raise ValueError("issuers limit what a token may submit: it needs the scope submit")
        if rate is not None and rate < 1:
            raise ValueError("a rate below one request a minute would refuse everything")
        for limit in limits:
            if _STAR in limit:
                _pattern(limit)  # raises MalformedError for what is none
        token_id = secrets.token_hex(_ID_BYTES)
        random = base64url.encode(secrets.token_bytes(_SECRET_BYTES))
        secret = f"tl_{token_id}_{random}"
        self._connection.execute(
            "INSERT INTO tokens (id, digest, scopes, note, created, expires, issuers, rate) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                token_id,
                _digest(secret),
                json.dumps(wanted),
                note,
                int(self._clock()),
                expires,
                json.dumps(limits) if limits else None,
                rate,
            ),
        )
        return token_id, secret

    def list(self) -> list[Token]:
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM tokens ORDER BY created, id")  # noqa: S608 - a constant
        return [_token(row) for row in rows]

    def revoke(self, token_id: str) -> Token:
        """Put a token out of force for good. Revoking twice keeps the first time."""
        self._connection.execute(
            "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", (int(self._clock()), token_id)
        )
        row = self._connection.execute(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", (token_id,)).fetchone()  # noqa: S608 - a constant
        if row is None:
            raise NotFoundError(f"there is no token with the id {token_id!r}; 'token list' shows them")
        return _token(row)

    def check(self, secret: str) -> Token | None:
        """The token of this secret; TokenEndedError if it is not in force. A wrong one takes as long as a right one.

        Why it ended is told to nobody but who has the secret.
        """
        match = _SECRET.fullmatch(secret)
        if match is None:
            return None
        row = self._connection.execute(
            f"SELECT {_COLUMNS}, digest FROM tokens WHERE id = ?",  # noqa: S608 - a constant
            (match[1],),
        ).fetchone()
        known = hmac.compare_digest(_digest(secret), row[-1] if row else _NO_DIGEST)
        if row is None or not known:
            return None
        token = _token(row[:-1])
        ended = token.ended(self._clock())
        if ended:
            raise TokenEndedError(ended)
        return token


_TABLE = """
CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, digest BLOB NOT NULL, scopes TEXT NOT NULL, note TEXT NOT NULL, created INTEGER NOT NULL,
    expires INTEGER, revoked INTEGER
) STRICT
"""
_LATER_COLUMNS = {"issuers": "TEXT", "rate": "INTEGER"}


def _create_schema(connection: sqlite3.Connection) -> None:
    """The table as it is today, also where an older version made it: what came later is added, empty."""
    # In plain SQL, because every worker opens it: to import sqlite-utils is a fifth of the time that it takes to start.
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_TABLE)
        there = {row[1] for row in connection.execute("PRAGMA table_info(tokens)")}
        for name, kind in _LATER_COLUMNS.items():
            if name not in there:
                connection.execute(f"ALTER TABLE tokens ADD COLUMN {name} {kind}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _time(seconds: int) -> str:
    return rfc3339(seconds * 1000) or str(seconds)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _token(row: tuple[str, str, str, int, int | None, int | None, str | None, int | None]) -> Token:
    token_id, scopes, note, created, expires, revoked, issuers, rate = row
    return Token(
        id=token_id,
        scopes=frozenset(Scope(scope) for scope in json.loads(scopes)),
        note=note,
        created=created,
        expires=expires,
        revoked=revoked,
        issuers=tuple(json.loads(issuers)) if issuers else (),
        rate=rate,
    )
