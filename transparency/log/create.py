"""Making a new log: keys, entries 0 and 1 in one batch, the mark. ``init`` and an empty ``serve`` come here.

Everything is made in a folder beside the final one and moved there when it is whole, so that a crash leaves either no
log or a log. The mark is written after the move; a log that has only its own two entries may start without one,
because nothing was ever acknowledged to anybody.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey
from transparency.errors import LogUnusableError, UnsupportedAlgorithmError
from transparency.log import stores
from transparency.log.appender import Appender, Clock, Identity
from transparency.log.documents import sign_document
from transparency.log.folder import Config, Folder, make_folder, publish_folder
from transparency.log.mark import Mark, MarkValue, bearer_of, check_outside, default_path
from transparency.log.store import Kind, NewEntry
from transparency.policy import keyset
from transparency.policy.document import Issuer, Policy
from transparency.policy.keyset import ServiceKey, ServiceKeys
from transparency.statements.statement import Statement


@dataclass(frozen=True, slots=True)
class Created:
    origin: str
    iss: str
    watermark: Path
    policy_thumbprint: bytes


def create_log(
    data: Path,
    *,
    clock: Clock,
    origin: str | None = None,
    iss: str | None = None,
    watermark: Path | None = None,
    issuers: Sequence[Issuer] = (),
    receipt_alg: str = keyset.RECEIPT_ALGORITHMS[0],
    passphrase: bytes | None = None,
    db: str | None = None,
) -> Created:
    """A new log in *data*, which must be absent or empty. With a *passphrase* its private keys are encrypted.

    With *db* its tree is in that PostgreSQL database, which must hold none.
    """
    data = data.absolute()
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise LogUnusableError(f"{data} is not an empty folder; name another, or use the log that is there")
    origin = origin or f"local.log/{secrets.token_hex(4)}"
    iss = iss or f"https://{origin}"
    mark_path = (watermark or default_path(data, origin)).absolute()
    check_outside(mark_path, data)
    if mark_path.exists():
        raise _taken(mark_path, origin)
    keys = _generate(receipt_alg)
    making = data.with_name(f".{data.name}.{secrets.token_hex(4)}.new")
    try:
        folder = make_folder(making)
        for role, key in keys:
            folder.write_key(role, key, passphrase)
        db = stores.create_store(folder, db)
        try:
            created, mark = _fill(folder, db, keys, origin, iss, mark_path, clock(), tuple(issuers))
            publish_folder(Folder(making), data)
        except BaseException:
            stores.remove_store(db)
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    mark_path.parent.mkdir(parents=True, exist_ok=True)
    Mark.create(mark_path, origin, mark).close()
    return created


def _taken(mark: Path, origin: str) -> LogUnusableError:
    """A file where the mark is to be. Whoever made it needs it: it is never replaced."""
    bearer = bearer_of(mark, origin)
    if bearer == "this log":
        return LogUnusableError(
            f"{mark} is the high-water mark of a log with this origin; put that log's folder back, or choose another "
            "--origin for a new one"
        )
    if bearer == "another log":
        return LogUnusableError(
            f"{mark} is the high-water mark of a log with another origin; put that log's folder back, or name another "
            "--watermark for a new one"
        )
    return LogUnusableError(f"{mark} is a file already, and no high-water mark; name a new file with --watermark")


def _generate(receipt_alg: str) -> list[tuple[str, PrivateKey]]:
    """One key a purpose, two for checkpoints."""
    if receipt_alg not in keyset.RECEIPT_ALGORITHMS:
        raise UnsupportedAlgorithmError(f"receipts are signed with {', '.join(keyset.RECEIPT_ALGORITHMS)}")
    names = {**keyset.DEFAULT_ALGORITHMS, keyset.RECEIPTS: (receipt_alg,)}
    return [(role, PrivateKey.generate(algorithm(name).id)) for role in keyset.ROLES for name in names[role]]


def _fill(
    folder: Folder,
    db: str | None,
    private: Sequence[tuple[str, PrivateKey]],
    origin: str,
    iss: str,
    mark_path: Path,
    now: int,
    issuers: tuple[Issuer, ...],
) -> tuple[Created, MarkValue]:
    receipts = next(key for role, key in private if role == keyset.RECEIPTS)
    signer = next(key for role, key in private if role == keyset.POLICY)
    policy = Policy(log=origin, generation=1, previous="", policy_key=signer.public, issuers=issuers)
    keys = ServiceKeys(
        log=origin,
        iss=iss,
        generation=1,
        previous="",
        keys=tuple(ServiceKey(role, key.public, since=now) for role, key in private),
    )
    first = Statement.from_bytes(sign_document(policy, signer, iss))
    second = Statement.from_bytes(sign_document(keys, signer, iss))
    store = stores.open_store(folder, db)
    try:
        appender = Appender(store, None, Identity(iss, origin), lambda _: receipts, lambda: now, store.take_over(), now)
        # Both in one batch: the first head has size 2, so no inclusion path is ever empty (AMB-2).
        head = appender.append(
            [
                NewEntry(first.entry, Kind.POLICY, 0, first.tbs_digest, first.normalised),
                NewEntry(second.entry, Kind.KEYS, 1, second.tbs_digest, second.normalised),
            ],
            now,
        )
    finally:
        store.close()
    Config(origin, iss, mark_path, signer.public.thumbprint, stores.named(db)).write(folder.config)
    return Created(origin, iss, mark_path, signer.public.thumbprint), MarkValue(head.size, head.root)
