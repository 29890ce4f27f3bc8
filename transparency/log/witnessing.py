"""Witnesses as the log meets them: asked for cosignatures (C2SP tlog-witness, W-1), and never believed.

Every witness is asked at once, for itself, within a time. What comes back counts only if it is a cosignature of a key
of the policy over this very checkpoint, with a time that is now. A witness that lies, sleeps or is gone costs its own
cosignature and nothing else; who it was and what it did is counted.

A witness that is slow still cosigns: what it says after the quorum was reached is added to the checkpoint that is
served. It is asked one thing at a time, and the newest next, so it cannot be buried under questions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import aiohttp
from yarl import URL

from transparency.client.transport import unreachable
from transparency.errors import NoteError, SignatureInvalidError, TransparencyError
from transparency.log.appender import Clock
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint
from transparency.notes.cosignature import verify_cosignature
from transparency.notes.note import Signature, read_signatures
from transparency.notes.numbers import MAX_BYTES, read_decimal, read_lines
from transparency.notes.policy import NONE, WitnessPolicy
from transparency.notes.requests import AddCheckpoint
from transparency.notes.vkey import by_name_and_id

MAX_WITNESSES: Final = 64
MAX_SKEW_SECONDS: Final = 300
"""A cosignature says when its witness saw the checkpoint. It was just sent: one from another time is a replay."""
_CHUNK: Final = 64 * 1024
_OK: Final = 200
_CONFLICT: Final = 409
_UNPROCESSABLE: Final = 422

Prove = Callable[[int, int], tuple[bytes, ...]]
"""The consistency proof between two sizes."""
Late = Callable[[Checkpoint, tuple[Signature, ...]], Awaitable[None]]
_Task = asyncio.Task[tuple[Signature, ...]]

_logger = logging.getLogger("transparency.witnesses")


class Outcome(StrEnum):
    """What became of a question to a witness."""

    COSIGNED = "cosigned"
    UNREACHABLE = "unreachable"
    TOO_SLOW = "too-slow"
    REFUSED = "refused"
    AHEAD = "ahead"
    INCONSISTENT = "inconsistent"
    INVALID = "invalid"


class WitnessError(TransparencyError):
    """A witness gave no cosignature that counts."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


@dataclass(slots=True)
class Witness:
    """One URL, and the keys of the policy that are to be had there. ``size`` is what it is believed to have seen."""

    url: URL
    names: tuple[str, ...]
    size: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Who holds the lock or held it last, who is to hold it next, and what became of the last question.
    task: asyncio.Task[object] | None = None
    next: _Task | None = None
    last: Outcome | None = None

    @property
    def label(self) -> str:
        return ",".join(self.names)

    def note(self, outcome: Outcome, reason: str) -> None:
        """Count it; say it when it is another than the last time, not once a second."""
        self.outcomes[outcome] += 1
        if outcome is not self.last:
            # What a witness cannot say to an honest log is worth waking somebody up.
            level = logging.CRITICAL if outcome in (Outcome.AHEAD, Outcome.INCONSISTENT) else logging.WARNING
            level = logging.INFO if outcome is Outcome.COSIGNED else level
            _logger.log(level, "witness %s (%s): %s", self.label, outcome, reason)
        self.last = outcome


