"""Transparent statements read fast where they have the shape a log gives them: one receipt and nothing else unsigned.

The unprotected header ``{394: [receipt]}`` is a few bytes before a byte string, so it need not be walked and built as
any CBOR would be. Whatever is not exactly of that shape goes to ``Sign1.from_bytes``, which decides; so the two can
only ever agree, in what they read and in what they refuse (and a property test holds them to it).
"""

from __future__ import annotations

from typing import Final

from transparency.cose import cbor, labels
from transparency.cose.sign1 import MAX_PROTECTED, Sign1
from transparency.errors import MalformedError

PREFIX: Final = b"\xd2\x84"  # tag 18, array of 4
ONE_RECEIPT: Final = b"\xa1\x19\x01\x8a\x81"  # {394: [ … ]}
_NIL: Final = 0xF6
LABEL_TYPES: Final = frozenset({int, str})


def read_message(data: bytes) -> Sign1:
    """``Sign1.from_bytes``: the same message, or the same error."""
    return _read_plain(data) or Sign1.from_bytes(data)


def _read_plain(data: bytes) -> Sign1 | None:
    """The message; None for any other shape, and for whatever is wrong with it."""
    try:
        protected, pos = cbor.read_bstr(data, 2)
        if data[:2] != PREFIX or data[pos : pos + 5] != ONE_RECEIPT or not 0 < len(protected) <= MAX_PROTECTED:
            return None
        receipt, pos = cbor.read_bstr(data, pos + 5)
        payload: bytes | None = None
        if pos < len(data) and data[pos] == _NIL:
            pos += 1
        else:
            payload, pos = cbor.read_bstr(data, pos)
        signature, pos = cbor.read_bstr(data, pos)
        headers = cbor.decode(protected) if pos == len(data) else None
    except MalformedError:
        return None
    # crit is judged elsewhere; a label must not stand in both headers (SS-9); labels are numbers or text.
    if not isinstance(headers, dict) or not headers or labels.CRIT in headers or labels.RECEIPTS in headers:
        return None
    if not LABEL_TYPES.issuperset(map(type, headers)):
        return None
    return Sign1(protected, headers, {labels.RECEIPTS: [receipt]}, payload, signature)
