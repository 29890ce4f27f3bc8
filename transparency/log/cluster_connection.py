"""Sessions that a node of a cluster has beside its stores: for the lease, for bells, for the mark.

All give up soon: on a server that does not answer, on a statement that takes long, on a peer that no longer confirms
what it was sent. What they ask for is small; a node that waits for it longer than a lease lasts would wait in vain.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

CONNECT_SECONDS: Final = 2
STATEMENT_MILLISECONDS: Final = 2_000
# A leader that is stopped in the middle of a transaction holds up nobody for longer.
IDLE_IN_TRANSACTION_MILLISECONDS: Final = 2_000
_ALIVE: Final = {
    "connect_timeout": CONNECT_SECONDS,
    "tcp_user_timeout": 2_000,
    "keepalives_idle": 1,
    "keepalives_interval": 1,
    "keepalives_count": 2,
}


def with_settings(url: str, name: str, settings: dict[str, str | int] | None = None) -> str:
    """*url* for a session called *name*, with *settings* of the server for its time. What the URL says itself stays."""
    said = conninfo_to_dict(url)
    options = " ".join(f"-c {key}={value}" for key, value in (settings or {}).items())
    options = f"{said['options']} {options}" if said.get("options") else options
    given = {key: value for key, value in _ALIVE.items() if key not in said}
    return make_conninfo(url, **given, application_name=name, options=options)


def connect(url: str, name: str) -> psycopg.Connection[Any]:
    """A session in autocommit."""
    settings: dict[str, str | int] = {
        "statement_timeout": STATEMENT_MILLISECONDS,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_MILLISECONDS,
    }
    return psycopg.connect(with_settings(url, name, settings), autocommit=True)


def passing(error: BaseException) -> bool:
    """Whether it is a server that cannot be reached, now: that may be mended without anybody doing anything here."""
    return isinstance(error.__cause__, psycopg.OperationalError)
