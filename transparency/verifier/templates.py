"""Protected headers that differ from one that was read in their subject and time only.

The statements of one issuer mostly do. If the bytes before the subject (claim 2) and those after it are, byte for byte,
those of a header that was decoded and found good, and what stands between is one text in its one form, then the header
is good too and says the same of everything else: nothing before or after can be read differently, since a reader comes
to the subject and leaves it in the same state. The same goes for a time (claim 6) of four bytes right after it.
"""

from __future__ import annotations

import re
from typing import Any, Final, Generic, NamedTuple, TypeVar

from transparency.cose import labels
from transparency.cose.cbor import encode
from transparency.verifier.statement_checks import USUAL_NAME

MAX_TEMPLATES: Final = 8
MAX_BYTES: Final = 1024
# One text of at most 255 bytes, as ``are_usual`` takes it for a subject (statement_checks.py), after its head.
_TEXT: Final = re.compile(rb"(?:[\x60-\x77]|\x78[\x18-\xff])(?:" + USUAL_NAME.pattern.encode() + rb")")
_TIME: Final = b"\x06\x1a"
_TIME_BYTES: Final = 6
_LONG: Final = 0x78

_T = TypeVar("_T")


class _Template(NamedTuple, Generic[_T]):
    before: bytes
    after: bytes
    timed: bool
    means: _T


class Templates(Generic[_T]):
    """What a header means to whoever remembers it, by all of it but its subject and time."""

    def __init__(self) -> None:
        self._known: list[_Template[_T]] = []

    def find(self, protected: bytes) -> _T | None:
        """What the header means; None to have it decoded."""
        for before, after, timed, means in self._known:
            if protected.startswith(before) and protected.endswith(after):
                end = len(protected) - len(after) - (_TIME_BYTES if timed else 0)
                if end <= len(before):
                    continue
                # Below 1 << 16 a number has a shorter form.
                if timed and (protected[end : end + 2] != _TIME or protected[end + 2 : end + 4] == b"\x00\x00"):
                    continue
                subject = protected[len(before) : end]
                if _TEXT.fullmatch(subject) and len(subject) == _whole_length(subject):
                    return means
        return None

    def remember(self, protected: bytes, headers: dict[Any, Any], sub: str, iat: int | None, means: _T) -> None:
        """Keep a header that was decoded and found good; ``iat`` is its claim 6, None where it has none."""
        text = encode(sub)
        # The claim's key and value stand beside each other; where that is found once, it is there.
        at = protected.find(b"\x02" + text)
        if at < 0 or protected.find(b"\x02" + text, at + 1) >= 0 or len(protected) > MAX_BYTES:
            return
        before, after = protected[: at + 1], protected[at + 1 + len(text) :]
        timed = labels.CLAIM_IAT not in headers and iat is not None and after.startswith(_TIME)
        if timed:
            # Key 6 after the subject is the claim's: the headers have none.
            after = after[_TIME_BYTES:]
        template = _Template(before, after, timed, means)
        if template not in self._known:
            self._known = [template, *self._known[: MAX_TEMPLATES - 1]]


def _whole_length(subject: bytes) -> int:
    return 2 + subject[1] if subject[0] == _LONG else 1 + subject[0] - 0x60
