"""A monitor: follows logs from outside, remembers what each has shown, and says when one breaks its word.

A round is: ask every URL for the checkpoint and every witness for the last it cosigned; compare all of them with each
other and with what was shown before (monitor_compare.py); read the entries that are new and rebuild the tree from them;
remember the tree. The state moves on only over what was checked, and not while a split view is active: what was signed
first stays what everything is held against, until somebody acknowledges that it happened.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from transparency.client.client import LogClient
from transparency.client.retry import Backoff
from transparency.client.tiles import TileClient, TiledTree
from transparency.client.transport import Transport
from transparency.display import iso_utc
from transparency.errors import ProofError, ServiceRefusedError, TransparencyError, UnreachableError
from transparency.notes.policy import WitnessPolicy
from transparency.notes.vkey import VerifierKey
from transparency.witness.monitor_alarms import Alarm, Looked, Match
from transparency.witness.monitor_calls import Calls
from transparency.witness.monitor_checks import Checks
from transparency.witness.monitor_compare import Followed, compare, tile_alarm
from transparency.witness.monitor_rollback import find_rollback
from transparency.witness.monitor_state import MonitorFolder, MonitorState
from transparency.witness.monitor_trail import first_trail, longer_trail
from transparency.witness.monitor_views import View, ask_witnesses, look
from transparency.witness.monitor_watch import search_new

FROZEN_AFTER: Final = 24 * 60 * 60

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """What is followed: *urls* are the places where logs are looked at; several may be of one log.

    ``from_start``: the first tree is rebuilt from its first entry on, instead of being begun with as it is.
    """

    urls: tuple[str, ...]
    keys: tuple[VerifierKey, ...]
    policy: WitnessPolicy | None = None
    frozen_after: int = FROZEN_AFTER
    from_start: bool = False
    watches: tuple[tuple[str, str], ...] = ()
    token: str | None = None
    tls: ssl.SSLContext | None = None
    timeout: float = 30.0
    retries: int = 3


@dataclass(slots=True)
class Round:
    """What one round found: the alarms that hold now, the entries watched for, and the size followed of each log.

    ``answered``: how many of the URLs gave a checkpoint. ``waiting``: what could be compared with nothing yet, in
    words. ``untold``: whether a webhook or command failed.
    """

    alarms: list[Alarm] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    answered: int = 0
    waiting: list[str] = field(default_factory=list)
    untold: bool = False


@dataclass(slots=True)
class _Result:
    """What following one log gave; ``watched``: up to where it was searched, if it was."""

    looked: Looked
    alarms: list[Alarm] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    watched: int | None = None


class Monitor:
    """Use as ``async with``. ``say`` is given each event when it is new: an alarm, its end, an entry watched for."""

    def __init__(
        self,
        settings: MonitorSettings,
        folder: MonitorFolder,
        clock: Callable[[], float],
        say: Callable[[Event], None],
        calls: Calls | None = None,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._say = say
        self._calls = calls
        self._checks = Checks(settings.keys, settings.policy, settings.frozen_after, self._observed)
        options: dict[str, Any] = {"timeout": settings.timeout, "retries": settings.retries, "tls": settings.tls}
        self._clients = [TileClient(url, **options) for url in settings.urls]
        self._logs = [LogClient(url, token=settings.token, **options) for url in settings.urls if settings.watches]
        backoff = Backoff(retries=settings.retries)
        self._transport = Transport(timeout=settings.timeout, backoff=backoff, tls=settings.tls)

    async def __aenter__(self) -> Self:
        """The folder is this monitor's until it is left; raises FolderOwnedError where another has it."""
        self._ownership = self._folder.own()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ownership.release()
        await asyncio.gather(*(each.close() for each in self._clients), *(each.close() for each in self._logs))
        await self._transport.close()
        if self._calls is not None:
            await self._calls.close()

    async def round(self) -> Round:
        """Look at everything once."""
        seen = await asyncio.gather(*(look(client, self._settings.keys) for client in self._clients))
        origins = sorted({key.name for key in self._settings.keys})
        states = {origin: self._folder.load(origin) for origin in origins}
        views: dict[str, list[View]] = defaultdict(list)
        lost: dict[str, list[Alarm]] = defaultdict(list)
        for each in seen:
            if isinstance(each, View):
                views[each.origin].append(each)
                for origin, state in states.items():
                    if origin != each.origin and each.place in state.served:
                        detail = f"it shows the log {each.origin} now"
                        lost[origin].append(Alarm("bad-checkpoint", origin, each.place, detail))
            else:
                # What does not answer is of the log that it was last seen to be; of none, if it never answered.
                known = next((origin for origin, state in states.items() if each.place in state.served), "")
                lost[known].append(replace(each, origin=known))
        found = Round(answered=sum(isinstance(each, View) for each in seen))
        heard = {each.place for each in seen if isinstance(each, View) or each.code != "unreachable"}
        for origin in origins:
            result = await self._follow(states[origin], views[origin], heard)
            result.alarms[:0] = lost[origin]
            await self._settle(states[origin], result, found)
        nobody = self._folder.load("")
        if lost[""] or nobody.active:
            answered = {each.place for each in seen if isinstance(each, View)}
            await self._settle(nobody, _Result(Looked(answered, heard), lost[""]), found)
        return found

    async def _follow(self, state: MonitorState, shown: Sequence[View], heard: set[str]) -> _Result:
        """Everything about one log; what is wrong with it, and what was watched for and is there."""
        if not shown and state.last is None and not state.waiting:
            return _Result(Looked(set(), heard))
        followed = None
        if state.last is not None:
            followed = Followed(View(state.place, state.last, when=" before"), state.trail)
        known = [View(url, signed, when=" before") for url, signed in state.served.items()]
        waiting = [View(place, signed, when=" before") for place, signed in state.waiting]
        asked = await ask_witnesses(self._settings.policy, state.origin, self._settings.keys, self._transport)
        alarms = self._rollbacks(state, shown, asked.views)
        suspects = {key.split(" ", 1)[1] for key in state.active if key.startswith("bad-tile ")}
        compared = await compare(known, [*shown, *asked.views], waiting, followed, suspects)
        state.wait_for((view.place, view.signed) for view in compared.waiting)
        alarms += asked.alarms + compared.alarms
        if compared.reference is not None and compared.tree is not None and not compared.split and not state.split:
            alarms += await self._advance(state, compared.reference, compared.tree)
        alarms += self._checks.not_compared(state, compared.waiting)
        alarms += self._checks.quorum(shown)
        now = int(self._clock())
        alarms += self._checks.standing_still(state, shown, [*asked.views, *compared.waiting], now)
        answered = {view.place for view in (*shown, *asked.views)}
        failed = {alarm.place for alarm in alarms if alarm.code == "bad-tile"}
        looked = Looked(answered, heard | asked.heard, compared.read - failed)
        result = _Result(looked, alarms)
        await self._watch(state, shown, result)
        return result

    def _rollbacks(self, state: MonitorState, shown: Sequence[View], witnesses: Sequence[View]) -> list[Alarm]:
        seen = [*state.served.values(), *([] if state.last is None else [state.last])]
        found = [
            find_rollback(view, state.served.get(view.place), seen, self._settings.keys, self._observed)
            for view in (*shown, *witnesses)
        ]
        for view in shown:
            earlier = state.served.get(view.place)
            # Of two trees of one size the first is kept: it is what the second is held against.
            if earlier is None or earlier.checkpoint.size < view.size or earlier.checkpoint.root == view.root:
                state.served[view.place] = view.signed
        return [alarm for alarm in found if alarm is not None]

    async def _advance(self, state: MonitorState, view: View, tree: TiledTree) -> list[Alarm]:
        """Rebuild the tree from the entries that are new. It continues the last one: that was compared."""
        if state.last is not None and view.size <= state.last.checkpoint.size:
            return []
        try:
            if state.last is None and not self._settings.from_start:
                trail = await first_trail(tree)
                state.watched = view.size
            else:
                trail = await longer_trail(state.trail, tree)
        except (ProofError, UnreachableError, ServiceRefusedError) as error:
            return [tile_alarm(view, error)]
        state.last, state.place, state.trail, state.since = view.signed, view.place, trail, int(self._clock())
        return []

    async def _watch(self, state: MonitorState, shown: Sequence[View], result: _Result) -> None:
        size = 0 if state.last is None else state.last.checkpoint.size
        if size <= state.watched:
            return
        if not self._settings.watches:
            result.watched = size
            return
        places = {view.place for view in shown}
        client = next((each for each in self._logs if str(each.url) in places), None)
        if client is None:
            result.looked = replace(result.looked, searched=False)
            return
        try:
            for watch in self._settings.watches:
                hits = search_new(client, state.origin, watch, state.watched, size)
                result.matches += [match async for match in hits]
        except TransparencyError as error:
            # All of them are asked for again: better twice than never.
            result.matches.clear()
            result.alarms.append(Alarm("watch-failed", state.origin, str(client.url), str(error)))
        else:
            result.watched = size

    async def _settle(self, state: MonitorState, result: _Result, found: Round) -> None:
        """Tell what is new, and what has ended; then keep the state. What could not be told is new again next time."""
        alarms = result.alarms
        told = [await self._tell(match.to_json(), found) for match in result.matches]
        if result.watched is not None and all(told):
            state.watched = result.watched
        for alarm in alarms:
            if alarm.key not in state.active and await self._tell(self._event(state.origin, alarm), found):
                state.active[alarm.key] = alarm.detail
        current = {alarm.key for alarm in alarms}
        for key in [key for key in state.active if key not in current]:
            code, place = key.split(" ", 1)
            event = {"event": "ended", "code": code, "log": state.origin, "place": place}
            if result.looked.has_ended(code, place) and await self._tell(event, found):
                del state.active[key]
        self._folder.save(state)
        found.alarms += alarms
        # What was signed stays signed, also while nobody shows it.
        standing = [key for key in state.split if key not in current]
        found.alarms += [Alarm("split-view", state.origin, key.split(" ", 1)[1], state.active[key]) for key in standing]
        found.matches += result.matches
        found.waiting += [f"{signed.checkpoint.size} entries at {place}" for place, signed in state.waiting]
        if state.last is not None:
            found.sizes[state.origin] = state.last.checkpoint.size

    def _event(self, origin: str, alarm: Alarm) -> Event:
        event = {**alarm.to_json(), "log": origin, "time": iso_utc(int(self._clock()))}
        for view, shown in zip(alarm.views, event.get("views", ()), strict=True):
            shown["cosigned-by"] = self._checks.cosigners(view)
        if alarm.evidence is not None:
            # Named by what is in it, but for when it was observed: what is told again is not kept again.
            name = hashlib.sha256(replace(alarm.evidence, observed=()).to_bytes()).hexdigest()[:16]
            path = self._folder.keep_evidence(origin, f"{alarm.code}-{name}", alarm.evidence.to_bytes())
            event["evidence"] = str(path)
        return event

    async def _tell(self, event: Event, found: Round) -> bool:
        self._say(event)
        problem = "" if self._calls is None else await self._calls.tell(event)
        if problem:
            found.untold = True
            self._say({"event": "not-told", "log": event["log"], "place": event["place"], "detail": problem})
        return not problem

    def _observed(self, detail: str) -> str:
        return f"{iso_utc(int(self._clock()))}: {detail}"
