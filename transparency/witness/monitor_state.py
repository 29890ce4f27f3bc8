"""What a monitor remembers of one log, in a file of its own: the last tree it followed, and what is going on.

The state is what makes a monitor worth something: whoever takes it away makes it believe the next tree it is shown. It
is replaced whole, after all that it says was checked, and before the next round.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.log.durable import create_durably
from transparency.log.folder import Ownership
from transparency.merkle.compact_range import CompactRange
from transparency.notes.checkpoint import SignedCheckpoint, origin_hash
from transparency.notes.numbers import read_decimal, read_hash, write_base64
from transparency.records.strict_json import loads
from transparency.verifier.evidence import SUFFIX

MAX_STATE: Final = 16 * 1024 * 1024
_KIND: Final = "transparency-monitor/1"
_MEMBERS: Final = frozenset(
    {"kind", "origin", "checkpoint", "size", "range", "since", "ahead", "watched", "served", "active"}
)


@dataclass(slots=True)
class MonitorState:
    """Of one log. Mutable; the monitor owns it.

    ``last``: the checkpoint up to which everything was followed; ``edge``: the complete subtrees of that tree, rebuilt
    from its entries. ``since``: when it last grew. ``ahead``: since when the log has shown less than there is.
    ``watched``: up to which index was searched. ``served``: the largest checkpoint that each URL has shown. ``active``:
    alarms that were told and have not ended.
    """

    origin: str
    last: SignedCheckpoint | None = None
    edge: CompactRange = field(default_factory=CompactRange)
    since: int = 0
    ahead: int | None = None
    watched: int = 0
    served: dict[str, SignedCheckpoint] = field(default_factory=dict)
    active: dict[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        value = {
            "kind": _KIND,
            "origin": self.origin,
            "checkpoint": None if self.last is None else _text(self.last),
            "size": str(self.edge.size),
            "range": [write_base64(each) for each in self.edge.hashes],
            "since": str(self.since),
            "ahead": None if self.ahead is None else str(self.ahead),
            "watched": str(self.watched),
            "served": {url: _text(signed) for url, signed in self.served.items()},
            "active": self.active,
        }
        return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> MonitorState:
        value = loads(data, max_depth=3, max_size=MAX_STATE)
        if not isinstance(value, dict) or value.get("kind") != _KIND or set(value) != _MEMBERS:
            raise MalformedError("not the state of a monitor")
        if not isinstance(value["range"], list):
            raise MalformedError("state of a monitor: its range is not a list")
        hashes = [read_hash(_checked(each), "range") for each in value["range"]]
        try:
            edge = CompactRange(_number(value, "size"), hashes)
        except ValueError as error:
            raise MalformedError(f"state of a monitor: {error}") from error
        last = None if value["checkpoint"] is None else _signed(value["checkpoint"])
        if last is not None and (last.checkpoint.size, last.checkpoint.root) != (edge.size, edge.root()):
            raise MalformedError("state of a monitor: its range is not of the tree of its checkpoint")
        return cls(
            _checked(value["origin"]),
            last,
            edge,
            _number(value, "since"),
            None if value["ahead"] is None else _number(value, "ahead"),
            _number(value, "watched"),
            {url: _signed(note) for url, note in _mapping(value, "served").items()},
            {key: _checked(detail) for key, detail in _mapping(value, "active").items()},
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
        path = self._of(origin) / "state.json"
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
        folder = self._of(state.origin)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_durably(folder / "state.json", state.to_bytes())

    def keep_evidence(self, origin: str, name: str, data: bytes) -> Path:
        folder = self._of(origin)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{name}{SUFFIX}"
        create_durably(path, data, 0o644)
        return path

    def _of(self, origin: str) -> Path:
        # An origin is any line of text; its hash is a name in every file system.
        return self.path / origin_hash(origin)[:16]


def _text(signed: SignedCheckpoint) -> str:
    return signed.to_bytes().decode()


def _signed(note: object) -> SignedCheckpoint:
    return SignedCheckpoint.from_bytes(_checked(note).encode())


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
