"""The statement kept beside a session: whether it is about these bytes still, and what continues it. Pure.

The same session submitted again is the same statement; a session that has grown is a new one that names the earlier
(design section 6). So what was signed before is read back, and held to the issuer's own key: a statement that somebody
else put there is neither reused nor continued.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from transparency.cose import labels
from transparency.cose.keys import PublicKey
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError, PayloadMissingError, SignatureInvalidError, UnsupportedAlgorithmError
from transparency.statements.chain import FIRST, checkpoint_of, prefix_length, stated_digest
from transparency.statements.statement import Statement
from transparency.statements.transparent import receipts_of

_LINKS = (labels.SUPERSEDES, labels.SESSION_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class Kept:
    """A statement by our key, and what it has to do with the record as it is now."""

    data: bytes
    statement: Statement
    covers: bool
    """The record is the one that was signed, to the byte."""
    is_prefix: bool | None
    """Whether the record that was signed is how this one begins; None where that cannot be told."""
    is_shortened: bool = False
    """The record is how the one that was signed begins."""

    @classmethod
    def read(cls, data: bytes, record: bytes, key: PublicKey) -> Kept | None:
        """None for what is no statement, not by *key*, or detached from a record that is not to be found again."""
        try:
            message = Sign1.from_bytes(data)
            statement, length = _complete(data, message, record, key)
            statement.verify(key)
            receipts_of(message)
        except (MalformedError, UnsupportedAlgorithmError, PayloadMissingError, SignatureInvalidError):
            return None
        shortened = length == -1 and statement.payload.startswith(record)
        return cls(data, statement, length == len(record), None if length is None else length >= 0, shortened)

    @property
    def digest(self) -> bytes | None:
        """The SHA-256 of the record that was signed; None where another hash was."""
        envelope = self.statement.envelope
        if envelope is None:
            return hashlib.sha256(self.statement.payload).digest()
        return self.statement.payload if envelope.hash_alg == labels.HASH_SHA256 else None

    @property
    def receipts(self) -> tuple[bytes, ...]:
        return receipts_of(self.statement.message)

    @property
    def checkpoint(self) -> int:
        return checkpoint_of(self.statement.message.headers) or FIRST

    @property
    def links(self) -> dict[int | str, Any]:
        """The headers that place it in its session's chain."""
        headers = self.statement.message.headers
        return {label: headers[label] for label in _LINKS if label in headers}

    def next_links(self) -> dict[int | str, Any]:
        """The headers of the statement that continues it."""
        return {labels.SUPERSEDES: bytes(self.statement.entry), labels.SESSION_CHECKPOINT: self.checkpoint + 1}


def _complete(data: bytes, message: Sign1, record: bytes, key: PublicKey) -> tuple[Statement, int | None]:
    """The statement with its payload, and the length of its record in *record*: -1 if it is no prefix, None unknown."""
    if message.payload is None:
        return _complete_detached(data, message, record, key)
    statement = Statement.from_bytes(data)
    if statement.envelope is None:
        return statement, len(statement.payload) if record.startswith(statement.payload) else -1
    if statement.envelope.hash_alg != labels.HASH_SHA256:
        return statement, len(record) if statement.envelope.digest(record) == statement.payload else None
    # Only lines are tried: of another kind of record it is not known how it grew.
    return statement, prefix_length(record, statement.payload)


def _complete_detached(data: bytes, message: Sign1, record: bytes, key: PublicKey) -> tuple[Statement, int | None]:
    whole = Statement.from_bytes(data, record)
    try:
        whole.verify(key)
    except SignatureInvalidError:
        stated = stated_digest(message)
        length = None if stated is None else prefix_length(record, stated)
        if length is None:
            raise
        return Statement.from_bytes(data, record[:length]), length
    return whole, len(record)
