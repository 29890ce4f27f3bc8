"""The sessions a command is pointed at: files, folders of them, sessions that are folders, the newest of an agent.

Where agents keep their sessions (from the home folder; each agent's own variable for another place is honoured):

    claude    .claude/projects/PROJECT/SESSION.jsonl              CLAUDE_CONFIG_DIR for .claude
    codex     .codex/sessions/YEAR/MONTH/DAY/rollout-*.jsonl      CODEX_HOME for .codex
    gemini    .gemini/tmp/PROJECT/chats/session-*.json[l]
    opencode  .local/share/opencode/storage                       XDG_DATA_HOME for .local/share
    cursor    .cursor/projects/PROJECT/agent-transcripts/
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_INPUT, STDIO, read_input
from transparency.errors import MalformedError
from transparency.records import tree

AGENTS: Final = ("claude", "codex", "gemini", "opencode", "cursor")
PACKED: Final = ".payload"
CANONICAL: Final = ".vac.json"

# What lies beside sessions and is none: our own outputs, keys, and what the owner keeps to himself.
_NEVER: Final = frozenset({".cose", ".pem", ".keys", ".key", ".cert", ".crt", ".toml", PACKED})
_PRIVATE: Final = ".redactions.json"
_REDACTED: Final = ".redacted"
_SUBAGENTS: Final = "subagents"
_STORAGE: Final = ("session", "message", "part")


@dataclass(frozen=True, slots=True)
class Source:
    """One session: a file, or the files that make it up, packed. ``name`` is what its statement is named after."""

    name: str
    root: Path | None = None
    files: tuple[Path, ...] = ()
    found: bool = False
    """Met in a folder, not named by the user: if it is no record it is passed over."""
    data: bytes | None = None
    """What was read from standard input, which can be read once."""

    @property
    def packed(self) -> bool:
        return self.root is not None

    @property
    def statement(self) -> str:
        return STDIO if self.name == STDIO else self.name + ".cose"

    def read(self) -> bytes:
        if self.data is not None:
            return self.data
        if self.root is None:
            return read_input(self.name)
        files: dict[str, bytes] = {}
        left = MAX_INPUT
        for path in self.files:
            data = path.read_bytes() if path.stat().st_size <= left else b""
            left -= max(len(data), path.stat().st_size)
            if left < 0:
                raise CommandError(Exit.BAD_INPUT, f"{self.name}: more than {MAX_INPUT // 1024} KiB in all its files")
            files[path.relative_to(self.root).as_posix()] = data
        try:
            return tree.pack(files)
        except MalformedError as error:
            raise CommandError(Exit.BAD_INPUT, f"{self.name}: {error}") from error


def expand(paths: Sequence[str]) -> list[Source]:
    """Every session under *paths*, each once. A pattern the shell did not resolve is resolved here."""
    sources: dict[str, Source] = {}
    for path in paths:
        for each in _resolved(path):
            for source in _sources(each):
                sources.setdefault(source.name, source)
    return list(sources.values())


def one(path: str) -> Source:
    """The one session that *path* is; a folder that holds several is a question back to the user."""
    sources = _sources(path)
    if len(sources) != 1:
        shown = ", ".join([source.name for source in sources[:3]] + ["…"] * (len(sources) > 3))
        raise CommandError(
            Exit.BAD_INPUT, f"{path}: the folder holds {len(sources)} files or sessions ({shown})",
            "Name one of them; `transparency submit` takes them all.",
        )  # fmt: skip
    return sources[0]


def latest(agent: str, *, home: Path | None = None, environment: Mapping[str, str] | None = None) -> Source:
    """The session of *agent* that was written to last."""
    environment = os.environ if environment is None else environment
    place = _place(agent, Path.home() if home is None else home, environment)
    candidates = [path for path in _candidates(agent, place) if _may_be_part(path)]
    if not candidates:
        raise CommandError(Exit.NO_INPUT, f"no session of {agent} was found under {place}", "Name the file instead.")
    newest = max(candidates, key=lambda path: (path.stat().st_mtime_ns, str(path)))
    if agent == "opencode":
        return _opencode_session(place, newest)
    beside = newest.with_suffix("")
    return _with_subagents(beside) if agent == "claude" and (beside / _SUBAGENTS).is_dir() else Source(str(newest))


def _place(agent: str, home: Path, environment: Mapping[str, str]) -> Path:
    def base(variable: str, default: str) -> Path:
        value = environment.get(variable, "")
        return Path(value) if value.startswith("/") else home / default

    return {
        "claude": base("CLAUDE_CONFIG_DIR", ".claude") / "projects",
        "codex": base("CODEX_HOME", ".codex") / "sessions",
        "gemini": home / ".gemini" / "tmp",
        "opencode": base("XDG_DATA_HOME", ".local/share") / "opencode" / "storage",
        "cursor": home / ".cursor" / "projects",
    }[agent]


def _candidates(agent: str, place: Path) -> Iterator[Path]:
    if agent == "claude":
        # Older versions keep sub-agents beside their sessions; they are no sessions of their own.
        yield from (path for path in place.glob("*/*.jsonl") if not path.name.startswith("agent-"))
    elif agent == "codex":
        yield from place.rglob("rollout-*.jsonl")
    elif agent == "gemini":
        yield from (path for path in place.glob("*/chats/session-*") if path.suffix in (".json", ".jsonl"))
    elif agent == "opencode":
        yield from place.glob("session/**/*.json")
    else:
        yield from place.glob("*/agent-transcripts/**/*.jsonl")


def _opencode_session(place: Path, info: Path) -> Source:
    """The files of one session: what describes it, its messages, and the parts of each."""
    messages = sorted((place / "message" / info.stem).glob("*.json"))
    parts = [path for message in messages for path in sorted((place / "part" / message.stem).glob("*.json"))]
    return Source(str(info.with_suffix("")), place, (info, *messages, *parts))


def _resolved(path: str) -> list[str]:
    if path == STDIO or os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - patterns may be absolute, or begin with ~ or ..
    found = [each for each in found if not _is_ours(Path(each))]
    if not found:
        raise CommandError(Exit.NO_INPUT, f"{path}: nothing matches")
    return found


def _sources(path: str) -> list[Source]:
    if path == STDIO:
        return [Source(path, data=read_input(path))]
    if not Path(path).is_dir():
        return [Source(path)]
    folder = Path(path)
    if folder.name in ("", ".."):  # "." has no name of its own to put a statement beside
        folder = folder.resolve()
    if _is_storage(folder):
        return [_storage(folder)]
    if _is_session_folder(folder):
        return [_with_subagents(folder)]
    found = list(_walk(folder))
    if not found:
        raise CommandError(
            Exit.BAD_INPUT, f"{path}: there is no file in this folder that could be a session", "Name a session's file."
        )
    return found


def _walk(folder: Path) -> Iterator[Source]:
    """Everything in a folder that could be a session, by name; nothing hidden, no symbolic links."""
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_symlink())
    for path in entries:
        if path.is_file():
            if not _is_ours(path) and not _is_session_folder(path.with_suffix("")):
                yield Source(str(path), found=True)
        elif _is_storage(path):
            yield _storage(path)
        elif _is_session_folder(path):
            yield _with_subagents(path)
        elif path.is_dir():
            yield from _walk(path)


def _may_be_part(path: Path) -> bool:
    """A file that an agent wrote: none of ours, which lie among them, and one of which holds what was taken out."""
    return path.is_file() and not path.is_symlink() and not _is_ours(path)


def _is_ours(path: Path) -> bool:
    name = path.name
    # A redacted record is its session again: registered with it, never by itself as one more.
    if path.suffix in _NEVER or name.endswith((_PRIVATE, _REDACTED)) or path.stem.endswith(_REDACTED):
        return True
    # What ``--convert`` wrote beside a session, as SESSION.vac.json or SESSION.vac-2.json.
    stem, dot, ending = name.rpartition(".vac")
    if not dot or not stem or not ending.endswith(".json"):
        return False
    return stem.endswith(_REDACTED) or _is_session(path.with_name(stem))


def _is_session(path: Path) -> bool:
    """A file or folder, or (OpenCode) what a file of this name describes."""
    return path.exists() or path.with_name(f"{path.name}.json").exists()


def _is_storage(folder: Path) -> bool:
    """OpenCode's storage tree: one JSON object a file, by kind, then by what it belongs to."""
    kinds = [folder / kind for kind in _STORAGE if (folder / kind).is_dir()]
    return len(kinds) > 1 and any(next(kind.glob("*/*.json"), None) is not None for kind in kinds)


def _storage(folder: Path) -> Source:
    files = sorted(path for path in folder.rglob("*.json") if _may_be_part(path))
    return Source(str(folder), folder, tuple(files))


def _is_session_folder(folder: Path) -> bool:
    """``SESSION/subagents`` beside ``SESSION.jsonl``, as Claude Code keeps them."""
    return bool(folder.name) and (folder / _SUBAGENTS).is_dir() and folder.with_name(folder.name + ".jsonl").is_file()


def _with_subagents(folder: Path) -> Source:
    kept = (path for path in (folder / _SUBAGENTS).rglob("*") if path.suffix in (".jsonl", ".json"))
    agents = sorted(path for path in kept if _may_be_part(path))
    return Source(str(folder), folder.parent, (folder.with_name(folder.name + ".jsonl"), *agents))
