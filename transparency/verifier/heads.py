"""Tree heads as a verifier meets them: signatures remembered, and consistency from one head to the next.

One signature covers a head and every receipt under it, so in bulk each head is checked once. The memory is keyed by
everything the signature binds and by the key that made it (RC-19); anything less (a kid, a size, a root) could be
made to answer for a head that was never checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from transparency.statements.receipt import Receipt
from transparency.verifier.climb import Climber
from transparency.verifier.receipt_reader import ReceiptReader

if TYPE_CHECKING:
    from transparency.cose.keys import PublicKey

MAX_HEADS: Final = 65_536
# Of one head, in bytes; a larger one is checked each time rather than kept.
MAX_REMEMBERED: Final = 1024


class HeadCache:
    """Heads whose signature was found good. Failures are not kept: they are not worth a place."""

    def __init__(self, most: int = MAX_HEADS) -> None:
        self.reader = ReceiptReader()
        self.climber = Climber()
        self._most = most
        self._good: dict[tuple[bytes, bytes, bytes, bytes], None] = {}

    def __len__(self) -> int:
        return len(self._good)

    def verify(self, receipt: Receipt, key: PublicKey, root: bytes) -> None:
        """Check the signature of ``key`` over ``root`` unless exactly this was found good before."""
        message = receipt.message
        if not self.is_good(key, message.protected, root, message.signature):
            self.verify_anew(receipt, key, root)

    def is_good(self, key: PublicKey, protected: bytes, root: bytes, signature: bytes) -> bool:
        return (key.thumbprint, protected, root, signature) in self._good

    def verify_anew(self, receipt: Receipt, key: PublicKey, root: bytes) -> None:
        receipt.verify_signature(key, root)
        message = receipt.message
        if len(message.protected) + len(message.signature) > MAX_REMEMBERED:
            return
        if len(self._good) >= self._most:
            del self._good[next(iter(self._good))]
        self._good[key.thumbprint, message.protected, root, message.signature] = None


@dataclass(frozen=True, slots=True)
class TreeHead:
    """A root that a log signed. Without ``size_signed`` the size is a claim, and no pair to start from (RC-19)."""

    size: int
    root: bytes
    time: int | None
    size_signed: bool


def verify_consistency(receipt: bytes, old_size: int, old_root: bytes, key: PublicKey) -> TreeHead:
    """From an authenticated (size, root) to the newer head this receipt signs (RFC 9942 §5.3.1, RC-10).

    Raises MalformedError, ProofError, SignatureInvalidError or UnsupportedAlgorithmError.
    """
    parsed = Receipt.from_bytes(receipt)
    root = parsed.verify_consistency(old_size, old_root, key)
    return TreeHead(parsed.consistency[0].new_size, root, parsed.iat, parsed.tree_size is not None)
