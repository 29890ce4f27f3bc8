"""Erasure: what the owner of a log does to take content away for good, and never by halves (REG-20).

Order of one erasure, and what a crash leaves
1. It is judged: every entry's term is over, or there is an order; none is on hold; of a payload an audit stands on the
   log. Nothing has changed yet.
2. The erasure is registered. From here on it will be carried out: ``erased_upto`` of the store is not past it, so every
   start, and every later erasure, takes up what is missing. Each of the steps below may be repeated.
3. Artifacts: a marker that they are gone, then their files.
4. Statements are emptied in the store, in one transaction.
5. The search index forgets them; its file is written anew.
6. The store's file is written anew and its write-ahead log emptied, if statements went.
7. ``erased_upto`` moves past it.

What is erased is said by the log alone: a copy of it from before step 3 is brought up to date by repeating from there.

Ownership: the event loop's. One act at a time, so a hold that is registered before an erasure is seen by it. Writes to
the store are the sequencer's writer's, as all are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from transparency.errors import MalformedError, OverloadedError, RefusedError, StoreError
from transparency.log import sqlite_erasing
from transparency.log.answers import Registered
from transparency.log.appender import Clock
from transparency.log.artifacts import ArtifactStore
from transparency.log.folder import Folder
from transparency.log.retention import Terms, artifact_of, hold_on, references_to, rule_text
from transparency.log.search import SearchIndex
from transparency.log.sqlite import connect
from transparency.log.stated import audited_size, erasures, standing_holds
from transparency.log.store import Kind, Store
from transparency.policy import operations
from transparency.policy.audited import Audited
from transparency.policy.erasure import ARTIFACT, PAYLOAD, Erasure, Item
from transparency.policy.hold import ENTRY, Hold, Release
from transparency.statements.statement import Statement, entry_id, parse_entry_id

_TRIES: Final = 3
_NOTE_EVERY: Final = 4_096
_BUSY_MS: Final = 10_000
_MOST_SIBLINGS: Final = 1_000
_logger = logging.getLogger("transparency.erasure")

Operate = Callable[[str, bytes], Awaitable[Registered]]


class Write(Protocol):
    """Runs one write on the thread that writes."""

    def __call__(self, job: Callable[[], Any]) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True)
class Request:
    """Entries whose content is to go. *size* is how far the log was read for who else refers to their artifacts.

    Without an *order* their terms have to be over. *last*: nothing more follows, carry it out.
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


@dataclass(frozen=True, slots=True)
class _Work:
    """What one registered erasure asks for: artifacts, statements, and entries of the search index."""

    digests: tuple[str, ...]
    payloads: tuple[int, ...]
    indexes: tuple[int, ...]


