"""What a monitor remembers of one log, in a file of its own: the last tree it followed, and what is going on.

The state is what makes a monitor worth something: whoever takes it away makes it believe the next tree it is shown. It
is replaced whole, after all that it says was checked, and before the next round.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.log.durable import create_durably
from transparency.log.folder import Ownership
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import HASH_SIZE
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint, origin_hash
from transparency.notes.numbers import read_base64, read_decimal, read_hash, write_base64
from transparency.records.strict_json import loads
from transparency.verifier.evidence import SUFFIX
from transparency.witness.monitor_alarms import STAYING
from transparency.witness.monitor_trail import Trail

MAX_STATE: Final = 16 * 1024 * 1024
MAX_WAITING: Final = 64
_KIND: Final = "transparency-monitor/2"
_MEMBERS: Final = frozenset(
    {"kind", "origin", "checkpoint", "size", "range", "since", "ahead", "watched", "served", "active"}
)
_SINCE_2: Final[Mapping[str, Any]] = {"place": "this monitor", "leaves": "", "waiting": [], "acknowledged": {}}
_BEFORE: Final = "transparency-monitor/1"


@dataclass(slots=True)
class MonitorState:
    """Of one log. Mutable; the monitor owns it.

    ``last``: the checkpoint up to which everything was followed, and ``place`` who showed it; ``trail``: the end of
    that tree, rebuilt from its entries. ``since``: when it last grew. ``ahead``: since when the log has shown less than
    there is. ``watched``: up to which index was searched. ``served``: the largest checkpoint that each URL has shown.
    ``waiting``: what was shown, and could be compared with nothing yet. ``active``: alarms that were told and have not
    ended. ``acknowledged``: split views that somebody has put aside, and when.
    """

    origin: str
    last: SignedCheckpoint | None = None
    trail: Trail = field(default_factory=Trail)
    since: int = 0
    ahead: int | None = None
    watched: int = 0
    served: dict[str, SignedCheckpoint] = field(default_factory=dict)
    active: dict[str, str] = field(default_factory=dict)
    waiting: list[tuple[str, SignedCheckpoint]] = field(default_factory=list)
    acknowledged: dict[str, str] = field(default_factory=dict)
    place: str = "this monitor"

    @property
    def split(self) -> list[str]:
        """The split views that are active, by key."""
        return [key for key in self.active if key.startswith(STAYING)]

    def wait_for(self, views: Iterable[tuple[str, SignedCheckpoint]]) -> None:
        """Keep what could not be compared. If there is too much of it the first stay, and the newest one."""
        trees: dict[Checkpoint, tuple[str, SignedCheckpoint]] = {}
        for place, signed in views:
            trees.setdefault(signed.checkpoint, (place, signed))
        self.waiting = list(trees.values())
        if len(self.waiting) > MAX_WAITING:
            self.waiting[MAX_WAITING - 1 :] = self.waiting[-1:]

    def acknowledge(self, now: str) -> list[str]:
        """Put the split views aside: go on from the tree that was followed first, as if nothing else had been shown."""
        keys = self.split
        for key in keys:
            self.acknowledged[key] = f"{now}: {self.active.pop(key)}"
        self.served = {
            url: each for url, each in self.served.items() if self.last and each.checkpoint == self.last.checkpoint
        }
        self.waiting.clear()
        return keys

    def to_bytes(self) -> bytes:
        value = {
            "kind": _KIND,
            "origin": self.origin,
            "checkpoint": None if self.last is None else _text(self.last),
            "place": self.place,
            "size": str(self.trail.base),
            "range": [write_base64(each) for each in self.trail.hashes],
            "leaves": write_base64(b"".join(self.trail.leaves)),
            "since": str(self.since),
            "ahead": None if self.ahead is None else str(self.ahead),
            "watched": str(self.watched),
            "served": {url: _text(signed) for url, signed in self.served.items()},
            "waiting": [[place, _text(signed)] for place, signed in self.waiting],
            "active": self.active,
            "acknowledged": self.acknowledged,
        }
        return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> MonitorState:
        value = loads(data, max_depth=3, max_size=MAX_STATE)
        if isinstance(value, dict) and value.get("kind") == _BEFORE and set(value) == _MEMBERS:
            value = {**value, **_SINCE_2, "kind": _KIND}
        if not isinstance(value, dict) or value.get("kind") != _KIND or set(value) != _MEMBERS | set(_SINCE_2):
            raise MalformedError("not the state of a monitor")
        trail = _trail(value)
        last = None if value["checkpoint"] is None else _signed(value["checkpoint"])
        if last is not None and (last.checkpoint.size, last.checkpoint.root) != (trail.size, trail.root()):
            raise MalformedError("state of a monitor: its range is not of the tree of its checkpoint")
        return cls(
            _checked(value["origin"]),
            last,
            trail,
            _number(value, "since"),
            None if value["ahead"] is None else _number(value, "ahead"),
            _number(value, "watched"),
            {url: _signed(note) for url, note in _mapping(value, "served").items()},
            {key: _checked(detail) for key, detail in _mapping(value, "active").items()},
            [_waiting(each) for each in _list(value, "waiting")],
            {key: _checked(detail) for key, detail in _mapping(value, "acknowledged").items()},
            _checked(value["place"]),
        )


class MonitorFolder:
    """Where a monitor keeps its states and the evidence it found: one folder a log."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def own(self) -> Ownership:
        """Hold the folder, which is made if it is not there. Two monitors in one would undo each other's states."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Ownership(self.path / "lock")

    def load(self, origin: str) -> MonitorState:
        """The state of a log; an empty one where there is none. A damaged one is an error, never a new beginning."""
        path = self.folder_of(origin) / "state.json"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return MonitorState(origin)
        try:
            state = MonitorState.from_bytes(data)
        except MalformedError as error:
            raise MalformedError(f"{path}: {error}; put a copy back, or move it away to begin anew") from error
        if state.origin != origin:
            raise MalformedError(f"{path}: the state of another log")
        return state

    def save(self, state: MonitorState) -> None:
        folder = self.folder_of(state.origin)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(folder / "state.json", state.to_bytes(), 0o600)

    def keep_evidence(self, origin: str, name: str, data: bytes) -> Path:
        folder = self.folder_of(origin)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{name}{SUFFIX}"
        _write(path, data, 0o644)
        return path

    def folder_of(self, origin: str) -> Path:
        """Where the state of a log lies, and the evidence against it."""
        # An origin is any line of text; its hash is a name in every file system.
        return self.path / origin_hash(origin)[:16]


def _write(path: Path, data: bytes, mode: int) -> None:
    try:
        create_durably(path, data, mode)
    except OSError as error:
        # Writing to a descriptor does not say of what: a full disk is to be found.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _text(signed: SignedCheckpoint) -> str:
    return signed.to_bytes().decode()


def _signed(note: object) -> SignedCheckpoint:
    return SignedCheckpoint.from_bytes(_checked(note).encode())


def _trail(value: Mapping[str, Any]) -> Trail:
    hashes = [read_hash(_checked(each), "range") for each in _list(value, "range")]
    leaves = read_base64(_checked(value["leaves"]), "leaves")
    if len(leaves) % HASH_SIZE:
        raise MalformedError("state of a monitor: its leaves are not hashes")
    try:
        base = CompactRange(_number(value, "size"), hashes)
        return Trail(base, [leaves[at : at + HASH_SIZE] for at in range(0, len(leaves), HASH_SIZE)])
    except ValueError as error:
        raise MalformedError(f"state of a monitor: {error}") from error


def _waiting(value: object) -> tuple[str, SignedCheckpoint]:
    if not isinstance(value, list) or len(value) != 2:
        raise MalformedError("state of a monitor: what waits is a place and a checkpoint")
    return _checked(value[0]), _signed(value[1])


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value[name]
    if not isinstance(found, list):
        raise MalformedError(f"state of a monitor: its {name} is not a list")
    return found


def _checked(value: object) -> str:
    if not isinstance(value, str):
        raise MalformedError("state of a monitor: a text is expected")
    return value


def _number(value: Mapping[str, Any], name: str) -> int:
    return read_decimal(_checked(value[name]), f"state of a monitor, {name}")


def _mapping(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = value[name]
    if not isinstance(found, dict):
        raise MalformedError(f"state of a monitor: its {name} is not an object")
    return found
