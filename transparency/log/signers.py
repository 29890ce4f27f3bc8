"""The receipts keys of a key set, opened: who signs a head, by its time.

A key that is announced is opened with the one in use: a log that could not go on when its time comes says so at once,
not in the middle of the night.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from transparency.cose.keys import PublicKey, Signer
from transparency.errors import LogUnusableError
from transparency.policy import keyset
from transparency.policy.keyset import ServiceKeys

LoadKey = Callable[[str, PublicKey], Signer]


@dataclass(frozen=True, slots=True)
class ReceiptSigners:
    """Immutable: another key set is another of these."""

    keys: ServiceKeys
    signers: dict[bytes, Signer]

    @classmethod
    def open(cls, keys: ServiceKeys, load_key: LoadKey, time: int) -> ReceiptSigners:
        """All that may sign from *time* on."""
        coming = keys.from_then_on(keyset.RECEIPTS, time)
        return cls(keys, {public.thumbprint: load_key(keyset.RECEIPTS, public) for public in coming})

    def at(self, time: int) -> Signer:
        for public in self.keys.at(keyset.RECEIPTS, time):
            signer = self.signers.get(public.thumbprint)
            if signer is not None:
                return signer
        raise LogUnusableError(f"the key set in force has no receipts key for the time {time}")
