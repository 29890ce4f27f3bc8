"""Media types: what a body says it is, and which of our forms a client wants (RFC 9110 §8.3, §12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transparency.statements.media_types import CBOR, CBOR_SEQUENCE, COSE, OCTETS, RECEIPT, STATEMENT, TOML

__all__ = [
    "CBOR",
    "CBOR_SEQUENCE",
    "COSE",
    "FORM",
    "JSON",
    "OCTETS",
    "RECEIPT",
    "STATEMENT",
    "TOML",
    "MediaType",
    "choose",
]

JSON = "application/json"
FORM = "multipart/form-data"

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[\t\x20-\x7e])*"'
_RANGE = re.compile(rf"\s*({_WORD})/({_WORD})")
_PARAMETER = re.compile(rf"[ \t]*;[ \t]*(?:({_WORD})=({_WORD}|{_QUOTED}))?")
_NEXT = re.compile(r"[ \t]*(?:,|$)")
_WEIGHT = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class MediaType:
    """``type/subtype`` in lower case, and its parameters."""

    name: str
    parameters: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> MediaType | None:
        """None unless the whole text is one media type and no parameter is there twice."""
        found = _read(text, 0)
        return found[0] if found is not None and found[1] == len(text.rstrip(" \t")) else None


def choose(accept: str | None, offers: Sequence[str]) -> str | None:
    """The offer a client prefers, the first among equals; None if it accepts none. No header accepts everything.

    A part of the header that cannot be read is passed over: it names nothing that we have.
    """
    if accept is None or not accept.strip():
        return offers[0]
    ranges = _ranges(accept)
    best, best_weight = None, 0.0
    for offer in offers:
        weight = _weight_of(offer, ranges)
        if weight > best_weight:
            best, best_weight = offer, weight
    return best


def _weight_of(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    # The most specific range that covers the offer counts (RFC 9110 §12.5.1).
    for pattern in (offer, offer.partition("/")[0] + "/*", "*/*"):
        weights = [weight for name, weight in ranges if name == pattern]
        if weights:
            return max(weights)
    return 0.0


def _ranges(accept: str) -> list[tuple[str, float]]:
    ranges = []
    at = 0
    while at < len(accept):
        found = _read(accept, at)
        if found is None:
            comma = accept.find(",", at)
            at = len(accept) if comma < 0 else comma + 1
            continue
        media, end = found
        weight = media.parameters.get("q", "1")
        if _WEIGHT.fullmatch(weight):
            ranges.append((media.name, float(weight)))
        at = end + 1
    return ranges


def _read(text: str, at: int) -> tuple[MediaType, int] | None:
    """One media type from *at*, and where the list goes on: at a comma or the end of the text."""
    match = _RANGE.match(text, at)
    if match is None:
        return None
    name = f"{match[1]}/{match[2]}".lower()
    parameters: dict[str, str] = {}
    end = match.end()
    while (match := _PARAMETER.match(text, end)) is not None:
        end = match.end()
        if match[1] is None:
            continue
        key = match[1].lower()
        if key in parameters:
            return None
        parameters[key] = _unquoted(match[2])
    following = _NEXT.match(text, end)
    if following is None:
        return None
    return MediaType(name, parameters), following.start()


def _unquoted(value: str) -> str:
    return _ESCAPED.sub(r"\1", value[1:-1]) if value.startswith('"') else value
