"""Edits of Cursor: its transcripts have calls without results, so none of them is confirmed and none is attributed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from transparency.records import edits
from transparency.records.edits import UNCONFIRMED, Call, Found, Unattributed, text

_EDITORS: Final = frozenset({
    "Write", "StrReplace", "ApplyPatch", "EditNotebook", "Delete", "edit_file", "search_replace", "write",
    "delete_file",
})  # fmt: skip


def found(entries: Iterable[edits.Entry], default_model: str | None = None) -> Iterator[Found]:
    """The calls that may have changed files."""
    return edits.read(entries, _read, default_model)


def _read(call: Call) -> Iterable[Found] | None:
    if call.name not in _EDITORS:
        return None
    path = text(call.input, "path") or text(call.input, "file_path") or text(call.input, "target_file")
    return [Unattributed(call, UNCONFIRMED, path=path)]
