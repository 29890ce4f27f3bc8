"""Text that strangers wrote, made safe to show on a terminal.

An issuer, subject or session id comes out of bytes that anyone may have made. Shown as it is, it could clear the
screen, write "verified" in green, or turn the reading direction; so every character that is not plainly visible
is written as an escape, and so is the backslash, which keeps the result unambiguous.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Final

LONGEST: Final = 200
# Letters, marks on letters, numbers, punctuation, symbols; of the separators only the plain space.
_VISIBLE: Final = frozenset("LMNPS")


def safe_text(text: str, longest: int = LONGEST) -> str:
    """``text`` with everything invisible, directional or controlling escaped, cut to ``longest`` characters."""
    cut = text[: longest + 1]
    if len(cut) > longest:
        return "".join(map(_safe, cut[:longest])) + "…"
    if cut.isascii() and cut.isprintable() and "\\" not in cut:
        return cut
    return "".join(map(_safe, cut))


def _safe(character: str) -> str:
    if character == " " or ("!" <= character <= "~" and character != "\\"):
        return character
    if character == "\\":
        return "\\\\"
    if character >= "\x80" and unicodedata.category(character)[0] in _VISIBLE:
        return character
    return f"\\u{{{ord(character):04x}}}"


def iso_utc(seconds: int) -> str:
    """A time as people and programs read it; a number that is no calendar time stays a number."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{seconds} seconds after 1970"
