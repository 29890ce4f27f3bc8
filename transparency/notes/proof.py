"""tlog-proof files: that an entry is in a log, to be checked offline (C2SP tlog-proof, P-1)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self

from transparency.errors import NoteError
from transparency.merkle.proofs import verify_inclusion
from transparency.notes.checkpoint import SignedCheckpoint, open_checkpoint
from transparency.notes.numbers import is_number, read_base64, read_decimal, read_path, write_base64
from transparency.notes.requests import check_path, join_head, read_words, split_head
from transparency.notes.vkey import VerifierKey

FIRST_LINE: Final = "c2sp.org/tlog-proof@v1"
SUFFIX: Final = ".tlog-proof"


@dataclass(frozen=True, slots=True)
class TlogProof:
    """An entry's index, its path to the root of a checkpoint, and that checkpoint, with cosignatures, as it was served.

    ``extra`` is not authenticated by anything here. There is none or it has content: "If no extra data is present,
    this line is omitted".
    """

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None

    def __post_init__(self) -> None:
        if not is_number(self.index):
            raise NoteError("tlog-proof: its index is not a number from 0 to 2^63-1")
        if self.extra is not None and not self.extra:
            raise NoteError("tlog-proof: extra data that is empty is left out")
        check_path(self.path)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a proof. What is accepted prints back the same; the checkpoint in it has a checkpoint's form."""
        (first, *lines), _, checkpoint = split_head(data, "tlog-proof")
        if first != FIRST_LINE:
            raise NoteError(f"tlog-proof: its first line is not {FIRST_LINE}")
        extra = None
        if lines and lines[0].startswith("extra "):
            (word,) = read_words(lines.pop(0), "extra", 1, "tlog-proof")
            extra = read_base64(word, "extra data")
        if not lines:
            raise NoteError("tlog-proof: has no index line")
        (index,) = read_words(lines[0], "index", 1, "tlog-proof")
        return cls(read_decimal(index, "index"), read_path(lines[1:], "inclusion proof"), checkpoint, extra)

    def to_bytes(self) -> bytes:
        extra = () if self.extra is None else (f"extra {write_base64(self.extra)}",)
        return join_head((FIRST_LINE, *extra, f"index {self.index}", *map(write_base64, self.path)), self.checkpoint)

    def verify(self, leaf_hash: bytes, log_keys: Collection[VerifierKey]) -> SignedCheckpoint:
        """The checkpoint, if its log signed it and the path leads from the leaf to its root.

        Raises SignatureInvalidError or ProofError. Cosignatures are another question: ``WitnessPolicy.check`` of
        what this gives.
        """
        signed = open_checkpoint(self.checkpoint, log_keys)
        tree = signed.checkpoint
        verify_inclusion(leaf_hash, self.index, tree.size, self.path, tree.root)
        return signed
