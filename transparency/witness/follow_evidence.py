"""What convicts the log, as files that `transparency verify` checks offline."""

from __future__ import annotations

from collections.abc import Callable, Collection

from transparency.client.tiles import TileClient
from transparency.errors import TransparencyError
from transparency.notes.checkpoint import SignedCheckpoint, verify_log_signatures
from transparency.notes.vkey import VerifierKey
from transparency.verifier.evidence import Evidence as EvidenceFile
from transparency.witness.convict import evidence_file
from transparency.witness.monitor_compare import compare
from transparency.witness.monitor_rollback import find_rollback
from transparency.witness.monitor_views import View
from transparency.witness.record import Evidence, Record

Keep = Callable[[str, bytes], None]


def keep_evidence(kept: Evidence, keep: Keep) -> None:
    """Of a checkpoint that was refused, what two signatures of the log prove, if they prove anything."""
    convicting = evidence_file(kept)
    if convicting is not None:
        keep(f"{convicting.alarm}-{kept.size}", convicting.to_bytes())


async def split_view(
    signed: SignedCheckpoint, known: Record, tiles: TileClient, keys: Collection[VerifierKey], have: bytes | None
) -> tuple[EvidenceFile | None, str] | None:
    """Whether a checkpoint that is smaller than what was cosigned is of another history; None if it is only late.

    *have* is the root that the replayed entries gave at that size, if it is known. Evidence is to be had where the log
    still serves the tiles of one of the two trees.
    """
    verify_log_signatures(signed, keys)
    size = signed.checkpoint.size
    recorded = View("this witness", SignedCheckpoint.from_bytes(known.signed))
    shown = View(str(tiles.url), signed, tiles)
    rollback = find_rollback(shown, None, [recorded.signed], keys, lambda detail: detail)
    if rollback is not None:
        return rollback.evidence, rollback.detail
    try:
        compared = await compare([recorded], [shown])
    except TransparencyError:
        compared = None
    for alarm in () if compared is None else compared.alarms:
        if alarm.code == "split-view":
            return alarm.evidence, alarm.detail
    if have is not None and have != signed.checkpoint.root:
        return None, f"the tree of {size} that is shown is not how the one of {known.size} that was cosigned begins"
    return None
