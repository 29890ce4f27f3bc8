"""A canonical record as bytes: compact UTF-8 JSON, its members in the order they were built.

There is no sorting and no number rewriting: the bytes are signed as they are, and never made a second time from a
parsed record (formats.md 3.2 rows 2-4). The same record always gives the same bytes.
"""

from __future__ import annotations

import json
from typing import Final

from transparency.errors import MalformedError

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def dumps(record: object) -> bytes:
    """The bytes; MalformedError for what JSON cannot hold (NaN, byte strings, lone surrogates, cycles)."""
    try:
        return _ENCODER.encode(record).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedError(f"the record cannot be written as JSON: {error}") from None
