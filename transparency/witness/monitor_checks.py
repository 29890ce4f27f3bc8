"""What a monitor asks of one round's views besides that they are one tree: a quorum, and that the log moves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from transparency.display import iso_utc
from transparency.errors import SignatureInvalidError, TransparencyError
from transparency.notes.cosignature import verify_cosignatures
from transparency.notes.policy import WitnessPolicy
from transparency.notes.vkey import VerifierKey
from transparency.verifier.evidence import Evidence, log_times
from transparency.witness.monitor_alarms import Alarm
from transparency.witness.monitor_state import MonitorState
from transparency.witness.monitor_views import View

LAG: Final = 600
"""How long a log may be behind what a witness has cosigned, or this monitor has followed: caches keep old ones."""


@dataclass(frozen=True, slots=True)
class Checks:
    """By what a log is judged; *observed* puts the time before what was seen."""

    keys: Collection[VerifierKey]
    policy: WitnessPolicy | None
    frozen_after: int
    observed: Callable[[str], str]

    def quorum(self, shown: Sequence[View]) -> list[Alarm]:
        if self.policy is None:
            return []
        alarms = []
        for view in shown:
            try:
                result = self.policy.check(view.signed)
            except TransparencyError as error:
                detail = f"a signature on the checkpoint of {view.size} does not hold: {error}"
            else:
                if result.ok:
                    continue
                names = ", ".join(result.missing)
                detail = f"the checkpoint of {view.size} has {len(result.counted)} cosignatures; not of {names}"
            evidence = Evidence("missing-quorum", (view.note,), observed=(self.observed(detail),))
            alarms.append(Alarm("missing-quorum", view.origin, view.place, detail, evidence))
        return alarms

    def cosigners(self, view: View) -> list[str]:
        """The witnesses of the policy whose cosignatures are on a checkpoint."""
        try:
            return [] if self.policy is None else list(self.policy.check(view.signed).counted)
        except TransparencyError:
            return []

    def standing_still(
        self, state: MonitorState, shown: Sequence[View], elsewhere: Sequence[View], now: int
    ) -> list[Alarm]:
        """Nothing new for long, or less than there is: such a log may be growing where others look at it.

        *elsewhere* is what witnesses have cosigned, and what was shown before and waits to be compared.
        """
        most = max((view.size for view in shown), default=0)
        followed = [] if state.last is None else [View("this monitor", state.last)]
        ahead = max((*elsewhere, *followed), key=lambda view: view.size, default=None)
        if not shown:
            return []
        if ahead is None or ahead.size <= most:
            state.ahead = None
        elif state.ahead is None:
            state.ahead = now
        if state.ahead is not None and ahead is not None and now - state.ahead >= LAG:
            detail = f"shows {most} entries since {iso_utc(state.ahead)}, and {ahead.place} has seen {ahead.size}"
            return [self._frozen(ahead, detail)]
        alive = max((state.since, *(self._signed_at(view, now) for view in shown)))
        if state.last is not None and now - alive >= self.frozen_after:
            detail = f"{state.last.checkpoint.size} entries, and nothing newer than {iso_utc(alive)}"
            return [self._frozen(View(shown[0].place, state.last), detail)]
        return []

    def not_compared(self, state: MonitorState, waiting: Sequence[View]) -> list[Alarm]:
        """Of what waits, the trees that are smaller than the one that was followed: that they fit has to be shown."""
        last = state.last
        alarms: dict[str, Alarm] = {}
        for view in waiting:
            if last is None or view.size >= last.checkpoint.size:
                continue
            detail = (
                f"{view.size} entries at {view.place}, and {last.checkpoint.size} were followed: too long ago to be "
                "compared here. Follow a URL that has all of it as well"
            )
            evidence = Evidence("not-compared", (view.note, last.to_bytes()), observed=(self.observed(detail),))
            alarm = Alarm("not-compared", state.origin, view.place, detail, evidence)
            alarms.setdefault(alarm.key, alarm)
        return list(alarms.values())

    def _signed_at(self, view: View, now: int) -> int:
        """The newest time that the log or a witness signed with a checkpoint: a log without new entries lives too."""
        times = [*log_times(view.signed, self.keys).values()]
        if self.policy is not None:
            witnesses = [witness.key for witness in self.policy.witnesses.values()]
            with contextlib.suppress(SignatureInvalidError):
                times += [each.time for each in verify_cosignatures(view.signed, witnesses)]
        return max((time for time in times if time <= now), default=0)

    def _frozen(self, view: View, detail: str) -> Alarm:
        evidence = Evidence("frozen", (view.note,), observed=(self.observed(detail),))
        return Alarm("frozen", view.origin, view.place, detail, evidence)
