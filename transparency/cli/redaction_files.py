"""What redaction keeps beside a session: the record as it was signed, and the owner's side file.

The side file is the owner's: mode 0600, never uploaded. Who has it can disclose; who loses it cannot.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input
from transparency.cli.kept_files import MeanwhileError, held, rename, replace
from transparency.cose import labels
from transparency.errors import TransparencyError
from transparency.records.redact import Redacted, SideFile, read_side_file, side_file_bytes

SIDE_FILE: Final = ".redactions.json"
REDACTED: Final = ".redacted"


@dataclass(frozen=True, slots=True)
class RedactedSession:
    """A session *name* and what became of its bytes. A folder's are packed: they are in no file of their own."""

    name: str
    packed: bool
    redacted: Redacted
    before: SideFile | None
    """The side file of an earlier redaction of these very bytes."""
    there: bytes | None
    """What was in the place of the side file before."""

    @property
    def path(self) -> Path:
        return redacted_path(self.name)

    @property
    def headers(self) -> dict[int | str, Any]:
        """The header that commits to what was taken out."""
        return {labels.REDACTIONS: self.redacted.header} if self.redacted.header else {}

    def was(self, digest: bytes | None) -> bool:
        """Whether a record of this SHA-256 is the same session, to the byte, under other options for redaction."""
        known = {self.redacted.side_file["original-sha-256"], self.before.record if self.before is not None else None}
        return digest is not None and digest.hex() in known

    def keep(self) -> None:
        """Write both. What was there before is kept too, unless the new record begins with it."""
        side = side_file_path(self.name)
        if held(side) != self.there:
            raise MeanwhileError(side)  # another command chose other salts
        write_side_file(self.name, self.redacted)
        if self.packed:
            return
        # Under the same name whether or not a rule matched: a session that grows must find what it continues.
        there = held(self.path)
        if there == self.redacted.data:
            return
        if there is not None and not self.redacted.data.startswith(there):
            rename(self.path, _kept_aside(self.path, there, REDACTED + Path(self.name).suffix))
            there = None
        replace(self.path, self.redacted.data, there)


def side_file_path(file: str | Path) -> Path:
    """``session.redactions.json`` for ``session.jsonl``."""
    return Path(file).with_suffix(SIDE_FILE)


def redacted_path(file: str | Path) -> Path:
    """``session.redacted.jsonl`` for ``session.jsonl``: where the redacted record goes, and `verify` finds it."""
    path = Path(file)
    return path.with_name(f"{path.stem}{REDACTED}{path.suffix}")


def write_side_file(file: str | Path, redacted: Redacted) -> Path | None:
    """Keep what the owner needs to disclose; None where nothing was redacted. One with other items is kept too."""
    if not redacted.header:
        return None
    path = side_file_path(file)
    data = side_file_bytes(redacted.side_file)
    before = held(path)
    if before == data:
        return path
    if before is not None:
        rename(path, _kept_aside(path, before, SIDE_FILE))
    replace(path, data, None, mode=0o600)
    return path


def previous(file: str, data: bytes) -> SideFile | None:
    """The side file beside *file*, if it is of these very bytes."""
    path = side_file_path(file)
    if file == STDIO or not path.is_file():
        return None
    try:
        side = read_side_file(read_input(path))
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error}", "Move it away if it is not needed.") from error
    return side if side.original == hashlib.sha256(data).hexdigest() else None


def _kept_aside(path: Path, data: bytes, ending: str) -> Path:
    """Another name for what is at *path*, still under the ending that nothing is submitted with."""
    digest = hashlib.sha256(data).hexdigest()[:16]
    return path.with_name(f"{path.name.removesuffix(ending)}.{digest}{ending}")
