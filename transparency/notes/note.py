"""Signed notes: a text and the signatures under it (C2SP signed-note, SN-1). Nothing here checks a signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from transparency.errors import NoteError
from transparency.notes.numbers import MAX_BYTES, check_name, check_text, read_base64, read_lines, write_base64
from transparency.notes.vkey import KEY_ID_SIZE

MAX_SIGNATURES: Final = 100
"""Verifiers "MUST accept at least up to 16 signatures" (SN-3)."""
_DASH: Final = "\u2014 "


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line. ``blob`` is what follows the key id: a signature, before it a time for some types."""

    name: str
    key_id: bytes
    blob: bytes

    def __post_init__(self) -> None:
        check_name(self.name)
        if len(self.key_id) != KEY_ID_SIZE or not self.blob:
            raise NoteError("signature line: not a key id of four bytes and a signature")

    @property
    def line(self) -> str:
        """``— <name> <base64>``, with its newline."""
        return f"{_DASH}{self.name} {write_base64(self.key_id + self.blob)}\n"


def read_signatures(data: bytes) -> tuple[Signature, ...]:
    """The lines under a note; a witness answers with nothing but them (tlog-witness)."""
    lines = read_lines(data, "signatures") if data else []
    if not 1 <= len(lines) <= MAX_SIGNATURES:
        raise NoteError(f"signatures: {len(lines)} lines, not 1 to {MAX_SIGNATURES}")
    return tuple(_read_line(line) for line in lines)


def write_signatures(signatures: tuple[Signature, ...]) -> bytes:
    return "".join(signature.line for signature in signatures).encode()


def _read_line(line: str) -> Signature:
    parts = line.removeprefix(_DASH).split(" ")
    if not line.startswith(_DASH) or len(parts) != 2:
        raise NoteError("signature line: not an em dash, a space, a key name, a space and base64")
    data = read_base64(parts[1], "signature line")
    return Signature(parts[0], data[:KEY_ID_SIZE], data[KEY_ID_SIZE:])


@dataclass(frozen=True, slots=True)
class Note:
    """A text, with its last newline, and signatures nobody has checked."""

    text: bytes
    signatures: tuple[Signature, ...] = ()

    def __post_init__(self) -> None:
        check_text(self.text, "note")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a note. What is accepted prints back the same."""
        if len(data) > MAX_BYTES:
            raise NoteError(f"note: {len(data)} bytes, more than {MAX_BYTES}")
        # "the text is separated from the signatures by the last empty line in the note"
        at = data.rfind(b"\n\n")
        if at < 0:
            raise NoteError("note: no empty line between text and signatures")
        return cls(data[: at + 1], read_signatures(data[at + 2 :]))

    def to_bytes(self) -> bytes:
        """The note as it is sent and kept."""
        if not 1 <= len(self.signatures) <= MAX_SIGNATURES:
            raise NoteError(f"note: {len(self.signatures)} signatures, not 1 to {MAX_SIGNATURES}")
        data = self.text + b"\n" + write_signatures(self.signatures)
        if len(data) > MAX_BYTES:
            raise NoteError(f"note: {len(data)} bytes, more than {MAX_BYTES}")
        return data

    def with_signature(self, signature: Signature) -> Note:
        """The note with one more line at its end; an earlier one of the same name and key id gives way to it."""
        key = signature.name, signature.key_id
        kept = tuple(each for each in self.signatures if (each.name, each.key_id) != key)
        return Note(self.text, (*kept, signature))
