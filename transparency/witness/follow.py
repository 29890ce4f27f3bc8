"""The compliance cosigner: takes one checkpoint of a log as it is observed, and cosigns it after replaying all of it.

A round (design section 9):
1. The checkpoint that the log serves, signed by a key that the log's own key set lists, which follows from the pinned
   policy key. It extends what was cosigned last: by a proof from the log's tiles, and again by the entries themselves.
2. Every entry up to it is fetched, replayed and examined (follow_replay.py); the entries give the root that was signed.
3. It is cosigned, unless the *log* misbehaved: an inconsistent tree, a statement that does not hash to its leaf, an
   admission that signature and policy do not reproduce, an entry neither obtainable nor properly erased. What a
   *record* looks like never withholds a cosignature, or any submitter could stop the log.
4. The record of it is durable, mark included, before anybody can read it (state.py).

An entry that is gone needs an order under the checkpoint. The log registers the order first and erases then, so where
the statement was taken away between the checkpoint and our reading, the order is on the log already, beyond the
checkpoint: then nothing is said, and the next checkpoint is waited for. Where it is not, that is misbehaviour at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from transparency.client.tiles import TileClient, TiledTree
from transparency.display import safe_text
from transparency.errors import (
    LogUnusableError,
    NoteError,
    ProofError,
    ServiceRefusedError,
    SignatureInvalidError,
    StoreError,
    TransparencyError,
    UnreachableError,
)
from transparency.log.audit_sources import RemoteSource
from transparency.log.documents import check_pin, read_policy
from transparency.notes.checkpoint import SignedCheckpoint, verify_log_signatures
from transparency.notes.cosignature import verify_cosignatures
from transparency.notes.requests import AddCheckpoint
from transparency.notes.vkey import VerifierKey
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.statements.statement import Statement
from transparency.verifier.evidence import Evidence as EvidenceFile
from transparency.witness.decide import Answer, Approved, Submission, judge, read_submission
from transparency.witness.findings import Findings
from transparency.witness.follow_conditions import ENDING, MISSING, TILES, Condition, gone_entries
from transparency.witness.follow_evidence import smaller_tree, split_view
from transparency.witness.follow_replay import EntryMissingError, FollowReplay, Reading
from transparency.witness.keys import WitnessKeys
from transparency.witness.record import Move, Record
from transparency.witness.state import WitnessState

_T = TypeVar("_T")
# The log is there, and does not take the token.
_REFUSED: Final = (401, 403)
What = Literal[
    "cosigned", "current", "withheld", "waiting", "behind", "bad-checkpoint", "unreachable", "refused", "stopped"
]


@dataclass(frozen=True, slots=True)
class Round:
    """What one look at the log came to; ``size`` is that of the checkpoint, if there was one."""

    what: What
    size: int = 0
    detail: str = ""


class Follower:
    """Owner of state and findings, which one worker thread touches. ``shown`` is what others may read of the state.

    *reading* gives the log's export and records; it is used in the worker's thread only.
    """

    def __init__(
        self,
        state: WitnessState,
        findings: Findings,
        replay: FollowReplay,
        keys: WitnessKeys,
        tiles: TileClient,
        reading: Reading,
        *,
        policy_key: bytes,
        clock: Callable[[], float],
        evidence: Callable[[str, bytes], None],
        told: Callable[[int, int], None],
    ) -> None:
        self.findings = findings
        self.replay = replay
        self.keys = keys
        self._state = state
        self._tiles = tiles
        self._reading = reading
        self._policy_key = policy_key
        self._clock = clock
        self._evidence = evidence
        self._told = told
        self._worker = ThreadPoolExecutor(1, "follower")
        self._stopping = False
        self.shown: dict[str, Record] = state.records()
        self.observed: SignedCheckpoint | None = None
        self.last = Round("current")

    # -- its life ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """The batch that is under way ends; nothing is begun."""
        self._stopping = True

    def close(self) -> None:
        self._worker.shutdown(wait=True)

    async def work(self, job: Callable[..., _T], *values: Any) -> _T:  # noqa: ANN401 - whatever the job takes
        """Run *job* in the thread that owns state, findings and the reading; always brought to its end."""
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._worker, job, *values))

    @property
    def origin(self) -> str:
        return self.replay.report.origin

    @property
    def recorded(self) -> Record | None:
        return self.shown.get(self.origin)

    # -- one round -----------------------------------------------------------------------------------------------

    async def round(self) -> Round:
        """Look once. Raises only what must end the process: a state that cannot be written, a key used elsewhere."""
        try:
            self.last = await self._look(await self._tiles.checkpoint())
        except (StoreError, LogUnusableError):
            raise
        except NoteError as error:
            self.last = Round("bad-checkpoint", detail=str(error))
        except ServiceRefusedError as error:
            refused = error.status in _REFUSED
            self.last = Round("refused" if refused else "unreachable", detail=str(error))
        except TransparencyError as error:
            self.last = Round("unreachable", detail=str(error))
        return self.last

    async def _look(self, note: bytes) -> Round:
        signed = SignedCheckpoint.from_bytes(note)
        size = signed.checkpoint.size
        if self.replay.size == 0:
            await self.work(self._check_first)
        elif signed.checkpoint.origin != self.origin:
            return Round("bad-checkpoint", size, f"it is of another log: {safe_text(signed.checkpoint.origin)}")
        self._refuse_elsewhere(signed)
        known = self.shown.get(signed.checkpoint.origin)
        if known is not None and size < known.size:
            return await self._behind(signed, known)
        if known is not None and known.has_text(signed.note.text) and self.replay.size == size:
            self.observed = signed
            return Round("withheld" if await self.work(self.findings.standing_count) else "current", size)
        submission = await self._submitted(signed, known)
        if isinstance(submission, Round):
            return submission
        return await self._replayed(signed, submission)

    def _check_first(self) -> None:
        """Before anything is written: this must be the log whose policy key is pinned."""
        first = next(RemoteSource(self._reading.fetch).entries(), None)
        if first is None or first.erased:
            raise UnreachableError("the log has no entries yet")
        check_pin(read_policy(Statement.from_bytes(first.statement)), self._policy_key)

    def _refuse_elsewhere(self, signed: SignedCheckpoint) -> None:
        try:
            cosigned = verify_cosignatures(signed, self.keys.vkeys)
        except SignatureInvalidError as error:
            raise NoteError(f"it has a line by this witness' key that does not hold: {error}") from error
        known = self.shown.get(signed.checkpoint.origin)
        if cosigned and (known is None or signed.checkpoint.size > known.size):
            raise LogUnusableError(
                f"the log has a cosignature of this witness' key for size {signed.checkpoint.size}, which was not "
                "given here: the key is used elsewhere, and must not be; make a new compliance witness"
            )

    # -- consistency ---------------------------------------------------------------------------------------------

    def _vkeys(self) -> Collection[VerifierKey]:
        """The keys of the log's checkpoints, by the key set that was replayed; none before that."""
        in_force = self.replay.in_force
        return () if in_force is None else checkpoint_vkeys(in_force.keys.keys)

    async def _submitted(self, signed: SignedCheckpoint, known: Record | None) -> Submission | Round | None:
        """The checkpoint as it would be submitted to a witness, found to extend what was cosigned.

        None: its signature is by a key that is not known yet, as all are at first, and after a rotation.
        """
        size, vkeys = signed.checkpoint.size, self._vkeys()
        try:
            # Before anything is held against the log: this is what it has signed.
            verify_log_signatures(signed, vkeys)
        except SignatureInvalidError as error:
            return Round("bad-checkpoint", size, str(error)) if _known_line(signed, vkeys) else None
        tree = TiledTree(self._tiles, signed.checkpoint)
        old = 0 if known is None else known.size
        try:
            await tree.check_root()
            path = tuple(await tree.consistency_path(old)) if 0 < old < size else ()
        except ProofError as error:
            what = f"its tiles are not those of the checkpoint of {size}: {error}"
            await self.work(self._settle, [Condition("tiles", -1, "", what)], size, TILES)
            return Round("withheld", size, what)
        body = AddCheckpoint(old, path, signed.to_bytes()).to_bytes()
        read = read_submission(body, lambda origin: vkeys if origin == signed.checkpoint.origin else None)
        if isinstance(read, Answer):
            return Round("bad-checkpoint", size, read.detail)
        judged = judge(read, known, int(self._clock()))
        if isinstance(judged, Answer) and not judged.body:
            # Not from the proof alone: from a power of two on it does not tell the root it begins with.
            beginning = await tree.root_at(old) if 0 < old < size else None
            proven = None if known is None else split_view(known, signed, beginning, path)
            await self.work(self._convict, judged, size, proven)
            return Round("withheld", size, judged.detail)
        return read

    def _convict(self, answer: Answer, size: int, proven: EvidenceFile | None) -> None:
        if answer.evidence is not None:
            self._state.commit([], [answer.evidence])
        if proven is not None:
            self._evidence(f"{proven.alarm}-{size}", proven.to_bytes())
        what = f"the tree of {size} does not extend the one that was cosigned: {answer.detail}"
        self._find(Condition("split-view", -1, "", what), size)

    async def _behind(self, signed: SignedCheckpoint, known: Record) -> Round:
        """It shows less than before. An old copy of a checkpoint is no lie; another tree is, however small."""
        size = signed.checkpoint.size
        roots, leaves = self.replay.replay.root_at, self.findings.leaves
        try:
            found = await self.work(smaller_tree, signed, known, self._vkeys(), self.replay.size, roots, leaves)
        except SignatureInvalidError as error:
            return Round("bad-checkpoint", size, str(error))
        if found is None:
            return Round("behind", size, f"it shows {size} entries, and {known.size} were cosigned before")
        if found.evidence is not None:
            await self.work(self._evidence, f"{found.code}-{size}", found.evidence.to_bytes())
        await self.work(self._find, Condition(found.code, -1, "", found.what), size)
        return Round("withheld", size, found.what)

    # -- the entries ---------------------------------------------------------------------------------------------

    async def _replayed(self, signed: SignedCheckpoint, submission: Submission | None) -> Round:
        size = signed.checkpoint.size
        missing: EntryMissingError | None = None
        try:
            done = await self.work(
                self.replay.advance, size, self._reading, lambda at: self._told(at, size), lambda: self._stopping
            )
        except EntryMissingError as error:
            missing, done = error, True
        if not done:
            return Round("stopped", self.replay.size)
        if submission is None:
            # By the keys that are known by now: what none of them signed is not the log's word.
            found = await self._submitted(signed, self.recorded)
            if found is None:
                why = "" if missing is None else f", as far as it is given (entry {missing.index}: {missing})"
                return Round("bad-checkpoint", size, f"it is not signed by a key that the log's key set lists{why}")
            if isinstance(found, Round):
                return found
            submission = found
        if missing is not None:
            await self.work(self._settle, [Condition("missing", missing.index, "", str(missing))], size, MISSING)
            return Round("withheld", size, f"entry {missing.index}: {missing}")
        self.observed = signed
        return await self.work(self._conclude, submission)

    def _conclude(self, submission: Submission) -> Round:
        """Everything up to the checkpoint was replayed: what stands against the log, and else its cosignature."""
        checkpoint, known = submission.checkpoint, self.recorded
        replay, size = self.replay.replay, checkpoint.size
        if replay.root_at(size) != checkpoint.root:
            self._find(Condition("tree", -1, "", "the entries do not give the root that the checkpoint has"), size)
        if known is not None and replay.root_at(known.size) != known.root:
            what = f"the entries do not give the root of {known.size} entries that was cosigned"
            self._find(Condition("tree", -1, "", what), size)
        gone, waiting = gone_entries(self.findings, self.replay, self._reading, size)
        self._settle(gone, size, ENDING)
        if self.findings.standing_count():
            return Round("withheld", size)
        if waiting:
            return Round("waiting", size, "entries were erased by an order that a later checkpoint will cover")
        judged = judge(submission, known, int(self._clock()))
        if not isinstance(judged, Approved):
            return Round("current" if judged.body else "withheld", size, judged.detail)
        record = judged.cosigned(self.keys.cosign).record
        assert record is not None  # noqa: S101 - an approved one has it
        self._state.commit([Move(checkpoint.origin, known, record)])
        # Durable, mark and all: from here on it may be read.
        self.shown[checkpoint.origin] = record
        return Round("cosigned", size)

    def _find(self, condition: Condition, size: int) -> None:
        with self.findings.batch():
            self.findings.find(*condition, size, int(self._clock()))

    def _settle(self, present: list[Condition], size: int, looked_for: Collection[str]) -> None:
        """What is wrong now is found; what was *looked for* and is not there any more has ended."""
        now = int(self._clock())
        with self.findings.batch():
            for condition in present:
                self.findings.find(*condition, size, now)
            current = {(each.code, each.at, each.what) for each in present}
            for standing in self.findings.standing():
                if standing.code in looked_for and (standing.code, standing.index, standing.what) not in current:
                    self.findings.end(standing.number, now)


def _known_line(signed: SignedCheckpoint, vkeys: Collection[VerifierKey]) -> bool:
    """Whether any line is by a known key of the log: then one that is not good is not just new."""
    known = {(key.name, key.key_id) for key in vkeys}
    return any((line.name, line.key_id) in known for line in signed.note.signatures)
