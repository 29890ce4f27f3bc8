"""The log list: for which logs a witness cosigns, by which keys, how often. A file for people, ``logs.toml``.

What was cosigned is not in it: taking a log off the list and putting it back changes nothing of what is recorded.
A running witness reads the file again when it changed; one that cannot be read leaves the list as it was.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from transparency.errors import LogUnusableError, MalformedError, NoteError
from transparency.log.durable import create_durably
from transparency.notes.vkey import LOG_KINDS, VerifierKey, by_name_and_id
from transparency.policy.toml import Table, load, quote, quote_list
from transparency.witness.keys import LONGEST_NAME

PER_MINUTE: Final = 600
"""New checkpoints a minute that a log may have cosigned, unless the list says otherwise."""
MAX_KEYS: Final = 16
_logger = logging.getLogger("transparency.witness")
_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class KnownLog:
    """A log on the list. ``url`` is for people and monitors; ``per_minute`` None lifts the limit (0 in the file)."""

    vkeys: tuple[VerifierKey, ...]
    url: str | None = None
    per_minute: int | None = PER_MINUTE

    def __post_init__(self) -> None:
        if not 1 <= len(self.vkeys) <= MAX_KEYS:
            raise NoteError(f"a log has 1 to {MAX_KEYS} keys")
        names = {key.name for key in self.vkeys}
        if len(names) != 1:
            raise NoteError("the keys of a log all have its origin as their name; these have different ones")
        if any(key.kind not in LOG_KINDS for key in self.vkeys):
            raise NoteError("a key that makes cosignatures is a witness' key, not a log's")
        if len(self.origin.encode()) > LONGEST_NAME:
            raise NoteError(f"the origin has more than {LONGEST_NAME} bytes, which no cosignature can name")
        by_name_and_id(self.vkeys)

    @property
    def origin(self) -> str:
        return self.vkeys[0].name


class LogList:
    """The file as it was last read. Owner: the keeper's thread, or a command."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._logs = LogList.read(path)

    @classmethod
    def read(cls, path: Path) -> dict[str, KnownLog]:
        """The logs by origin; raises LogUnusableError."""
        try:
            table = Table(load(path.read_bytes(), "log list"), "logs")
            found = [_known(each) for each in table.tables("log")]
            table.done()
        except OSError as error:
            raise LogUnusableError(f"{path} cannot be read: {error.strerror}") from error
        except MalformedError as error:
            raise LogUnusableError(f"{path}: {error}") from error
        logs = {log.origin: log for log in found}
        if len(logs) != len(found):
            raise LogUnusableError(f"{path}: a log is on the list twice")
        return logs

    @classmethod
    def write(cls, path: Path, logs: Mapping[str, KnownLog]) -> None:
        blocks = [_HEAD, *(_lines(log) for log in logs.values())]
        create_durably(path, "\n".join(blocks).encode(), mode=0o644)

    def find(self, origin: str) -> KnownLog | None:
        return self._logs.get(origin)

    def keys_of(self, origin: str) -> Collection[VerifierKey] | None:
        known = self._logs.get(origin)
        return None if known is None else known.vkeys

    def all(self) -> list[KnownLog]:
        return list(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def __contains__(self, origin: object) -> bool:
        return origin in self._logs

    def refresh(self) -> None:
        """Read the file again if it is another than before."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._logs = LogList.read(self._path)
        except LogUnusableError as error:
            _logger.error("the log list stays as it was: %s", error)  # noqa: TRY400 - a person's slip, no traceback


@contextmanager
def changing(path: Path) -> Iterator[dict[str, KnownLog]]:
    """The list, to be changed and written back; two commands at once do not lose each other's logs."""
    descriptor = os.open(path.with_name(".logs.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        logs = LogList.read(path)
        yield logs
        LogList.write(path, logs)
    finally:
        os.close(descriptor)


_HEAD: Final = """\
# The logs that are cosigned for. `add-log` writes it; it may be edited, too.
# Whoever runs here notices. What was cosigned is not in here: a log that is taken off and put back goes on
# where it was.
"""


def _known(table: Table) -> KnownLog:
    texts = table.texts("vkeys")
    url = table.optional_text("url")
    rate = table.optional_number("per-minute")
    table.done()
    try:
        keys = tuple(VerifierKey.parse(text) for text in texts)
        return KnownLog(keys, url, PER_MINUTE if rate is None else rate or None)
    except NoteError as error:
        raise table.fault("vkeys", f"cannot be used: {error}") from error


def _lines(log: KnownLog) -> str:
    url = [] if log.url is None else [f"url = {quote(log.url)}"]
    rate = [] if log.per_minute == PER_MINUTE else [f"per-minute = {log.per_minute or 0}"]
    return "\n".join(["[[log]]", f"vkeys = {quote_list(key.text for key in log.vkeys)}", *url, *rate, ""])


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
