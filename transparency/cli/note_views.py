"""Readable views of C2SP texts: checkpoints, tlog-proofs, and evidence against a log. Nothing is checked."""

from __future__ import annotations

from typing import Any

from transparency.errors import TransparencyError
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.proof import FIRST_LINE, TlogProof
from transparency.verifier.evidence import Evidence, looks_like_evidence

_DASH = "— ".encode()


def note_view(data: bytes) -> dict[str, Any] | None:
    """What *data* says; None where it is none of these. One that is damaged raises what is wrong with it."""
    if data.startswith(FIRST_LINE.encode() + b"\n"):
        return {"kind": "tlog-proof", **proof_view(data)}
    if looks_like_evidence(data):
        return {"kind": "evidence against a log", **_evidence(Evidence.from_bytes(data))}
    if b"\n\n" + _DASH in data:
        return {"kind": "checkpoint", **_checkpoint(data)}
    return None


def proof_view(data: bytes) -> dict[str, Any]:
    proof = TlogProof.from_bytes(data)
    return {
        "leaf-index": proof.index,
        "path": [node.hex() for node in proof.path],
        "checkpoint": _checkpoint(proof.checkpoint),
    }


def _checkpoint(data: bytes) -> dict[str, Any]:
    signed = SignedCheckpoint.from_bytes(data)
    tree = signed.checkpoint
    return {
        "log": tree.origin,
        "tree-size": tree.size,
        "root": tree.root.hex(),
        "signature-lines": [f"{line.name} {line.key_id.hex()}" for line in signed.note.signatures],
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    body: dict[str, Any] = {"alarm": evidence.alarm, "checkpoint": [_or_reason(each) for each in evidence.checkpoints]}
    if evidence.prefix is not None:
        body["root-of-the-larger-tree-at-the-smaller-size"] = evidence.prefix.hex()
    if evidence.observed:
        body["observed"] = list(evidence.observed)
    return body


def _or_reason(note: bytes) -> dict[str, Any]:
    try:
        return _checkpoint(note)
    except TransparencyError as error:
        return {"not-readable": str(error)}
