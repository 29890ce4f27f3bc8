"""Reading and writing files for commands: bounded in, atomic out, an existing file never lost by accident."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from pathlib import Path

from transparency.cli.errors import OTHER_USER, CommandError
from transparency.cli.exits import Exit

STDIO = "-"
SIGN1_HEAD = b"\xd2"
"""The first byte of every statement: tag 18."""
MAX_INPUT = 256 * 1024 * 1024
MAX_KEY_FILE = 1024 * 1024


def read_input(path: str | Path, *, most: int = MAX_INPUT, may_be_empty: bool = False) -> bytes:
    """The bytes of *path* (``-`` is standard input), refused above *most* before they are all in memory.

    Only a record *may be empty*: nothing at all is a record too, but no statement and no key.
    """
    name = str(path)
    try:
        if name == STDIO:
            data = sys.stdin.buffer.read(most + 1)
        else:
            with Path(path).open("rb") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and os.fstat(file.fileno()).st_size > most:
                    raise _too_large(name, most)
                data = file.read(most + 1)
    except PermissionError as error:
        raise CommandError(Exit.BAD_INPUT, f"{name}: {error.strerror}", OTHER_USER) from error
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"{name}: {error.strerror}") from error
    if len(data) > most:
        raise _too_large(name, most)
    if not data and not may_be_empty:
        raise CommandError(Exit.BAD_INPUT, f"{'standard input' if name == STDIO else name} is empty")
    return data


def refuse_existing(*paths: str | Path, force: bool) -> None:
    """Say so before any work is done, not after it."""
    for path in paths:
        if not force and str(path) != STDIO and os.path.lexists(path):
            raise _exists(path)


def write_output(path: str | Path, data: bytes, *, force: bool = False, mode: int = 0o644) -> None:
    """Write *path* whole or not at all; without *force* an existing file stays, also one that appears meanwhile."""
    if str(path) == STDIO:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    try:
        if force and target.exists() and not target.is_file():
            target.write_bytes(data)  # /dev/stdout, a pipe: nothing to replace atomically
            return
        _write_atomically(target, data, force=force, mode=mode)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise CommandError(Exit.CANNOT_WRITE, f"{path}: {error.strerror}", "Choose another --out.") from error


def _write_atomically(target: Path, data: bytes, *, force: bool, mode: int) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:32]}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            # mkstemp made it 0600; a private key stays so, the rest follows the umask.
            os.fchmod(file.fileno(), mode & ~_umask())
            os.fsync(file.fileno())
        if force:
            temporary.replace(target)
        else:
            _link(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _link(temporary: Path, target: Path) -> None:
    """Like rename, but fails where *target* exists (rename would replace it)."""
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        # A file system without hard links: the check and the rename are two steps there.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        temporary.rename(target)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _exists(path: str | Path) -> CommandError:
    return CommandError(Exit.CANNOT_WRITE, f"{path} exists and is left as it is", "Use --force or another name.")


def _too_large(name: str, most: int) -> CommandError:
    return CommandError(Exit.BAD_INPUT, f"{name} is larger than {most // 1024} KiB")
