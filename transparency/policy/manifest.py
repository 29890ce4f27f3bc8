"""The admission manifest: for a stretch of the log, under what each entry was admitted (AMB-10).

The tree commits to statements; what an entry is to the log (its kind), generation, decision time and the certificates
that came beside a statement are not part of one. A manifest says them for every index of a period and is itself
registered, by the operations key, so that whoever replaces any of them afterwards is found: nobody makes a plain
statement of what the service said, to have it erased. Manifests follow each other without gaps from index 0 on; one is
covered by the next.

Canonical CBOR: ``{"log", "first", "count", "previous", "runs": [[count, kind, generation, time], …], "collateral":
{index: SHA-256}}``; a run is a stretch of entries that share kind, generation and time. Kinds are those of the export:
0 statement, 1 policy, 2 keys, 3 operation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from transparency.cose import cbor
from transparency.errors import MalformedError

MAX_ENTRIES: Final = 4_096
_MAX_ITEMS: Final = 16 * MAX_ENTRIES
_MAX_NUMBER: Final = 2**53
_DIGEST_BYTES: Final = 32
_RUN_MEMBERS: Final = 4
_KINDS: Final = range(4)
_MEMBERS: Final = frozenset({"log", "first", "count", "previous", "runs", "collateral"})


class Admission(NamedTuple):
    """Under what one entry was admitted. The digest is that of its collateral, None where there was none.

    A tuple, because one is made for every entry of the log.
    """

    kind: int
    generation: int
    time: int
    collateral: bytes | None = None


# Kind, generation and time: what a run shares.
_SAME: Final = itemgetter(0, 1, 2)
_COLLATERAL: Final = 3

Run = tuple[int, int, int, int]
"""How many entries, and their kind, generation and time."""


@dataclass(frozen=True, slots=True)
class Manifest:
    log: str
    first: int
    previous: str
    runs: tuple[Run, ...]
    collateral: Mapping[int, bytes]

    @classmethod
    def of(cls, log: str, first: int, previous: str, admissions: Iterable[Admission]) -> Manifest:
        """The manifest of the entries from index *first* on."""
        rows = list(admissions)
        runs = tuple((len(list(some)), *same) for same, some in groupby(rows, _SAME))
        collateral = {index: row[_COLLATERAL] for index, row in enumerate(rows, first) if row[_COLLATERAL] is not None}
        return cls(log, first, previous, runs, collateral)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        value = cbor.decode(data, max_items=_MAX_ITEMS)
        if not isinstance(value, dict) or value.keys() != _MEMBERS:
            raise MalformedError(f"a manifest is a map of {', '.join(sorted(_MEMBERS))}")
        manifest = cls(
            log=_text(value["log"], "log"),
            first=_number(value["first"], "first"),
            previous=_text(value["previous"], "previous"),
            runs=_runs(value["runs"]),
            collateral=_collateral(value["collateral"]),
        )
        if not 1 <= manifest.count <= MAX_ENTRIES or value["count"] != manifest.count:
            raise MalformedError(f"manifest.count is not what its runs add up to, or not 1 to {MAX_ENTRIES}")
        if any(not manifest.first <= index < manifest.end for index in manifest.collateral):
            raise MalformedError("manifest.collateral names an entry that the manifest does not cover")
        if manifest.to_bytes() != data:
            raise MalformedError("a manifest is deterministic CBOR")
        return manifest

    def to_bytes(self) -> bytes:
        return cbor.encode(
            {
                "log": self.log,
                "first": self.first,
                "count": self.count,
                "previous": self.previous,
                "runs": [list(run) for run in self.runs],
                "collateral": dict(self.collateral),
            }
        )

    @property
    def count(self) -> int:
        return sum(count for count, *_ in self.runs)

    @property
    def end(self) -> int:
        """The first index that it does not cover."""
        return self.first + self.count

    def admissions(self) -> Iterator[tuple[int, Admission]]:
        index = self.first
        for count, kind, generation, time in self.runs:
            for _ in range(count):
                yield index, Admission(kind, generation, time, self.collateral.get(index))
                index += 1


def collateral_digest(collateral: bytes) -> bytes | None:
    """How a manifest, and the store, name the collateral of an entry."""
    return hashlib.sha256(collateral).digest() if collateral else None


def _runs(value: object) -> tuple[Run, ...]:
    if not isinstance(value, list):
        raise MalformedError("manifest.runs is not an array")
    runs: list[Run] = []
    for run in value:
        if not isinstance(run, list) or len(run) != _RUN_MEMBERS:
            raise MalformedError("a run of a manifest is [count, kind, generation, time]")
        count, kind, generation, time = (_number(member, "runs") for member in run)
        if kind not in _KINDS:
            raise MalformedError("manifest.runs has a kind of entry that there is not")
        if count < 1 or (runs and runs[-1][1:] == (kind, generation, time)):
            raise MalformedError("a run of a manifest has at least one entry, and differs from the one before it")
        runs.append((count, kind, generation, time))
    return tuple(runs)


def _collateral(value: Any) -> dict[int, bytes]:  # noqa: ANN401 - Any stops here
    if not isinstance(value, dict):
        raise MalformedError("manifest.collateral is not a map")
    for index, digest in value.items():
        _number(index, "collateral")
        if not isinstance(digest, bytes) or len(digest) != _DIGEST_BYTES:
            raise MalformedError("manifest.collateral maps indexes to SHA-256 digests")
    return value


def _number(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_NUMBER:
        raise MalformedError(f"manifest.{name} is not a whole number from 0 to {_MAX_NUMBER}")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise MalformedError(f"manifest.{name} is not text")
    return value
