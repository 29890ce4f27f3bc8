"""Key material and tokens that end up where a name was wanted: they are refused, and never repeated in a message.

``--key "$(cat issuer.pem)"`` is an easy slip, and what is printed ends in terminals, CI logs and bug reports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

ARMOUR = "-----BEGIN"
_PREFIX = "TRANSPARENCY_"
# Also as it looks inside Python's repr, and cut short: then to the end of the text.
_KEY = re.compile(rf"{ARMOUR}.*?(?:-----END[^-]*-----|\Z)", re.DOTALL)
_TOKEN = re.compile(r"(?<![A-Za-z0-9])tl_[A-Za-z0-9_-]{8,}")
_SECRET = re.compile(r"tl_[0-9a-f]{12}_[A-Za-z0-9_-]{20,}")
_TOKEN_FLAG = "--token"  # noqa: S105 - the name of a flag


def redacted(text: str) -> str:
    """*text* without what could be a private key or the secret of a token."""
    if ARMOUR in text:
        text = _KEY.sub("(key material, not shown)", text)
    return _TOKEN.sub("(a token, not shown)", text) if "tl_" in text else text


def misplaced(words: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """What is wrong if a command line, or a setting in the environment, holds a key or token in place of a name."""
    previous = ""
    for word in words:
        where = previous if previous.startswith("-") else word.partition("=")[0] if word.startswith("--") else ""
        where = f"the value of {redacted(where)}" if where else "an argument"
        if ARMOUR in word:
            return f"{where} is key material; give the name of the file that holds it"
        if _SECRET.search(word) and previous != _TOKEN_FLAG and not word.startswith(f"{_TOKEN_FLAG}="):
            return (
                f"{where} is the secret of a token; only --token takes it, and a token's id is the 12 digits after tl_"
            )
        previous = word
    for name, value in environment.items():
        if name.startswith(_PREFIX) and ARMOUR in value:
            return f"{name} is key material; give the name of the file that holds it"
    return None
