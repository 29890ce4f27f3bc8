"""From what a witness kept to a file that convicts the log, in the form that monitors write and verifiers check."""

from __future__ import annotations

from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.requests import AddCheckpoint
from transparency.verifier.evidence import Evidence as EvidenceFile
from transparency.witness.decide import other_beginning
from transparency.witness.record import Evidence, Ground


def evidence_file(kept: Evidence) -> EvidenceFile | None:
    """The file, if two checkpoints of the log are against it."""
    if kept.ground is not Ground.FORK or not kept.recorded:
        return None
    request = AddCheckpoint.from_bytes(kept.request)
    checkpoint = SignedCheckpoint.from_bytes(request.checkpoint).checkpoint
    recorded = SignedCheckpoint.from_bytes(kept.recorded).checkpoint
    prefix = None if checkpoint.size == recorded.size else other_beginning(request, checkpoint)
    return EvidenceFile(
        "split-view",
        (kept.recorded, request.checkpoint),
        prefix,
        () if prefix is None else request.path,
        ("the first was cosigned by this witness, the second refused",),
    )
