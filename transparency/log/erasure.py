"""Erasure: what the owner of a log does to take content away for good, and never by halves (REG-20).

1. It is judged: every entry's term is over, or there is an order; none is on hold; of a payload a manifest and an audit
   stand on the log; no other entry refers to an artifact that is to go. Nothing has changed yet.
2. The erasure is registered. From here on it will be carried out, now or at the next start (log/carrying_out.py).

Ownership: the event loop's. One act at a time, so a hold that is registered before an erasure is seen by it. Writes to
the store are the sequencer's writer's, as all are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from transparency.errors import MalformedError, RefusedError
from transparency.log.answers import Registered
from transparency.log.appender import Clock
from transparency.log.artifacts import ArtifactStore
from transparency.log.carrying_out import carry_out
from transparency.log.folder import Folder
from transparency.log.manifests import newest_manifest
from transparency.log.retention import Terms, artifact_of, hold_on, references_to, rule_text
from transparency.log.stated import audited_size, erasures, standing_holds
from transparency.log.store import Kind, Store, StoredEntry
from transparency.policy import operations
from transparency.policy.audited import Audited
from transparency.policy.erasure import ARTIFACT, PAYLOAD, Erasure, Item
from transparency.policy.hold import ENTRY, Hold, Release
from transparency.statements.statement import Statement, entry_id, parse_entry_id

_MOST_SIBLINGS: Final = 1_000
_logger = logging.getLogger("transparency.erasure")

Operate = Callable[[str, bytes], Awaitable[Registered]]


class Writing(Protocol):
    """Of the sequencer: its writer, and its hand on the derived indexes."""

    def write(self, job: Callable[[], Any]) -> Coroutine[Any, Any, Any]: ...
    def index_all(self) -> Coroutine[Any, Any, None]: ...
    def forget_kept(self) -> None: ...


"""Runs one write on the thread that writes."""


@dataclass(frozen=True, slots=True)
class Request:
    """Entries whose content is to go. Without an *order* their terms have to be over.

    *last*: nothing more follows, so look who else refers to their artifacts, and carry it out. Before that, who asks
    says to have looked as far as *size*: that saves a reading of the log for each part, and decides nothing.
    """

    size: int
    indexes: Sequence[int]
    authoriser: str = ""
    order: str = ""
    last: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """*unfinished* says what is left to do, "" if nothing is."""

    registered: Registered | None
    unfinished: str


class Erasures:
    def __init__(
        self,
        store: Store,
        folder: Folder,
        origin: str,
        operate: Operate,
        sequencer: Writing,
        clock: Clock,
    ) -> None:
        self._store = store
        self._folder = folder
        self._artifacts = ArtifactStore(folder.artifacts)
        self._origin = origin
        self._operate = operate
        self._write = sequencer.write
        self._index_all = sequencer.index_all
        self._forget = sequencer.forget_kept
        self._clock = clock
        self._lock = asyncio.Lock()
        self._acts: set[asyncio.Task[Outcome]] = set()

    async def take_up(self) -> None:
        """At the start: carry out what an earlier process registered and did not finish."""
        async with self._lock:
            unfinished = await self._carry_out()
        if unfinished:
            _logger.warning(
                "an erasure is not finished: %s; `transparency retention apply` goes on with it", unfinished
            )

    async def settle(self) -> None:
        """Before the stop: wait for what is under way."""
        async with self._lock:
            pass

    async def erase(self, request: Request) -> Outcome:
        """Register the erasure and carry it out. A caller that goes away does not stop it half-way."""
        task = asyncio.ensure_future(self._erase(request))
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)
        return await asyncio.shield(task)

    async def hold(self, scope: str, value: str, authoriser: str, reason: str) -> Registered:
        hold = Hold.from_bytes(Hold(self._origin, scope, value, authoriser, reason, self._clock()).to_bytes())
        async with self._lock:
            await self._catch_up()
            if scope == ENTRY and self._store.find(parse_entry_id(value)) is None:
                raise RefusedError(f"there is no entry {value} on this log to hold")
            return await self._operate(operations.HOLD, hold.to_bytes())

    async def release(self, hold: str, authoriser: str, reason: str) -> Registered:
        release = Release.from_bytes(Release(self._origin, hold, authoriser, reason, self._clock()).to_bytes())
        async with self._lock:
            standing = await asyncio.to_thread(standing_holds, self._store)
            if hold not in {each.entry for each in standing}:
                raise RefusedError(f"no hold {hold} stands on this log; `transparency retention plan` lists them")
            return await self._operate(operations.HOLD, release.to_bytes())

    async def audited(self, size: int, root: bytes, erased: int) -> Registered:
        """State that the first *size* entries were audited without a finding; *root* says which entries they were."""
        head = self._store.head(size)
        if head is None or head.root != root:
            raise RefusedError(f"the audit was of another log: no tree head of size {size} here has that root")
        stated = Audited(self._origin, size, root, size - erased, erased, self._clock())
        return await self._operate(operations.AUDIT, Audited.from_bytes(stated.to_bytes()).to_bytes())

    # -- one act at a time ---------------------------------------------------------------------------------------

    async def _erase(self, request: Request) -> Outcome:
        async with self._lock:
            registered = None
            if request.indexes:
                await self._catch_up()
                erasure = await asyncio.to_thread(
                    judge, self._store, self._artifacts, self._origin, request, self._clock()
                )
                registered = await self._operate(operations.ERASURE, erasure.to_bytes())
            return Outcome(registered, await self._carry_out() if request.last else "")

    async def _catch_up(self) -> None:
        """Entries and siblings are found by indexes that may lag; and what is erased must not come into them later."""
        await self._index_all()

    async def _carry_out(self) -> str:
        loop = asyncio.get_running_loop()

        def write(job: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the job gives
            return asyncio.run_coroutine_threadsafe(self._write(job), loop).result()

        return await asyncio.to_thread(carry_out, self._store, self._folder, self._origin, write, self._forget)


def judge(
    store: Store, artifacts: ArtifactStore, origin: str, request: Request, now: int, *, audited: int | None = None
) -> Erasure:
    """The erasure that *request* comes to; RefusedError says why it may not be. Reads only.

    *audited* supposes a manifest and an audit of so many entries, in place of what stands on the log: for who would
    have to make them first, and asks before that whether anything else is in the way.
    """
    tip = store.tip().size
    if not request.size <= tip:
        raise RefusedError("the plan is of a longer log than this one")
    if request.order and not request.authoriser:
        raise RefusedError("an order needs an authoriser")
    judging = _Judging(store, artifacts, request, now, audited)
    items = tuple(judging.item(index) for index in sorted(set(request.indexes)))
    judging.check_others(origin, 0 if request.last else request.size, tip)
    return Erasure.from_bytes(Erasure(origin, items).to_bytes())


class _Judging:
    """One request being looked at: each entry by itself, by one reading of holds, terms and audits."""

    def __init__(self, store: Store, artifacts: ArtifactStore, request: Request, now: int, audited: int | None) -> None:
        self._store = store
        self._artifacts = artifacts
        self._request = request
        self._now = now
        self._terms = Terms(store)
        self._holds = standing_holds(store)
        self._audited = self._covered = audited or 0
        if audited is None and request.order:
            self._audited, self._covered = audited_size(store), newest_manifest(store, store.tip().size)[0]
        self._digests: set[str] = set()

    def item(self, index: int) -> Item:
        row = self._store.entry(index)
        if row is None or row.kind is not Kind.STATEMENT:
            raise RefusedError(f"entry {index} is the service's own, or not there: nothing of it is ever erased")
        if row.erased:
            raise RefusedError(f"entry {index} was erased already")
        statement = Statement.from_bytes(row.statement)
        self._check_hold(row, statement)
        what = PAYLOAD if statement.envelope is None else ARTIFACT
        if what == PAYLOAD:
            self._check_payload(index, row.tbs_digest)
        else:
            self._check_artifact(index, statement)
        found = self._terms.of(row.generation, statement.iss)
        head = self._store.head_covering(index)
        if not self._request.order and (head is None or head.time + found.keep > self._now):
            raise RefusedError(f"the term of entry {index} (class {found.name}) is not over; only an order ends it")
        rule = self._request.order or rule_text(found, row.generation)
        authoriser = self._request.authoriser or f"policy generation {row.generation}"
        return Item(index, entry_id(row.entry), what, rule, authoriser, self._now)

    def check_others(self, origin: str, start: int, stop: int) -> None:
        """An artifact goes only with every entry that names it: all of one request, or named by an earlier part."""
        found = references_to(self._store, self._digests, start, stop) if self._digests else ()
        others = {index for index, _ in found} - set(self._request.indexes)
        if not others:
            return
        before = [item for _, each in erasures(self._store) if each.log == origin for item in each.items]
        named = {item.index for item in before if item.what == ARTIFACT}
        for index in sorted(others):
            if index not in named:
                raise RefusedError(f"entry {index} names the same artifact, which goes with both or not at all")
            row = self._store.entry(index)
            if row is not None:
                self._check_hold(row, Statement.from_bytes(row.statement))

    def _check_hold(self, row: StoredEntry, statement: Statement) -> None:
        hold = hold_on(row, statement, self._holds, self._artifacts)
        if hold is not None:
            raise RefusedError(f"entry {row.index} is on hold by {hold.entry} ({hold.hold.reason}); release that first")

    def _check_payload(self, index: int, tbs_digest: bytes) -> None:
        if not self._request.order:
            raise RefusedError(f"entry {index} carries its payload, which goes by order only (--order)")
        if index >= self._covered:
            raise RefusedError(f"no manifest that covers entry {index} stands on the log: make one and audit it first")
        if index >= self._audited:
            raise RefusedError(f"no audit that covers entry {index} stands on the log: its decision would be lost")
        others = [at for at, _ in self._store.siblings(tbs_digest, _MOST_SIBLINGS) if at not in self._request.indexes]
        if others:
            listed = ", ".join(map(str, others))
            raise RefusedError(f"entry {index} is signed a second time: name its siblings, too (entries {listed})")

    def _check_artifact(self, index: int, statement: Statement) -> None:
        digest = artifact_of(statement)
        if digest is None:
            raise RefusedError(f"entry {index} is an envelope whose digest is not SHA-256: no artifact is kept for it")
        if self._artifacts.is_gone(digest):
            raise RefusedError(f"the artifact of entry {index} was erased already")
        self._digests.add(digest)


def read_request(arguments: dict[str, Any]) -> Request:
    """What came over the admin socket."""
    indexes = arguments.get("indexes")
    size = arguments.get("size")
    if not isinstance(indexes, list) or not all(type(index) is int for index in indexes) or type(size) is not int:
        raise MalformedError("an erasure needs indexes and a size")
    return Request(
        size, indexes, text(arguments, "authoriser"), text(arguments, "order"), arguments.get("last") is not False
    )


def text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name, "")
    if not isinstance(value, str):
        raise MalformedError(f"{name} is not text")
    return value


async def handle(log_erasures: Erasures, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One of the admin operations that begin with ``retention-`` (log/admin.py)."""
    act = operation.removeprefix("retention-")
    if act == "erase":
        outcome = await log_erasures.erase(read_request(arguments))
        registered = outcome.registered
        return {"entry": "" if registered is None else registered.entry_id, "unfinished": outcome.unfinished}
    authoriser, reason = text(arguments, "authoriser"), text(arguments, "reason")
    if act == "hold":
        made = await log_erasures.hold(text(arguments, "scope"), text(arguments, "value"), authoriser, reason)
    elif act == "release":
        made = await log_erasures.release(text(arguments, "hold"), authoriser, reason)
    elif act == "audited":
        size, root, erased = arguments.get("size"), arguments.get("root"), arguments.get("erased")
        if type(size) is not int or type(erased) is not int or not isinstance(root, bytes):
            raise MalformedError("an audit has a size, a root and the number of erased entries")
        made = await log_erasures.audited(size, root, erased)
    else:
        raise MalformedError("the log's owner does not know this admin operation; is it an older version?")
    return {"entry": made.entry_id, "index": made.index}
