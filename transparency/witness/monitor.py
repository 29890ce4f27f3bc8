"""A monitor: follows logs from outside, remembers what each has shown, and says when one breaks its word.

A round is: ask every URL for the checkpoint and every witness for the last it cosigned; compare all of them with each
other and with what was shown before (monitor_compare.py); read the entries that are new and rebuild the tree from them;
remember the tree. The state moves on only over what was checked, and never after a split view: what was signed first is
kept, because it is half of the evidence.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from transparency.errors import (
    ProofError,
    ServiceRefusedError,
    SignatureInvalidError,
    TransparencyError,
    UnreachableError,
)
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import HASH_SIZE, leaf_hash
from transparency.merkle.proofs import root_from_inclusion
from transparency.merkle.tiles import WIDTH
from transparency.notes.cosignature import verify_cosignatures
from transparency.notes.policy import WitnessPolicy
from transparency.notes.vkey import VerifierKey
from transparency.verifier.evidence import Evidence, log_times
from transparency.witness.monitor_alarms import STAYING, Alarm, Match
from transparency.witness.monitor_calls import Calls
from transparency.witness.monitor_compare import compare, tile_alarm
from transparency.witness.monitor_rollback import find_rollback
from transparency.witness.monitor_state import MonitorFolder, MonitorState
from transparency.witness.monitor_views import View, ask_witness, look
from transparency.witness.monitor_watch import search_new

FROZEN_AFTER: Final = 24 * 60 * 60
LAG: Final = 600
"""How long a log may be behind what a witness has cosigned, or this monitor has followed: caches keep old ones."""

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

    ``answered``: how many of the URLs gave a checkpoint.
    """

    alarms: list[Alarm] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    answered: int = 0


