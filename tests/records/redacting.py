"""What the tests of redaction share: salts that can be told apart, and the way back with the owner's side file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from transparency.records import json_sequence
from transparency.records.detect import detect
from transparency.records.disclosure import Disclosure, Location, mark_of
from transparency.records.json_text import follow
from transparency.records.redact import Redacted, redact
from transparency.records.redaction_rules import BUILTIN, Rule
from transparency.records.strict_json import without_bom

# Put together here: a file that holds the whole line would look like a key to whoever looks for keys.
PEM = "-----BEGIN PRIVATE " + "KEY-----\nMIIEvQIBADANBgkq\n-----END PRIVATE " + "KEY-----"

RECORDS: Final = Path(__file__).parents[1] / "fixtures" / "records"
CARD: Final = "4111111111111111"
SECRETS: Final = (
    ("email", "jane.doe@example.com"),
    ("card-number", "4111 1111 1111 1111"),
    ("api-key", "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUv"),
    ("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"),
    ("pem", PEM),
)


def salts(seed: str = "") -> Callable[[], bytes]:
    """Salts for examples: all different, the same each time."""
    numbers = count()
    return lambda: hashlib.sha256(f"{seed}{next(numbers)}".encode()).digest()


def redacted(data: bytes, rules: tuple[Rule, ...] = BUILTIN, **more: Any) -> Redacted:
    return redact(data, detect(data).format, rules, more.pop("salts", salts()), **more)


def items(result: Redacted) -> list[Disclosure]:
    return [Disclosure.from_item(item) for item in result.side_file["items"]]


def values(data: bytes) -> list[Any]:
    return [found.value for found in json_sequence.values(without_bom(data))]


def line_values(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """First and last line of each value, and the value, which may be changed."""
    body = without_bom(data)
    for found in json_sequence.values(body):
        first = body.count(b"\n", 0, found.extent.start) + 1
        yield first, first + found.raw.count(b"\n"), json.loads(found.raw)


def restored(result: Redacted) -> list[Any]:
    """The values of the original, from the redacted record and what its owner kept (not of units left out)."""
    made = list(line_values(result.data))
    for item in reversed(items(result)):
        place = Location.from_text(item.location)
        holder = next(value for first, last, value in made if first <= place.line <= last)
        parent, _, name = place.pointer.rpartition("/")
        inside: Any = follow(holder, parent)
        key = int(name) if isinstance(inside, list) else name.replace("~1", "/").replace("~0", "~")
        text, mark = inside[key], mark_of(item.rule, item.number)
        assert text.startswith(mark, place.start)
        inside[key] = text[: place.start] + item.original + text[place.start + len(mark) :]
    return [value for _, _, value in made]
