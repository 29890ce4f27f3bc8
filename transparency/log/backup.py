"""Backups and their restoration. A copy is taken from a running log; it goes back only at or past the mark.

An old copy that is allowed to continue forks the log: it would sign other entries at sizes it signed before. So
``restore`` runs every check of a start against the mark, and otherwise offers a *new* log, under a new origin and new
keys, that accepts the same issuers. Receipts of the old one stay valid under its old keys.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from transparency.errors import LogUnusableError, StoreError
from transparency.log import create
from transparency.log.access_log import copy_access_log
from transparency.log.appender import Clock
from transparency.log.artifacts import ArtifactStore
from transparency.log.carrying_out import carry_out
from transparency.log.copies import DAY, KEEP_DAYS, Copy, add_copy, place, read_copies, write_copies
from transparency.log.documents import load_in_force
from transparency.log.durable import DurableFile, create_durably, create_private, sync_folder
from transparency.log.folder import Config, Folder, Passphrase, make_folder, publish_folder
from transparency.log.log import system_clock
from transparency.log.mark import Mark, MarkValue, check_outside
from transparency.log.opening import check_tip, open_log
from transparency.log.settled import UnsettledError, read_settled
from transparency.log.sqlite import SqliteStore, connect_for_reading
from transparency.log.store import Store
from transparency.log.stores import open_for_reading


def backup(
    data: Path, out: Path, *, with_keys: bool = False, clock: Clock = system_clock, keep_days: int = KEEP_DAYS
) -> int:
    """Copy the log in *data* to the new folder *out*, also while a server runs. Returns the size of the copy.

    The copy is noted in the register of copies, with the time at which it will be gone: where that cannot be written
    (a folder of another user), in its own register only.
    """
    source = Folder(data.absolute())
    if not source.exists():
        raise LogUnusableError(f"there is no log in {data}")
    _refuse_postgres(source)
    out = out.absolute()
    if out.exists():
        raise FileExistsError(17, "exists already", str(out))
    if out.parent.resolve().is_relative_to(source.path.resolve()):
        raise LogUnusableError(f"{out} lies in the folder that it would be a copy of; name another place")
    target = make_folder(out.with_name(f".{out.name}.{secrets.token_hex(4)}.new"))
    try:
        if source.database.exists():
            _wait_for_store(source)
            _copy_database(source.database, target.database)
        create_durably(target.config, source.config.read_bytes(), mode=0o644)
        copy_beside(source, target, with_keys=with_keys)
        store = SqliteStore(target.database)
        try:
            size = check_tip(store, store.tip()).size
            now = clock()
            copy = Copy(place(out), now, now + keep_days * DAY, size, store.erased_upto())
        finally:
            store.close()
        write_copies(target.copies, [*read_copies(source.copies), copy], now)
        publish_folder(target, out)
    finally:
        shutil.rmtree(target.path, ignore_errors=True)
    with _unless_read_only():
        add_copy(source.copies, copy, now)
    return size


def restore(
    source: Path,
    data: Path,
    *,
    clock: Clock,
    watermark: Path | None = None,
    accept_missing_mark: bool = False,
    passphrase: Passphrase | None = None,
) -> int:
    """Put the copy in *source* to *data* and check it as a start would, the mark included. Returns its size.

    Whatever the log says was erased is erased again: the copy, or its artifacts, may be from before. The mark stays as
    it is: what its journal keeps may be nowhere else until the copy is in its place, and its first start moves it on.
    """
    copy = Folder(source.absolute())
    if not copy.exists():
        raise LogUnusableError(f"there is no backup in {source}")
    data = data.absolute()
    if data.exists() and any(data.iterdir()):
        raise FileExistsError(17, "is not empty", str(data))
    _refuse_postgres(copy)
    config = Config.read(copy.config)
    mark_path = (watermark or config.watermark).absolute()
    check_outside(mark_path, data)
    new_mark = accept_missing_mark and not mark_path.exists()
    making = make_folder(data.with_name(f".{data.name}.{secrets.token_hex(4)}.new"))
    try:
        if copy.database.exists():
            _copy_database(copy.database, making.database)
        copy_beside(copy, making, with_keys=True)
        if copy.copies.exists():
            create_durably(making.copies, copy.copies.read_bytes())
        Config(config.origin, config.iss, mark_path, config.policy_key).write(making.config)
        if new_mark:
            _new_mark(making, config.origin, mark_path)
        opened = open_log(
            making.path, clock=clock, watermark=mark_path, passphrase=passphrase, open_mark_file=_Untouched
        )
        size = opened.appender.tip.size
        try:
            _erase_again(opened.store, making, config.origin)
        finally:
            opened.close()
        publish_folder(making, data)
    except BaseException:
        if new_mark:
            mark_path.unlink(missing_ok=True)  # it would stand for a log that was refused
        raise
    finally:
        shutil.rmtree(making.path, ignore_errors=True)
    return size


def restore_as_new(
    source: Path, data: Path, *, clock: Clock, origin: str | None = None, passphrase: bytes | None = None
) -> create.Created:
    """A new log with the issuers of the copy in *source*: new origin, new keys, nothing of the old tree."""
    copy = Folder(source.absolute())
    config = Config.read(copy.config)
    store = open_for_reading(copy)
    try:
        policy = load_in_force(store, config.origin, config.policy_key).policy.policy
    finally:
        store.close()
    if origin == config.origin:
        raise LogUnusableError("a new log needs another origin than the old one had")
    return create.create_log(data, clock=clock, origin=origin, issuers=policy.issuers, passphrase=passphrase)


def _wait_for_store(source: Folder) -> None:
    """A copy without what the journal alone keeps would lack entries that were acknowledged: it is not made.

    Whatever else is wrong, with the mark or the database, is no reason against a copy: that may be why one is made.
    """
    config = Config.read(source.config)
    try:
        with contextlib.closing(SqliteStore.for_reading(source.database)) as store:
            read_settled(source, config.watermark, config.origin, store)
    except UnsettledError:
        raise
    except (LogUnusableError, StoreError, OSError):
        return


def _refuse_postgres(folder: Folder) -> None:
    if folder.config.exists() and Config.read(folder.config).db is not None:
        raise LogUnusableError(
            f"the log of {folder.path} is in PostgreSQL, whose own tools copy it and put it back; use pg_basebackup, "
            "or pg_dump and pg_restore. Copy config.toml, shared-mark, keys/, access.sqlite and artifacts/ of the "
            "folder beside it"
        )


@contextlib.contextmanager
def _unless_read_only() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise


def _erase_again(store: Store, folder: Folder, origin: str) -> None:
    store.note_erased(0)
    statements_went = threading.Event()
    unfinished = carry_out(store, folder, origin, lambda job: job(), statements_went.set)
    if unfinished:
        raise LogUnusableError(f"what was erased could not be erased again from the copy: {unfinished}; try once more")
    if statements_went.is_set():
        store.note_erased(0)  # the journal may hold them, too: the first start carries it out once more, and forgets


class _Untouched(DurableFile):
    """The mark that a copy is compared with. Held, so that no log runs with it meanwhile, and not written."""

    def write_at(self, offset: int, data: bytes) -> None: ...
    def sync(self) -> None: ...


def _new_mark(folder: Folder, origin: str, path: Path) -> None:
    store = SqliteStore(folder.database)
    try:
        tip = store.tip()
        path.parent.mkdir(parents=True, exist_ok=True)
        Mark.create(path, origin, MarkValue(tip.size, tip.root)).close()
    finally:
        store.close()


def copy_beside(source: Folder, target: Folder, *, with_keys: bool) -> None:
    """What lies beside the tree in a folder: tokens, records, the log of accesses and, where told, private keys."""
    if source.access.exists():
        _copy_database(source.access, target.access)
    if with_keys:
        for key in source.key_files():
            create_durably(target.keys / key.name, key.read_bytes())
    # No reserve: the copy goes where the operator said, and fails there if it does not fit.
    ArtifactStore(source.artifacts).copy_to(ArtifactStore(target.artifacts, reserve=0))
    copy_access_log(source.access_log, target.access_log)


def _copy_database(source: Path, target: Path) -> None:
    """SQLite's online backup: a consistent copy, also while somebody writes."""
    reading = connect_for_reading(source)
    try:
        create_private(target)
        writing = sqlite3.connect(target)
        try:
            reading.backup(writing, pages=4096)
            writing.execute("PRAGMA journal_mode = WAL")
        finally:
            writing.close()
    finally:
        reading.close()
    sync_folder(target.parent)
