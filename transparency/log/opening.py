"""Opening a log: everything that must be true before it takes a statement. What is behind or different is refused.

A log that starts from an older or other state than it once showed would sign a second history. So start-up recomputes
the root at the tip and at the mark, checks the newest head's signature and the chain of the log's own documents, and
says what to do when something does not fit. Nothing is repaired silently.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from transparency.cose.keys import PublicKey, Signer
from transparency.errors import LogUnusableError, MalformedError, StoreError, TransparencyError
from transparency.log import redo, stores
from transparency.log.appender import Appender, Clock, Identity
from transparency.log.documents import InForce, load_in_force
from transparency.log.durable import DurableFile
from transparency.log.folder import Config, Folder, Ownership, Passphrase
from transparency.log.mark import Mark, MarkValue, check_outside, is_left, named, retire
from transparency.log.signers import LoadKey, ReceiptSigners
from transparency.log.store import NewEntry, Store, Tip
from transparency.merkle.proofs import root_at
from transparency.merkle.tiles import RightEdge, TileHashes
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.policy import keyset
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Statement

INIT_SIZE = 2
_INIT_EPOCH = 1
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# All that SQLite says if there is no space for the file beside the database that it opens with; or so much is left.
_NO_SHM = "SQLITE_IOERR_SHMSIZE"
_SHM_BYTES = 64 * 1024
OLD_COPY = (
    "Put the newest copy back, or start a new log with `transparency log restore --new-origin`. "
    "Continuing from here would give two histories under one name"
)


@dataclass(frozen=True, slots=True)
class Opened:
    """The parts of an open log. Closed in the reverse order."""

    folder: Folder
    config: Config
    ownership: Ownership
    store: Store
    mark: Mark
    in_force: InForce
    appender: Appender

    def close(self) -> None:
        self.mark.close()
        self.store.close()
        self.ownership.release()


def open_log(
    data: Path,
    *,
    clock: Clock,
    watermark: Path | None = None,
    db: str | None = None,
    allow_lost_key: bool = False,
    passphrase: Passphrase | None = None,
    wrap_store: Callable[[Store], Store] | None = None,
    open_mark_file: Callable[[Path], DurableFile] = DurableFile,
) -> Opened:
    """Open the log in *data* as its owner. *wrap_store* and *open_mark_file* are where tests put faults.

    A *watermark* or *db* that opens takes the place of the one in config.toml: whoever moved it says so once. With
    *allow_lost_key* the log opens although its receipts key is gone, to do the one thing that helps: rotate it.
    *passphrase* is asked if the folder's keys are encrypted.
    """
    folder = Folder(data.absolute(), passphrase)
    if not folder.exists():
        raise LogUnusableError(f"there is no log in {data}; make one with `transparency init --data {data}`")
    ownership = Ownership(folder.lock)
    try:
        said = Config.read(folder.config)
        if watermark is not None and watermark.absolute() != said.watermark:
            refuse_file(said)
        store = opened = stores.open_store(folder, db or said.db, vouched=said.watermark_db is not None)
        config = replace(said, db=stores.named(db) or said.db, watermark=(watermark or said.watermark).absolute())

        def open_mark(tip: Tip) -> Mark:
            check_outside(config.watermark, folder.path)
            shared = stores.open_mark(folder, config, opened, tip, begins=tip.size == INIT_SIZE)
            return shared or open_file_mark(config, tip, open_mark_file)

        def check_value(value: MarkValue) -> None:
            check_mark(store, store.tip(), value, config.origin)

        if wrap_store is not None:
            store = wrap_store(store)
        try:
            if config.db is None:
                check_outside(config.watermark, folder.path)
                begin_file_mark(config, store.tip())
                admit = admit_kept(store, config)
                if is_left(said.watermark, config.origin, config.watermark):
                    bound_for = named(str(config.watermark))
                    redo.recover(store, said.watermark, config.origin, check_value, admit, bound_for=bound_for)
                redo.recover(store, config.watermark, config.origin, check_value, admit, open_mark_file)
            load_key = _perhaps_lost(folder) if allow_lost_key else wanted_key(folder)
            return _check(folder, config, ownership, store, open_mark, clock, load_key, said)
        except StoreError as error:
            store.close()
            raise LogUnusableError(
                f"{folder.path} cannot be opened: {error}; check its disk, then start again"
            ) from error
        except BaseException:
            store.close()
            raise
    except BaseException as error:
        ownership.release()
        if isinstance(error, TransparencyError) and (full := _full_file(error, folder)) is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), full) from error
        raise


def _full_file(error: BaseException | None, folder: Folder) -> str | None:
    """The file for which there was no space, if that is what it comes from: not the log's state is wrong then."""
    while error is not None:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_FULL" or (name == _NO_SHM and shutil.disk_usage(folder.path).free < _SHM_BYTES):
            return str(folder.database)
        if isinstance(error, OSError) and error.errno in _FULL:
            return str(error.filename or folder.path)
        error = error.__cause__
    return None


