"""What convicts the log, as files that `transparency verify` checks offline."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from transparency.errors import ProofError
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.proofs import ReadHash, consistency_path, root_at
from transparency.notes.checkpoint import SignedCheckpoint, verify_log_signatures
from transparency.notes.vkey import VerifierKey
from transparency.verifier.evidence import Evidence as EvidenceFile
from transparency.witness.monitor_rollback import find_rollback
from transparency.witness.monitor_views import View
from transparency.witness.record import Record

Leaves = Callable[[int, int], list[bytes]]
"""The hashes of the leaves from one index up to another, as they were replayed."""
RootAt = Callable[[int], bytes | None]
"""The root that the entries gave at an earlier head; None where no head has that size."""
_PLACE: Final = "the log"
_AT_ONCE: Final = 4_096


class Conviction(NamedTuple):
    code: str
    what: str
    evidence: EvidenceFile | None


def split_view(
    known: Record, signed: SignedCheckpoint, beginning: bytes | None, path: tuple[bytes, ...]
) -> EvidenceFile:
    """Of a checkpoint that does not extend what was cosigned: *beginning* is what its own tree began with, if larger.

    *path* is the proof of that.
    """
    notes = (known.signed, signed.to_bytes())
    return EvidenceFile("split-view", notes, beginning, () if beginning is None else path)


def smaller_tree(
    signed: SignedCheckpoint, known: Record, keys: Collection[VerifierKey], replayed: int, roots: RootAt, leaves: Leaves
) -> Conviction | None:
    """What a checkpoint that is smaller than the one cosigned last says against the log; None if it is only late.

    The proof is made from the entries as they were replayed: nothing that the log serves now is needed for it. Raises
    SignatureInvalidError where the log did not sign it.
    """
    verify_log_signatures(signed, keys)
    size = signed.checkpoint.size
    recorded = SignedCheckpoint.from_bytes(known.signed)
    # An old copy of an honest log's checkpoint has the root of its head: then nothing has to be hashed again.
    if size > 0 and known.size <= replayed and roots(size) != signed.checkpoint.root:
        read = _reader(leaves)
        root = root_at(size, read)
        if root != signed.checkpoint.root:
            path = tuple(consistency_path(size, known.size, read))
            notes = (signed.to_bytes(), recorded.to_bytes())
            what = f"the tree of {size} that is shown is not how the one of {known.size} that was cosigned begins"
            return Conviction("split-view", what, EvidenceFile("split-view", notes, root, path))
    rollback = find_rollback(View(_PLACE, signed), None, [recorded], keys, lambda detail: detail)
    return None if rollback is None else Conviction("rollback", f"it {rollback.detail}", rollback.evidence)


def _reader(leaves: Leaves) -> ReadHash:
    def read(level: int, index: int) -> bytes:
        end = (index + 1) << level
        subtree = CompactRange()
        for start in range(index << level, end, _AT_ONCE):
            subtree.extend(leaves(start, min(start + _AT_ONCE, end)))
        if subtree.size != 1 << level:
            raise ProofError("not every entry of this part of the tree was replayed")
        return subtree.root()

    return read
