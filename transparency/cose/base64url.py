"""base64url without padding (RFC 4648 §5), one spelling for each byte string. Python's own decoder skips junk."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from transparency.errors import MalformedError

_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*")


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode(text: str) -> bytes:
    """The bytes *text* spells, if it is their only spelling: the spare bits of its last character are zero."""
    if not _ALPHABET.fullmatch(text):
        raise MalformedError("not base64url without padding")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise MalformedError("not base64url without padding") from None
    if encode(data) != text:
        raise MalformedError("not canonical base64url: its spare bits are set")
    return data
