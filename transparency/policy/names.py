"""Names that a policy may use, and what each stands for on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from transparency.cose import labels
from transparency.cose.algorithms import ALGORITHMS
from transparency.records import format as known
from transparency.records.format import Format

ALGORITHM_NAMES: Final[Mapping[str, int]] = {algorithm.name: number for number, algorithm in ALGORITHMS.items()}
# RFC 9864 gives new numbers to what the old ones already mean here, where each takes one curve only: ES256 and ESP256,
# ES384 and ESP384, ES512 and ESP512, EdDSA and Ed25519. A policy that names one means the signature, not the number.
_TWINS: Final = (frozenset({-7, -9}), frozenset({-35, -51}), frozenset({-36, -52}), frozenset({-8, -19}))

CLAIMS: Final[Mapping[str, int]] = {"iss": 1, "sub": 2, "aud": 3, "exp": 4, "nbf": 5, "iat": 6, "cti": 7, "cnf": 8}
"""CWT claims by their registered names (RFC 8392 §3.1, RFC 8747)."""
ENVELOPE_LABELS: Final = frozenset({labels.PAYLOAD_HASH_ALG, labels.PREIMAGE_CONTENT_TYPE, labels.PAYLOAD_LOCATION})

VAC: Final = (known.VAC_JSON, known.VAC_CBOR)
PROFILES: Final = ("-00", "19 Feb")


def _formats() -> dict[str, tuple[Format, ...]]:
    """By trace-format, which signed headers carry; VAC, which is one there, also by its two encodings."""
    named: dict[str, tuple[Format, ...]] = {}
    for each in known.FORMATS:
        named[each.trace_format] = (*named.get(each.trace_format, ()), each)
    return {**named, "vac-json": (known.VAC_JSON,), "vac-cbor": (known.VAC_CBOR,)}


FORMATS: Final[Mapping[str, tuple[Format, ...]]] = _formats()


def algorithm_numbers(names: Iterable[str]) -> frozenset[int]:
    """Every number that means a signature of one of *names*; names that are unknown mean nothing."""
    named = {ALGORITHM_NAMES[name] for name in names if name in ALGORITHM_NAMES}
    return frozenset(named | {twin for pair in _TWINS if named & pair for twin in pair})


def claim_number(name: int | str) -> int | None:
    """The claim's number; None for a text that is no registered name."""
    return name if isinstance(name, int) else CLAIMS.get(name)
