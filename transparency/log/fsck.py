"""fsck: recompute everything the log claims from what it stores, and say what does not fit.

Reads only; works beside a running server on a snapshot's worth of heads. It trusts the policy key pinned in
config.toml and nothing else: every statement must hash to its entry, every tile and root must follow from the entries,
every head and published checkpoint be signed by a registered key, every document follow its predecessor, every entry
name the generation that was in force at its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from transparency.errors import LogUnusableError, StoreError, TransparencyError
from transparency.log.artifacts import ArtifactStore
from transparency.log.checkpoint_check import check_checkpoints
from transparency.log.documents import InForce, advance, bootstrap
from transparency.log.erased_check import check_erased
from transparency.log.folder import Config, Folder
from transparency.log.mark import MarkValue
from transparency.log.mark_named import NamedMark
from transparency.log.opening import check_mark
from transparency.log.search_check import check_index
from transparency.log.settled import read_settled
from transparency.log.store import DOCUMENTS, Kind, Store, StoredEntry
from transparency.log.stores import open_for_reading, read_mark, shared_mark
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import RightEdge
from transparency.policy import keyset, operations
from transparency.policy.erasure import PAYLOAD, Erasure
from transparency.policy.operations import read_operation
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry, Statement, entry_of, parse_entry_id

MAX_FINDINGS = 100
MARK = "mark"
_CHUNK = 4096

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Finding:
    where: str
    what: str


@dataclass(slots=True)
class FsckReport:
    size: int = 0
    heads: int = 0
    artifacts: int = 0
    mark_checked: bool = False
    findings: list[Finding] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.findings

    def add(self, where: str, what: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(where, what))


def fsck(
    data: Path, *, watermark: Path | str | None = None, without_mark: bool = False, progress: Progress | None = None
) -> FsckReport:
    """Check the log in *data* as a whole.

    *without_mark* is for an auditor's copy, whose mark stays with the operator: whether it is an old state is then
    not known.
    """
    folder = Folder(data.absolute())
    if not folder.exists():
        raise LogUnusableError(f"there is no log in {data}")
    config = Config.read(folder.config)
    store = open_for_reading(folder)
    try:
        report = FsckReport()
        try:
            check = _Check(store, config, progress or _silent, report)
            check.run()
            if not without_mark:
                check.mark(watermark or config.watermark_db or config.watermark, folder)
            artifacts = ArtifactStore(folder.artifacts)
            _check_artifacts(artifacts, report)
            check_erased(store, artifacts, config.origin, report.add)
            check_index(folder.search, store, artifacts, report.add)
        except StoreError as error:
            report.add("store", str(error))
        return report
    finally:
        store.close()


def check_newest(store: Store, folder: Folder, config: Config, place: Path | str) -> MarkValue:
    """That *store* is not behind its mark, nor another tree, or LogUnusableError; gives the mark."""
    shared = shared_mark(folder, config, store)
    if isinstance(place, str):
        value = read_mark(config, place, shared)
    elif shared is None:
        value = read_settled(folder, place, config.origin, store)
    else:
        raise LogUnusableError(_not_the_shared(place, shared))
    # The mark may have moved on with a running server; what matters is that it is not ahead of what is stored.
    check_mark(store, store.tip(), value, config.origin)
    return value


def _not_the_shared(file: Path, shared: NamedMark) -> str:
    return (
        f"it was to be read from {file}, but the nodes of this log share the one in {shared.place}: only that one says "
        f"whether this is the newest state. Name it with --watermark {shared.place}"
    )


def _silent(_done: int, _total: int) -> None:
    """No progress asked for."""


def _check_artifacts(artifacts: ArtifactStore, report: FsckReport) -> None:
    for digest in artifacts.digests():
        report.artifacts += 1
        if not artifacts.is_sound(digest):
            report.add(f"artifact {digest}", "its bytes are not those of its name")


class _Check:
    def __init__(self, store: Store, config: Config, progress: Progress, report: FsckReport) -> None:
        self._store = store
        self._config = config
        self._progress = progress
        self._tip = store.tip()
        self.report = report
        report.size = self._tip.size
        self._in_force: InForce | None = None
        self._first: Statement | None = None
        # Statements that are gone, until the order that took them is met.
        self._erased: dict[int, Entry] = {}
        # Looked up together: one query for each would take a fifth of all the time.
        self._to_find: list[tuple[Entry, int]] = []
        self._heads_made = store.heads_made()
        self._indexed = store.indexed_size()
        if self._indexed > self._tip.size:
            report.add("index", f"says it covers {self._indexed} entries, the log has {self._tip.size}")

    def run(self) -> None:
        edge = RightEdge()
        heads = self._heads()
        head = next(heads, None)
        expected = 0
        last_time = 0
        leaves: list[bytes] = []
        for row in self._store.entries(0, self._tip.size):
            if row.index != expected:
                self.report.add(f"entry {expected}", "is missing")
                return
            self._check_entry(row)
            leaves.append(leaf_hash(row.entry))
            expected += 1
            at_head = head is not None and head.size == expected
            if at_head or len(leaves) == _CHUNK or expected == self._tip.size:
                self._check_tiles(edge.append(leaves))
                self._check_found()
                leaves = []
                self._progress(expected, self._tip.size)
            if head is not None and at_head:
                self._check_head(head, edge.root(), last_time)
                last_time = head.time
                head = next(heads, None)
        self._check_erased()
        if self._in_force is not None:
            check_checkpoints(self._store, self._in_force.keys.keys, self._tip.size, self.report.add)
        self._check_end(expected, edge, head)

    def _heads(self) -> Iterator[SignedHead]:
        for head in self._store.heads():
            if head.size > self._tip.size:
                return  # a server went on while we read
            self.report.heads += 1
            yield head

    def _check_entry(self, row: StoredEntry) -> None:
        where = f"entry {row.index}"
        if row.erased and row.kind is Kind.STATEMENT:
            self._erased[row.index] = row.entry
            self._check_generation(row)
            return
        if entry_of(row.statement) != row.entry:
            self.report.add(where, "the stored statement does not hash to the entry")
            return
        try:
            statement = Statement.from_bytes(row.statement)
            if statement.normalised != row.statement or statement.tbs_digest != row.tbs_digest:
                self.report.add(where, "is not stored in its normalised form")
            self._check_generation(row)
            self._follow(row, statement)
        except TransparencyError as error:
            self.report.add(where, str(error))
        if row.index >= self._indexed:
            return
        self._to_find.append((row.entry, row.index))
        if row.index not in dict(self._store.siblings(row.tbs_digest, self.report.size)):
            self.report.add(where, "the sibling index does not know it")

    def _check_found(self) -> None:
        found = self._store.find_some([entry for entry, _ in self._to_find])
        for entry, index in self._to_find:
            if found.get(entry) != index:
                self.report.add(f"entry {index}", "the digest index names another place for it, or none")
        self._to_find.clear()

    def _check_generation(self, row: StoredEntry) -> None:
        in_force = self._in_force.policy.policy.generation if self._in_force else row.index
        if row.generation != in_force:
            self.report.add(f"entry {row.index}", f"says generation {row.generation}, in force was {in_force}")

    def _follow(self, row: StoredEntry, statement: Statement) -> None:
        if row.index == 0:
            self._first = statement
        elif row.index == 1 and self._first is not None:
            self._in_force = bootstrap(self._first, statement, self._config.origin, self._config.policy_key)
        elif self._in_force is not None and row.kind in DOCUMENTS:
            self._in_force = advance(self._in_force, statement, row.kind, row.index)
        elif self._in_force is not None and row.kind is Kind.OPERATION:
            subject = read_operation(statement, self._in_force.keys.keys)
            if subject == operations.ERASURE:
                self._take_order(row.index, Erasure.from_bytes(statement.payload))

    def _take_order(self, at: int, order: Erasure) -> None:
        for item in order.items:
            if item.what == PAYLOAD and item.index < at and self._erased.get(item.index) == parse_entry_id(item.entry):
                del self._erased[item.index]

    def _check_tiles(self, tiles: dict[tuple[int, int], bytes]) -> None:
        for (level, index), hashes in tiles.items():
            stored = self._store.tile(level, index)
            # A partial tile of this size is a prefix of what is stored now.
            if stored is None or stored[: len(hashes)] != hashes:
                self.report.add(f"tile {level}/{index}", "does not follow from the entries")

    def _check_head(self, head: SignedHead, root: bytes, last_time: int) -> None:
        where = f"head {head.size}"
        if head.root != root:
            self.report.add(where, "its root does not follow from the entries")
        if head.time < last_time:
            self.report.add(where, "its time is before its predecessor's")
        if self._in_force is None:
            return
        keys = self._in_force.keys.keys
        key = next((key for key in keys.at(keyset.RECEIPTS, head.time) if key.kid == head.kid), None)
        if key is None:
            self.report.add(where, "is signed by a key that was not the receipts key in use")
            return
        try:
            head.verify(key, iss=keys.iss, origin=keys.log)
        except TransparencyError as error:
            self.report.add(where, f"its signature does not verify: {error}")

    def _check_erased(self) -> None:
        for index in self._erased:
            self.report.add(f"entry {index}", "its statement is gone, and no order to erase it stands on the log")

    def _check_end(self, counted: int, edge: RightEdge, head: SignedHead | None) -> None:
        if counted != self._tip.size:
            self.report.add("tip", f"says {self._tip.size} entries, {counted} are stored")
        elif edge.root() != self._tip.root:
            self.report.add("tip", "its root does not follow from the entries")
        if head is not None:
            self.report.add(f"head {head.size}", "covers no batch of entries")
        if self._store.head(self._tip.size) is None:
            self.report.add("tip", "no signed head is stored for it")
        if self.report.heads < self._heads_made:
            self.report.add(
                "heads", f"{self._heads_made} were signed, {self.report.heads} are stored; they are kept for ever"
            )

    def mark(self, place: Path | str, folder: Folder) -> None:
        """In a file, or in the database at a URL. Where the nodes share one, only that says if this is the newest."""
        self.report.mark_checked = True
        try:
            check_newest(self._store, folder, self._config, place)
        except TransparencyError as error:
            self.report.add(MARK, str(error))
