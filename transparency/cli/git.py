"""git, as ``blame`` asks it: a program run without a shell, bounded in time and in what it may answer.

The repository may be a stranger's. Its settings can name programs (file system monitors, filters, text converters,
pagers): those that the commands used here would run are switched off.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.records.revisions import Revision

NOTES: Final = "refs/notes/transparency"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
UNCOMMITTED: Final = re.compile(r"0{40,64}")

_TIMEOUT: Final = 120
_MAX_ANSWER: Final = 256 * 1024 * 1024
_SAFE: Final = ("-c", "core.fsmonitor=false", "-c", "core.pager=cat", "-c", "core.quotePath=false")
_ESCAPE: Final = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPES: Final = dict(
    zip((b"a", b"b", b"f", b"n", b"r", b"t", b"v"), (b"\a", b"\b", b"\f", b"\n", b"\r", b"\t", b"\v"), strict=True)
)
_HEAD: Final = re.compile(rb"([0-9a-f]{40,64}) ([0-9]+) ([0-9]+)(?: [0-9]+)?")


@dataclass(frozen=True, slots=True)
class Blamed:
    """A line of the file as it is now: the commit that last touched it, and its path and number there."""

    line: int
    commit: str
    path: str
    original: int
    text: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A working tree of git."""

    root: Path

    def has_commit(self, revision: str) -> bool:
        """Whether *revision*, as anybody may have written it, is a whole commit id that is here."""
        return (
            _COMMIT.fullmatch(revision) is not None
            and _run(self.root, "cat-file", "-e", f"{revision}^{{commit}}") is not None
        )

    @classmethod
    def at(cls, folder: Path) -> Repository:
        """The repository that *folder* is in."""
        found = _run(folder, "rev-parse", "--show-toplevel")
        if found is None:
            raise CommandError(Exit.NO_INPUT, f"{folder} is in no git repository", "Give it with --repo.")
        return cls(Path(os.fsdecode(found.removesuffix(b"\n"))))

    def blame(self, path: str, lines: tuple[int, int] | None = None) -> list[Blamed]:
        """Who last touched the lines (all, or from-to) of the file *path*, given from the root."""
        which = () if lines is None else ("-L", f"{lines[0]},{lines[1]}")
        answer = _run(
            self.root, "blame", "--porcelain", "--no-textconv", *which, "--", path, settings=self._no_filters()
        )
        if answer is None:
            where = path if lines is None else f"{path}:{lines[0]}"
            raise CommandError(
                Exit.NO_INPUT, f"git knows nothing of {where}", "Is it committed, and is there such a line?"
            )
        return list(_parse(answer))

    def _no_filters(self) -> dict[str, str]:
        """Settings by which no filter is run: to compare a file with a commit, git would run its driver (``clean``)."""
        listed = _run(self.root, "config", "-z", "--name-only", "--get-regexp", r"^filter\.") or b""
        drivers = {os.fsdecode(name.rpartition(b".")[0]) for name in listed.split(b"\0") if name}
        off = {"clean": "", "process": "", "required": "false"}
        return {f"{driver}.{name}": value for driver in sorted(drivers) for name, value in off.items()}

    def commit(self, name: str) -> str | None:
        """The whole name of a commit, from the digits it begins with; None if there is no such one, or several."""
        found = _run(self.root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return None if found is None else found.decode("ascii", "replace").strip()

    def file_at(self, commit: str, path: str) -> bytes | None:
        """The bytes of a file in a commit."""
        return _run(self.root, "cat-file", "blob", f"{commit}:{path}")

    def revisions(self, commit: str) -> list[Revision]:
        """The names of a commit: git's, and the change id that Jujutsu writes into the commits it makes."""
        names = [Revision("git", commit)]
        header = (_run(self.root, "cat-file", "commit", commit) or b"").partition(b"\n\n")[0]
        change = re.search(rb"(?m)^change-id ([k-z]{8,64})$", header)
        return [*names, Revision("jj", change[1].decode())] if change is not None else names

    def notes(self, commit: str) -> str:
        """What the notes of the commit say, in the notes kept for transparency."""
        return (_run(self.root, "notes", "--ref", NOTES, "show", commit) or b"").decode("utf-8", "replace")


def _parse(answer: bytes) -> Iterator[Blamed]:
    """The porcelain form (git-blame(1)): a head for each line, what is new of its commit, then a TAB and the line."""
    paths: dict[str, str] = {}
    head: tuple[str, int, int] | None = None
    for row in answer.split(b"\n"):
        found = _HEAD.fullmatch(row)
        if row.startswith(b"\t") and head is not None:
            commit, original, line = head
            yield Blamed(line, commit, paths.get(commit, ""), original, row[1:].decode("utf-8", "replace"))
            head = None
        elif found is not None and head is None:
            head = (found[1].decode(), int(found[2]), int(found[3]))
        elif row.startswith(b"filename ") and head is not None:
            paths[head[0]] = os.fsdecode(_unquoted(row.removeprefix(b"filename ")))


def _unquoted(name: bytes) -> bytes:
    """A path as git writes it: one with a quote, a backslash or a control character stands in quotes, as C has them."""
    if not (len(name) > 1 and name.startswith(b'"') and name.endswith(b'"')):
        return name

    def plain(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[1], 8) & 0xFF]) if found[1][:1].isdigit() else _ESCAPES.get(found[1], found[1])

    return _ESCAPE.sub(plain, name[1:-1])


def _run(folder: Path, *words: str, settings: Mapping[str, str] = MappingProxyType({})) -> bytes | None:
    """What git answers; None if it says no. CommandError if there is no git, or no end to it.

    *settings* go by the environment: in ``-c name=value`` a name could hold the sign.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
    environment["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (name, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    command = ["git", *_SAFE, "--literal-pathspecs", *words]
    if not folder.is_dir():
        raise CommandError(Exit.NO_INPUT, f"{folder} is no folder")
    try:
        with subprocess.Popen(  # noqa: S603 - a list of words, no shell; paths stand after "--" or within a name
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                return _answer(process)
            finally:
                process.kill()
    except FileNotFoundError as error:
        raise CommandError(Exit.NO_INPUT, "git is not installed, or not on the PATH", "Install git.") from error


def _answer(process: subprocess.Popen[bytes]) -> bytes | None:
    assert process.stdout is not None  # noqa: S101 - asked for above
    timer = threading.Timer(_TIMEOUT, process.kill)
    timer.start()
    try:
        answer = process.stdout.read(_MAX_ANSWER + 1)
        if len(answer) > _MAX_ANSWER:
            raise CommandError(Exit.BAD_INPUT, f"git answered more than {_MAX_ANSWER >> 20} MB")
        code = process.wait()
    finally:
        timer.cancel()
    if code == -signal.SIGKILL:
        raise CommandError(Exit.TRY_LATER, f"git did not answer within {_TIMEOUT} s")
    return answer if code == 0 else None
