"""Whether a log went back: to less than a place has shown before, or anywhere by the times that it signed itself.

A place that shows less than *another* one did may be a mirror that is late, and a late mirror shows what was signed
before. A smaller tree that was signed *after* a larger one is no mirror's doing, wherever it is shown: that convicts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.vkey import VerifierKey
from transparency.verifier.evidence import Evidence
from transparency.witness.monitor_alarms import Alarm
from transparency.witness.monitor_views import View


def find_rollback(
    view: View,
    earlier: SignedCheckpoint | None,
    seen: Iterable[SignedCheckpoint],
    keys: Collection[VerifierKey],
    observed: Callable[[str], str],
) -> Alarm | None:
    """Hold a view against the largest tree that its place has shown (*earlier*) and all that was *seen* anywhere."""
    for larger in (each for each in seen if view.size < each.checkpoint.size):
        if Evidence("rollback", (view.note, larger.to_bytes())).judge(keys).convicts:
            return _alarm(view, larger, f"signed after the {larger.checkpoint.size} that were seen before", observed)
    if earlier is not None and view.size < earlier.checkpoint.size:
        return _alarm(view, earlier, f"and has shown {earlier.checkpoint.size} before", observed)
    return None


def _alarm(view: View, larger: SignedCheckpoint, words: str, observed: Callable[[str], str]) -> Alarm:
    detail = f"shows {view.size} entries, {words}"
    evidence = Evidence("rollback", (view.note, larger.to_bytes()), observed=(observed(detail),))
    return Alarm("rollback", view.origin, view.place, detail, evidence)
