"""Attestations of a compliance witness: when a period ends, what is in it, and how it gets on the log.

A period ends at a checkpoint that was replayed to its end. It is signed once, by the witness' own issuer key, kept, and
sent until the log has it: the same bytes however often, so the log has it once. Nothing but what others register is a
reason for one, least of all an attestation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from transparency.client.client import LogClient
from transparency.compliance.period import MAX_BYTES, MAX_LISTED, SUBJECT, Period
from transparency.compliance.stated import PERIOD
from transparency.cose.keys import Signer
from transparency.errors import ServiceRefusedError, TransparencyError
from transparency.statements.statement import sign_statement
from transparency.witness.findings import Findings
from transparency.witness.follow import Follower

DAY: Final = 86_400
NEWS: Final = 300
"""How soon one may follow another where the log's conduct has changed."""


class Periods:
    """Makes and registers them: at most one in ``every`` seconds, or in NEWS where the log's conduct has changed."""

    def __init__(
        self,
        follower: Follower,
        signer: Signer,
        iss: str,
        *,
        every: int,
        software: str,
        clock: Callable[[], float],
        log: LogClient,
        also: LogClient | None = None,
    ) -> None:
        self._follower = follower
        self._findings: Findings = follower.findings
        self._signer = signer
        self._iss = iss
        self._every = every
        self._software = software
        self._clock = clock
        self._log = log
        self._also = also

    async def settle(self) -> str:
        """End a period if one is due, and send what is not on the log yet; why it is not, or ""."""
        await self._follower.work(self._close)
        trouble = ""
        for number, statement, known, others in await self._follower.work(self._findings.unregistered):
            if not known:
                entry, trouble = await _register(self._log, statement)
                if entry:
                    await self._follower.work(lambda n=number, e=entry: self._findings.registered(n, entry=e))
            if not others:
                there = True
                if self._also is not None:
                    entry, elsewhere = await _register(self._also, statement)
                    there, trouble = bool(entry), trouble or elsewhere
                if there:
                    await self._follower.work(lambda n=number: self._findings.registered(n, also=True))
        return trouble

    # -- in the worker's thread ----------------------------------------------------------------------------------

    def _close(self) -> None:
        period = self._due()
        if period is None:
            return
        statement = sign_statement(
            period.to_bytes(), self._signer, iss=self._iss, sub=SUBJECT, content_type=PERIOD, iat=period.time
        )
        with self._findings.batch():
            self._findings.keep_period(period, statement)

    def _due(self) -> Period | None:
        found = self._newest()
        last = self._findings.last_period()
        standing = self._findings.standing_count()
        if found is None:
            return None
        end, note, cosigned = found
        if last is not None:
            before, previous = last
            news = standing != before.misbehaviours
            if end < before.end or self._clock() - before.time < (min(NEWS, self._every) if news else self._every):
                return None
            if not news and not self._findings.has_cause(before.end, end):
                return None
            first, number = before.end, before.number + 1
        else:
            first, number, previous = 0, 1, ""
            if not standing and not self._findings.has_cause(first, end):
                return None
        figures = self._findings.figures(first, end)
        period = Period(
            log=self._follower.origin,
            witness=self._follower.keys.name,
            number=number,
            previous=previous,
            first=first,
            end=end,
            checkpoint=note,
            cosigned=cosigned,
            time=int(self._clock()),
            software=self._software,
            policies=self._findings.policies(first, end),
            entries=figures.entries,
            outcomes=figures.outcomes,
            not_available=figures.not_available,
            checks=figures.checks,
            failing=figures.failing,
            failed=self._findings.failed(first, end, MAX_LISTED),
            misbehaviours=standing,
            misbehaviour=self._findings.misbehaviour(MAX_LISTED),
        )
        return _fitting(period)

    def _newest(self) -> tuple[int, bytes, bool] | None:
        """The newest checkpoint that was replayed to its end: size, note, and whether it was cosigned.

        In the middle of a replay, where the log gives no more, say, that is the one that was cosigned last. None before
        the first, and where what was cosigned is being replayed again.
        """
        replayed, recorded, observed = self._follower.replay.size, self._follower.recorded, self._follower.observed
        if recorded is not None and recorded.size == replayed:
            return replayed, recorded.note, True
        if observed is not None and observed.checkpoint.size == replayed:
            return replayed, observed.to_bytes(), False
        return None if recorded is None or recorded.size > replayed else (recorded.size, recorded.note, True)


def _fitting(period: Period) -> Period:
    """Lists cut until it is no larger than a period may be; what they leave out is counted in it."""
    while len(period.to_bytes()) > MAX_BYTES and (period.failed or period.misbehaviour):
        period = replace(
            period,
            failed=period.failed[: len(period.failed) // 2],
            misbehaviour=period.misbehaviour[: len(period.misbehaviour) // 2],
        )
    return Period.from_bytes(period.to_bytes())


async def _register(log: LogClient, statement: bytes) -> tuple[str, str]:
    """The entry id, or why there is none."""
    try:
        return (await log.submit(statement)).entry_id, ""
    except ServiceRefusedError as error:
        needed = "the token needs the scope submit, and the log's policy this witness' issuer"
        return "", f"{log.url} does not register the attestation ({error}); {needed}"
    except TransparencyError as error:
        return "", f"{log.url}: {error}"
