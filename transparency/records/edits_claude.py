"""Edits of Claude Code: Edit, MultiEdit, Write and NotebookEdit, with the ``toolUseResult`` that its lines carry.

``structuredPatch`` is the diff that was applied and ``originalFile`` the whole text before; ``userModified`` says that
a person changed the edit before it was made. Lines without them are placed by the texts of the call itself, where the
file is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from transparency.records import diffs, edits
from transparency.records.edits import (
    AI,
    MIXED,
    NO_LINES,
    UNCONFIRMED,
    Call,
    Edit,
    Found,
    Replacement,
    Unattributed,
    text,
)

_EDITORS: Final = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
_CREATED: Final = "File created successfully at:"


def found(entries: Iterable[edits.Entry], default_model: str | None = None) -> Iterator[Found]:
    """What the session did to files."""
    return edits.read(entries, _read, default_model)


def _read(call: Call) -> Iterable[Found] | None:
    if call.name not in _EDITORS:
        return None
    path = text(call.input, "file_path") or text(call.input, "notebook_path")
    if path is None or not call.succeeded:
        return [Unattributed(call, UNCONFIRMED, path=path)]
    if call.name == "NotebookEdit":
        return [Unattributed(call, NO_LINES, path=path)]
    result = call.native("toolUseResult")
    # A line with several results has one ``toolUseResult``: it counts for the call whose file it names.
    detail = result if isinstance(result, dict) and result.get("filePath") == path else {}
    by = call.by(MIXED if detail.get("userModified") is True else AI)
    before, patch = text(detail, "originalFile"), diffs.structured(detail.get("structuredPatch"))
    if call.name == "Write":
        content = text(detail, "content")
        content = text(call.input, "content") if content is None else content
        return [Edit(path, by, call, created=_is_new(call, detail), before=before, after=content, hunks=patch)]
    return [Edit(path, by, call, before=before, hunks=patch, replacements=tuple(_replacements(call)))]


def _is_new(call: Call, detail: dict[str, Any]) -> bool:
    if detail:
        return detail.get("type") == "create" and not detail.get("originalFile")
    output = call.result.get("output") if call.result is not None else None
    return isinstance(output, str) and output.startswith(_CREATED)


def _replacements(call: Call) -> Iterator[Replacement]:
    several = call.input.get("edits")
    for item in several if isinstance(several, list) else [call.input]:
        old, new = text(item, "old_string"), text(item, "new_string")
        if old is not None and new is not None:
            yield Replacement(old, new, None if item.get("replace_all") is True else 1)
