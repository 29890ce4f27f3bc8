"""A database that goes away and comes back, while its server and all others on it stay."""

from __future__ import annotations

from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from transparency.testing.postgres import shared_server


def set_reachable(url: str, *, reachable: bool) -> None:
    """Let nobody connect to the database at *url* any more, and end whoever has; or let them again."""
    name = str(conninfo_to_dict(url)["dbname"])
    with shared_server().connect() as session:
        session.execute(
            sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(sql.Identifier(name), sql.Literal(reachable))
        )
        if not reachable:
            session.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