class Erasures:
    def __init__(self, store: Store, folder: Folder, origin: str, operate: Operate, write: Write, clock: Clock) -> None:
        self._store = store
        self._folder = folder
        self._artifacts = ArtifactStore(folder.artifacts)
        self._origin = origin
        self._operate = operate
        self._write = write
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

    async def erase(self, request: Request) -> Outcome:
        """Register the erasure and carry it out. A caller that goes away does not stop it half-way."""
        task = asyncio.ensure_future(self._erase(request))
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)
        return await asyncio.shield(task)

    async def hold(self, scope: str, value: str, authoriser: str, reason: str) -> Registered:
        hold = Hold.from_bytes(Hold(self._origin, scope, value, authoriser, reason, self._clock()).to_bytes())
        if scope == ENTRY and self._store.find(parse_entry_id(value)) is None:
            raise RefusedError(f"there is no entry {value} on this log to hold")
        async with self._lock:
            return await self._operate(operations.HOLD, hold.to_bytes())

    async def release(self, hold: str, authoriser: str, reason: str) -> Registered:
        release = Release.from_bytes(Release(self._origin, hold, authoriser, reason, self._clock()).to_bytes())
        async with self._lock:
            if hold not in {each.entry for each in standing_holds(self._store)}:
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
                erasure = await asyncio.to_thread(self._judge, request)
                registered = await self._operate(operations.ERASURE, erasure.to_bytes())
            return Outcome(registered, await self._carry_out() if request.last else "")

    def _judge(self, request: Request) -> Erasure:
        now, tip = self._clock(), self._store.tip().size
        if not request.size <= tip:
            raise RefusedError("the plan is of a longer log than this one")
        if request.order and not request.authoriser:
            raise RefusedError("an order needs an authoriser")
        judging = _Judging(self._store, self._artifacts, request, now)
        items = tuple(judging.item(index) for index in sorted(set(request.indexes)))
        for index, _ in references_to(self._store, judging.digests, request.size, tip):
            if index not in request.indexes:
                raise RefusedError(f"entry {index} names the same artifact and was registered meanwhile; plan again")
        erasure = Erasure(self._origin, request.size, items)
        return Erasure.from_bytes(erasure.to_bytes())

    # -- carrying out --------------------------------------------------------------------------------------------

    async def _carry_out(self) -> str:
        """Do whatever registered erasures have left to do; why it is not all done, or ""."""
        upto, done = self._store.tip().size, self._store.erased_upto()
        pending = await asyncio.to_thread(lambda: erasures(self._store, down_to=done))
        works = [await asyncio.to_thread(self._work, at, each) for at, each in pending if each.log == self._origin]
        try:
            for work in works:
                await asyncio.to_thread(self._remove, work.digests)
            payloads = [index for work in works for index in work.payloads]
            if payloads:
                await self._write(lambda: self._store.erase(payloads))
            unfinished = await asyncio.to_thread(self._forget, works)
            if payloads:
                unfinished = str(await self._write(self._store.scrub)) or unfinished
        except OSError as error:
            return f"{error.strerror or error}"
        if not unfinished and (pending or upto - done >= _NOTE_EVERY):
            await self._write(lambda: self._store.note_erased(upto))
        return unfinished

    def _work(self, at: int, erasure: Erasure) -> _Work:
        digests: dict[str, set[int]] = {}
        payloads = []
        for item in erasure.items:
            row = self._store.entry(item.index)
            if row is None or row.kind is not Kind.STATEMENT or entry_id(row.entry) != item.entry:
                continue  # fsck and the audit name it
            if item.what == PAYLOAD:
                payloads.append(item.index)
            elif not row.erased and (digest := artifact_of(Statement.from_bytes(row.statement))) is not None:
                digests.setdefault(digest, set()).add(item.index)
        named = {item.index for item in erasure.items}
        for index, digest in references_to(self._store, list(digests), erasure.size, at):
            if index not in named:
                digests.pop(digest, None)  # its entry came in before the erasure: it is kept for that one
        indexes = [*payloads, *(index for group in digests.values() for index in group)]
        return _Work(tuple(digests), tuple(payloads), tuple(sorted(indexes)))

    def _remove(self, digests: Sequence[str]) -> None:
        for digest in digests:
            self._artifacts.erase(digest)

    def _forget(self, works: Sequence[_Work]) -> str:
        """Clear the search index of it. Entries that name an artifact and came after its erasure may be in it, too."""
        if not self._folder.search.exists() or not works:
            return ""
        digests = {digest for work in works for digest in work.digests}
        indexes = {index for work in works for index in work.indexes}
        newest = max(indexes, default=0)
        indexes |= {index for index, _ in references_to(self._store, digests, newest, self._store.tip().size)}
        try:
            with SearchIndex(self._folder.search) as search:
                for index in sorted(indexes):
                    _persist(lambda index=index: search.erase(index))  # type: ignore[misc]
            with contextlib.closing(connect(self._folder.search)) as connection:
                connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
                reason = sqlite_erasing.scrub(connection)
        except (OverloadedError, StoreError) as error:
            reason = str(error)
        return f"search index: {reason}" if reason else ""


class _Judging:
    """One request being looked at: each entry by itself, by one reading of holds, terms and audits."""

    def __init__(self, store: Store, artifacts: ArtifactStore, request: Request, now: int) -> None:
        self._store = store
        self._artifacts = artifacts
        self._request = request
        self._now = now
        self._terms = Terms(store)
        self._holds = standing_holds(store)
        self._audited = audited_size(store) if request.order else 0
        self.digests: set[str] = set()

    def item(self, index: int) -> Item:
        row = self._store.entry(index)
        if row is None or row.kind is not Kind.STATEMENT:
            raise RefusedError(f"entry {index} is the service's own, or not there: nothing of it is ever erased")
        if row.erased:
            raise RefusedError(f"entry {index} was erased already")
        statement = Statement.from_bytes(row.statement)
        hold = hold_on(row, statement, self._holds, self._artifacts)
        if hold is not None:
            raise RefusedError(f"entry {index} is on hold by {hold.entry} ({hold.hold.reason}); release that first")
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

    def _check_payload(self, index: int, tbs_digest: bytes) -> None:
        if not self._request.order:
            raise RefusedError(f"entry {index} carries its payload, which goes by order only (--order)")
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
        self.digests.add(digest)


def _persist(act: Callable[[], None]) -> None:
    """Once more where a reader was in the way, each time after having waited for it."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(OverloadedError):
            return act()
    return act()


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
