"""What was seen of logs before: the last tree of each, so that a fork is noticed offline.

A log that shows one tree today and another tomorrow is caught by whoever remembers the first. The newest tree of each
origin is remembered, with its signed checkpoint where there was one, which convicts the log if it forked. A tree takes
the place of the remembered one only when it is shown to continue it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.display import safe_text
from transparency.errors import MalformedError, NoteError, ProofError
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint
from transparency.notes.numbers import read_decimal, read_hash, write_base64
from transparency.records.strict_json import loads
from transparency.verifier.report import Check
from transparency.verifier.vouching import ConsistencyReceipts

MAX_STATE: Final = 16 * 1024 * 1024
_KIND: Final = "transparency-seen/1"


@dataclass(frozen=True, slots=True)
class SeenTree:
    """A tree that its log signed; ``checkpoint`` is the signed note, None for one known from a receipt."""

    origin: str
    size: int
    root: bytes
    checkpoint: bytes | None = None

    def __post_init__(self) -> None:
        Checkpoint(self.origin, self.size, self.root)

    @classmethod
    def of(cls, signed: SignedCheckpoint) -> SeenTree:
        tree = signed.checkpoint
        return cls(tree.origin, tree.size, tree.root, signed.to_bytes())


class SeenTrees:
    """The last tree of each log, by origin. Mutable; whoever made it writes it back when ``changed``."""

    def __init__(self, trees: Iterable[SeenTree] = ()) -> None:
        self._trees = {tree.origin: tree for tree in trees}
        self.changed = False

    def get(self, origin: str) -> SeenTree | None:
        return self._trees.get(origin)

    def judge(self, tree: SeenTree, receipts: ConsistencyReceipts | None = None) -> Check:
        """Compare a tree with the last one of its log; remember it if it is newer and continues that.

        A smaller tree is no crime by itself, since proofs are kept for years: it has to be shown to be the beginning
        of the one remembered, as a larger one that it is continued.
        """
        seen = self._trees.get(tree.origin)
        if seen is None:
            self._remember(tree)
            return Check("tree-seen", "not_checked", "nothing of this log was seen before; its tree is remembered now")
        evidence: dict[str, str | int] = {"origin": tree.origin, "size": tree.size, "seen": seen.size}
        if seen.size == tree.size:
            if seen.root != tree.root:
                return Check("tree-seen", "failed", _forked(tree.origin, tree.size), evidence)
            if seen.checkpoint is None and tree.checkpoint is not None:
                self._remember(tree)
            return Check("tree-seen", "passed", "", evidence)
        old, new = (seen, tree) if seen.size < tree.size else (tree, seen)
        try:
            shown = old.size == 0 or (
                receipts is not None and receipts.connect((old.size, old.root), (new.size, new.root))
            )
        except ProofError as error:
            detail = (
                f"fork, or a wrong --consistency file: the trees of {old.size} and {new.size} do not connect: {error}"
            )
            return Check("tree-seen", "failed", detail, evidence)
        if not shown:
            age = "an older tree than" if tree is old else "a newer tree than"
            detail = (
                f"{age} the one seen, and nothing shows that one continues the other: "
                f"give `GET /consistency?from={old.size}&to={new.size}` of the log with --consistency"
            )
            return Check("tree-seen", "not_checked", detail, evidence, essential=True)
        if tree is new:
            self._remember(tree)
        return Check("tree-seen", "passed", "", evidence)

    def _remember(self, tree: SeenTree) -> None:
        self._trees[tree.origin] = tree
        self.changed = True

    @classmethod
    def from_json(cls, data: bytes) -> SeenTrees:
        """Read what ``to_json`` wrote; MalformedError for anything else."""
        value = loads(data, max_depth=4, max_size=MAX_STATE)
        logs = value.get("logs") if isinstance(value, dict) else None
        if not isinstance(logs, dict) or value.get("kind") != _KIND or len(value) != 2:
            raise MalformedError("not a file of trees that were seen: see `transparency verify --state`")
        return cls(_read(origin, each) for origin, each in logs.items())

    def to_json(self) -> bytes:
        logs = {
            tree.origin: {
                "size": str(tree.size),
                "root": write_base64(tree.root),
                "checkpoint": None if tree.checkpoint is None else tree.checkpoint.decode(),
            }
            for tree in self._trees.values()
        }
        return json.dumps({"kind": _KIND, "logs": logs}, indent=2).encode() + b"\n"


def _read(origin: str, value: object) -> SeenTree:
    where = f'tree seen of "{safe_text(origin, 100)}"'
    if not isinstance(value, Mapping) or set(value) != {"size", "root", "checkpoint"}:
        raise MalformedError(f"{where}: not size, root and checkpoint")
    size, root, note = value["size"], value["root"], value["checkpoint"]
    if not isinstance(size, str) or not isinstance(root, str) or not isinstance(note, str | None):
        raise MalformedError(f"{where}: size, root and checkpoint are text")
    tree = SeenTree(origin, read_decimal(size, where), read_hash(root, where), None if note is None else note.encode())
    if tree.checkpoint is not None:
        said: Any = SignedCheckpoint.from_bytes(tree.checkpoint).checkpoint
        if (said.origin, said.size, said.root) != (tree.origin, tree.size, tree.root):
            raise NoteError(f"{where}: its checkpoint is of another tree")
    return tree


def _forked(origin: str, size: int) -> str:
    return (
        f'fork: the log "{safe_text(origin, 100)}" signed two different trees of size {size}; '
        "keep this file and the state file, they are the evidence"
    )
