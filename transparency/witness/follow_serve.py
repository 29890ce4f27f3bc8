"""Running a compliance witness: own its folder, look at the log again and again, serve what was found, stop cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from transparency.client.client import LogClient
from transparency.client.sync import SyncLogClient
from transparency.client.tiles import TileClient
from transparency.compliance.log_settings import LogSettings
from transparency.compliance.settings import DEFAULT, Settings
from transparency.log.durable import create_durably
from transparency.log.waiting import is_set_within
from transparency.server.access_target import access_log
from transparency.server.settings import ServerSettings
from transparency.server.site import on_a_socket, runner_of, stop_signal
from transparency.verifier.evidence import SUFFIX
from transparency.witness.examining import served
from transparency.witness.findings import Findings
from transparency.witness.findings_pages import FindingsPages
from transparency.witness.follow import Follower, Round
from transparency.witness.follow_alerts import PER_HOUR, Alerts, Event
from transparency.witness.follow_folder import FollowConfig, FollowerFolder
from transparency.witness.follow_periods import DAY, Periods
from transparency.witness.follow_replay import FollowReplay, Reading
from transparency.witness.follower_app import SERVICE, create_app
from transparency.witness.monitor_calls import Calls
from transparency.witness.state import WitnessState

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """What an operator may turn. ``settings`` and ``log_settings`` are those of the checks."""

    url: str
    software: str
    token: str | None = None
    tls: ssl.SSLContext | None = None
    interval: float = 10.0
    period: int = DAY
    also: str | None = None
    also_token: str | None = None
    per_hour: int = PER_HOUR
    public: bool = False
    settings: Settings = DEFAULT
    log_settings: LogSettings = field(default_factory=LogSettings)


class Following:
    """One round after another: look, attest, tell."""

    def __init__(self, follower: Follower, periods: Periods, alerts: Alerts) -> None:
        self.follower = follower
        self._periods = periods
        self._alerts = alerts

    async def round(self) -> Round:
        found = await self.follower.round()
        trouble = "" if found.what == "stopped" else await self._periods.settle()
        await self._alerts.tell(found, trouble)
        return found


@contextmanager
def reading(settings: FollowSettings) -> Iterator[Reading]:
    """The log as it is read in the worker's thread."""
    with SyncLogClient(settings.url, token=settings.token, tls=settings.tls) as client:
        yield Reading(client.export, served(client))


@asynccontextmanager
async def following(
    folder: FollowerFolder,
    state: WitnessState,
    settings: FollowSettings,
    *,
    clock: Clock,
    say: Callable[[Event], None],
    told: Callable[[int, int], None],
    calls: Calls | None = None,
) -> AsyncIterator[Following]:
    """A compliance witness over a state that is owned, for the time of the block."""
    config, keys, issuer = FollowConfig.read(folder.follow), folder.load_keys(), folder.load_issuer()
    state.check_keys([key.text for key in keys.vkeys])
    options: dict[str, Any] = {"tls": settings.tls}
    async with contextlib.AsyncExitStack() as stack:
        findings = Findings(folder.findings)
        stack.callback(findings.close)
        tiles = await stack.enter_async_context(TileClient(settings.url, retries=2, **options))
        log = await stack.enter_async_context(LogClient(settings.url, token=settings.token, retries=2, **options))
        other = None
        if settings.also is not None:
            also = LogClient(settings.also, token=settings.also_token, retries=2, **options)
            other = await stack.enter_async_context(also)
        held = ExitStack()
        follower = Follower(
            state, findings,
            FollowReplay(
                findings, config.policy_key, issuer=issuer.public, clock=clock, settings=settings.settings,
                log_settings=settings.log_settings,
            ),
            keys, tiles, held.enter_context(reading(settings)),
            policy_key=config.policy_key, clock=clock, evidence=lambda name, data: _keep(folder, name, data), told=told,
        )  # fmt: skip
        periods = Periods(
            follower, issuer, config.iss, every=settings.period, software=settings.software, clock=clock,
            log=log, also=other,
        )  # fmt: skip
        try:
            yield Following(follower, periods, Alerts(follower, say, calls, per_hour=settings.per_hour, clock=clock))
        finally:
            follower.stop()
            # Its client has an event loop of its own, which is closed in the thread that used it.
            await follower.work(held.close)
            follower.close()
            if calls is not None:
                await calls.close()


async def serve(
    witness: Following, folder: FollowerFolder, settings: FollowSettings, server: ServerSettings,
    on_ready: Callable[[str], None],
) -> None:  # fmt: skip
    """Look, and answer over HTTP meanwhile, until SIGTERM or SIGINT, or until the state cannot be written."""
    app = create_app(witness.follower, FindingsPages(folder.findings), server, public=settings.public)
    service = app[SERVICE]

    def stopping() -> None:
        service.stopping = True

    with stop_signal() as told, access_log(server.access_log) as lines:
        runner = runner_of(app, server, lines)
        await runner.setup()
        async with on_a_socket(runner, server, service.bodies, stopping) as url:
            on_ready(url)
            await _rounds(witness, settings.interval, told)


async def _rounds(witness: Following, interval: float, told: asyncio.Event) -> None:
    async def stop() -> None:
        await told.wait()
        witness.follower.stop()

    stopper = asyncio.create_task(stop())
    try:
        while not told.is_set():
            await witness.round()
            await is_set_within(told, interval)
    finally:
        stopper.cancel()


def _keep(folder: FollowerFolder, name: str, data: bytes) -> None:
    """One file for each thing that convicts, however often it is seen."""
    folder.evidence.mkdir(mode=0o700, exist_ok=True)
    path = folder.evidence / f"{name}-{hashlib.sha256(data).hexdigest()[:8]}{SUFFIX}"
    if not path.exists():
        create_durably(path, data, 0o644)