def _check(
    folder: Folder,
    config: Config,
    ownership: Ownership,
    store: Store,
    open_mark: Callable[[Tip], Mark],
    clock: Clock,
    load_key: LoadKey,
    said: Config,
) -> Opened:
    tip = store.take_over()
    in_force, mark, appender = make_ready(config, store, tip, lambda: open_mark(tip), clock, load_key)
    if config != said:
        try:
            if config.watermark != said.watermark:
                retire(said.watermark, config.origin, config.watermark,
                       lambda value: check_mark(store, tip, value, config.origin))  # fmt: skip
            config.write(folder.config)
        except BaseException:
            mark.close()
            raise
    return Opened(folder, config, ownership, store, mark, in_force, appender)


def make_ready(
    config: Config, store: Store, tip: Tip, open_mark: Callable[[], Mark], clock: Clock, load_key: LoadKey
) -> tuple[InForce, Mark, Appender]:
    """What it takes to append to *tip*, which was taken over: all is checked, the mark is owned and not behind."""
    head = check_tip(store, tip)
    check_published(store, tip)
    in_force = load_in_force(store, config.origin, config.policy_key)
    if in_force.keys.keys.iss != config.iss:
        raise LogUnusableError(
            f"config.toml says iss {config.iss!r}, the log's registered key set {in_force.keys.keys.iss!r}; "
            "put config.toml right"
        )
    check_head_signature(head, in_force)
    signers = ReceiptSigners.open(in_force.keys.keys, load_key, head.time)
    mark = open_mark()
    try:
        mark.own()
        check_mark(store, tip, mark.value, config.origin)
        if mark.value.size < tip.size or mark.kept:
            # A crash between commit and mark: the head may or may not have been seen; the tree says it is ours. And
            # with the takeover all that stands in the journal has come to the disk.
            mark.write(MarkValue(tip.size, tip.root))
        if config.db is None:  # what PostgreSQL has committed it does not lose
            mark.make_journal()
        store.extend_index(tip.size)
        identity = Identity(in_force.keys.keys.iss, config.origin)
        return in_force, mark, Appender(store, mark, identity, signers.at, clock, tip, head.time)
    except BaseException:
        mark.close()
        raise


def check_tip(store: Store, tip: Tip) -> SignedHead:
    """The stored tree gives the stored root, and the newest head is about it."""
    head = store.newest_head()
    if tip.size < INIT_SIZE or head is None:
        raise LogUnusableError("the log holds no signed head; it was not made by `transparency init`")
    if (head.size, head.root) != (tip.size, tip.root):
        raise LogUnusableError(f"the newest head (size {head.size}) and the tip (size {tip.size}) disagree. {OLD_COPY}")
    try:
        root = RightEdge.load(tip.size, store.tile).root()
    except StoreError as error:
        raise LogUnusableError(f"the tree's right edge cannot be read: {error}. {OLD_COPY}") from error
    if root != tip.root:
        raise LogUnusableError(
            f"the stored tiles do not give the root of the newest head (size {tip.size}). {OLD_COPY}"
        )
    return head


def check_published(store: Store, tip: Tip) -> None:
    """What was published last is of this tree."""
    note = store.newest_checkpoint()
    if note is None:
        return
    try:
        last = SignedCheckpoint.from_bytes(note).checkpoint
    except MalformedError as error:
        raise LogUnusableError(f"the newest published checkpoint cannot be read: {error}. {OLD_COPY}") from error
    if last.size > tip.size or root_at(last.size, TileHashes(store.tile)) != last.root:
        raise LogUnusableError(f"the tree is not the one that was published at size {last.size}. {OLD_COPY}")


def check_head_signature(head: SignedHead, in_force: InForce) -> None:
    keys = in_force.keys.keys
    key = next((key for key in keys.at(keyset.RECEIPTS, head.time) if key.kid == head.kid), None)
    if key is None:
        raise LogUnusableError("the newest head is signed by a key that is not this log's receipts key in use")
    try:
        head.verify(key, iss=keys.iss, origin=keys.log)
    except TransparencyError as error:
        raise LogUnusableError(f"the newest head's signature does not verify: {error}") from error


