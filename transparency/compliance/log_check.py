"""A log check: a small object that is fed every examined entry of a log once, in order, and then says what it found.

Memory is bounded: a check keeps counters, tables of at most MAX_NAMES names, and what it has to look up again it gives
to the *spill*, which keeps it on disk. Each check says its own bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, Protocol, TypeVar

from transparency.compliance.examined import Examined
from transparency.compliance.finding import MAX_POINTERS, Finding, Verdict
from transparency.compliance.log_facts import LogFacts
from transparency.compliance.log_settings import LogSettings
from transparency.compliance.wording import inflected
from transparency.display import safe_text

_T = TypeVar("_T")
MAX_NAMES: Final = 1_000
_APART: Final = "\x1f"
_SHOWN_NAMES: Final = 5
_LONGEST_NAME: Final = 60


class Spill(Protocol):
    """Texts by table and key, in no memory of ours. Keys come back in the order of their UTF-8, values as put."""

    def put(self, table: str, key: str, value: str) -> None: ...
    def get(self, table: str, key: str, most: int = 64) -> list[str]:
        """The newest *most* values of a key, the oldest of them first."""
        ...

    def add(self, table: str, key: str, number: int = 1) -> None:
        """Count: one number for each key."""
        ...

    def items(self, table: str) -> Iterator[tuple[str, str]]: ...
    def counts(self, table: str) -> Iterator[tuple[str, int]]: ...


class Places:
    """Entries to look at: the first few, how often there was one (``count``), and how many are not shown (``more``)."""

    def __init__(self, places: Iterable[str] = ()) -> None:
        self.shown: list[str] = []
        self.count = self.more = 0
        for place in places:
            self.add(place)

    def add(self, place: str) -> None:
        self.count += 1
        if place in self.shown:
            return
        if len(self.shown) < MAX_POINTERS:
            self.shown.append(place)
        else:
            self.more += 1


class Names(Counter[str]):
    """A counter of at most MAX_NAMES names; the rest are counted together."""

    def __init__(self) -> None:
        super().__init__()
        self.others = 0

    def see(self, name: str) -> None:
        if name in self or len(self) < MAX_NAMES:
            self[name] += 1
        else:
            self.others += 1

    def shown(self) -> str:
        """The most frequent, safe to show."""
        return shown(name for name, _ in self.most_common())


def shown(names: Iterable[str]) -> str:
    """A few names, cut and made safe."""
    given = list(names)
    text = ", ".join(safe_text(name, _LONGEST_NAME) for name in given[:_SHOWN_NAMES])
    return f"{text} and {len(given) - _SHOWN_NAMES} more" if len(given) > _SHOWN_NAMES else text


class LogCheck:
    """``requirement`` is the number of the category it is counted under (formats.md 10.1).

    The draft has no category for access and privacy: L12 is counted as tamper evidence, L13 as risk detection.
    """

    id: ClassVar[str]
    requirement: ClassVar[int]
    title: ClassVar[str]
    looks_at: ClassVar[str]
    bound: ClassVar[str]

    def __init__(self, settings: LogSettings, spill: Spill) -> None:
        self.settings = settings
        self.spill = spill

    def see(self, examined: Examined) -> None:
        """Take note of one entry."""

    def finish(self, facts: LogFacts) -> Finding:
        raise NotImplementedError

    def found(
        self,
        verdict: Verdict,
        summary: str,
        counts: Mapping[str, int | str] | None = None,
        places: Places | None = None,
    ) -> Finding:
        places = places or Places()
        return Finding(self.id, verdict, inflected(summary), counts or {}, tuple(places.shown), places.more)

    def nothing(self, why: str, counts: Mapping[str, int | str] | None = None) -> Finding:
        return self.found(Verdict.NOT_APPLICABLE, why, counts)


def joined(*parts: str) -> str:
    """Several texts as one key or value, which :func:`parted` takes apart, whatever strangers wrote into them."""
    return _APART.join(part.replace(_APART, " ") for part in parts)


def parted(text: str) -> list[str]:
    return text.split(_APART)


def percent(part: int, whole: int) -> int:
    """Rounded down: 100 is all of them."""
    return 100 * part // whole if whole else 0


def compared(wanted: Iterable[tuple[str, _T]], have: Iterable[tuple[str, object]]) -> Iterator[tuple[str, _T, bool]]:
    """Each of *wanted*, and whether its key is in *have*. Both come in order: one walk over the two."""
    keys = (key for key, _ in have)
    newest = next(keys, None)
    for key, value in wanted:
        while newest is not None and newest.encode() < key.encode():
            newest = next(keys, None)
        yield key, value, newest == key
