"""What can stand in for a log's key that is compromised: something good that commits to the same tree (design §8).

Whoever holds a compromised key can sign any tree under any time, so its signature proves nothing, early or late. What
is left of a receipt is its path: the statement lies in the tree of this size and root. A *voucher* shows that this tree
is the log's all the same, or that the statement lies in another that is. Here that is a consistency receipt under a
good key of the same log; a witnessed checkpoint (witness_checks.py) is another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from transparency.errors import MalformedError, TransparencyError
from transparency.merkle.proofs import verify_consistency as prove_consistency
from transparency.statements.receipt import Receipt
from transparency.verifier.identity import identity_problem, validity_problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transparency.cose.keys import PublicKey
    from transparency.verifier.trust import KeyIndex, LogKey, LogTrust

MAX_CONSISTENCY: Final = 4096


@dataclass(frozen=True, slots=True)
class Vouched:
    """The statement is in the log: it was there by *time*, says *key*, over its tree of *size*.

    ``index`` is None where the receipt's own tree was shown to be the log's: then its size and index hold too.
    """

    key: str
    size: int
    time: int | None
    how: str
    index: int | None = None


class Voucher(Protocol):
    """Something beside the receipts that can show a tree to be a log's."""

    def vouch(self, log: LogTrust, size: int, root: bytes) -> Vouched | str:
        """Whether the tree of *size* and *root* is that log's; why that cannot be said, otherwise."""


_PREFIX: Final = "its tree is a prefix of one that a good key signed"


class ConsistencyReceipts:
    """Consistency receipts (RFC 9942 §5.3, vdp -2), as ``GET /consistency`` gives them."""

    def __init__(self, receipts: Iterable[bytes], keys: KeyIndex) -> None:
        self._keys = keys
        self._by_size: dict[int, list[Receipt]] = {}
        for number, data in enumerate(receipts):
            if number >= MAX_CONSISTENCY:
                raise MalformedError(f"more than {MAX_CONSISTENCY} consistency receipts")
            receipt = Receipt.from_bytes(data)
            if not receipt.consistency:
                raise MalformedError("this receipt proves no consistency (vdp -2)")
            self._by_size.setdefault(receipt.consistency[0].old_size, []).append(receipt)

    def vouch(self, log: LogTrust, size: int, root: bytes) -> Vouched | str:
        """RC-19: from (size, root) to a head whose size is signed, by a good key that is trusted for this very log."""
        problem = f"no consistency receipt starts at size {size}"
        for receipt in self._by_size.get(size, ()):
            outcome = self._climb(receipt, log, size, root)
            if isinstance(outcome, Vouched):
                return outcome
            problem = outcome
        return problem

    def connect(self, old: tuple[int, bytes], new: tuple[int, bytes]) -> bool:
        """Whether the *new* tree extends the *old* one (each a size and a root, both known to be the log's word).

        False where no receipt is between these sizes; ProofError where one is, and its path says otherwise. A path
        needs no signature here: between two trees that are known it holds or it does not.
        """
        for receipt in self._by_size.get(old[0], ()):
            for proof in receipt.consistency:
                if (proof.old_size, proof.new_size) == (old[0], new[0]):
                    prove_consistency(old[0], new[0], old[1], new[1], proof.path)
                    return True
        return False

    def _climb(self, receipt: Receipt, log: LogTrust, size: int, root: bytes) -> Vouched | str:
        if receipt.tree_size is None:
            return "the consistency receipt does not sign its tree size"
        problem = "the consistency receipt is by no key that is trusted for this log"
        for item in self._keys.logs(receipt.kid, receipt.iss, receipt.sub):
            if (item.log.iss, item.log.origin) != (log.iss, log.origin):
                continue
            problem = _not_good(receipt, item) or _prove(receipt, size, root, item.trusted.key)
            if not problem:
                return Vouched(item.trusted.key.thumbprint.hex(), receipt.tree_size, receipt.iat, _PREFIX)
        return problem


def _not_good(receipt: Receipt, item: LogKey) -> str:
    if item.trusted.compromised_since is not None:
        return "the consistency receipt is by a compromised key itself"
    return identity_problem(receipt, item.log) or validity_problem(receipt, item.trusted)


def _prove(receipt: Receipt, size: int, root: bytes, key: PublicKey) -> str:
    try:
        receipt.verify_consistency(size, root, key)
    except TransparencyError as error:
        return f"the consistency receipt does not hold: {error}"
    return ""
