"""Sessions with PostgreSQL: how one is opened, what it is set to, and which servers are refused.

A server that may forget what it acknowledged is no place for a log: every receipt would be a promise that a power cut
breaks. So who writes looks at the settings that decide about it, each time it connects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from transparency.errors import DatabaseRefusedError, DatabaseUnreachableError, LogUnusableError

Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMES: Final = ("postgresql", "postgres")
OLDEST: Final = 14
NAME: Final = "transparency"
# Whether what is written lasts: asked beside something else, for check_lasts.
LASTS: Final = "current_setting('fsync'), current_setting('full_page_writes')"
_SECRETS: Final = ("password", "sslpassword")
# As the server and libpq say it, in English; in another language it is called unreachable, with their words.
_REFUSED: Final = re.compile(
    r"authentication failed|no password supplied|pg_hba\.conf|does not exist|permission denied|not permitted to log in"
)
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Session:
    """What a session is for decides how long it waits: *seconds* for a peer that vanished (TCP would wait hours)."""

    seconds: int
    settings: Mapping[str, str]

    @property
    def alive(self) -> dict[str, int]:
        return {
            "connect_timeout": self.seconds,
            "tcp_user_timeout": 1_000 * self.seconds,
            "keepalives_idle": max(self.seconds - 3, 1),
            "keepalives_interval": 1,
            "keepalives_count": min(self.seconds, 3),
        }


# One that was stopped inside a transaction holds up others for no longer than this.
WRITER: Final = Session(
    5, {"idle_in_transaction_session_timeout": "5s", "lock_timeout": "10s", "statement_timeout": "30s"}
)
# Every row that is read has an index that leads to it, and no table is small for long: plans are not to depend on what
# the server knew of one when it was new. And only a plain index scan passes over rows that are deleted without looking
# at each of them again: the intake has thousands between two vacuums (docs/cluster.md). A table of one row is scanned
# all the same; until version 18 PostgreSQL takes that for so dear that it compiles the query first: 20 ms each time.
READER: Final = Session(
    5,
    {
        "default_transaction_read_only": "on",
        "statement_timeout": "30s",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "jit": "off",
    },
)
# A page of a scan is read between two steps of whoever wants it.
SCANNER: Final = Session(
    5,
    {
        "default_transaction_read_only": "on",
        "idle_in_transaction_session_timeout": "60s",
        "statement_timeout": "300s",
    },
)
# For the lease, for bells, for the mark: little is asked, and who waited longer than a lease lasts would wait in vain.
BRIEF: Final = Session(2, {"idle_in_transaction_session_timeout": "2s", "statement_timeout": "2s"})


def connect(url: str, name: str, session: Session) -> Connection:
    """In autocommit, called *name* in pg_stat_activity. What the URL says of the connection itself stays."""
    try:
        said = conninfo_to_dict(url)
        # Warnings must arrive: one of them takes a commit back (postgres_transaction.py).
        settings = {**session.settings, "client_min_messages": "warning"}
        options = " ".join(f"-c {key}={value}" for key, value in settings.items())
        given = {key: value for key, value in session.alive.items() if key not in said}
        info = make_conninfo(
            url, **given, application_name=name, options=f"{said.get('options') or ''} {options}".strip()
        )
        return psycopg.connect(info, autocommit=True)
    except psycopg.Error as error:
        raise _cannot_connect(without_password(url), words(error)) from error


def _cannot_connect(url: str, reason: str) -> LogUnusableError:
    if _REFUSED.search(reason):
        return DatabaseRefusedError(f"PostgreSQL at {url} refused the connection: {reason}")
    return DatabaseUnreachableError(f"PostgreSQL cannot be reached at {url}: {reason}")


def passing(error: BaseException) -> bool:
    """Whether it is a server that cannot be reached, now: that may be mended without anybody doing anything here.

    Who reads through a store says what failed in words of its own, so the server's may be several causes below.
    """
    cause = error.__cause__
    while cause is not None and not isinstance(cause, psycopg.OperationalError):
        cause = cause.__cause__
    return cause is not None


def check_server(connection: Connection, *, writes: bool) -> None:
    """Refuse a server that is too old; for who *writes*, also one that could lose what it acknowledged."""
    version = connection.info.server_version // 10_000
    if version < OLDEST:
        raise LogUnusableError(f"this is PostgreSQL {version}; a log needs {OLDEST} or newer")
    if not writes:
        return
    if _ask(connection, "SELECT pg_is_in_recovery()::text") == "true":
        raise LogUnusableError(
            "this PostgreSQL is a standby and can be read only; name the primary, or all of them and "
            "target_session_attrs=primary"
        )
    row = connection.execute(f"SELECT {LASTS}").fetchone()
    if row is not None and (forgets := check_lasts(*row)):
        raise LogUnusableError(forgets)
    commits = _ask(connection, "SELECT current_setting(%s)", "synchronous_commit")
    standbys = _ask(connection, "SELECT current_setting(%s)", "synchronous_standby_names")
    if commits == "off" or (commits == "local" and standbys):
        raise LogUnusableError(
            f"this PostgreSQL has synchronous_commit={commits}: it acknowledges what is not yet kept"
            f"{' by its standby' if commits == 'local' else ''}. Set synchronous_commit=on for this database or user"
        )
    # From here on it is this session's own: no reload of the server's configuration weakens what was found. Where no
    # standby has to confirm, "on" is what "local" is; it stays right when one has to, one day.
    connection.execute("SELECT set_config('synchronous_commit', %s, false)", ("on" if commits == "local" else commits,))


def check_lasts(fsync: str, full_page_writes: str) -> str | None:
    """What is wrong with a server that said ``LASTS``, if anything is. A reload can change both while it runs."""
    for name, value in (("fsync", fsync), ("full_page_writes", full_page_writes)):
        if value != "on":
            return (
                f"this PostgreSQL has {name}=off: what it acknowledged may be gone after a crash. Set {name}=on in "
                "postgresql.conf and reload it"
            )
    return None


def is_url(text: str) -> bool:
    return text.partition("://")[0] in SCHEMES and "://" in text


def check_url(url: str) -> str:
    """*url*, if it is one of PostgreSQL's that libpq can read."""
    if not is_url(url):
        raise LogUnusableError("a database is named by a URL such as postgresql://user@host/name")
    try:
        conninfo_to_dict(url)
    except psycopg.Error as error:
        # libpq's words would repeat the URL, and a password in it.
        raise LogUnusableError("the URL of the database is not of the form postgresql://user@host/name") from error
    return url