@dataclass(slots=True)
class _Followed:
    """What following one log gave; ``watched``: up to where it was searched, if it was."""

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
                lost[known].append(each)
        found = Round(answered=sum(isinstance(each, View) for each in seen))
        for origin in origins:
            followed = await self._follow(states[origin], views[origin])
            followed.alarms[:0] = lost[origin]
            await self._settle(states[origin], followed, found)
        nobody = self._folder.load("")
        if lost[""] or nobody.active:
            await self._settle(nobody, _Followed(lost[""]), found)
        return found

    async def _follow(self, state: MonitorState, shown: Sequence[View]) -> _Followed:
        """Everything about one log; what is wrong with it, and what was watched for and is there."""
        if not shown and state.last is None:
            return _Followed()
        known = [View("what was followed before", state.last)] if state.last is not None else []
        known += [View(f"{url} before", signed) for url, signed in state.served.items()]
        witnesses, silent = await self._witnesses(state.origin)
        alarms = self._rollbacks(state, shown, witnesses)
        compared = await compare(known, [*shown, *witnesses])
        alarms += silent + compared.alarms
        if compared.reference is not None and compared.tree is not None and not compared.split:
            alarms += await self._advance(state, compared.reference, compared.tree)
        alarms += self._quorum(shown)
        alarms += self._standing_still(state, shown, witnesses)
        followed = _Followed(alarms)
        await self._watch(state, shown, followed)
        return followed

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

    async def _witnesses(self, origin: str) -> tuple[list[View], list[Alarm]]:
        policy = self._settings.policy
        asked = [] if policy is None else list(policy.witnesses.values())
        keys = self._settings.keys
        answers = await asyncio.gather(*(ask_witness(each, origin, keys, self._transport) for each in asked))
        views = [each for each in answers if isinstance(each, View)]
        return views, [each for each in answers if isinstance(each, Alarm)]

    async def _advance(self, state: MonitorState, view: View, tree: TiledTree) -> list[Alarm]:
        """Rebuild the tree from the entries that are new. It continues the last one: that was compared."""
        if state.last is not None and view.size <= state.last.checkpoint.size:
            return []
        try:
            if state.last is None and not self._settings.from_start:
                edge = await _edge(tree)
                state.watched = view.size
            else:
                edge = await _extended(state.edge, tree)
            if edge.root() != view.root:
                raise ProofError(f"the entries up to {view.size} do not give the root that was signed")  # noqa: TRY301 - one handler
        except (ProofError, UnreachableError, ServiceRefusedError) as error:
            return [tile_alarm(view, error)]
        state.last, state.edge, state.since = view.signed, edge, int(self._clock())
        return []

    def _quorum(self, shown: Sequence[View]) -> list[Alarm]:
        policy = self._settings.policy
        if policy is None:
            return []
        alarms = []
        for view in shown:
            try:
                result = policy.check(view.signed)
            except TransparencyError as error:
                detail = f"a signature on the checkpoint of {view.size} does not hold: {error}"
            else:
                if result.ok:
                    continue
                names = ", ".join(result.missing)
                detail = f"the checkpoint of {view.size} has {len(result.counted)} cosignatures; not of {names}"
            evidence = Evidence("missing-quorum", (view.note,), observed=(self._observed(detail),))
            alarms.append(Alarm("missing-quorum", view.origin, view.place, detail, evidence))
        return alarms

    def _standing_still(self, state: MonitorState, shown: Sequence[View], witnesses: Sequence[View]) -> list[Alarm]:
        """Nothing new for long, or less than there is: such a log may be growing where others look at it."""
        now = int(self._clock())
        most = max((view.size for view in shown), default=0)
        followed = [] if state.last is None else [View("this monitor", state.last)]
        ahead = max((*witnesses, *followed), key=lambda view: view.size, default=None)
        if not shown or ahead is None or ahead.size <= most:
            state.ahead = None
        elif state.ahead is None:
            state.ahead = now
        if state.ahead is not None and ahead is not None and now - state.ahead >= LAG:
            detail = f"shows {most} entries since {iso_utc(state.ahead)}, and {ahead.place} has seen {ahead.size}"
            return [self._frozen(state, ahead, detail)]
        alive = max((state.since, *(self._signed_at(view, now) for view in shown)))
        if shown and state.last is not None and now - alive >= self._settings.frozen_after:
            detail = f"{state.last.checkpoint.size} entries, and nothing newer than {iso_utc(alive)}"
            return [self._frozen(state, View(shown[0].place, state.last), detail)]
        return []

    def _signed_at(self, view: View, now: int) -> int:
        """The newest time that the log or a witness signed with a checkpoint: a log without new entries lives too."""
        times = [*log_times(view.signed, self._settings.keys).values()]
        if self._settings.policy is not None:
            witnesses = [witness.key for witness in self._settings.policy.witnesses.values()]
            with contextlib.suppress(SignatureInvalidError):
                times += [each.time for each in verify_cosignatures(view.signed, witnesses)]
        return max((time for time in times if time <= now), default=0)

    def _frozen(self, state: MonitorState, view: View, detail: str) -> Alarm:
        evidence = Evidence("frozen", (view.note,), observed=(self._observed(detail),))
        return Alarm("frozen", state.origin, view.place, detail, evidence)

    async def _watch(self, state: MonitorState, shown: Sequence[View], followed: _Followed) -> None:
        size = 0 if state.last is None else state.last.checkpoint.size
        if size <= state.watched:
            return
        if not self._settings.watches:
            followed.watched = size
            return
        places = {view.place for view in shown}
        client = next((each for each in self._logs if str(each.url) in places), None)
        if client is None:
            return
        try:
            for watch in self._settings.watches:
                hits = search_new(client, state.origin, watch, state.watched, size)
                followed.matches += [match async for match in hits]
        except TransparencyError as error:
            # All of them are asked for again: better twice than never.
            followed.matches.clear()
            followed.alarms.append(Alarm("watch-failed", state.origin, str(client.url), str(error)))
        else:
            followed.watched = size

    async def _settle(self, state: MonitorState, followed: _Followed, found: Round) -> None:
        """Tell what is new, and what has ended; then keep the state. What could not be told is new again next time."""
        alarms = followed.alarms
        told = [await self._tell(match.to_json()) for match in followed.matches]
        if followed.watched is not None and all(told):
            state.watched = followed.watched
        for alarm in alarms:
            if alarm.key not in state.active and await self._tell(self._event(state.origin, alarm)):
                state.active[alarm.key] = alarm.detail
        current = {alarm.key for alarm in alarms}
        for key in [key for key in state.active if key not in current]:
            code, place = key.split(" ", 1)
            event = {"event": "ended", "code": code, "log": state.origin, "place": place}
            if code not in STAYING and await self._tell(event):
                del state.active[key]
        self._folder.save(state)
        found.alarms += alarms
        found.matches += followed.matches
        if state.last is not None:
            found.sizes[state.origin] = state.last.checkpoint.size

    def _event(self, origin: str, alarm: Alarm) -> Event:
        event = {**alarm.to_json(), "log": origin, "time": iso_utc(int(self._clock()))}
        if alarm.evidence is not None:
            # Named by what is in it, but for when it was observed: what is told again is not kept again.
            name = hashlib.sha256(replace(alarm.evidence, observed=()).to_bytes()).hexdigest()[:16]
            path = self._folder.keep_evidence(origin, f"{alarm.code}-{name}", alarm.evidence.to_bytes())
            event["evidence"] = str(path)
        return event

    async def _tell(self, event: Event) -> bool:
        self._say(event)
        problem = "" if self._calls is None else await self._calls.tell(event)
        if problem:
            self._say({"event": "not-told", "detail": problem})
        return not problem

    def _observed(self, detail: str) -> str:
        return f"{iso_utc(int(self._clock()))}: {detail}"


async def _extended(edge: CompactRange, tree: TiledTree) -> CompactRange:
    """The tree before, with the entries after it appended; each of them was checked against its tile."""
    edge = edge.copy()
    leaves: list[bytes] = []
    async for _, entry in tree.entries(edge.size):
        leaves.append(leaf_hash(entry))
        if len(leaves) == WIDTH:
            edge.extend(leaves)
            leaves.clear()
    edge.extend(leaves)
    return edge


async def _edge(tree: TiledTree) -> CompactRange:
    """The complete subtrees of a tree, read off the path of its last leaf: the siblings on its way are all of them."""
    if not tree.size:
        return CompactRange()
    last = tree.size - 1
    path = await tree.inclusion_path(last)
    at = last % WIDTH * HASH_SIZE
    leaf = (await tree.tile(0, last // WIDTH))[at : at + HASH_SIZE]
    below = (tree.size & -tree.size).bit_length() - 1
    subtree = root_from_inclusion(leaf, (1 << below) - 1, 1 << below, path[:below])
    return CompactRange(tree.size, [*reversed(path[below:]), subtree])
