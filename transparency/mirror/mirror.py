"""The mirror: says by its cosignature that it *has* every entry under a checkpoint, and so signs it last of all.

Three states of a tree, each at or ahead of the next (C2SP tlog-mirror, "Updating a Mirror"):

    pending     a checkpoint that the log signed and that was proven to extend the pending one before it
    next entry  how many entries are here, each proven to be of a pending checkpoint when it came
    cosigned    the mirror checkpoint: signed when all entries under it were durable, and served

The order of writes is the argument. The pending checkpoint is durable before an upload up to it begins; entries are
durable (trees.py) before the cosignature is made; the record of the cosignature, with the mark outside the folder, is
durable (witness/state.py) before anybody hears of it. So whatever is killed when, what was cosigned is here; and since
every entry is proven against a pending checkpoint, and those extend each other, no two checkpoints that are cosigned
contradict each other. Before each cosignature the root is computed once more from the tiles themselves.

A disk may lose later what it had. What is looked at for that, and when, is in check.py; of a log of which something is
found to be missing or changed nothing is cosigned until it is put back (mending.py), and the others go on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from transparency.display import safe_text
from transparency.errors import ProofError, StoreError
from transparency.merkle.hashing import HASH_SIZE
from transparency.merkle.proofs import root_at
from transparency.merkle.tiles import TILE_BYTES, WIDTH, RightEdge, TileHashes
from transparency.mirror.check import check_log, check_start
from transparency.mirror.mending import Damage, Fetched, Wanted
from transparency.mirror.reached import Reached
from transparency.mirror.tickets import Tickets
from transparency.mirror.trees import KEPT_PENDING, LOST, DamagedError, Trees
from transparency.notes.checkpoint import SignedCheckpoint, origin_hash
from transparency.notes.note import write_signatures
from transparency.notes.upload import MirrorInfo, Package, UploadHead
from transparency.witness.decide import Answer
from transparency.witness.keys import WitnessKeys
from transparency.witness.record import Evidence, Move, Record
from transparency.witness.state import WitnessState

MOST_EXCESS: Final = 32 * WIDTH
"""How many entries that are here already may be sent again: two clients at once do so, and it costs only hashing."""
Clock = Callable[[], float]
_logger = logging.getLogger("transparency.mirror")
_DAMAGED: Final = 503


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload that was let in: the checkpoint at its end is of the one tree."""

    origin: str
    head: UploadHead
    target: Record


