"""What an export finds at its target: how far it is, and whether it is of the same log and the same history."""

from __future__ import annotations

from collections.abc import Collection

from transparency.client.static_layout import MARKER, Marker
from transparency.errors import LogUnusableError, MalformedError, SignatureInvalidError
from transparency.log.static_source import Source
from transparency.log.static_target import FolderTarget, Target, TargetError
from transparency.merkle.proofs import root_at
from transparency.merkle.tiles import TileHashes, tile_path, tile_width
from transparency.notes.checkpoint import SignedCheckpoint, verify_log_signatures
from transparency.notes.paths import CHECKPOINT
from transparency.notes.vkey import VerifierKey, by_name_and_id


def read_marker(target: Target, origin: str) -> Marker | None:
    """How far the log's export there is; None for an empty target. TargetError for what is something else."""
    data = target.get(MARKER)
    if data is None:
        is_strange = not target.is_empty if isinstance(target, FolderTarget) else False
        if is_strange or target.get(CHECKPOINT) is not None:
            words = "holds other things than an export, and is left as it is; name an empty folder or prefix"
            raise TargetError(f"{target.name} {words}")
        return None
    try:
        marker = Marker.from_bytes(data)
    except MalformedError as error:
        raise TargetError(
            f"{target.name}: {MARKER} is broken, and all is left as it is: {error}. Put it back from a copy, or export "
            "to an empty folder or prefix"
        ) from error
    if marker.origin != origin:
        raise TargetError(
            f"{target.name} holds the log {marker.origin}, and not {origin}; name another folder or prefix"
        )
    return marker


def read_checkpoint(target: Target, origin: str, vkeys: Collection[VerifierKey]) -> SignedCheckpoint | None:
    """The checkpoint there. One with a line of this log's keys that does not hold is damaged, and says nothing."""
    data = target.get(CHECKPOINT)
    if data is None:
        return None
    try:
        signed = SignedCheckpoint.from_bytes(data)
        if signed.checkpoint.origin == origin and _is_by(signed, vkeys):
            verify_log_signatures(signed, vkeys)
    except (MalformedError, SignatureInvalidError) as error:
        raise TargetError(
            f"{target.name}: its checkpoint is damaged, or was changed: {error}. Nothing was written; delete that "
            "file, and the next run writes it anew"
        ) from error
    if signed.checkpoint.origin != origin:
        raise TargetError(
            f"{target.name} holds a checkpoint of {signed.checkpoint.origin}, and not of {origin}; name another folder "
            "or prefix"
        )
    return signed


def check_history(target: Target, there: SignedCheckpoint, source: Source, vkeys: Collection[VerifierKey]) -> None:
    """One of the two trees, the log's and the target's, is how the other begins."""
    ours, theirs = source.signed.checkpoint, there.checkpoint
    if not theirs.size:
        return
    if theirs.size <= ours.size:
        same = source.root_at(theirs.size) == theirs.root
    else:

        def tile(level: int, index: int) -> bytes | None:
            return target.get(tile_path(level, index, tile_width(level, index, theirs.size)))

        same = root_at(ours.size, TileHashes(tile)) == ours.root
    if not same:
        whose = "signed by this log" if _is_by(there, vkeys) else "signed by keys that this log does not have"
        raise LogUnusableError(
            f"{target.name} holds another history of {ours.origin}: its tree of {theirs.size} entries, {whose}, and "
            f"this log's of {ours.size} contradict each other; keep both as evidence, and export elsewhere"
        )


def _is_by(signed: SignedCheckpoint, vkeys: Collection[VerifierKey]) -> bool:
    """Whether it has a line of one of the keys. An exporter that is ahead may have written one by newer keys."""
    known = by_name_and_id(vkeys)
    return any((line.name, line.key_id) in known for line in signed.note.signatures)
