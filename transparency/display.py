"""Text that strangers wrote, made safe to show on a terminal.

An issuer, subject or session id comes out of bytes that anyone may have made. Shown as it is, it could clear the
screen, write "verified" in green, turn the reading direction, or hide words from the reader that a program sees; so
every character that is not plainly visible is written as an escape. Every package shows such text this one way.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

LONGEST: Final = 200
# Letters, marks on letters, numbers, punctuation, symbols; of the separators only the plain space.
_VISIBLE: Final = frozenset("LMNPS")
# Of these the ones that nothing is drawn for: fillers, joiners, selectors of variants (Unicode's default-ignorable
# characters, and the empty Braille cell). Text can be hidden in any number of them.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# One selector after a symbol, as phones write it, chooses its coloured form.
_EMOJI: Final = re.compile("(?<=[\u203c-\u3299\U0001f000-\U0001faff])\ufe0f")


def safe_text(text: str, longest: int = LONGEST) -> str:
    """``text`` with everything invisible, directional or controlling escaped, cut to ``longest`` characters.

    The backslash is escaped too, which keeps the result unambiguous.
    """
    shown = escape_hidden(text[:longest].replace("\\", "\\\\"))
    return f"{shown}…" if len(text) > longest else shown


def escape_hidden(text: str) -> str:
    """The same for sentences of ours, whole, with words in them that may have been made safe already."""
    if text.isascii() and text.isprintable():
        return text
    return "\ufe0f".join("".join(map(_escape, part)) for part in _EMOJI.split(text))


def _escape(character: str) -> str:
    if " " <= character <= "~":
        return character
    if unicodedata.category(character)[0] in _VISIBLE and not _UNSEEN.match(character):
        return character
    return f"\\u{{{ord(character):04x}}}"


@lru_cache(maxsize=1_024)
def iso_utc(seconds: int) -> str:
    """A time as people and programs read it; a number that is no calendar time stays a number."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{seconds} seconds after 1970"
