"""Whom a compliance witness tells, and how often: a webhook or a command (monitor_calls.py), so many events an hour.

What the log did wrong is told one by one, each until it was heard. Of records one event a round says how many fail
which checks. What the limit holds back is not lost: it is told when there is room, and records are summed up meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from transparency.compliance.finding import Verdict
from transparency.witness.follow import Follower, Round
from transparency.witness.monitor_calls import Calls

PER_HOUR: Final = 60
_HOUR: Final = 3600.0
_TOLD: Final = "records-told"
_AT_ONCE: Final = 20
_REMEMBERED: Final = 100
Event = dict[str, Any]


class Alerts:
    """``say`` is given every event, too: for the person watching."""

    def __init__(
        self,
        follower: Follower,
        say: Callable[[Event], None],
        calls: Calls | None,
        *,
        per_hour: int = PER_HOUR,
        clock: Callable[[], float],
    ) -> None:
        self._follower = follower
        self._say = say
        self._calls = calls
        self._per_hour = per_hour
        self._clock = clock
        self._sent: deque[float] = deque()
        self._trouble = ""
        self._way: str = ""
        self._said: deque[Event] = deque(maxlen=_REMEMBERED)

    async def tell(self, last: Round, trouble: str) -> None:
        """Everything that is new since the last time; *trouble* is why an attestation could not be registered."""
        await self._misbehaviour()
        await self._records()
        way = last.what if last.what in ("unreachable", "refused", "bad-checkpoint", "behind") else ""
        if way and way != self._way:
            if await self._send(self._event("trouble", code=way, detail=last.detail)):
                self._way = way
        elif not way:
            self._way = ""
        if trouble and trouble != self._trouble:
            if await self._send(self._event("trouble", code="not-registered", detail=trouble)):
                self._trouble = trouble
        elif not trouble:
            self._trouble = ""

    async def _misbehaviour(self) -> None:
        findings = self._follower.findings
        told = []
        for each in await self._follower.work(findings.untold, _AT_ONCE):
            if not await self._send(self._event("misbehaviour", **each.to_json())):
                break
            told.append(each.number)
        if told:
            await self._follower.work(findings.told, told)

    async def _records(self) -> None:
        findings = self._follower.findings
        size = self._follower.replay.size
        start = await self._follower.work(findings.noted, _TOLD)
        if start >= size:
            return
        figures = await self._follower.work(findings.figures, start, size)
        failing = {check: counts[str(Verdict.FAIL)] for check, counts in figures.checks.items() if counts[Verdict.FAIL]}
        event = self._event("records", first=start, end=size, failing=figures.failing, checks=failing)
        if not figures.failing or await self._send(event):
            await self._follower.work(findings.note, _TOLD, size)

    def _event(self, event: str, **more: object) -> Event:
        return {"event": event, "log": self._follower.origin, "time": int(self._clock()), **more}

    async def _send(self, event: Mapping[str, Any]) -> bool:
        self._show(event)
        now = self._clock()
        while self._sent and now - self._sent[0] >= _HOUR:
            self._sent.popleft()
        if self._calls is not None and len(self._sent) >= self._per_hour:
            return False
        if self._calls is not None:
            self._sent.append(now)
            wrong = await self._calls.tell(event)
            if wrong:
                self._say({"event": "not-told", "detail": wrong})
                return False
        return True

    def _show(self, event: Mapping[str, Any]) -> None:
        """To the person watching at once, and once, however often others could not be told."""
        what = {name: value for name, value in event.items() if name != "time"}
        if what not in self._said:
            self._said.append(what)
            self._say(dict(event))
