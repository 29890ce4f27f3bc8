"""Which store a data folder has: the SQLite file in it, or the PostgreSQL database that its config.toml names.

Everybody who opens a store comes here. PostgreSQL's driver is imported when it is needed: the extra ``postgres``.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, cast

from transparency.errors import LogUnusableError
from transparency.log import schema
from transparency.log.folder import Config, Folder
from transparency.log.mark import Mark, MarkValue
from transparency.log.mark_named import NamedMark, check_file, check_same, known, remember
from transparency.log.settled import wait_for
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Store, Tip
from transparency.merkle.hashing import EMPTY_ROOT

if TYPE_CHECKING:
    from transparency.log.postgres import PostgresStore

_INSTALL = "PostgreSQL needs its driver: pip install 'agent-transparency[postgres]'"


def open_store(folder: Folder, db: str | None, *, vouched: bool = False) -> Store:
    """The store for who owns the log. *db* is the config's, or the one it is to have.

    A database that failed over since somebody led is refused, unless a mark in another database *vouched* for it.
    """
    if db is None:
        return SqliteStore(folder.database)
    if folder.database.exists():
        raise LogUnusableError(
            f"this log is in {folder.database}; to take it to PostgreSQL: "
            f"transparency log migrate --from {folder.path} --to NEW_FOLDER --db URL"
        )
    store = _postgres()(db)
    try:
        store.check_nobody_leads()
        if not vouched:
            store.check_not_failed_over()
    except BaseException:
        store.close()
        raise
    return store


def open_mark(folder: Folder, config: Config, store: Store, tip: Tip, *, begins: bool) -> Mark | None:
    """The mark in a second database that all nodes of a log share; None where it is a file. It *begins* with a log.

    One that the log's database does not name is refused, and so is a file where it names one (mark_named.py).
    """
    if config.db is None:
        return None
    database = cast("PostgresStore", store)
    named = remember(folder, database.named_mark())
    if config.watermark_db is None:
        check_file(named)
        return None
    from transparency.log.mark_postgres import PostgresMark  # noqa: PLC0415 - an extra

    value = MarkValue(tip.size, tip.root)
    first = value if begins and named is None else None
    mark = PostgresMark.open(config.watermark_db, config.origin, tip.epoch, database.places[1], first, value)
    try:
        check_same(named, [mark.id], mark.name, value)
        database.name_mark(mark.named, tip.epoch)
    except BaseException:
        mark.close()
        raise
    return cast("Mark", mark)


def check_file_vouches(folder: Folder, store: Store) -> None:
    """That a log in PostgreSQL names no mark that its nodes share. For who looks only."""
    check_file(known(folder, cast("PostgresStore", store).named_mark()))


def carry_named_mark(source: Store, target: Store, tip: Tip) -> None:
    """The mark that *source* names vouches for *target*, too, whose tip was taken over. Both are in PostgreSQL."""
    named = cast("PostgresStore", source).named_mark()
    if named is not None:
        cast("PostgresStore", target).name_mark(named, tip.epoch)


def open_to_fill(folder: Folder, db: str | None) -> Store:
    """A new store that is filled from another: no commit waits for the disk. The next that does takes all with it."""
    return SqliteStore(folder.database, synchronous="NORMAL") if db is None else _postgres()(db, synchronous=False)


def open_for_reading(folder: Folder) -> Store:
    """The store for who looks only. It holds what a running log has acknowledged until now."""
    config = Config.read(folder.config) if folder.config.exists() else None
    if config is not None and config.db is not None:
        return _postgres().for_reading(config.db)
    store = SqliteStore.for_reading(folder.database)
    if config is not None:
        wait_for(folder, config, store)
    return store


def create_store(folder: Folder, db: str | None) -> str | None:
    """An empty store for a new log, and where it is: *db*, or None for a file in the folder."""
    if db is None:
        schema.create(folder.database, EMPTY_ROOT)
        return None
    _postgres()
    from transparency.log import postgres_connection, postgres_schema  # noqa: PLC0415 - an extra

    postgres_schema.create(postgres_connection.check_url(db), EMPTY_ROOT)
    return db


def remove_store(db: str | None) -> None:
    """Take an unfinished log's tables away again. A folder is simply not put in its place."""
    if db is not None:
        from transparency.log import postgres_schema  # noqa: PLC0415 - an extra

        with contextlib.suppress(LogUnusableError):  # what kept it from being finished is the error to report
            postgres_schema.drop(db)


def named(db: str | None) -> str | None:
    """*db* as a folder's configuration names it: without a password."""
    if db is None:
        return None
    _postgres()
    from transparency.log import postgres_connection  # noqa: PLC0415 - an extra

    return postgres_connection.without_password(postgres_connection.check_url(db))


def read_mark(config: Config, url: str, wanted: NamedMark | None = None) -> MarkValue:
    """The mark in the database *url*, for who looks only. Another than the one *wanted* is refused."""
    _postgres()
    from transparency.log import mark_postgres  # noqa: PLC0415 - an extra

    return mark_postgres.read_mark(url, config.origin, wanted)


def shared_mark(folder: Folder, config: Config, store: Store) -> NamedMark | None:
    """The mark that all nodes of a log in PostgreSQL share, if they do. For who looks only."""
    return None if config.db is None else known(folder, cast("PostgresStore", store).named_mark())


def keep_password(db: str) -> None:
    """Leave the password in *db* to this process and those it starts, in libpq's way."""
    _postgres()
    from transparency.log import postgres_connection  # noqa: PLC0415 - an extra

    password = postgres_connection.password_of(postgres_connection.check_primary(db))
    if password is not None:
        os.environ["PGPASSWORD"] = password


def _postgres() -> type[PostgresStore]:
    try:
        from transparency.log.postgres import PostgresStore  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LogUnusableError(_INSTALL) from error
    return PostgresStore
