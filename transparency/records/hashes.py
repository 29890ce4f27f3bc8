"""The hash algorithms of records and envelopes: SHA-2, by the names of VAC and by the numbers of COSE (RFC 9054)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from transparency.cose import labels


@dataclass(frozen=True, slots=True)
class Hash:
    """One algorithm; ``size`` is that of its digests in bytes."""

    name: str
    label: int
    size: int

    def digest(self, data: bytes) -> bytes:
        return hashlib.new(self.name.replace("-", ""), data).digest()


_ALL: Final = (
    Hash("sha-256", labels.HASH_SHA256, 32),
    Hash("sha-384", labels.HASH_SHA384, 48),
    Hash("sha-512", labels.HASH_SHA512, 64),
)
BY_NAME: Final[Mapping[str, Hash]] = {each.name: each for each in _ALL}
BY_LABEL: Final[Mapping[int, Hash]] = {each.label: each for each in _ALL}
