"""The registrar: how a worker gets statements registered. It reads and judges them; the owner of the log sequences.

What is in force comes from the owner, in the order of the log: an answer *stale* arrives after the policy that made it
so, and the statement is judged again. A refusal is asked back once, because what is registered already is answered with
its receipt whatever the policy says by now (LEAF-7).

Owner: the worker's event loop. Bounded: beyond ``MAX_UNDER_WAY`` bytes handed over and not answered, the next one is
told to come back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

from transparency.errors import JudgementStaleError, OverloadedError, RefusedError, StoreError, TransparencyError
from transparency.log.answers import Accepted
from transparency.log.gathering import ENOUGH
from transparency.log.judging import LARGE_RECORD
from transparency.policy.document import Policy
from transparency.policy.judge import Judge, Judgement, Opened, conclude
from transparency.policy.keyset import ServiceKeys
from transparency.policy.operations import reads_as_operation
from transparency.server.access import Client, check_issuer
from transparency.server.handing import Alike, Kind, Receipts, Said, Sheaf
from transparency.server.outcome import Answered, Receipted, bare, refusal_of, tell
from transparency.server.problems import ProblemError
from transparency.server.unexpected import log_unexpected
from transparency.statements.statement import Statement

MAX_UNDER_WAY = 64 * 1024 * 1024
MAX_JUDGEMENTS = 32
AT_ONCE = 32
MAX_TURN_SECONDS = 1.0
# In a turn of the loop that has more than this to do, there is a pause after so many.
PAUSE_EVERY = 4 * AT_ONCE
# Longer than a statement waits to be sequenced.
SOON_SECONDS = 60


Say = Callable[[Kind, object], None]


class Registrar(Protocol):
    """What a connection needs: this process' own log, or another's."""

    def submit(self, data: bytes, client: Client, answered: Answered, *, patient: bool) -> None:
        """Register one statement. *answered* may be called before this returns. A *patient* one is never 202.

        A call and no future: a callback of the event loop for each would cost more than the answer itself.
        """

    def no_more(self) -> None:
        """Who was patient until now has nobody left to wait for: a batch ends here."""

    @property
    def body_limit(self) -> int:
        """The largest body that a statement may come in."""


class UnderWay:
    """A statement that was handed over, or asked for, and what is to be done with the answer."""

    __slots__ = ("answered", "client", "judgements", "patient", "refusal", "statement", "tbs_digest")

    def __init__(self, statement: Statement, client: Client, answered: Answered, *, patient: bool) -> None:
        self.statement = statement
        self.tbs_digest = statement.tbs_digest
        self.client = client
        self.answered = answered
        self.patient = patient
        self.judgements = 0
        self.refusal: TransparencyError | None = None


_Incoming = tuple[bytes, Client, Answered, bool]


class RemoteRegistrar:
    """The owner of the log is another process."""

    def __init__(self, say: Say, limits: Callable[[int | None], bool], body_margin: int) -> None:
        """*limits* says whether a client with this rate of its own is limited: then the owner counts its requests."""
        self._say = say
        self._limits = limits
        self._body_margin = body_margin
        self._document = b""
        self._judge: Judge | None = None
        self._keys: ServiceKeys | None = None
        self._time = 0
        self._number = 0
        self._under_way: dict[int, UnderWay] = {}
        self.bytes_under_way = 0
        self._incoming: list[_Incoming] = []
        self._incoming_bytes = 0
        self._since = 0.0
        self._handed: list[tuple[int, UnderWay, Judgement]] = []
        self._asked: list[tuple[int, bytes]] = []
        # Called in the pauses of a long turn: there may be others who want an answer, and be it a refusal.
        self.in_pause: Callable[[], None] = lambda: None

    @property
    def body_limit(self) -> int:
        return self._policy().max_statement_size + self._body_margin

    @property
    def idle(self) -> bool:
        return not self._under_way

    def put_in_force(self, policy: bytes, keys: bytes, newest: int) -> None:
        """What the owner says is in force from now on; *newest* is the time of its newest head."""
        judge = self._judge
        if judge is None or self._document != policy:
            self._document, judge = policy, Judge(Policy.from_toml(policy))
        self.judge_by(judge, ServiceKeys.from_toml(keys), newest)

    def judge_by(self, judge: Judge, keys: ServiceKeys, newest: int) -> None:
        """The same, for who has read it already."""
        self._judge, self._keys = judge, keys
        self._time = max(self._time, newest)

    def submit(self, data: bytes, client: Client, answered: Answered, *, patient: bool) -> None:
        if self.bytes_under_way + self._incoming_bytes + len(data) > MAX_UNDER_WAY:
            tell(answered, OverloadedError("too many statements are waiting; nothing was accepted"))
            return
        if not self._incoming:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            loop.call_soon(self._work)
        self._incoming.append((data, client, answered, patient))
        self._incoming_bytes += len(data)

    def no_more(self) -> None:
        # Behind the turn of the loop that hands over what was submitted before.
        asyncio.get_running_loop().call_soon(self._say, Kind.NO_MORE, None)

    # -- work ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """All that this turn of the event loop brought, some at a time.

        When it takes too long the last of them are turned away, for little, instead of all being served late: so the
        wait has a bound however many connections there are.
        """
        incoming, self._incoming, self._incoming_bytes = self._incoming, [], 0
        now = asyncio.get_running_loop().time
        for start in range(0, len(incoming), AT_ONCE):
            if start and start % PAUSE_EVERY == 0:
                self._pause()
            some = incoming[start : start + AT_ONCE]
            if now() - self._since > MAX_TURN_SECONDS:
                for _, _, answered, _ in some:
                    tell(answered, OverloadedError("too many requests at once; nothing was accepted"))
            else:
                self._work_on(some)
                # The patient go together: the owner is not to be woken for each part of them.
                if len(self._handed) >= ENOUGH or not all(patient for *_, patient in some):
                    self._flush()
        self._flush()

    def _pause(self) -> None:
        try:
            self.in_pause()
        except Exception as error:  # noqa: BLE001 - those who are left are answered all the same
            log_unexpected("a pause in a long turn", error)

    def _work_on(self, some: list[_Incoming]) -> None:
        """Read all, judge all, hand all over: each stage finds its own code in the processor's caches."""
        for under_way, judgement in self._conclude(self._open(self._read(some))):
            self._hand_over(under_way, judgement)

    def _read(self, some: list[_Incoming]) -> list[UnderWay]:
        read = []
        for data, client, answered, patient in some:
            try:
                statement = Statement.from_bytes(data)
                check_issuer(client.token, statement)
            except Exception as error:  # noqa: BLE001 - whoever waits for it answers it
                tell(answered, error)
            else:
                read.append(UnderWay(statement, client, answered, patient=patient))
        return read

    # -- judging -------------------------------------------------------------------------------------------------

    def _open(self, read: list[UnderWay]) -> list[tuple[UnderWay, Opened]]:
        opened = []
        for under_way in read:
            statement = under_way.statement
            try:
                if len(statement.payload) > LARGE_RECORD and self._policy_reads(statement):
                    asyncio.get_running_loop().create_task(self._judge_slowly(under_way))
                else:
                    opened.append((under_way, self._opened(under_way)))
            except RefusedError as error:
                self._ask(under_way, error)
            except Exception as error:  # noqa: BLE001 - whoever waits for it answers it
                tell(under_way.answered, error)
        return opened

    def _conclude(self, opened: list[tuple[UnderWay, Opened]]) -> list[tuple[UnderWay, Judgement]]:
        judged = []
        for under_way, one in opened:
            try:
                judged.append((under_way, conclude(one)))
            except RefusedError as error:
                self._ask(under_way, error)
            except Exception as error:  # noqa: BLE001 - whoever waits for it answers it
                tell(under_way.answered, error)
        return judged

    def _policy(self) -> Policy:
        return self._current().policy

    def _current(self) -> Judge:
        if self._judge is None:
            raise OverloadedError("the log has not started yet", retry_after=1.0)
        return self._judge

    def _policy_reads(self, statement: Statement) -> bool:
        return self._current().reads_records_of(statement.iss)

    def _opened(self, under_way: UnderWay) -> Opened:
        judge, keys, statement = self._current(), self._keys, under_way.statement
        if keys is not None and reads_as_operation(statement, keys):
            raise RefusedError("what the service states about itself is registered by the service alone")
        return judge.open(statement, self._now(), under_way.tbs_digest)

    def _now(self) -> int:
        return max(int(time.time()), self._time)

    def _judgement(self, under_way: UnderWay) -> Judgement:
        return conclude(self._opened(under_way))

    async def _judge_slowly(self, under_way: UnderWay) -> None:
        try:
            judgement = await asyncio.to_thread(self._judgement, under_way)
        except RefusedError as error:
            self._ask(under_way, error)
        except Exception as error:  # noqa: BLE001 - whoever waits for it answers it
            tell(under_way.answered, error)
        else:
            self._hand_over(under_way, judgement)

    # -- to the owner --------------------------------------------------------------------------------------------

    def _hand_over(self, under_way: UnderWay, judgement: Judgement) -> None:
        under_way.judgements += 1
        number = self._begin(under_way)
        self._later()
        self._handed.append((number, under_way, judgement))

    def _ask(self, under_way: UnderWay, refusal: TransparencyError) -> None:
        under_way.refusal = bare(refusal)
        number = self._begin(under_way)
        self._later()
        self._asked.append((number, under_way.statement.entry))

    def _begin(self, under_way: UnderWay) -> int:
        self._number += 1
        self._under_way[self._number] = under_way
        self.bytes_under_way += len(under_way.statement.normalised)
        return self._number

    def _later(self) -> None:
        """Whatever this turn of the loop hands over goes out in one frame."""
        if not self._handed and not self._asked:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        if self._handed:
            handed, self._handed = self._handed, []
            self._hand(handed)
        if self._asked:
            asked, self._asked = self._asked, []
            self._say(Kind.ASKED, asked)

    def _hand(self, handed: list[tuple[int, UnderWay, Judgement]]) -> None:
        self._say(Kind.HANDED, self._sheaves(handed))

    def _sheaves(self, handed: list[tuple[int, UnderWay, Judgement]]) -> list[Sheaf]:
        alike: dict[tuple[Alike, int | None], list[tuple[int, UnderWay, Judgement]]] = {}
        soon = self._now() + SOON_SECONDS
        # Those that come together are mostly alike: what the last one was found by is compared first.
        last: tuple[object, ...] = ()
        group: list[tuple[int, UnderWay, Judgement]] = []
        for one in handed:
            _, under_way, (generation, _, not_after, collateral, unique) = one
            # Whose time is nearly over goes by itself: the others would have to be judged again with it.
            over = not_after if not_after < soon else None
            found_by = (generation, collateral, unique, over, under_way.client, under_way.patient, under_way.judgements)
            if found_by != last:
                group, last = alike.setdefault((self._alike(under_way, one[2]), over), []), found_by
            group.append(one)
        return [
            Sheaf.of(
                shared,
                (judgement for _, _, judgement in some),
                [(number, under_way.statement, under_way.tbs_digest) for number, under_way, _ in some],
            )
            for (shared, _), some in alike.items()
        ]

    def _alike(self, under_way: UnderWay, judgement: Judgement) -> Alike:
        client, rate = self._counted(under_way)
        return Alike(judgement.generation, judgement.collateral, judgement.unique, under_way.patient, client, rate)

    def _counted(self, under_way: UnderWay) -> tuple[str | None, int | None]:
        """For whom the owner counts it, if for anybody, and that client's own rate."""
        token = under_way.client.token
        rate = None if token is None else token.rate
        # A statement that is judged again was counted before.
        counts = under_way.judgements == 1 and self._limits(rate)
        return under_way.client.name if counts else None, rate

    # -- from the owner ------------------------------------------------------------------------------------------

    def heard_receipts(self, receipts: Receipts) -> None:
        for number, receipt in receipts.rows():
            self.heard_receipt(number, receipt)

    def heard_receipt(self, number: int, receipt: bytes) -> None:
        under_way = self._ended(number)
        if under_way is not None:
            tell(under_way.answered, Receipted(under_way.statement.entry, receipt, erased=False))

    def heard(self, answers: list[list[Any]]) -> None:
        for number, said, *more in answers:
            under_way = self._ended(number)
            if under_way is not None:
                self._answer(under_way, Said(said), more)

    def _ended(self, number: int) -> UnderWay | None:
        """Who waits for this answer; None if it was answered 202 before, and this says how it ended."""
        under_way = self._under_way.pop(number, None)
        if under_way is not None:
            self.bytes_under_way -= len(under_way.statement.normalised)
        return under_way

    def _answer(self, under_way: UnderWay, said: Said, more: list[Any]) -> None:
        match said:
            case Said.REGISTERED:
                receipt, erased = more
                tell(under_way.answered, Receipted(under_way.statement.entry, receipt, erased))
            case Said.ACCEPTED:
                tell(under_way.answered, Accepted(under_way.statement.entry))
            case Said.STALE:
                self._time = max(self._time, more[0])
                self._judge_again(under_way)
            case Said.UNKNOWN:
                refusal = under_way.refusal or RefusedError("refused")
                tell(under_way.answered, refusal_of(refusal, under_way.statement, self._policy().max_statement_size))
            case Said.PROBLEM:
                status, title, detail, headers, close = more
                tell(under_way.answered, ProblemError(status, title, detail, headers=headers, close=close))

    def _judge_again(self, under_way: UnderWay) -> None:
        if under_way.judgements >= MAX_JUDGEMENTS:
            tell(under_way.answered, JudgementStaleError("the policy is changing too fast to judge this statement"))
            return
        try:
            self._hand_over(under_way, self._judgement(under_way))
        except RefusedError as error:
            self._ask(under_way, error)
        except Exception as error:  # noqa: BLE001 - whoever waits for it answers it
            tell(under_way.answered, error)

    def lost(self, why: Exception | None = None) -> None:
        """The owner is gone, or failed: nobody knows what it has kept."""
        under_way, self._under_way = self._under_way, {}
        self.bytes_under_way = 0
        for each in under_way.values():
            tell(each.answered, why or StoreError("the owner of the log is gone"))
