"""A session under another name: its id replaced, everywhere in the record, by a keyed pseudonym.

HMAC-SHA256 of the id under the owner's key: the same session has the same pseudonym each time, so checkpoints of one
session still belong together, and nobody without the key can find the id by trying, or tell whose it was.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from transparency.errors import MalformedError
from transparency.records import convert
from transparency.records.detect import Detected

MIN_KEY_BYTES: Final = 16
# A shorter id could be a part of some other word: it is replaced only where it is the whole string.
_TELLING: Final = 12
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PREFIX: Final = re.compile(r"[a-z]{2,12}_")


def pseudonym(identity: str, key: bytes) -> str:
    """The pseudonym of a session id; it looks as the id does (a UUID, a prefix), so that tools take it."""
    if len(key) < MIN_KEY_BYTES:
        raise MalformedError(f"the key for pseudonyms has fewer than {MIN_KEY_BYTES} bytes")
    digest = hmac.new(key, b"transparency session pseudonym\x00" + identity.encode(), hashlib.sha256).digest()
    if _UUID.fullmatch(identity):
        # RFC 9562 §5.8: version 8 is for whatever an application makes.
        octets = bytearray(digest[:16])
        octets[6] = octets[6] & 0x0F | 0x80
        octets[8] = octets[8] & 0x3F | 0x80
        text = octets.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    prefix = _PREFIX.match(identity)
    return (prefix.group() if prefix else "") + digest[:16].hex()


@dataclass(frozen=True, slots=True)
class Renaming:
    """The ids of one record and their pseudonyms; none where nobody asked for it."""

    names: Mapping[str, str] = field(default_factory=dict)
    _spellings: Mapping[str, str] = field(default_factory=dict)
    """The ids, and a UUID's other spellings: without hyphens, in upper case."""
    _pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, data: bytes, detected: Detected, key: bytes | None) -> Renaming:
        """For the sessions that *data* names; one whose id was derived from the bytes has nothing to be replaced."""
        if key is None:
            return cls()
        ids = (identity for identity in convert.outline(data, detected).session_ids if isinstance(identity, str))
        names = {identity: pseudonym(identity, key) for identity in ids if identity and identity.encode() in data}
        spellings = {written: name for pair in names.items() for written, name in _spellings(*pair)} | names
        telling = sorted((re.escape(written) for written in spellings if len(written) >= _TELLING), key=len)
        return cls(names, spellings, re.compile("|".join(reversed(telling))) if telling else None)

    def may_be_in(self, text: str) -> bool:
        return any(written in text for written in self._spellings)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the ids stand in a string."""
        if text in self._spellings:
            yield 0, len(text)
        elif self._pattern is not None:
            yield from (match.span() for match in self._pattern.finditer(text))

    def text(self, text: str) -> str:
        """A string with the ids in it replaced."""
        if text in self._spellings:
            return self._spellings[text]
        return text if self._pattern is None else self._pattern.sub(lambda match: self._spellings[match.group()], text)


def _spellings(identity: str, name: str) -> Iterator[tuple[str, str]]:
    """The ways in which a UUID is written, each with its pseudonym written alike."""
    if _UUID.fullmatch(identity):
        for old, new in ((identity, name), (identity.replace("-", ""), name.replace("-", ""))):
            yield from ((old.upper(), new.upper()), (old.lower(), new))