class Mirror:
    """Owner of state and trees. Its methods may be called from any thread: one at a time is inside.

    ``failure`` is set when it is not known what was kept: nothing is done any more, and the process must stop;
    ``on_failure`` is told, in whichever thread that was.
    """

    def __init__(
        self,
        state: WitnessState,
        trees: Trees,
        keys: WitnessKeys,
        clock: Clock,
        reached: Reached,
        followed: Collection[str] = (),
    ) -> None:
        """*followed* are the logs that damage can be mended of: it does not keep them from starting."""
        self.keys = keys
        self.reached = reached
        self.failure: StoreError | None = None
        self.on_failure: Callable[[], object] = lambda: None
        self._state = state
        self._trees = trees
        self._clock = clock
        self._lock = threading.Lock()
        self._tickets = Tickets()
        self._cosigned = state.records()
        self._pending = {
            origin: {record.size: record for record in records} for origin, records in trees.pending().items()
        }
        # By origin: of these nothing is cosigned. Replaced, not changed.
        self._damage: Mapping[str, Damage] = check_start(trees, self._cosigned, self._pending, reached.places, followed)
        sizes = trees.sizes()
        self._edges = {origin: self._load_edge(origin, size) for origin, size in sizes.items()}
        self._by_hash = {origin_hash(origin): origin for origin in sizes}
        for origin, damage in self._damage.items():
            self._tell(origin, damage)

    def close(self) -> None:
        """Nothing is begun any more, and what is under way has ended: its thread may have been left alone."""
        with self._lock:
            self.failure = self.failure or StoreError("the mirror has stopped")

    # -- what it has ---------------------------------------------------------------------------------------------

    def cosigned(self, origin: str) -> Record | None:
        """The mirror checkpoint."""
        return self._cosigned.get(origin)

    def pending(self, origin: str) -> Record | None:
        """The pending checkpoint."""
        known = self._pending.get(origin)
        return None if not known else known[max(known)]

    def next_entry(self, origin: str) -> int:
        edge = self._edges.get(origin)
        return 0 if edge is None else edge.size

    def origin_of(self, hashed: str) -> str | None:
        """The log that is served under this name."""
        return self._by_hash.get(hashed)

    @property
    def origins(self) -> list[str]:
        """Of every log it has something of."""
        return sorted({*self._pending, *self._cosigned})

    # -- damage, and what is put back ----------------------------------------------------------------------------

    @property
    def damaged(self) -> Mapping[str, str]:
        """The logs of which nothing is cosigned, and why, in words."""
        return {origin: str(damage) for origin, damage in self._damage.items()}

    def note_damage(self, origin: str, index: int, words: str) -> None:
        """Bundle *index* is not what it was. The scrub stands there from now on, so that a new start looks there, too.

        Nothing is cosigned of this log when this has returned: what is being cosigned meanwhile has the lock.
        """
        damage = Damage(index, words)
        with self._lock:
            if origin in self._damage:
                return
            self._damage = {**self._damage, origin: damage}
        self._tell(origin, damage)

    def _tell(self, origin: str, damage: Damage) -> None:
        _logger.critical(
            "%s: damaged: %s; nothing of this log is cosigned until it is whole. If it is followed, that is fetched "
            "again. Else: %s", safe_text(origin, 100), damage.words, LOST,
        )  # fmt: skip
        if damage.index is not None:
            self.reached.move(origin, damage.index)
            self.reached.save()

    def note_tried(self, origin: str, words: str, level: int) -> None:
        """It could not be mended. Said when it is another thing than the last time."""
        with self._lock:
            damage = self._damage.get(origin)
            if damage is None or damage.tried == words:
                return
            self._damage = {**self._damage, origin: replace(damage, tried=words)}
        _logger.log(level, "%s: damaged, and not mended: %s", safe_text(origin, 100), safe_text(words, 300))

    def wanted(self, origin: str) -> Wanted | None:
        """What would mend a log; None if nothing would, or nothing is to be mended."""
        with self._lock:
            damage = self._damage.get(origin)
            if damage is None or damage.index is None:
                return None
            size, cosigned = self._edges[origin].size, self._cosigned.get(origin)
            known = [*([] if cosigned is None else [cosigned]), *self._pending.get(origin, {}).values()]
            covering = min((each for each in known if each.size >= size), key=lambda each: each.size, default=None)
            if covering is None:
                return None
            return Wanted(origin, min(damage.index, (size - 1) // WIDTH), covering, cosigned)

    def mend(self, origin: str, found: Fetched) -> bool:
        """Put a bundle back, durably, and look again as a start does: the log is whole then, or damaged elsewhere.

        Not, if an upload that was under way has gone beyond what was fetched: what is wanted now is of a larger tree.
        """
        with self._lock, self._failing():
            self._check_failure()
            size = self._edges[origin].size
            if size > found.size:
                return False
            self._trees.replace(origin, found.index, *found.within(size))
            others = {each: damage for each, damage in self._damage.items() if each != origin}
            try:
                check_log(
                    self._trees, origin, size, self._cosigned.get(origin), self._pending.get(origin, {}), found.index
                )
            except DamagedError as error:
                self._damage = {**others, origin: Damage(error.bundle, str(error))}
            else:
                self._damage = others
                self._edges[origin] = self._load_edge(origin, size)
        return True

    # -- the pending checkpoint: what the keeper asks of a state -------------------------------------------------

    def records(self) -> dict[str, Record]:
        return {origin: known[max(known)] for origin, known in self._pending.items()}

    def evidence_count(self) -> int:
        with self._lock:
            return self._state.evidence_count()

    def commit(self, moves: Sequence[Move], evidence: Sequence[Evidence] = ()) -> None:
        """Make pending checkpoints and evidence durable; the same checkpoint once more is no write."""
        # The witness' record has no line of it, so nothing but time is new in what is sent again.
        after = {move.origin: move.after for move in moves if move.before is None or _moved(move.before, move.after)}
        with self._lock:
            self._check_failure()
            with self._failing():
                if after:
                    self._trees.set_pending(after)
                if evidence:
                    self._state.commit([], evidence)
            for origin, record in after.items():
                known = self._pending.get(origin, {}) | {record.size: record}
                # Replaced, not changed: others read it without the lock.
                self._pending[origin] = {size: known[size] for size in sorted(known)[-KEPT_PENDING:]}
                self._edges.setdefault(origin, RightEdge())
                self._by_hash[origin_hash(origin)] = origin

    # -- uploads -------------------------------------------------------------------------------------------------

    def begin(self, head: UploadHead, knows: Callable[[str], bool]) -> Upload | Answer:
        """Judge the head of an upload; *knows* says whether a log is on the list. An Answer is a refusal."""
        try:
            origin = head.origin.decode()
        except UnicodeDecodeError:
            origin = ""
        if not knows(origin):
            return Answer(404, detail="The log with this origin is not known to this mirror")
        with self._lock:
            self._check_failure()
            if origin in self.damaged:
                return self._refused(origin)
            if not self._pending.get(origin):
                return Answer(422, detail="There is no pending checkpoint of this log; add one first", origin=origin)
            target = self._target(origin, head)
            following = self._edges[origin].size
            if (
                target is None
                or head.start > following
                or min(head.end, following) - head.start > MOST_EXCESS
                or head.end < self._cosigned_size(origin)
            ):
                return Answer(409, self._info(origin, target), origin=origin)
        return Upload(origin, head, target)

    def save(self, upload: Upload, packages: Sequence[Package]) -> int:
        """Verify packages, which come in order, and keep what is new of them, durably. How many were good.

        Raises ProofError where one is not of the tree; those before it are kept.
        """
        with self._lock, self._failing():
            self._check_failure()
            edge = self._edges[upload.origin]
            before, fault = edge.size, None
            longer, new, tiles = edge.copy(), list[bytes](), dict[tuple[int, int], bytes]()
            for package in packages:
                try:
                    leaves = package.verify(
                        self._leaves(upload.origin, package, tiles), upload.target.size, upload.target.root
                    )
                except ProofError as error:
                    fault = error
                    break
                skipped = max(0, longer.size - package.span.start)
                if skipped < len(leaves):
                    tiles |= longer.append(leaves[skipped:])
                    new += package.entries[skipped:]
            if new:
                self._trees.append(upload.origin, before, new, tiles)
                self._edges[upload.origin] = longer
        if fault is not None:
            raise fault
        return len(packages)

    def finish(self, upload: Upload) -> Answer:
        """Cosign the checkpoint at the end of the upload, if all entries under it are here: 200, 202 or 409."""
        origin, target = upload.origin, upload.target
        with self._lock:
            self._check_failure()
            if origin in self.damaged:
                return self._refused(origin)
            if self._edges[origin].size < target.size:
                return Answer(202, self._info(origin, target), origin=origin)
            known = self._cosigned.get(origin)
            if known is not None and target.size < known.size:
                return Answer(409, self._info(origin, None), origin=origin)
            with self._failing():
                return self._cosign(origin, target, known)

    def _cosign(self, origin: str, target: Record, known: Record | None) -> Answer:
        checkpoint = SignedCheckpoint.from_bytes(target.signed).checkpoint
        if root_at(target.size, TileHashes(self._reader(origin))) != target.root:
            raise StoreError(f"the entries of {origin} do not give the root that they were proven against")
        time = max(int(self._clock()), 1 if known is None else known.time, 1)
        if known is not None and time == known.time and known.signed == target.signed:
            # Said already, in this very second: whoever asks again and again causes no write.
            return Answer(200, known.lines, origin=origin)
        lines = write_signatures(self.keys.cosign(checkpoint, time))
        record = replace(target, time=time, lines=lines)
        self._state.commit([Move(origin, known, record)])
        self._cosigned = {**self._cosigned, origin: record}
        return Answer(200, lines, record=record, origin=origin)

    # -- plumbing ------------------------------------------------------------------------------------------------

    def _refused(self, origin: str) -> Answer:
        return Answer(_DAMAGED, detail=f"What is kept of this log is damaged: {self.damaged[origin]}", origin=origin)

    def _target(self, origin: str, head: UploadHead) -> Record | None:
        """The checkpoint of this size that is of the one tree: pending lately, cosigned, or in the ticket."""
        found = self._pending[origin].get(head.end)
        if found is None:
            cosigned = self._cosigned.get(origin)
            found = replace(cosigned, lines=b"") if cosigned is not None and cosigned.size == head.end else None
        if found is None and head.ticket:
            ticket = self._tickets.read(origin, head.ticket)
            found = ticket if ticket is not None and ticket.size == head.end else None
        return found

    def _info(self, origin: str, target: Record | None) -> bytes:
        """Where to go on. Up to the end that was asked for, if that is one that leaves something to do."""
        following = self._edges[origin].size
        known = self._pending[origin]
        if target is None or target.size < following:
            target = known[max(known)]
        return MirrorInfo(target.size, following, self._tickets.write(origin, target)).to_bytes()

    def _leaves(self, origin: str, package: Package, changed: Mapping[tuple[int, int], bytes]) -> bytes:
        """The leaf hashes from the base of a package to its start."""
        count = package.span.start - package.span.base
        if not count:
            return b""
        place = 0, package.span.base // WIDTH
        content = changed.get(place) or self._trees.tile(origin, *place) or b""
        if len(content) < count * HASH_SIZE:
            raise StoreError(f"tile {place[1]} of level 0 of {origin} is missing or too short")
        return content[: count * HASH_SIZE]

    def _reader(self, origin: str) -> Callable[[int, int], bytes | None]:
        return lambda level, index: self._trees.tile(origin, level, index)

    def _load_edge(self, origin: str, size: int) -> RightEdge:
        """Of a log that is damaged only its size counts: nothing is added to it before it was mended."""
        blank = origin in self._damage
        return RightEdge.load(size, (lambda *_: bytes(TILE_BYTES)) if blank else self._reader(origin))

    def _cosigned_size(self, origin: str) -> int:
        known = self._cosigned.get(origin)
        return 0 if known is None else known.size

    def _check_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """What raises StoreError in here is the end, whether it could not be written or not be read."""
        try:
            yield
        except StoreError as error:
            self.failure = self.failure or error
            self.on_failure()
            raise


def _moved(before: Record, after: Record) -> bool:
    return before.signed != after.signed