def check_primary(url: str) -> str:
    """*url*, if it leads to the primary: of several hosts the first that answers may be a standby."""
    said = conninfo_to_dict(check_url(url))
    if "," in str(said.get("host", "")) and said.get("target_session_attrs") not in ("primary", "read-write"):
        raise LogUnusableError(
            "a URL with several hosts needs target_session_attrs=primary, to find the one to write to"
        )
    return url


def without_password(url: str) -> str:
    """What may be written into a file or a message."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = [(key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if key not in _SECRETS]
    # Not urlunsplit, which leaves away the slashes before a host that is not there.
    said = f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}"
    return f"{said}?{urlencode(query, quote_via=quote)}" if query else said


def password_of(url: str) -> str | None:
    password = conninfo_to_dict(check_url(url)).get("password")
    return None if password is None else str(password)


def words(error: BaseException) -> str:
    """What is wrong, in one line, without parameters or values: a password or a payload could be among them."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    if isinstance(error, psycopg.OperationalError):
        # The last words of the first line are libpq's or the server's own, and of no URL.
        line = str(error).partition("\n")[0].rpartition("failed: ")[2]
        for beginning in ("connection is bad:", "FATAL:", "fe_sendauth:"):
            line = line.removeprefix(beginning).strip()
        if "resolve host" in line:  # a password that holds an @ ends in what is taken for the host
            return "its host is not known"
        return line[:_LONGEST] if line and line.isprintable() else "no connection"
    return type(error).__name__


def _ask(connection: Connection, query: LiteralString, *values: str) -> str:
    row = connection.execute(query, values).fetchone()
    return str(row[0]) if row else ""
