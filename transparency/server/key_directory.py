"""The key directory: which keys verify this log's receipts, and under which path segments (SCRAPI §2.1, §2.2).

Only receipts keys are in it. A verifier that takes the whole set as trusted must not thereby trust a policy key to sign
receipts: keys are single-purpose (RFC 9943 §9.4, KEY-10). Retired keys stay for ever, because receipts do (KEY-8).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from transparency.cose.keys import PublicKey, encode_key_set
from transparency.errors import LogUnusableError

# RFC 3986 §2.3 unreserved characters: a kid of these is a path segment as it is, unless it is a step in the path.
_SAFE_SEGMENT = re.compile(rb"[A-Za-z0-9._~-]+")
_STEPS = (b".", b"..")


class KeyDirectory:
    """Immutable: another set of keys is another directory."""

    def __init__(self, keys: Sequence[PublicKey]) -> None:
        self.key_set = encode_key_set(keys)
        self._by_segment: dict[str, tuple[PublicKey, bytes]] = {}
        for key in keys:
            encoded = key.to_cose_key_bytes()
            for segment in segments_of(key.kid):
                other = self._by_segment.setdefault(segment, (key, encoded))
                if other[0] != key:
                    # SCRAPI §2.2: raw(A) == base64url(B) would make one path name two keys (KEY-6).
                    raise LogUnusableError(
                        f"two receipts keys share the path segment {segment!r} (SCRAPI §2.2); rotate one out"
                    )

    def find(self, segment: str) -> bytes | None:
        """The COSE_Key found under a path segment, base64url(kid) or the raw kid (KEY-5)."""
        found = self._by_segment.get(segment)
        return found[1] if found is not None else None


def segments_of(kid: bytes) -> list[str]:
    segments = [base64.urlsafe_b64encode(kid).rstrip(b"=").decode()]
    if _SAFE_SEGMENT.fullmatch(kid) and kid not in _STEPS:
        segments.append(kid.decode("ascii"))
    return segments
