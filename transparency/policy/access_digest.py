"""The digest of the access log, as the service states it on its own log (subject ``access-log``).

Canonical CBOR ``{"log", "segment", "count", "chain"}``: after *count* lines, the last of them in *segment*, the chain
of hashes stood at *chain* (log/access_log.py). No line can be changed, taken out or moved from then on unseen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.policy.erasure import MAX_LOG
from transparency.policy.fields import number, read_map, text

_MEMBERS: Final = frozenset({"log", "segment", "count", "chain"})
_CHAIN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class AccessDigest:
    log: str
    segment: int
    count: int
    chain: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> AccessDigest:
        members = read_map(data, "an access digest", _MEMBERS)
        chain = members["chain"]
        if not isinstance(chain, bytes) or len(chain) != _CHAIN_BYTES:
            raise MalformedError(f"access digest.chain has {_CHAIN_BYTES} bytes")
        digest = cls(
            text(members["log"], "access digest.log", MAX_LOG),
            number(members["segment"], "access digest.segment"),
            number(members["count"], "access digest.count"),
            chain,
        )
        if digest.to_bytes() != data:
            raise MalformedError("an access digest is deterministic CBOR")
        return digest

    def to_bytes(self) -> bytes:
        return cbor.encode(asdict(self))
