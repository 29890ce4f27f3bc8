"""Evidence against a log: one file that convicts it by its own signatures, whoever shows it (CP-2).

A log promises that each tree it signs continues every earlier one. Two of its checkpoints break that promise if

* they are of one size and have different roots (**fork**), or
* they are of different sizes, and the beginning of the larger tree has another root than the smaller one (**fork**
  too). A proof that merely does not connect them shows nothing, since anybody can write one: so the file has the root
  that the larger tree's beginning does have, and a consistency proof from there to the larger root, which holds; or
* the log signed a time with each (ML-DSA-44), and the smaller tree is the later one (**rollback**): such a signature is
  "a statement that, as of the specified time, this is the largest consistent tree" (C2SP tlog-cosignature).

What a monitor saw of a log that stands still, or lacks cosignatures, is written in the same form: the checkpoints are
the log's, but time and absence are only the monitor's word, and the file says so when it is verified.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.display import iso_utc, safe_text
from transparency.errors import MalformedError, NoteError, ProofError, TransparencyError
from transparency.merkle.proofs import verify_consistency
from transparency.notes.checkpoint import SignedCheckpoint, open_checkpoint
from transparency.notes.numbers import MAX_PATH, read_hash, write_base64
from transparency.notes.vkey import MLDSA, VerifierKey
from transparency.records.strict_json import loads

SUFFIX: Final = ".evidence"
MAX_EVIDENCE: Final = 4 * 1024 * 1024
_KIND: Final = "transparency-evidence/1"
_PEEK: Final = 4096
_MEMBERS: Final = frozenset({"kind", "alarm", "checkpoints", "prefix", "path", "observed"})


def looks_like_evidence(beginning: bytes) -> bool:
    """By the first bytes of a file, whatever its name is."""
    return beginning.lstrip().startswith(b"{") and _KIND.encode() in beginning[:_PEEK]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the evidence convicts the log, of what, and in one sentence why (safe to display)."""

    convicts: bool
    crime: str
    why: str
    origin: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"convicts": self.convicts, "crime": self.crime, "origin": self.origin, "why": self.why}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One or two signed checkpoints, the larger last, and what connects them elsewhere than it should.

    ``prefix``: the root that the larger tree's beginning has, and ``path`` the proof of that. ``alarm`` and
    ``observed`` are the word of whoever wrote the file; no verdict depends on them.
    """

    alarm: str
    checkpoints: tuple[bytes, ...]
    prefix: bytes | None = None
    path: tuple[bytes, ...] = ()
    observed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.checkpoints) <= 2:
            raise MalformedError("evidence has one or two checkpoints")

    @classmethod
    def from_bytes(cls, data: bytes) -> Evidence:
        value = loads(data, max_depth=3, max_size=MAX_EVIDENCE)
        if not isinstance(value, dict) or value.get("kind") != _KIND or set(value) != _MEMBERS:
            raise MalformedError("not evidence against a log, as `transparency monitor` writes it")
        prefix, path = value["prefix"], _texts(value, "path")
        if not isinstance(value["alarm"], str) or not isinstance(prefix, str | None):
            raise MalformedError("evidence: its alarm and its prefix are text")
        if len(path) > MAX_PATH:
            raise MalformedError(f"evidence: its path has more than {MAX_PATH} hashes")
        return cls(
            value["alarm"],
            tuple(text.encode() for text in _texts(value, "checkpoints")),
            None if prefix is None else read_hash(prefix, "prefix"),
            tuple(read_hash(text, "path") for text in path),
            _texts(value, "observed"),
        )

    def to_bytes(self) -> bytes:
        value = {
            "kind": _KIND,
            "alarm": self.alarm,
            "checkpoints": [each.decode() for each in self.checkpoints],
            "prefix": None if self.prefix is None else write_base64(self.prefix),
            "path": [write_base64(each) for each in self.path],
            "observed": list(self.observed),
        }
        return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"

    def judge(self, keys: Collection[VerifierKey]) -> Verdict:
        """What the log's own signatures, by one of its ``keys``, prove against it."""
        try:
            signed = [open_checkpoint(each, keys) for each in self.checkpoints]
        except TransparencyError as error:
            return Verdict(False, "", f"a checkpoint in it is not one that this log signed: {error}")
        first, last = signed[0], signed[-1]
        origin = first.checkpoint.origin
        if origin != last.checkpoint.origin:
            return Verdict(False, "", "its checkpoints are of different logs")
        if len(signed) == 1:
            return Verdict(False, "", _word_only(self.alarm), origin)
        if last.checkpoint.size < first.checkpoint.size:
            first, last = last, first
        if first.checkpoint.size == last.checkpoint.size:
            return _same_size(first, last)
        return self._different_sizes(first, last, keys)

    def _different_sizes(
        self, small: SignedCheckpoint, large: SignedCheckpoint, keys: Collection[VerifierKey]
    ) -> Verdict:
        old, new = small.checkpoint, large.checkpoint
        name = safe_text(old.origin, 100)
        if self.prefix is not None:
            try:
                verify_consistency(old.size, new.size, self.prefix, new.root, self.path)
            except ProofError as error:
                return Verdict(False, "", f"its proof does not hold: {error}", old.origin)
            if self.prefix != old.root:
                why = (
                    f'the log "{name}" signed a tree of {new.size} entries whose first {old.size} are not those of the '
                    f"tree of {old.size} that it signed as well"
                )
                return Verdict(True, "fork", why, old.origin)
        went_back = _went_back(small, large, keys)
        if went_back is not None:
            before, after = went_back
            why = (
                f'the log "{name}" signed {new.size} entries as its tree at {iso_utc(before)}, '
                f"and {old.size} at {iso_utc(after)}"
            )
            return Verdict(True, "rollback", why, old.origin)
        if self.prefix is None:
            return Verdict(False, "", _word_only(self.alarm), old.origin)
        return Verdict(False, "", "its two checkpoints are consistent with each other", old.origin)


def _same_size(one: SignedCheckpoint, other: SignedCheckpoint) -> Verdict:
    tree = one.checkpoint
    if tree.root == other.checkpoint.root:
        return Verdict(False, "", "its two checkpoints are of the same tree", tree.origin)
    why = f'the log "{safe_text(tree.origin, 100)}" signed two different trees of {tree.size} entries'
    return Verdict(True, "fork", why, tree.origin)


def _went_back(
    small: SignedCheckpoint, large: SignedCheckpoint, keys: Collection[VerifierKey]
) -> tuple[int, int] | None:
    """The two times of one key of the log, if it signed the smaller tree at the later one."""
    before, after = log_times(large, keys), log_times(small, keys)
    for key in before.keys() & after.keys():
        if 0 < before[key] < after[key]:
            return before[key], after[key]
    return None


def log_times(signed: SignedCheckpoint, keys: Collection[VerifierKey]) -> Mapping[str, int]:
    """By vkey, the times that the log's own keys signed with a checkpoint; it must have been opened with ``keys``."""
    lines = {(line.name, line.key_id): line for line in signed.note.signatures}
    times = {}
    for key in keys:
        line = lines.get((key.name, key.key_id))
        if line is not None and key.kind == MLDSA and key.name == signed.checkpoint.origin:
            times[key.text] = key.verify_note(signed.note.text, line.blob) or 0
    return times


def _word_only(alarm: str) -> str:
    return (
        f'the checkpoints are the log\'s, but "{safe_text(alarm, 40)}" is only the word of whoever saw it: '
        "when something was shown, and what was missing, nobody signed"
    )


def _texts(value: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = value[name]
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise NoteError(f"evidence: its {name} is not a list of texts")
    return tuple(found)