def check_mark(store: Store, tip: Tip, mark: MarkValue, origin: str) -> None:
    if mark.size > tip.size:
        raise LogUnusableError(
            f"the log {origin} has {tip.size} entries, but had {mark.size} when it last ran: "
            f"an older copy was put back. {OLD_COPY}"
        )
    if root_at(mark.size, TileHashes(store.tile)) != mark.root:
        raise LogUnusableError(
            f"the log {origin} differs from the one that last ran: at size {mark.size} its root is another. {OLD_COPY}"
        )


def admit_kept(store: Store, config: Config) -> redo.Admit:
    """Refuses what a journal says if this log has not signed it, or would not have stored it so."""

    @cache
    def in_force() -> InForce:
        return load_in_force(store, config.origin, config.policy_key)

    def admit(entries: Sequence[NewEntry], head: SignedHead) -> None:
        try:
            check_head_signature(head, in_force())
            generation = in_force().policy.policy.generation
            for new in entries:
                statement = Statement.from_bytes(new.statement)
                said = (statement.entry, generation, statement.tbs_digest, statement.normalised)
                if said != (new.entry, new.generation, new.tbs_digest, new.statement):
                    raise MalformedError("a statement in it is not as this log stores it")
        except TransparencyError as error:
            raise LogUnusableError(f"the journal's batch up to size {head.size} is not this log's: {error}") from error

    return admit


def open_file_mark(config: Config, tip: Tip, open_file: Callable[[Path], DurableFile]) -> Mark:
    begin_file_mark(config, tip)
    return Mark.open(config.watermark, config.origin, open_file)


def begin_file_mark(config: Config, tip: Tip) -> None:
    """The mark of a log that was just made, if it is not there; that of any other is missing.

    A file that was ever opened may be back at its first size by a power cut, and the mark knows of what it lost.
    """
    path = config.watermark
    if path.exists():
        return
    if tip.size != INIT_SIZE or (config.db is None and tip.epoch > _INIT_EPOCH):
        raise missing_mark(path, None if config.db is None else MarkValue(tip.size, tip.root))
    path.parent.mkdir(parents=True, exist_ok=True)
    Mark.create(path, config.origin, MarkValue(tip.size, tip.root)).close()


def refuse_file(config: Config) -> None:
    """A mark that nodes share is not exchanged for one that they do not."""
    if config.watermark_db is not None:
        raise LogUnusableError(
            f"the high-water mark of this log is in {config.watermark_db}, for all its nodes: a file does not take its "
            "place. Leave --watermark away, or name another database"
        )


def missing_mark(path: Path, in_database: MarkValue | None) -> LogUnusableError:
    """The way out depends on where the tree is: in a file, or *in a database*, and with which tip."""
    if in_database is None:
        way = (
            "If you moved it, name it with --watermark; if it is lost and you know this copy is the newest, "
            "which after a kill or a power cut nobody does, "
            "`transparency log restore --from THIS_FOLDER --data NEW_FOLDER --accept-missing-mark` makes one"
        )
    else:
        way = (
            "Put it there (to a further machine it is copied with the folder), or name it with --watermark; if it is "
            "lost and you know that this database is the newest, say so once: `transparency serve … --accept-failover "
            f"{in_database.size}:{in_database.root.hex()}`"
        )
    return LogUnusableError(
        f"the high-water mark {path} is missing. It tells an old copy of this log from the newest. {way}"
    )


def _perhaps_lost(folder: Folder) -> LoadKey:
    def load(role: str, public: PublicKey) -> Signer:
        try:
            return folder.load_key(role, public)
        except LogUnusableError as error:
            return _LostKey(public, public.default_alg, error)

    return load


def wanted_key(folder: Folder) -> LoadKey:
    def load(role: str, public: PublicKey) -> Signer:
        try:
            return folder.load_key(role, public)
        except LogUnusableError as error:
            way_out = f"`transparency log rotate-key --data {folder.path}` makes a new one"
            raise LogUnusableError(f"{error}. Put it back; if it is lost, {way_out}") from error

    return load


@dataclass(frozen=True, slots=True)
class _LostKey:
    """Stands where a signer is wanted and never signs. A rotation brings its own."""

    public: PublicKey
    alg: int
    error: LogUnusableError

    def sign(self, data: bytes) -> bytes:  # noqa: ARG002 - a Signer's signature
        raise self.error
