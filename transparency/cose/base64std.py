"""Standard base64 with padding (RFC 4648 §4), one spelling for each byte string. Python's own decoder skips junk."""

from __future__ import annotations

import base64

from transparency.errors import MalformedError


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def decode(text: str) -> bytes:
    """The bytes *text* spells, if it is their only spelling: padded, and the spare bits of the last character zero."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error is one, and so is what is not ASCII
        raise MalformedError("not standard base64 with padding") from None
    # Also catches padding in the middle, and more of it than belongs, which some versions of Python let through.
    if encode(data) != text:
        raise MalformedError("not canonical base64: its spare bits are set, or its padding is wrong")
    return data
