"""The log, open and owned: registers statements, gives receipts, keeps its own documents. What a server serves.

One object, one event loop. Reads are plain calls; what waits for the sequencer is awaited. The order of a registration
is RFC 9943 §6.3's: form, duplicate, judgement (signature and policy), append, receipt.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from transparency.cose.keys import PublicKey
from transparency.errors import GoneError, JudgementStaleError, NotFoundError, OverloadedError
from transparency.log.answers import Accepted, Failed, Found, LogStatus, Lookup, Pending, PolicyVersion, Registered
from transparency.log.appender import Clock
from transparency.log.candidate import Batch, Candidate, Place, Standing
from transparency.log.documents import InForce
from transparency.log.erasure import Erasures
from transparency.log.export import write_entries, write_heads
from transparency.log.folder import Passphrase
from transparency.log.intake import Intake
from transparency.log.judging import judge_statement
from transparency.log.manifests import Manifests
from transparency.log.opening import Opened, open_log
from transparency.log.operations import operation_candidate, sign_operation
from transparency.log.receipts import Receipts
from transparency.log.role import Role
from transparency.log.sequencer import Sequencer
from transparency.log.signers import ReceiptSigners
from transparency.log.stated import any_erasure, policies_from
from transparency.log.store import IntakeRow, StoredEntry
from transparency.log.updates import keys_candidate, policy_candidate
from transparency.log.writer import Writer
from transparency.policy import keyset, operations
from transparency.policy.document import Policy
from transparency.policy.judge import Judge, Judgement
from transparency.policy.keyset import ServiceKeys
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry, Statement
from transparency.statements.transparent import attach_receipts

__all__ = ["Accepted", "Failed", "Found", "Log", "LogStatus", "Lookup", "Pending", "PolicyVersion", "Registered"]

_T = TypeVar("_T")
MAX_JUDGEMENTS = 32
MAX_SIBLINGS = 1_000


def system_clock() -> int:
    return int(time.time())


class Log:
    """Owner of the folder, the store, the sequencer and what is in force. Made by :meth:`open`, then :meth:`start`."""

    role = Role.OWNER
    leader = ""

    def __init__(self, opened: Opened, clock: Clock) -> None:
        self._opened = opened
        self._clock = clock
        self._store = opened.store
        self._in_force = opened.in_force
        self.judge = Judge(opened.in_force.policy.policy)
        self._receipts = Receipts(opened.store, lambda: opened.appender.tip.size)
        # A key is read once: what the service states about itself comes often.
        self._load_key = functools.cache(opened.folder.load_key)
        self._sequencer: Sequencer | None = None
        self._intake: Intake | None = None
        self._manifests: Manifests | None = None
        self._erasures: Erasures | None = None
        self.on_failure: Callable[[BaseException], None] | None = None
        self.on_in_force: Callable[[], None] | None = None

    @classmethod
    def open(
        cls,
        data: Path,
        *,
        watermark: Path | None = None,
        db: str | None = None,
        clock: Clock = system_clock,
        allow_lost_key: bool = False,
        passphrase: Passphrase | None = None,
    ) -> Log:
        opened = open_log(
            data, clock=clock, watermark=watermark, db=db, allow_lost_key=allow_lost_key, passphrase=passphrase
        )
        return cls(opened, clock)

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self, *, drain: bool = True, manifests: bool = False, in_place: bool = False) -> None:
        """Begin to sequence, and to bring in what was acknowledged with 202 (unless not to *drain*).

        With *manifests* admission manifests are made in time and at the stop, as whoever serves a log for long does.
        *in_place* is for an event loop that has others do its other work (writer.py).
        """
        self._sequencer = Sequencer(
            self._opened.appender, self._store, self.policy.generation, Writer(in_place=in_place)
        )
        self._sequencer.on_failure = self._failed
        self._sequencer.start()
        self._intake = Intake(self._store, self._sequencer, self._sequence, self._clock)
        self._manifests = Manifests(
            self._store, self.origin, lambda: self._opened.appender.tip.size, self.operate, self._clock
        )
        self._erasures = Erasures(
            self._store, self._opened.folder, self.origin, self.operate, self._sequencer, self._clock
        )
        self._sequencer.on_published.append(self._manifests.grown)
        self._sequencer.some_erased = await asyncio.to_thread(any_erasure, self._store)
        await self._erasures.take_up()
        await self._intake.start(drain=drain)
        if manifests:
            self._manifests.start()

    async def stop(self) -> None:
        """Drain and close. What was accepted is committed first, or durable in the intake."""
        if self._sequencer is not None:
            if self._intake is not None:
                await self._intake.stop()
            if self._erasures is not None:
                await self._erasures.settle()
            if self._manifests is not None:
                await self._manifests.stop(cover=self._sequencer.alive)
            await self._sequencer.stop()
        self._opened.close()

    def _failed(self, error: BaseException) -> None:
        if self.on_failure is not None:
            self.on_failure(error)

    @property
    def sequencer(self) -> Sequencer:
        return _started(self._sequencer)

    @property
    def intake(self) -> Intake:
        return _started(self._intake)

    @property
    def manifests(self) -> Manifests:
        return _started(self._manifests)

    @property
    def erasures(self) -> Erasures:
        return _started(self._erasures)

    # -- what is in force ----------------------------------------------------------------------------------------

    @property
    def origin(self) -> str:
        return self._opened.config.origin

    @property
    def iss(self) -> str:
        return self._opened.config.iss

    @property
    def data(self) -> Path:
        return self._opened.folder.path

    @property
    def opened(self) -> Opened:
        """Its parts, for who works beside it. Writes to the store go through the sequencer."""
        return self._opened

    @property
    def policy(self) -> Policy:
        return self._in_force.policy.policy

    @property
    def policy_document(self) -> bytes:
        """The TOML as registered, to the byte."""
        return self._in_force.policy.statement.payload

    @property
    def policy_entry_id(self) -> str:
        return self._in_force.policy.entry_id

    @property
    def service_keys(self) -> ServiceKeys:
        return self._in_force.keys.keys

    @property
    def service_keys_document(self) -> bytes:
        return self._in_force.keys.statement.payload

    @property
    def service_keys_entry_id(self) -> str:
        return self._in_force.keys.entry_id

    def receipt_keys(self) -> tuple[PublicKey, ...]:
        """Every key that ever signed receipts here, those in use first (KEY-8)."""
        return self.service_keys.ever(keyset.RECEIPTS)

    def policy_history(self, first: int = 1) -> list[PolicyVersion]:
        """One page of the generations from *first* on, the oldest first (log/stated.py). For any thread."""
        return policies_from(self._store, self._in_force.policy, first)

    # -- registration --------------------------------------------------------------------------------------------

    async def register(self, data: bytes | Statement) -> Registered:
        """Register one statement and wait for its receipt. A known one is answered without a new judgement (LEAF-7)."""
        statement = data if isinstance(data, Statement) else Statement.from_bytes(data)
        index = self.sequencer.find(statement.entry)
        if index is not None:
            return self._known(statement.entry, index)
        sequenced = await self._sequence(statement, None)
        return self.registered(statement.entry, sequenced)

    async def accept(self, data: bytes | Statement) -> Registered | Accepted:
        """As :meth:`register`, but return once the statement and its judgement are durable in the intake."""
        statement = data if isinstance(data, Statement) else Statement.from_bytes(data)
        index = self.sequencer.find(statement.entry)
        if index is not None:
            return self._known(statement.entry, index)
        if self.intake.holds(statement.entry):
            return Accepted(statement.entry)
        judgement = await self._judgement(statement)
        if self.intake.holds(statement.entry):  # another client sent the same while this one was judged
            return Accepted(statement.entry)
        row = IntakeRow(statement.entry, statement.normalised, judgement, accepted=self._clock())
        await self.intake.take_in(row)
        return Accepted(statement.entry)

    async def update_policy(self, data: bytes) -> Registered:
        """The admin route (REG-22): the next policy, signed by the policy key in force."""
        statement = Statement.from_bytes(data)
        if statement.entry_id == self.policy_entry_id:
            return self._known(statement.entry, self._in_force.policy.index)
        policy = self._in_force.admit_policy(statement)
        candidate = policy_candidate(statement, policy, lambda: self._in_force, self._put_in_force)
        return self.registered(statement.entry, await self.sequencer.submit(candidate))

    async def update_keys(self, data: bytes) -> Registered:
        """The next key set, signed by the policy key: in force from this head on, an announced key from its time."""
        statement = Statement.from_bytes(data)
        if statement.entry_id == self.service_keys_entry_id:
            return self._known(statement.entry, self._in_force.keys.index)
        keys = self._in_force.admit_keys(statement)
        signers = ReceiptSigners.open(keys, self._opened.folder.load_key, self.sequencer.decision_time())
        candidate = keys_candidate(
            statement, keys, signers.at, lambda: self._in_force, self._put_in_force, self.newest_head
        )
        return self.registered(statement.entry, await self.sequencer.submit(candidate))

    def _put_in_force(self, in_force: InForce) -> None:
        """Called by the sequencer between two batches: what follows is judged by this."""
        if in_force.policy is not self._in_force.policy:
            self.judge = Judge(in_force.policy.policy)
            self.sequencer.generation = in_force.policy.policy.generation
        self._in_force = in_force
        if self.on_in_force is not None:
            self.on_in_force()

    async def _sequence(self, statement: Statement, judgement: Judgement | None) -> Place:
        """Judge and submit, and again as often as policy or time move on in between."""
        for _ in range(MAX_JUDGEMENTS):
            if judgement is None:
                judgement = await self._judgement(statement)
            try:
                return await self.sequencer.submit(Candidate.of(statement, judgement))
            except JudgementStaleError:
                judgement = None
        raise _too_fast()

    async def _judgement(self, statement: Statement) -> Judgement:
        return await judge_statement(self.judge, statement, self.service_keys, self.sequencer.decision_time())

    async def operate(self, subject: str, payload: bytes, content_type: str = "application/cbor") -> Registered:
        """Register what the service states about itself, by its operations key (policy/operations.py)."""
        for _ in range(MAX_JUDGEMENTS):
            statement = sign_operation(
                self.service_keys, self._load_key, subject, payload, content_type, self.sequencer.decision_time()
            )
            index = self.sequencer.find(statement.entry)
            if index is not None:
                return self._known(statement.entry, index)
            candidate = operation_candidate(statement, self.policy.generation, lambda: self.service_keys)
            try:
                sequenced = await self.sequencer.submit(candidate)
            except JudgementStaleError:
                continue
            self.sequencer.some_erased |= subject == operations.ERASURE
            return self.registered(statement.entry, sequenced)
        raise _too_fast()

    def registered(self, entry: Entry, place: Place) -> Registered:
        if isinstance(place, Standing):
            return self._known(entry, place.index)
        return Registered(entry, place.index, self.receipts_of(place.batch, place.index)[0], new=True)

    def receipts_of(self, batch: Batch, index: int, count: int = 1) -> list[bytes]:
        """Of *count* entries from *index* on, which came into the tree just now."""
        return self._receipts.of_batch(batch, index, count)

    def _known(self, entry: Entry, index: int) -> Registered:
        return Registered(entry, index, self.receipt(index), new=False)

    # -- reading -------------------------------------------------------------------------------------------------

    def lookup(self, entry: Entry) -> Lookup:
        index = self.sequencer.find(entry)
        if index is not None:
            return Found(index)
        if self.intake.holds(entry):
            return Pending()
        row = self._store.intake_get(entry)
        if row is not None:
            return Pending() if row.failed is None else Failed(row.failed)
        return None

    def receipt_head(self, index: int) -> SignedHead:
        return self._receipts.head_for(index, self.service_keys)

    def receipt(self, index: int, size: int | None = None) -> bytes:
        head = self.receipt_head(index) if size is None else self._receipts.head_of_size(size)
        return self._receipts.inclusion(index, head)

    def consistency(self, old: int, new: int | None = None) -> bytes:
        head = self.newest_head() if new is None else self._receipts.head_of_size(new)
        return self._receipts.consistency(old, head)

    def stored(self, index: int) -> StoredEntry:
        row = self._store.entry(index)
        if row is None:
            raise NotFoundError(f"this log has no entry {index}")
        return row

    def statement(self, index: int) -> bytes:
        row = self.stored(index)
        if row.erased:
            raise GoneError(f"the statement of entry {index} was erased; its place in the tree and its receipts stay")
        return row.statement

    def transparent_statement(self, index: int) -> bytes:
        """The statement as registered, with its receipt and nothing else at 394 (LEAF-4, TSt-4)."""
        return attach_receipts(self.statement(index), [self.receipt(index)], keep_unprotected=False)

    def siblings(self, index: int) -> list[tuple[int, Entry]]:
        """Other entries that sign the same bytes (LEAF-7), at most a thousand. Derived: it may lag by seconds."""
        found = self._store.siblings(self.stored(index).tbs_digest, MAX_SIBLINGS + 1)
        return [(other, entry) for other, entry in found if other != index][:MAX_SIBLINGS]

    def export_entries(self, start: int) -> bytes:
        """One page of entries from index *start* on, as an audit reads them (log/export.py). For any thread."""
        return write_entries(self._store.entries(start, self._opened.appender.tip.size))

    def export_heads(self, after: int) -> bytes:
        """One page of the heads that are larger than *after*."""
        size = self._opened.appender.tip.size
        return write_heads(itertools.takewhile(lambda head: head.size <= size, self._store.heads(after)))

    def newest_head(self) -> SignedHead:
        return self._receipts.newest()

    def check_newest_head(self) -> None:
        """What readiness means: the newest head is signed by a key of ours over the root it says."""
        head = self.newest_head()
        key = self.service_keys.by_kid(keyset.RECEIPTS, head.kid)
        if key is None:
            raise NotFoundError("the newest head's key is not in the key set")
        head.verify(key, iss=self.iss, origin=self.origin)

    def status(self) -> LogStatus:
        head, sequencer = self.newest_head(), self.sequencer
        counters = sequencer.counters
        return LogStatus(
            origin=self.origin,
            iss=self.iss,
            size=head.size,
            root=head.root,
            head_time=head.time,
            generation=self.policy.generation,
            epoch=self._opened.appender.tip.epoch,
            waiting=sequencer.waiting,
            accepted=counters.accepted,
            sequenced=counters.sequenced,
            published=counters.published,
            alive=sequencer.alive,
        )


def _started(part: _T | None) -> _T:
    if part is None:
        raise OverloadedError("the log has not started yet", retry_after=1.0)
    return part


def _too_fast() -> OverloadedError:
    return OverloadedError("the policy is changing too fast to judge this statement; try again", retry_after=2.0)
