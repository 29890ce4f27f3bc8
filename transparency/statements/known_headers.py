"""Known headers: what was read of one protected header is not read again of the next that differs in few places.

An issuer's statements share nearly all of their protected header; what changes is the subject, the time, and what other
labels say. So a header that was read in full leaves its *form*: the bytes that stay, and between them holes for what
may change. A header of that form is compared, and only what stands in the holes is read, as strictly as ever. CBOR
allows that: where a value begins and ends does not depend on the bytes around it.

Nothing is decided here that reading in full would not: what does not fit, for whatever reason, is read in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from transparency.cose import cbor, labels
from transparency.errors import MalformedError

# Of all kinds of headers, whoever sends them: then all is forgotten.
MAX_KNOWN: Final = 1024
# Of headers that begin alike.
MAX_ALIKE: Final = 4
# To learn one takes as long as to read several. Who sends what is never seen again costs us little more for it.
LEARN_EVERY: Final = 8
# So few bytes hold fewer items than a header may, whatever stands in them.
MAX_BYTES: Final = 1024
# A header is looked up by its beginning, the longer one first: nearly always that has the key's id in it.
_BEGINNINGS: Final = (128, 48)
_SUB, _IAT, _VALUE, _END = range(4)
_KINDS: Final = {labels.CLAIM_SUB: _SUB, labels.CLAIM_IAT: _IAT}
# What a statement's form depends on (statements/statement.py, cose/sign1.py) stays; all else may change.
_STAYS: Final = frozenset({
    labels.ALG, labels.CRIT, labels.CONTENT_TYPE, labels.KID, labels.TYP, labels.X5CHAIN, labels.X5T, labels.VDS,
    labels.PAYLOAD_HASH_ALG, labels.PREIMAGE_CONTENT_TYPE, labels.PAYLOAD_LOCATION,
})  # fmt: skip
_SCALARS: Final = (int, str, bytes)
_TEXT: Final = 0x60
_ONE_BYTE_LENGTH: Final = 24
_FOUR_BYTES: Final = 0x1A
_LEAST_OF_FOUR_BYTES: Final = 1 << 16
_SMALL_MAPS: Final = range(0xA1, 0xB8)


class Form(NamedTuple):
    """The bytes that stay, each with what comes behind them; and the header that this was learnt from."""

    parts: tuple[tuple[bytes, int, int | str], ...]
    headers: Mapping[Any, Any]

    @classmethod
    def of(cls, protected: bytes, headers: Mapping[Any, Any]) -> Form | None:
        """The form of a header that was read in full; None where it is none of those that most have."""
        if len(protected) > MAX_BYTES or protected[0] not in _SMALL_MAPS:
            return None
        parts: list[tuple[bytes, int, int | str]] = []
        kept, end = 0, 1
        for label, value in headers.items():
            start = cbor.skip(protected, end)
            end = cbor.skip(protected, start)
            if label == labels.CWT_CLAIMS:
                if protected[start] not in _SMALL_MAPS:
                    return None
                kept = _claims(protected, value, start + 1, kept, parts)
            elif label not in _STAYS:
                parts.append((protected[kept:start], _VALUE, label))
                kept = end
        parts.append((protected[kept:], _END, 0))
        form = cls(tuple(parts), headers)
        shared = [value for label, value in headers.items() if label in _STAYS] + [*headers[labels.CWT_CLAIMS].values()]
        # What stays is shared by all headers of the form, so it must be nothing that anybody could change.
        return form if all(type(value) in _SCALARS for value in shared) and form.read(protected) == headers else None

    def read(self, protected: bytes) -> dict[Any, Any] | None:  # noqa: PLR0911 - for every statement: calls would double its cost
        """The header, if it is of this form."""
        if not protected.startswith(self.parts[0][0]):
            return None
        at = 0
        headers = dict(self.headers)
        claims = headers[labels.CWT_CLAIMS] = dict(headers[labels.CWT_CLAIMS])
        try:
            for stays, kind, label in self.parts:
                if not protected.startswith(stays, at):
                    return None
                at += len(stays)
                if kind == _SUB:
                    length = protected[at] - _TEXT
                    at += 1
                    if length == _ONE_BYTE_LENGTH:
                        length = protected[at]
                        at += 1
                        if length < _ONE_BYTE_LENGTH:
                            return None
                    elif not 0 <= length < _ONE_BYTE_LENGTH:
                        return None
                    claims[labels.CLAIM_SUB] = protected[at : at + length].decode()
                    at += length
                elif kind == _IAT:
                    time = int.from_bytes(protected[at + 1 : at + 5], "big")
                    if protected[at] != _FOUR_BYTES or time < _LEAST_OF_FOUR_BYTES:
                        return None
                    claims[labels.CLAIM_IAT] = time
                    at += 5
                elif kind == _VALUE:
                    headers[label], at = cbor.read(protected, at, max_depth=cbor.MAX_DEPTH - 1)
        except (IndexError, UnicodeDecodeError, MalformedError):
            return None
        return headers if at == len(protected) else None

    @property
    def beginning(self) -> bytes | None:
        """What it is looked up by; None where too little of it stays."""
        stays = self.parts[0][0]
        return next((stays[:size] for size in _BEGINNINGS if len(stays) >= size), None)


def _claims(
    protected: bytes, claims: Mapping[Any, Any], end: int, kept: int, parts: list[tuple[bytes, int, int | str]]
) -> int:
    """Holes for the claims that change; gives where the bytes that stay go on."""
    for claim in claims:
        start = cbor.skip(protected, end)
        end = cbor.skip(protected, start)
        kind = _KINDS.get(claim)
        if kind == _SUB or (kind == _IAT and protected[start] == _FOUR_BYTES):
            parts.append((protected[kept:start], kind, claim))
            kept = end
    return kept


_T = TypeVar("_T")


class KnownHeaders(Generic[_T]):
    """Forms, each with what else is known of a header that has it.

    Bounded. Each step on the table is whole by itself, so that threads may share it.
    """

    __slots__ = ("_known", "_unknown")

    def __init__(self) -> None:
        self._known: dict[bytes, list[tuple[Form, _T]]] = {}
        self._unknown = 0

    def find(self, protected: bytes) -> tuple[dict[Any, Any], _T] | None:
        """The header, and what was learnt with its form."""
        for size in _BEGINNINGS:
            for form, more in self._known.get(protected[:size], ()):
                headers = form.read(protected)
                if headers is not None:
                    return headers, more
        return None

    def due(self) -> bool:
        """Whether the header that was not known, and was read in full, should be learnt."""
        self._unknown += 1
        return not self._unknown % LEARN_EVERY

    def learn(self, protected: bytes, headers: Mapping[Any, Any], more: _T) -> None:
        """Remember a header that was read in full. *more* must hold for all of its form."""
        form = Form.of(protected, headers)
        beginning = None if form is None else form.beginning
        if form is None or beginning is None:
            return
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        alike = self._known.setdefault(beginning, [])
        if len(alike) < MAX_ALIKE:
            alike.append((form, more))
