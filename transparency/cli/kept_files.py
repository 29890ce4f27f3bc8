"""Files that a command replaces only if they still hold what it read: another one may be at the same session.

Two ``submit`` of one folder meet at every file of it. Whoever comes second begins again, finds what the first wrote,
and goes on from there; so both end alike, and nothing is signed twice or lost.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input, write_output


class MeanwhileError(CommandError):
    """Another command wrote the file after it was read: begin again."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(Exit.TRY_LATER, f"{path}: another command keeps writing it", "Let it end, then try again.")


def held(path: str | Path) -> bytes | None:
    """What the file holds now, an empty one too; None if there is none."""
    if str(path) == STDIO or not Path(path).exists():
        return None
    if not Path(path).is_file():
        raise CommandError(Exit.CANNOT_WRITE, f"{path} is no regular file", "Use another --out, or - for the output.")
    return read_input(path, may_be_empty=True)


def replace(path: str | Path, data: bytes, before: bytes | None, *, mode: int = 0o644) -> None:
    """Write *data* where *before* was read; MeanwhileError if that is no longer what the file holds."""
    if before is None:
        try:
            write_output(path, data, mode=mode)
        except CommandError as error:
            if Path(path).exists():
                raise MeanwhileError(path) from error
            raise
        return
    if held(path) != before:
        raise MeanwhileError(path)
    write_output(path, data, force=True, mode=mode)


def rename(path: Path, new: Path) -> None:
    """MeanwhileError if somebody else renamed it first."""
    try:
        path.rename(new)
    except FileNotFoundError as error:
        raise MeanwhileError(path) from error
    except OSError as error:
        raise CommandError(Exit.CANNOT_WRITE, f"{new}: {error.strerror}") from error


def set_aside(path: str | Path, data: bytes, ending: str) -> str:
    """Keep what was in PATH, which ends with *ending*, under a name of its own; that name."""
    digest = hashlib.sha256(data).hexdigest()[:8]
    kept = f"{str(path).removesuffix(ending)}.{digest}.replaced{ending}"
    write_output(kept, data, force=True)
    return kept
