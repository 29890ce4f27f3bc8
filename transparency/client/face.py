"""``sign`` and ``submit`` in one call each: what ``from transparency import …`` gives a program."""

from __future__ import annotations

from collections.abc import Sequence

from transparency.client.signing import sign_record
from transparency.cose.keys import PublicKey, Signer
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts


def sign(
    record: bytes,
    key: Signer,
    *,
    iss: str,
    sub: str | None = None,
    content_type: str | None = None,
    detached: bool = False,
    private: bool = False,
    iat: int | None = None,
) -> bytes:
    """A signed statement (COSE_Sign1) by *iss* about *record*; see :func:`transparency.client.sign_record`."""
    return sign_record(
        record, key, iss=iss, sub=sub, content_type=content_type, detached=detached, private=private, iat=iat
    ).statement


def submit(
    statement: bytes,
    log: str,
    *,
    payload: bytes | None = None,
    token: str | None = None,
    log_keys: Sequence[PublicKey] | None = None,
    timeout: float = 30.0,
) -> bytes:
    """Register *statement* and give it back with its receipt (a transparent statement).

    With *log_keys* the receipt is checked before this returns; without them it is the log's word until you verify it.
    A detached statement comes back with its *payload* attached.
    """
    from transparency.client.sync import SyncLogClient  # noqa: PLC0415 - signing needs no aiohttp

    parsed = Statement.from_bytes(statement, payload)
    beside = parsed.payload if parsed.message.payload is None else None
    with SyncLogClient(log, token=token, pinned_keys=log_keys, timeout=timeout) as client:
        submission = client.submit(statement, beside)
    complete = parsed.message.with_payload(parsed.payload).to_bytes()
    return attach_receipts(complete, [submission.receipt or b""])
