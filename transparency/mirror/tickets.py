"""Tickets: how a client hands a pending checkpoint back to the mirror that gave it out, when that has others by now.

A ticket is the checkpoint under a code that only this process can write. It is forgotten with the process, on purpose:
within one process pending checkpoints only ever extend each other, so whatever it has once given out is still of the
one tree. Of that, a ticket of another process could not be sure: its folder may be a copy that was put back.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.upload import MAX_TICKET
from transparency.witness.record import Record

_CODE_BYTES: Final = 32


class Tickets:
    def __init__(self) -> None:
        self._key = secrets.token_bytes(_CODE_BYTES)

    def write(self, origin: str, pending: Record) -> bytes:
        """Empty where the checkpoint does not fit in: the client then does without."""
        ticket = self._code(origin, pending.signed) + pending.signed
        return ticket if len(ticket) <= MAX_TICKET else b""

    def read(self, origin: str, ticket: bytes) -> Record | None:
        """The pending checkpoint that was put into it; None for what was not written here, for this log."""
        code, signed = ticket[:_CODE_BYTES], ticket[_CODE_BYTES:]
        if not hmac.compare_digest(code, self._code(origin, signed)):
            return None
        checkpoint = SignedCheckpoint.from_bytes(signed).checkpoint
        return Record(checkpoint.size, checkpoint.root, 0, signed, b"")

    def _code(self, origin: str, signed: bytes) -> bytes:
        return hmac.digest(self._key, hashlib.sha256(origin.encode()).digest() + signed, "sha256")
