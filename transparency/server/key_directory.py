"""The key directory: which keys verify this log's receipts, and under which path segments (SCRAPI §2.1, §2.2).

Only receipts keys are in it. A verifier that takes the whole set as trusted must not thereby trust a policy key to sign
receipts: keys are single-purpose (RFC 9943 §9.4, KEY-10). Retired keys stay for ever, because receipts do (KEY-8).
"""

from __future__ import annotations

from collections.abc import Sequence

from transparency.cose.keys import PublicKey, encode_key_set
from transparency.policy.keyset import segments_of


class KeyDirectory:
    """Immutable: another set of keys is another directory."""

    def __init__(self, keys: Sequence[PublicKey]) -> None:
        self.key_set = encode_key_set(keys)
        self._by_segment: dict[str, tuple[PublicKey, bytes]] = {}
        for key in keys:
            encoded = key.to_cose_key_bytes()
            for segment in segments_of(key.kid):
                # No other key can be there: a key set that would make one path name two keys is refused (KEY-6).
                self._by_segment[segment] = (key, encoded)

    def find(self, segment: str) -> bytes | None:
        """The COSE_Key found under a path segment, base64url(kid) or the raw kid (KEY-5)."""
        found = self._by_segment.get(segment)
        return found[1] if found is not None else None
