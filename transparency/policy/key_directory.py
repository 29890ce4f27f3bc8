"""The key directory: which keys verify this log's receipts, and under which path segments (SCRAPI §2.1, §2.2).

Only receipts keys are in it. A verifier that takes the whole set as trusted must not thereby trust a policy key to sign
receipts: keys are single-purpose (RFC 9943 §9.4, KEY-10). Retired keys stay for ever, because receipts do (KEY-8).
A key that is announced is in it too: whoever refreshes the set has it before the first receipt carries it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from transparency.cose import labels
from transparency.cose.cbor import encode
from transparency.cose.keys import PublicKey
from transparency.policy.keyset import RECEIPTS, ServiceKeys, segments_of


class KeyDirectory:
    """Immutable: another set of keys is another directory."""

    def __init__(self, keys: Sequence[PublicKey], compromised: Mapping[bytes, int] = MappingProxyType({})) -> None:
        """*compromised*: since when, by thumbprint. Who does not know that label ignores it (RFC 9052 §7)."""
        told = [
            {**key.to_cose_key(), labels.KEY_COMPROMISED_SINCE: compromised[key.thumbprint]}
            if key.thumbprint in compromised
            else key.to_cose_key()
            for key in keys
        ]
        self.key_set = encode(told)
        # No path names two keys: a key set that would make one do so is refused (KEY-6).
        self._by_segment = {
            segment: encode(each) for key, each in zip(keys, told, strict=True) for segment in segments_of(key.kid)
        }

    @classmethod
    def of(cls, keys: ServiceKeys) -> KeyDirectory:
        compromised = {
            item.key.thumbprint: item.compromised_since for item in keys.keys if item.compromised_since is not None
        }
        return cls(keys.ever(RECEIPTS), compromised)

    def find(self, segment: str) -> bytes | None:
        """The COSE_Key found under a path segment, base64url(kid) or the raw kid (KEY-5)."""
        return self._by_segment.get(segment)
