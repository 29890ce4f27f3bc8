"""A session that grew, in its statements' headers: the entry that one continues (-70101), and its number (-70102).

A continued record is known by its digest: an envelope signed it, or (detached) the trace-metadata states it. Sessions
in JSONL grow by lines, so the earlier record is found again as the beginning of the present one that has this digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.statements.statement import ENTRY_BYTES

FIRST: Final = 1
"""The checkpoint number of a session's first statement, whether or not it says so."""
_MOST: Final = 2**53
_SHA256: Final = re.compile(r"[0-9A-Fa-f]{64}")


def supersedes_of(headers: Mapping[Any, Any]) -> bytes | None:
    """The entry that a statement says it continues, if it says so in the one form that has a meaning."""
    value = headers.get(labels.SUPERSEDES)
    return value if isinstance(value, bytes) and len(value) == ENTRY_BYTES else None


def checkpoint_of(headers: Mapping[Any, Any]) -> int | None:
    value = headers.get(labels.SESSION_CHECKPOINT)
    return value if type(value) is int and FIRST <= value < _MOST else None


def stated_digest(message: Sign1) -> bytes | None:
    """The SHA-256 of the record that a statement signed: an envelope's, or the one in its signed trace-metadata."""
    if labels.PAYLOAD_HASH_ALG in message.headers:
        return message.payload if message.headers[labels.PAYLOAD_HASH_ALG] == labels.HASH_SHA256 else None
    metadata = message.headers.get(labels.TRACE_METADATA_SIGNED)
    stated = metadata.get("content-hash") if isinstance(metadata, Mapping) else None
    return bytes.fromhex(stated) if isinstance(stated, str) and _SHA256.fullmatch(stated) else None


def prefix_length(record: bytes, digest: bytes) -> int | None:
    """How many bytes of *record*, up to or past the end of a line, have this SHA-256; None if no number of them does.

    Each byte is hashed once.
    """
    running, start = hashlib.sha256(), 0
    while start < len(record):
        end = record.find(b"\n", start)
        end = len(record) if end < 0 else end
        running.update(record[start:end])
        if running.digest() == digest:
            return end
        start = end + 1
        if end < len(record):
            running.update(b"\n")
            if running.digest() == digest:
                return start
    return len(record) if running.digest() == digest else None
