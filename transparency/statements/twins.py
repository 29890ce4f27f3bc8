"""Twins: the two forms of an ECDSA signature. Whoever sees (r, s) can write (r, n-s), which verifies too (LEAF-7)."""

from __future__ import annotations

from transparency.cose.algorithms import ALGORITHMS, CURVES
from transparency.statements.statement import Entry, Statement, entry_of, normalise

_CURVES = {curve.kty_name: curve for curve in CURVES.values()}


def twin_entry(statement: Statement) -> Entry | None:
    """The entry that *statement* would be with its signature's other form; None where signatures have but one."""
    curve = _CURVES.get(ALGORITHMS[statement.alg].kty_name)
    signature = statement.message.signature
    if curve is None or len(signature) != 2 * curve.width:
        return None
    s = int.from_bytes(signature[curve.width :], "big")
    if not 0 < s < curve.order:
        return None
    other = signature[: curve.width] + (curve.order - s).to_bytes(curve.width, "big")
    return entry_of(normalise(statement.message.protected, statement.payload, other))
