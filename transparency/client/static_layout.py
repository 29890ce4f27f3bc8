"""A log as plain files: where each thing lies below its prefix, of what type it is and how long it may be cached.

The tree is C2SP tlog-tiles, to the letter: ``checkpoint``, ``tile/<L>/<N>[.p/<W>]``, ``tile/entries/<N>[.p/<W>]``. What
tlog-tiles does not know lies beside it, in bundles of the same 256 entries, named the same way:

``heads/<N>[.p/<W>]``       the tree heads that entries of bundle N have their receipts from, a CBOR sequence
``statements/<N>[.p/<W>]``  the entries as an audit reads them (log/export.py), a CBOR sequence; null is ``large/<id>``
``large/<id>``              what is null there: ``[statement, collateral]``
``entries/<id>/receipt``    one receipt a file, where that was asked for
``artifacts/<sha-256>``     records kept beside the log, where that was asked for
``keys`` ``policy``         the documents in force, TOML;  ``documents/…`` the statements that registered them
``.well-known/scitt-keys``  the keys that verify receipts, a COSE_KeySet
``export.json``             what is here and how far; whoever finds it knows that receipts are to be computed
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.merkle.tile_paths import WIDTH, tile_path
from transparency.notes.paths import CHECKPOINT
from transparency.records import strict_json
from transparency.statements.media_types import CBOR, CBOR_SEQUENCE, COSE, OCTETS, RECEIPT, TOML
from transparency.statements.receipt import SignedHead

MARKER: Final = "export.json"
FORMAT: Final = "transparency-export/1"
KEYS: Final = "keys"
POLICY: Final = "policy"
KEY_SET: Final = ".well-known/scitt-keys"
ARTIFACTS: Final = "artifacts/"
MAX_MARKER: Final = 1024 * 1024
MAX_HEADS: Final = 4 * 1024 * 1024
# A statement of more bytes lies in a file of its own, so that no bundle is larger than some megabytes.
LARGE: Final = 16 * 1024
MAX_STATEMENTS: Final = WIDTH * (LARGE + 1024)

_LEVEL_0: Final = "tile/0/"
_HEAD: Final = (int, bytes, int, bytes, bytes, bytes)
_MAX_NUMBER: Final = 2**53
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_SHORT: Final = "public, max-age=5"
_MINUTES: Final = "public, max-age=300"
_ASK_AGAIN: Final = "no-cache"
_TEXT: Final = "text/plain; charset=utf-8"
_TOML: Final = f"{TOML}; charset=utf-8"
_KINDS: Final = {
    CHECKPOINT: (_TEXT, _SHORT),
    MARKER: ("application/json", _SHORT),
    KEYS: (_TOML, _SHORT),
    POLICY: (_TOML, _SHORT),
    KEY_SET: (CBOR, _MINUTES),
}
# What can be erased one day is asked for again; the rest never changes.
_KINDS_BELOW: Final = {
    "tile/": (OCTETS, _FOR_EVER),
    "heads/": (CBOR_SEQUENCE, _FOR_EVER),
    "statements/": (CBOR_SEQUENCE, _ASK_AGAIN),
    "large/": (CBOR, _ASK_AGAIN),
    "entries/": (RECEIPT, _FOR_EVER),
    "documents/": (COSE, _FOR_EVER),
    ARTIFACTS: (OCTETS, _ASK_AGAIN),
}


def kind_of(path: str) -> tuple[str, str]:
    """Content type and Cache-Control of what lies at a path."""
    found = _KINDS.get(path)
    if found is None:
        found = next((kind for prefix, kind in _KINDS_BELOW.items() if path.startswith(prefix)), (OCTETS, _ASK_AGAIN))
    return found


def heads_path(index: int, width: int = WIDTH) -> str:
    return "heads/" + tile_path(0, index, width).removeprefix(_LEVEL_0)


def statements_path(index: int, width: int = WIDTH) -> str:
    return "statements/" + tile_path(0, index, width).removeprefix(_LEVEL_0)


def large_path(entry_id: str) -> str:
    return f"large/{entry_id}"


def receipt_path(entry_id: str) -> str:
    return f"entries/{entry_id}/receipt"


def document_path(name: str, generation: int) -> str:
    return f"documents/{name}-{generation}.cose"


@dataclass(frozen=True, slots=True)
class Marker:
    """``export.json``: how far each part is written. Each number stays true whoever writes an older one over it.

    ``statements`` and ``receipts`` are None where nobody asked for them. ``awaited`` are entries whose erasure is
    registered, but was not carried out yet when the log was read. ``pruned`` is the size of the checkpoint before,
    ``edges`` the sizes for which there may be partial bundles of statements.
    """

    origin: str
    tiles: int = 0
    statements: int | None = None
    receipts: int | None = None
    artifacts: bool = False
    pruned: int = 0
    awaited: tuple[int, ...] = field(default=())
    edges: tuple[int, ...] = field(default=())

    @classmethod
    def from_bytes(cls, data: bytes) -> Marker:
        value = strict_json.loads(data, max_depth=4)
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise MalformedError(f"{MARKER} is not of the form {FORMAT}")
        awaited, edges = value.get("awaited", []), value.get("edges", [])
        if not isinstance(awaited, list) or not isinstance(edges, list):
            raise MalformedError(f"{MARKER} has a member of another type than it should have")
        marker = cls(
            origin=value.get("origin", ""),
            tiles=value.get("tiles", 0),
            statements=value.get("statements"),
            receipts=value.get("receipts"),
            artifacts=value.get("artifacts", False),
            pruned=value.get("pruned", 0),
            awaited=tuple(awaited),
            edges=tuple(edges),
        )
        numbers = [marker.tiles, marker.pruned, *marker.awaited, *marker.edges]
        numbers += [part for part in (marker.statements, marker.receipts) if part is not None]
        fine = all(type(each) is int and 0 <= each <= _MAX_NUMBER for each in numbers)
        if not fine or type(marker.origin) is not str or type(marker.artifacts) is not bool:
            raise MalformedError(f"{MARKER} has a member of another type than it should have")
        return marker

    def to_bytes(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=True, indent=1).encode() + b"\n"


def write_heads(heads: Iterable[SignedHead]) -> bytes:
    """A CBOR sequence of ``[size, root, time, kid, protected, signature]``."""
    return b"".join(map(head_item, heads))


def head_item(head: SignedHead) -> bytes:
    return cbor.encode([head.size, head.root, head.time, head.kid, head.protected, head.signature])


def read_heads(page: bytes) -> list[SignedHead]:
    return [SignedHead(*item) for item in read_items(page, _HEAD)]


def read_items(page: bytes, types: tuple[type | tuple[type, ...], ...]) -> list[list[Any]]:
    """The items of a CBOR sequence of arrays whose members have these types; no number is larger than 2^53."""
    items = []
    position = 0
    while position < len(page):
        item, position = cbor.read(page, position, max_depth=2)
        if not isinstance(item, list) or len(item) != len(types) or not all(map(_is, item, types)):
            raise MalformedError("the export is not a sequence of its items")
        if any(isinstance(member, int) and not 0 <= member <= _MAX_NUMBER for member in item):
            raise MalformedError("the export has a number that is out of range")
        items.append(item)
    return items


def _is(member: object, kind: type | tuple[type, ...]) -> bool:
    return type(member) in (kind if isinstance(kind, tuple) else (kind,))
