"""The replay: one entry after the other judged again, as the log judged it, by what was in force at its place.

Rules of what a log may hold, each broken one a finding:
1. A statement hashes to its entry, and the roots of the signed heads follow from the entries.
2. Entries 0 and 1 are the documents of the pinned policy key; each later policy or key set follows from the one in
   force, ends its batch, and rules from the next entry on (REG-21, REG-22).
3. A statement is accepted by the policy in force, at its head's time, with its collateral and no other; where the
   policy refuses duplicates, nothing before it signs the same bytes, its twin excepted (LEAF-7).
4. An operation is signed by the operations key in use.
5. Manifests follow each other without gaps and say what was replayed here, the kind of each entry first (AMB-10).
6. A statement that is missing was erased by an order that stands on the log, after an audit of its entry, in this
   tree, does (REG-20).
7. No erasure names what stood under a hold that was registered before it and not released.
8. A head is signed by the receipts key in use after its batch, and no head's time is before its predecessor's.

What an entry claims to be (its kind) is only where to begin: whatever it claims, the rule of that kind has to hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from transparency.errors import RefusedError, TransparencyError
from transparency.log.audit_holds import Holds
from transparency.log.audit_place import Place
from transparency.log.audit_report import AuditReport, Outcome
from transparency.log.audit_scratch import Scratch, Seen
from transparency.log.documents import InForce, advance, bootstrap, check_pin, placed, read_policy
from transparency.log.store import DOCUMENTS, Kind, StoredEntry
from transparency.merkle.hashing import leaf_hash
from transparency.policy import erasure, keyset, operations
from transparency.policy.audited import Audited
from transparency.policy.erasure import Erasure
from transparency.policy.judge import Judge
from transparency.policy.manifest import Admission, Manifest, collateral_digest
from transparency.policy.operations import read_operation, reads_as_operation
from transparency.statements.certificates import with_collateral
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry, Statement, entry_id, entry_of, parse_entry_id
from transparency.statements.twins import twin_entry

_INIT = (Kind.POLICY, Kind.KEYS)
_FIRST = "first"
_NAMES = {Kind.POLICY: "policy", Kind.KEYS: "keys"}
# Heads may be few where somebody removed them: what waits for the next one is bounded all the same.
_MOST_LEAVES = 4_096


class Replay:
    """What the audit knows at one place of the log. Fed entry by entry, and with each head after its entries."""

    def __init__(self, policy_key: bytes, report: AuditReport, scratch: Scratch | None = None) -> None:
        """On *scratch* paper that has been used before it goes on where :meth:`save` was called."""
        self._policy_key = policy_key
        self._report = report
        self._scratch = Scratch() if scratch is None else scratch
        self._holds = Holds(self._scratch)
        self._first: Statement | None = None
        self._in_force: InForce | None = None
        self._judge: Judge | None = None
        self._leaves: list[bytes] = []
        self._place = Place()
        saved = self._scratch.place()
        if saved is not None:
            self._resume(saved)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.__exit__()

    # -- going on later ------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Put away what is known here, on the scratch paper; its owner commits."""
        self._grow()
        self._scratch.keep_place(self._place.to_bytes(self._report))

    def _resume(self, saved: bytes) -> None:
        self._place = Place.from_bytes(saved, self._report)
        documents = {name: self._scratch.document(name) for name in (_FIRST, *_NAMES.values())}
        first, policy, keys = documents[_FIRST], documents[_NAMES[Kind.POLICY]], documents[_NAMES[Kind.KEYS]]
        if first is not None:
            self._first = Statement.from_bytes(first[1])
        if policy is not None and keys is not None and not self._place.lost:
            self._rule(placed((policy[0], Statement.from_bytes(policy[1])), (keys[0], Statement.from_bytes(keys[1]))))

    @property
    def in_force(self) -> InForce | None:
        """The policy and the key set at this place; None where nobody can say."""
        return self._in_force

    def root_at(self, size: int) -> bytes | None:
        """The root that the entries gave at an earlier head; None where no head has that size."""
        return self._scratch.root_at(size)

    def gone(self) -> Iterator[tuple[int, Entry]]:
        """Entries that are not there any more, and no order to erase them stands before this place."""
        return self._scratch.unjustified()

    # -- entries -------------------------------------------------------------------------------------------------

    def entry(self, row: StoredEntry, head: SignedHead) -> Outcome:
        """Replay one entry, which *head* is the first to cover; what became of it so far (a manifest may object)."""
        self._leaves.append(leaf_hash(row.entry))
        if len(self._leaves) >= _MOST_LEAVES:
            self._grow()
        try:
            outcome = self._replay(row, head)
        except TransparencyError as error:
            self._find(row, str(error))
            outcome = Outcome.FAILED
            if row.kind in DOCUMENTS:
                self._lose(row)
        self._report.entries[outcome] += 1
        admission = Admission(int(row.kind), row.generation, head.time, collateral_digest(row.collateral))
        self._scratch.see(Seen(row.index, row.entry, admission, outcome))
        return outcome

    def _replay(self, row: StoredEntry, head: SignedHead) -> Outcome:
        if row.erased:
            if row.kind is not Kind.STATEMENT:
                raise RefusedError("it is gone, though nothing of the service's own is ever erased")
            self._scratch.erase(row.index, row.entry)
            return Outcome.ERASED
        if entry_of(row.statement) != row.entry:
            raise RefusedError("the stored statement does not hash to the entry")
        statement = Statement.from_bytes(row.statement)
        if statement.normalised != row.statement:
            raise RefusedError("the statement is not stored in its normalised form")
        if row.index < len(_INIT) and not self._place.lost:
            self._begin(row, statement)
        elif self._in_force is None or self._judge is None:
            return Outcome.UNKNOWN
        else:
            self._decide(row, statement, head, self._in_force, self._judge)
        self._scratch.sign(statement.tbs_digest, row.entry)
        return Outcome.REPRODUCED

    def _begin(self, row: StoredEntry, statement: Statement) -> None:
        if row.kind is not _INIT[row.index] or row.generation != row.index or row.collateral:
            raise RefusedError("entries 0 and 1 are the policy and the key set that init registers")
        if row.index == 0:
            check_pin(read_policy(statement), self._policy_key)
            self._first = statement
            self._scratch.keep_document(_FIRST, row.index, row.statement)
        elif self._first is not None:
            self._rule(bootstrap(self._first, statement, read_policy(self._first).log, self._policy_key))

    def _decide(
        self, row: StoredEntry, statement: Statement, head: SignedHead, in_force: InForce, judge: Judge
    ) -> None:
        generation = in_force.policy.policy.generation
        if row.generation != generation:
            raise RefusedError(f"it says policy generation {row.generation}, in force was {generation}")
        if row.kind is Kind.STATEMENT:
            self._holds.see(row.index, statement)
            self._accept(row, statement, head.time, judge)
            return
        if row.collateral:
            raise RefusedError("there are certificates beside it that nothing asks for")
        if row.kind is Kind.OPERATION:
            self._operation(row, statement, read_operation(statement, in_force.keys.keys, head.time))
        elif row.index != head.size - 1:
            raise RefusedError("a policy or key set ends its batch, and this one does not")
        else:
            self._rule(advance(in_force, statement, row.kind, row.index))

    def _accept(self, row: StoredEntry, statement: Statement, time: int, judge: Judge) -> None:
        assert self._in_force is not None  # noqa: S101 - there is no judge without
        if reads_as_operation(statement, self._in_force.keys.keys):
            raise RefusedError("it reads as an operation of the service, which is never taken as a statement")
        judgement = judge.judge(with_collateral(statement, row.collateral), time)
        if not judgement.holds_at(time):
            raise RefusedError(f"it could not be accepted at {time}, its head's time")
        if judgement.collateral != row.collateral:
            raise RefusedError("the certificates beside it are not those that its acceptance takes")
        if judgement.unique:
            others, twin = self._scratch.signatures(statement.tbs_digest, twin_entry(statement))
            if others and not twin:
                raise RefusedError("the policy refuses duplicates, and these bytes were registered before")

    def _rule(self, in_force: InForce) -> None:
        report = self._report
        if self._in_force is None or in_force.policy is not self._in_force.policy:
            self._judge = Judge(in_force.policy.policy)
        self._in_force = in_force
        for kind, document in ((Kind.POLICY, in_force.policy), (Kind.KEYS, in_force.keys)):
            self._scratch.keep_document(_NAMES[kind], document.index, document.statement.normalised)
        report.origin = in_force.policy.policy.log
        report.generations = in_force.policy.policy.generation
        report.key_sets = in_force.keys.keys.generation

    def _lose(self, row: StoredEntry) -> None:
        if not self._place.lost:
            self._find(row, "what was in force after it cannot be known, so nothing after it can be replayed")
        self._place.lost = True
        self._in_force = self._judge = None

    # -- what the service said about itself ----------------------------------------------------------------------

    def _operation(self, row: StoredEntry, statement: Statement, subject: str) -> None:
        if subject == operations.MANIFEST:
            self._check_manifest(row, Manifest.from_bytes(statement.payload))
        elif subject == operations.ERASURE:
            self._take_order(row, Erasure.from_bytes(statement.payload))
        elif subject == operations.HOLD:
            self._holds.take(entry_id(row.entry), statement.payload, self._report.origin)
        elif subject == operations.AUDIT:
            audited = Audited.from_bytes(statement.payload)
            if audited.log != self._report.origin or audited.size > row.index:
                raise RefusedError("the audit is another log's, or of entries that were not there yet")
            if self._scratch.root_at(audited.size) != audited.root:
                raise RefusedError(f"the audit is of another tree: it names a root that no head of {audited.size} has")
            self._place.audited = max(self._place.audited, audited.size)

    def _take_order(self, row: StoredEntry, order: Erasure) -> None:
        """It justifies that statements before it are gone, and names nothing that a hold kept.

        Whether artifacts are here the audit does not ask.
        """
        if order.log != self._report.origin:
            raise RefusedError("the erasure is another log's")
        for item in order.items:
            hold = self._holds.on(item)
            if hold:
                self._find(row, f"entry {item.index} was to be erased, and stood under the hold {hold}")
            self._report.holds_untold += hold == ""
            if item.what == erasure.PAYLOAD and item.index < row.index:
                self._scratch.justify(item.index, parse_entry_id(item.entry))
                if item.index >= self._place.covered:
                    self._find(row, f"entry {item.index} was to be erased, and no manifest covered it before")
                if item.index >= self._place.audited:
                    self._find(row, f"entry {item.index} was to be erased, and no audit of it stood on the log before")

    def _check_manifest(self, row: StoredEntry, manifest: Manifest) -> None:
        self._report.manifests += 1
        if manifest.log != self._report.origin or manifest.end > row.index:
            raise RefusedError("the manifest is another log's, or covers entries that were not there yet")
        if manifest.first < self._place.covered:
            raise RefusedError(
                f"the manifest begins at {manifest.first}, and {self._place.covered} entries were covered"
            )
        if manifest.first > self._place.covered:
            self._find(
                row, f"no manifest that can be read covers entries {self._place.covered} to {manifest.first - 1}"
            )
        elif manifest.previous != self._place.manifest:
            self._find(row, "the manifest does not name the one before it")
        seen = {one.index: one for one in self._scratch.take(manifest.first, manifest.end)}
        for index, said in manifest.admissions():
            self._compare(seen[index], said, row.index)
        self._place.covered, self._place.manifest = manifest.end, entry_id(row.entry)

    def _compare(self, seen: Seen, said: Admission, at: int) -> None:
        have = seen.admission
        differs = []
        if have.kind != said.kind:
            differs.append(f"kind {_name(said.kind)}, the log says {_name(have.kind)}")
        if have.generation != said.generation:
            differs.append(f"policy generation {said.generation}, the log says {have.generation}")
        if have.time != said.time:
            differs.append(f"time {said.time}, its tree head says {have.time}")
        if have.collateral != said.collateral and seen.outcome != Outcome.ERASED:
            differs.append("other certificates than those beside it" if have.collateral else "certificates, now gone")
        if not differs:
            return
        what = f"the manifest at entry {at} says it was admitted with {', and '.join(differs)}"
        self._report.add(seen.index, entry_id(seen.entry), what)
        if seen.outcome == Outcome.REPRODUCED:
            self._report.entries[Outcome.REPRODUCED] -= 1
            self._report.entries[Outcome.FAILED] += 1

    # -- heads ---------------------------------------------------------------------------------------------------

    def head(self, head: SignedHead) -> None:
        """Check a head whose entries were all given."""
        self._report.heads += 1
        self._grow()
        root = self._place.edge.root()
        self._scratch.keep_root(head.size, root)
        if self._place.roots_hold and head.root != root:
            self._place.roots_hold = False  # from here on all differ, which says nothing new
            self._find_head(head, "its root does not follow from the entries; an entry at or before it was replaced")
        if head.time < self._place.time:
            self._find_head(head, "its time is before its predecessor's")
        self._place.time = max(self._place.time, head.time)
        if self._in_force is None:
            return
        keys = self._in_force.keys.keys
        key = next((key for key in keys.at(keyset.RECEIPTS, head.time) if key.kid == head.kid), None)
        try:
            if key is None:
                raise RefusedError("it is signed by a key that was not the receipts key in use")
            head.verify(key, iss=keys.iss, origin=keys.log)
        except TransparencyError as error:
            self._find_head(head, str(error))

    def _grow(self) -> None:
        self._place.edge.extend(self._leaves)
        self._leaves = []

    def end(self) -> None:
        """Nothing follows: what was left open is now a finding, or cannot be told."""
        for index, entry in self._scratch.unjustified():
            self._report.add(index, entry_id(entry), "it is gone, and no order to erase it stands on the log")
            self._report.entries[Outcome.ERASED] -= 1
            self._report.entries[Outcome.FAILED] += 1
        self._report.unproven = self._scratch.with_collateral()
        if self._in_force is None and not self._place.lost and self._report.clean:
            self._report.add(-1, "", "there is no log: entries 0 and 1 and their tree head are missing")

    def _find(self, row: StoredEntry, what: str) -> None:
        self._report.add(row.index, entry_id(row.entry), what)

    def _find_head(self, head: SignedHead, what: str) -> None:
        self._report.add(-1, "", f"tree head of size {head.size}: {what}")


def _name(kind: int) -> str:
    return Kind(kind).name.lower()
