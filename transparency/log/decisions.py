"""What is decided about a candidate when its batch is taken, at one decision time: the next head's.

1. A candidate judged under another generation than the current, or whose interval does not hold at that time, goes
   back to be judged again (:class:`JudgementStaleError`). It was not sequenced.
2. A document of the service (policy, keys) is checked against the one in force, and ends its batch: what follows it
   is judged under what it says (REG-21, REG-22). What the service states about itself (operations) is checked against
   the key set in force and the time, and does not end its batch.
3. An entry that is in the tree already, by the recent table or the digest index, is answered with its place.
4. A candidate whose judgement says *unique* is refused if the tree or this batch holds another signature over the
   same bytes, unless its (r, n-s) twin is among them: a malleated copy must not block the genuine one (LEAF-7).
5. The (r, n-s) twin of an erased entry is refused: what was erased stays erased (REG-20).
A lot of statements that were judged alike is decided on as one while none of this can tell one of them from another;
else it is taken apart, and each is decided on by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from transparency.errors import GoneError, JudgementStaleError, RefusedError, TransparencyError
from transparency.log.candidate import Candidate, Lot, Standing
from transparency.log.recent import Recent
from transparency.log.store import DOCUMENTS, Kind, NewEntry, Store
from transparency.policy.judge import Judgement
from transparency.statements.statement import Entry, Statement
from transparency.statements.twins import twin_entry


class Decisions:
    """Owner: the event loop."""

    def __init__(self, store: Store, recent: Recent, find: Callable[[Entry], int | None], generation: int) -> None:
        self._store = store
        self._recent = recent
        self._find = find
        # Of the policy in force.
        self.generation = generation
        # Whether any erasure stands on the log: only then is it asked whether something erased comes back.
        self.some_erased = False
        # Whether any policy has asked for it: only then are the signed bytes of a batch compared.
        self.some_unique = False

    def stay_together(self, lot: Lot, known: Collection[Entry], now: int) -> bool:
        """Whether nothing that is asked of each of a lot can have two answers, and the answer is yes."""
        if self.some_unique or self.some_erased or not self._holds(lot.judgement, now):
            return False
        return not known or not any(new.entry in known for new in lot.rows)

    def outcome(
        self, candidate: Candidate, known: Mapping[Entry, int], signed: dict[bytes, set[Entry]], now: int
    ) -> Standing | TransparencyError | None:
        """How it ends without a commit; None if it is to be committed. *signed* is what this batch signs."""
        new = candidate.new
        if new.entry in known:
            return Standing(known[new.entry])
        refusal = self._refusal(candidate, now)
        if self.some_unique and refusal is None:
            refusal = self._second(candidate, signed)
        if self.some_erased and refusal is None:
            refusal = self._brings_back(new)
        if self.some_unique and refusal is None:
            signed.setdefault(new.tbs_digest, set()).add(new.entry)
        return refusal

    def _holds(self, judgement: Judgement, now: int) -> bool:
        return judgement.generation == self.generation and judgement.holds_at(now)

    def _refusal(self, candidate: Candidate, now: int) -> TransparencyError | None:
        if candidate.check is not None:
            try:
                candidate.check(now)
            except TransparencyError as error:
                return error
        if candidate.kind in DOCUMENTS:
            return None  # its place is what was checked
        if not self._holds(candidate.judgement, now):
            return JudgementStaleError("the policy or the time has moved on; judge again")
        return None

    def _second(self, candidate: Candidate, signed: dict[bytes, set[Entry]]) -> TransparencyError | None:
        """The refusal of a second signature over the same bytes, where the policy wants but one."""
        if not candidate.judgement.unique:
            return None
        tbs = candidate.new.tbs_digest
        if tbs not in signed and not self._recent.has_signed(tbs) and not self._store.siblings(tbs, 1):
            return None
        twin = twin_entry(Statement.from_bytes(candidate.new.statement))
        if twin is not None and (twin in signed.get(tbs, ()) or self._find(twin) is not None):
            return None
        return RefusedError("the policy refuses duplicates: these bytes are registered under another signature")

    def _brings_back(self, new: NewEntry) -> TransparencyError | None:
        """The refusal of an erased statement in its signature's other form, which whoever has it can write (REG-20)."""
        twin = twin_entry(Statement.from_bytes(new.statement)) if new.kind is Kind.STATEMENT else None
        index = self._find(twin) if twin is not None else None
        row = self._store.entry(index) if index is not None else None
        if row is None or not row.erased:
            return None
        return GoneError(f"this is entry {row.index}, which was erased, with its signature in another form")
