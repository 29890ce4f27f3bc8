"""What both VAC schemas allow and a reader should still be told of (formats.md 2.4): warnings, never violations.

Epoch numbers are milliseconds in the CDDL and seconds in one sentence of -00's text, so small ones are flagged. A
pattern cannot know that February has no 30th day. Attributed paths are to be relative to the repository's root; one
that leaves it must not be followed by whoever reads the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transparency.records.timestamps import instant
from transparency.records.vac_pointer import Path, pointer
from transparency.records.violation import MAX_VIOLATIONS, Violation

# As milliseconds this is March 1973: no agent ran then, so a smaller number was meant as seconds.
_LEAST_MILLISECONDS: Final = 10**11
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DIGITS: Final[Mapping[str, int]] = {"sha-256": 64, "sha-384": 96, "sha-512": 128}

# As -00 spells them and as 19 Feb does.
_RANGE_NAMES: Final = (
    ("start-line", "end-line", "content-hash", "content-hash-alg"),
    ("start_line", "end_line", "content_hash", "content_hash_alg"),
)

_Found = Iterator[tuple[Path, str]]


def implausible(record: object) -> list[Violation]:
    """The warnings of a record, whether it is valid or not: what has the wrong type is passed over here."""
    found: list[Violation] = []
    for path, message in _all(record):
        if len(found) == MAX_VIOLATIONS:
            found.append(Violation("warning", "", f"more than {MAX_VIOLATIONS} warnings; the rest is not listed"))
            break
        found.append(Violation("warning", pointer(path), message))
    return found


def _all(record: object) -> _Found:
    if not isinstance(record, dict):
        return
    yield from _time(record, "created", None)
    session = record.get("session")
    if isinstance(session, dict):
        path: Path = (None, "session")
        yield from _time(session, "session-start", path)
        yield from _time(session, "session-end", path)
        yield from _order(session, path)
        yield from _entries(session.get("entries"), (path, "entries"))
    yield from _attribution(record.get("file-attribution"), (None, "file-attribution"))


def _time(holder: Mapping[str, Any], name: str, path: Path) -> _Found:
    if (message := _odd_time(holder.get(name))) is not None:
        yield (path, name), message


def _odd_time(value: object) -> str | None:
    if type(value) is str:
        # Only the last days of a month can be missing from it: the rest is not worth parsing.
        if value[8:10] >= "29" and len(value) >= 20 and _names_no_day(value):
            return "this month has no such day"
    elif (type(value) is int or type(value) is float) and 0 < abs(value) < _LEAST_MILLISECONDS:
        return "epoch numbers are milliseconds; one as small as this was probably meant as seconds"
    return None


def _names_no_day(value: str) -> bool:
    midday = value[:10] + "T12:00:00Z"
    return instant(midday) is None and instant(value[:8] + "01T12:00:00Z") is not None


def _order(session: Mapping[str, Any], path: Path) -> _Found:
    start, end = instant(session.get("session-start")), instant(session.get("session-end"))
    if start is not None and end is not None and end < start:
        yield (path, "session-end"), "the session ends before it starts"


def _entries(entries: object, path: Path) -> _Found:
    """Every entry at any depth, in order, without recursion."""
    if not isinstance(entries, list):
        return
    stack: list[tuple[Iterator[tuple[int, Any]], Path]] = [(iter(enumerate(entries)), path)]
    while stack:
        items, around = stack[-1]
        for index, entry in items:
            if type(entry) is not dict:
                continue
            if "timestamp" in entry and (message := _odd_time(entry["timestamp"])) is not None:
                yield ((around, index), "timestamp"), message
            if "children" in entry and type(entry["children"]) is list:
                stack.append((iter(enumerate(entry["children"])), ((around, index), "children")))
                break
        else:
            stack.pop()


def _maps(value: object, path: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield item, (path, index)


def _attribution(value: object, path: Path) -> _Found:
    if not isinstance(value, dict):
        return
    for file, at_file in _maps(value.get("files"), (path, "files")):
        if isinstance(file.get("path"), str):
            yield from _file_path(file["path"], (at_file, "path"))
        for conversation, at_conversation in _maps(file.get("conversations"), (at_file, "conversations")):
            for range_, at_range in _maps(conversation.get("ranges"), (at_conversation, "ranges")):
                for name, message in _odd_range(range_):
                    yield (at_range, name), message


def _file_path(name: str, path: Path) -> _Found:
    if not name or name.startswith(("/", "\\")) or _DRIVE.match(name):
        yield path, "not a path relative to the repository's root"
    elif ".." in re.split(r"[/\\]", name):
        yield path, "the path climbs with '..' and may leave the repository"
    if _CONTROL.search(name):
        yield path, "the path holds control characters"


def _odd_range(range_: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for first, last, hash_, algorithm in _RANGE_NAMES:
        if first in range_ and type(start := range_[first]) is int:
            if start == 0:
                found.append((first, "lines are counted from 1"))
            if type(end := range_.get(last)) is int and end < start:
                found.append((last, "the range ends before it starts"))
        if hash_ in range_ and not _is_digest(range_[hash_], name := range_.get(algorithm, "sha-256")):
            found.append((hash_, f"not the {_DIGITS[name.lower()]} hexadecimal digits of a {name.lower()} digest"))
    return found


def _is_digest(text: object, algorithm: object) -> bool:
    """Whether the text can be a digest by the algorithm, as far as that is known here."""
    digits = _DIGITS.get(algorithm.lower()) if type(algorithm) is str else None
    if digits is None or type(text) is not str:
        return True
    try:
        # Both lengths, for fromhex skips spaces. It takes a fifth of the time of a pattern.
        return len(text) == digits and 2 * len(bytes.fromhex(text)) == digits
    except ValueError:
        return False
