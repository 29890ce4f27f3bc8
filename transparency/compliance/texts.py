"""Every text of a record at once: searched as one run of bytes, which costs less than parsing it did.

Texts are joined by a byte that UTF-8 does not have, so no match spans two of them and a match finds its way back to the
text, and through the entry that holds it to a JSON pointer. Patterns are slow where they find nothing; so bytes are
first mapped to kinds (letter or digit, digit, anything else), a run of one kind is looked for by plain search, and a
rule is asked only about the surroundings of what that finds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice
from typing import Any, Final

from transparency.records.redaction_rules import BUILTIN, EMAIL, URL_PASSWORD, Rule
from transparency.records.vac_pointer import Path

SEPARATOR: Final = b"\xff"
CARD: Final = "card-number"
# A record can be nothing but addresses; nobody reads more than these.
MAX_HITS: Final = 2_000
# Nor can it be nothing but a word that may be a mark: after so many of them nobody looks for brackets any more.
MAX_LOOKS: Final = 20_000

_ALNUM: Final = re.compile(rb"[A-Za-z0-9]")
_KINDS: Final = bytes(
    0x30 if 0x30 <= byte <= 0x39 else 0x2D if byte in b" -" else 0x78 for byte in range(256)
)  # digits 0, what stands between groups of a card number -, anything else x
_LETTERS: Final = bytes(0x61 if _ALNUM.match(bytes((byte,))) else 0x20 for byte in range(256))
# Every token that a rule knows has so many letters and digits in a row (the shortest: an AWS key id, AKIA and 16).
_RUN: Final = 16
_TOKEN_RULES: Final = tuple(rule for rule in BUILTIN if rule.name in ("jwt", "api-key", "bearer-token"))
_HINTS: Final = tuple(hint for rule in _TOKEN_RULES for hint in rule.hints)
_BY_NAME: Final[Mapping[str, Rule]] = {rule.name: rule for rule in BUILTIN}
_AROUND: Final = 64
_PART_BEFORE: Final = re.compile(rb"[A-Za-z0-9._]")
_PART_AFTER: Final = re.compile(rb"[A-Za-z0-9_]|\.[0-9]")

_MARKS: Final = (b"runcated", b"RUNCATED", b"edacted", b"EDACTED")
# The word in some kind of bracket, or between the dots that stand for what is missing.
_MARK: Final = re.compile(
    rb"(?i)(?:[\[(<{*]|\xe2\x80\xa6|\.\.\.)[^\[\]()<>{}\n\xff]{0,60}?(?:truncated|redacted)"
    rb"|(?:truncated|redacted)(?:[\])>}]|\xe2\x80\xa6|\.\.\.)"
)
_PLAIN_MARK: Final = re.compile(rb"(?i)redacted")


class Texts:
    """The texts of a list of values, each value's together; ``owner`` of a text is the number of its value."""

    __slots__ = ("_ends", "_numbers", "_starts", "_texts", "blob", "flags")

    def __init__(
        self,
        values: Iterable[Mapping[str, Any]],
        skipped: frozenset[str],
        *others: tuple[Mapping[str, Any], frozenset[str]],
    ) -> None:
        """*skipped* are the members of each value that are not looked into; *others* come after, with theirs."""
        self.flags: list[int] = []
        """Numbers of the values in which something says ``truncated: true``."""
        texts: list[str] = []
        self._ends: list[int] = []
        for number, (value, without) in enumerate([*((value, skipped) for value in values), *others]):
            if _gather(value, without, texts):
                self.flags.append(number)
            self._ends.append(len(texts))
        # Agents write what a tool said twice and more: each text is searched once, and known by its first place.
        unique = dict.fromkeys(texts)
        self._texts = texts
        self._numbers: list[int] = []
        parts = [text.encode("utf-8", "surrogatepass") for text in unique]
        parts.append(b"")
        self.blob = SEPARATOR.join(parts)
        self._starts: list[int] | None = None

    def places(self, offsets: Iterable[int]) -> list[tuple[int, int]]:
        """For each offset: the number of its value, and of the text among that value's."""
        if self._starts is None:
            unique = dict.fromkeys(self._texts)
            sizes = (len(text.encode("utf-8", "surrogatepass")) + len(SEPARATOR) for text in unique)
            starts = list(accumulate(sizes, initial=0))
            self._starts = starts
            first = {text: number for number, text in reversed(list(enumerate(self._texts)))}
            self._numbers = [first[text] for text in unique]
        found = []
        for offset in offsets:
            text = self._numbers[bisect_right(self._starts, offset) - 1]
            owner = bisect_right(self._ends, text)
            found.append((owner, text - (self._ends[owner - 1] if owner else 0)))
        return found

    def cuts(self) -> list[int]:
        """Offsets of words that say that something was left out."""
        found: dict[int, None] = {}
        for mark in _MARKS:
            for at in islice(_all(self.blob, mark), MAX_LOOKS):
                match = _MARK.search(self.blob, max(0, at - 64), at + 64)
                if match is not None and match.start() <= at < match.end():
                    found[at] = None
        return sorted(found)[:MAX_HITS]

    def is_redaction(self, offset: int) -> bool:
        return _PLAIN_MARK.match(self.blob, offset - 1) is not None

    def secrets(self) -> dict[str, list[int]]:
        """Offsets of what the rules of redaction find, by rule."""
        found: dict[str, dict[int, None]] = {}
        for rule, offset in self._secrets():
            found.setdefault(rule, {})[offset] = None
        return {name: sorted(offsets)[:MAX_HITS] for name, offsets in sorted(found.items())}

    def _secrets(self) -> Iterator[tuple[str, int]]:
        blob = self.blob
        for at in _all(blob, b"-----BEGIN "):
            yield "pem", at
        urls = ((at, at + 2048) for at in _all(blob, b"://") if blob.find(b"@", at, at + 2048) >= 0)
        passwords: set[int] = set()
        for window in _windows(urls, 8):
            for first, last in self._ask(_BY_NAME[URL_PASSWORD], *window):
                passwords.add(last)
                yield URL_PASSWORD, first
        # A local part has at most 64 bytes (RFC 5321 §4.5.3.1.1); of a domain the beginning is enough to be found.
        for window in _windows(((at, at + 80) for at in _all(blob, b"@")), 72):
            for first, last in self._ask(_BY_NAME[EMAIL], *window):
                # A password and its host look like an address: the @ between them is not an address's.
                if blob.find(b"@", first, last) not in passwords:
                    yield EMAIL, first
        kinds = blob.translate(_KINDS)
        digits = sorted((at, at + 13) for pattern in (b"0" * 13, b"000-000") for at in _all(kinds, pattern))
        for window in _windows(digits, 24):
            spans = self._ask(_BY_NAME[CARD], *window)
            yield from ((CARD, first) for first, last in spans if self._stands_alone(first, last))
        for start, end in _windows(_runs(blob.translate(_LETTERS)), _AROUND):
            text = self._slice(start, end)
            for rule in _TOKEN_RULES if any(hint in text for hint in _HINTS) else ():
                if rule.may_be_in(text):
                    yield from ((rule.name, start + first) for first, _ in rule.find(text))

    def _ask(self, rule: Rule, start: int, end: int) -> Iterator[tuple[int, int]]:
        return ((start + first, start + last) for first, last in rule.find(self._slice(start, end)))

    def _slice(self, start: int, end: int) -> str:
        """Latin-1 gives a character for each byte, so offsets stay; only letters beyond ASCII look different."""
        return self.blob[start:end].replace(SEPARATOR, b"\0").decode("latin-1")

    def _stands_alone(self, first: int, last: int) -> bool:
        """A number in the middle of a word, or behind a decimal point, is a part of something else."""
        before, after = self.blob[max(0, first - 1) : first], self.blob[last : last + 2]
        return _PART_BEFORE.fullmatch(before) is None and _PART_AFTER.match(after) is None

    def around(self, offset: int, length: int = 320) -> str:
        """The text from *offset*, for a look at what a rule found; never shown."""
        return self.blob[offset : offset + length].split(SEPARATOR, 1)[0].decode("utf-8", "replace")