class Witnesses:
    """Those of a policy that have a URL. Owner: the event loop."""

    def __init__(
        self, policy: WitnessPolicy, *, timeout: float, clock: Clock, session: aiohttp.ClientSession | None = None
    ) -> None:
        self.policy = policy
        self.all = _by_url(policy)
        self._keys = by_name_and_id([witness.key for witness in policy.witnesses.values()])
        self._timeout = timeout
        self._clock = clock
        self._session = session
        self._given = session
        self._tasks: set[_Task] = set()
        reachable = {name for witness in self.all for name in witness.names}
        if not policy.satisfied(reachable):
            raise NoteError("policy file: the witnesses that have a URL cannot make up its quorum")

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None and self._given is None:
            await self._session.close()
            self._session = None

    def cosigners(self, lines: Collection[Signature]) -> list[str]:
        """The policy's names for those whose lines these are; the lines were checked when they came."""
        signed = {(line.name, line.key_id) for line in lines}
        witnesses = self.policy.witnesses.items()
        return [name for name, each in witnesses if (each.key.name, each.key.key_id) in signed]

    def satisfied(self, lines: Collection[Signature]) -> bool:
        return self.policy.satisfied(self.cosigners(lines))

    def enough(self, lines: Collection[Signature]) -> bool:
        """Whether these show more than the log's own word: where the policy asks for nobody, nothing does."""
        return self.policy.quorum != NONE and self.satisfied(lines)

    async def collect(self, signed: SignedCheckpoint, prove: Prove, late: Late) -> tuple[Signature, ...]:
        """Ask all at once; return when the quorum is reached, when none is left to answer, or when time is over.

        Who has not answered then may still do so: *late* gets it.
        """
        pending = {self._begin(witness, signed, prove) for witness in self.all}
        lines: tuple[Signature, ...] = ()
        deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            # Of a policy that asks for nobody all are given the time there is.
            while pending and not self.enough(lines):
                left = deadline - asyncio.get_running_loop().time()
                done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                for task in done:
                    lines += task.result()
        except BaseException:
            for task in pending:
                task.cancel()
            raise
        for task in pending:
            self._keep(asyncio.create_task(self._follow(task, signed.checkpoint, late)))
        return lines

    def _begin(self, witness: Witness, signed: SignedCheckpoint, prove: Prove) -> _Task:
        """Ask, once the witness is done with what it is being asked. What waited for that until now, is out of date."""
        if witness.next is not None and witness.next is not witness.task:
            witness.next.cancel()
        witness.next = self._keep(asyncio.create_task(self._cosign(witness, signed, prove)))
        return witness.next

    def _keep(self, task: _Task) -> _Task:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _follow(self, task: _Task, checkpoint: Checkpoint, late: Late) -> tuple[Signature, ...]:
        try:
            lines = await task
            if lines:
                await late(checkpoint, lines)
        except TransparencyError as error:
            _logger.warning("a late cosignature could not be kept: %s", error)
        return ()

    async def _cosign(self, witness: Witness, signed: SignedCheckpoint, prove: Prove) -> tuple[Signature, ...]:
        """What a witness says that counts; nothing, and a word in the log, if it does not."""
        async with witness.asking:
            witness.task = asyncio.current_task()
            try:
                async with asyncio.timeout(self._timeout):
                    lines = await self._ask(witness, signed, prove)
            except WitnessError as error:
                outcome, reason = error.outcome, str(error)
            except TimeoutError:
                outcome, reason = Outcome.TOO_SLOW, f"no answer within {self._timeout:g} s"
            except (aiohttp.ClientError, OSError) as error:
                outcome, reason = Outcome.UNREACHABLE, str(unreachable(witness.url, error))
            else:
                witness.note(Outcome.COSIGNED, "it cosigns")
                return lines
        witness.note(outcome, reason)
        return ()

    async def _ask(self, witness: Witness, signed: SignedCheckpoint, prove: Prove) -> tuple[Signature, ...]:
        size = signed.checkpoint.size
        old = witness.size if witness.size <= size else 0
        status, body = await self._post(witness, old, signed, prove)
        if status == _CONFLICT:
            # It has seen another size than we thought: from there, once.
            old = _read_size(body)
            if old > size:
                raise WitnessError(
                    Outcome.AHEAD, f"it says that it has cosigned size {old}, and this log is at {size}: an old copy?"
                )
            status, body = await self._post(witness, old, signed, prove)
        if status == _UNPROCESSABLE:
            raise WitnessError(
                Outcome.INCONSISTENT, f"it does not accept that size {size} follows size {old}: a second history?"
            )
        if status != _OK:
            raise WitnessError(Outcome.REFUSED, f"it answered {status}")
        witness.size = size
        return self._counting(signed.note.text, body)

    async def _post(self, witness: Witness, old: int, signed: SignedCheckpoint, prove: Prove) -> tuple[int, bytes]:
        request = AddCheckpoint(old, prove(old, signed.checkpoint.size), signed.to_bytes()).to_bytes()
        return await self.exchange("POST", witness.url / "add-checkpoint", request)

    def _counting(self, text: bytes, body: bytes) -> tuple[Signature, ...]:
        """The lines that are cosignatures of the policy's keys. One that pretends to be, and is none, spoils all."""
        try:
            lines = [line for line in read_signatures(body) if (line.name, line.key_id) in self._keys]
            now = self._clock()
            for line in lines:
                time = verify_cosignature(text, line, self._keys[line.name, line.key_id]).time
                if abs(time - now) > MAX_SKEW_SECONDS:
                    raise WitnessError(Outcome.INVALID, f"its cosignature is of the time {time}, and it is {now}")
        except (NoteError, SignatureInvalidError) as error:
            raise WitnessError(
                Outcome.INVALID, f"its answer is not a cosignature of this checkpoint: {error}"
            ) from None
        if not lines:
            raise WitnessError(Outcome.INVALID, "its answer has no cosignature by a key of the policy")
        return tuple(lines)

    async def exchange(self, method: str, url: URL, body: bytes | None = None) -> tuple[int, bytes]:
        """One request, bounded; neither cookies nor redirects."""
        if self._session is None:
            # Nothing is unpacked: what is bounded here is what arrives.
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
            )
        async with self._session.request(
            method,
            url,
            data=body,
            headers={"Accept-Encoding": "identity"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=self._timeout),
        ) as response:
            return response.status, await _read(response)


def _by_url(policy: WitnessPolicy) -> tuple[Witness, ...]:
    """Two keys of one witness have one URL: it is asked once and signs with both."""
    names: dict[str, list[str]] = {}
    for name, witness in policy.witnesses.items():
        if witness.url is not None:
            names.setdefault(witness.url.rstrip("/"), []).append(name)
    if len(names) > MAX_WITNESSES:
        raise NoteError(f"policy file: more than {MAX_WITNESSES} witnesses to ask")
    return tuple(Witness(_url(text), tuple(each)) for text, each in names.items())


def _url(text: str) -> URL:
    try:
        url = URL(text)
        if url.scheme in ("http", "https") and url.host and not url.query_string and not url.fragment and not url.user:
            return url
    except ValueError:
        pass
    raise NoteError("policy file: a witness' URL is not of the form https://host[:port][/prefix]")


def _read_size(body: bytes) -> int:
    try:
        (line,) = read_lines(body, "size")
        return read_decimal(line, "size")
    except (NoteError, ValueError) as error:
        raise WitnessError(Outcome.REFUSED, "it answered 409 without the size it has seen") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > MAX_BYTES:
            raise WitnessError(Outcome.INVALID, f"its answer has more than {MAX_BYTES} bytes")
    return body