def _gather(value: Mapping[str, Any], skipped: frozenset[str], texts: list[str]) -> bool:
    """Append every text in *value*, in the order of :func:`walk`; whether something in it says that it was cut."""
    stack: list[Any] = [member for name, member in value.items() if name not in skipped]
    stack.reverse()
    cut = False
    while stack:
        node = stack.pop()
        kind = node.__class__
        if kind is str:
            texts.append(node)
        elif kind is dict:
            if node:
                if "truncated" in node and node["truncated"] is True:
                    cut = True
                stack.extend(reversed(node.values()))
        elif kind is list:
            stack.extend(reversed(node))
        elif kind is int and 10**12 <= node < 10**19:
            texts.append(str(node))
    return cut


def walk(value: Mapping[str, Any], path: Path, skipped: frozenset[str]) -> Iterator[Path]:
    """The paths of the same texts, in the same order: slower, for the few values in which something was found."""
    stack: list[tuple[Path, Any]] = [((path, name), member) for name, member in value.items() if name not in skipped]
    stack.reverse()
    while stack:
        at, node = stack.pop()
        kind = node.__class__
        if kind is str or (kind is int and 10**12 <= node < 10**19):
            yield at
        elif kind is dict:
            stack.extend(((at, str(name)), member) for name, member in reversed(node.items()))
        elif kind is list:
            stack.extend(((at, len(node) - 1 - number), member) for number, member in enumerate(reversed(node)))


def _all(blob: bytes, word: bytes) -> Iterator[int]:
    at = blob.find(word)
    while at >= 0:
        yield at
        at = blob.find(word, at + len(word))


def _runs(letters: bytes) -> Iterator[tuple[int, int]]:
    """Runs of at least _RUN letters and digits."""
    pattern = b"a" * _RUN
    at = letters.find(pattern)
    while at >= 0:
        end = letters.find(b" ", at)  # there is one: the blob ends with a separator
        yield at, end
        at = letters.find(pattern, end)


def _windows(spans: Iterable[tuple[int, int]], around: int) -> Iterator[tuple[int, int]]:
    """Each span with its surroundings; those that meet become one, so that nothing is looked at twice."""
    start = end = -1
    for first, last in spans:
        if end < 0 or first - around > end:
            if end >= 0:
                yield start, end
            start = max(0, first - around)
        end = max(end, last + around)
    if end >= 0:
        yield start, end
