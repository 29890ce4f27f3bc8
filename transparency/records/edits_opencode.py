"""Edits of OpenCode: edit, multiedit, write, patch and apply_patch, with what its tool parts keep in ``metadata``.

``filediff`` and the items of ``files`` hold whole texts before and after, ``diff`` a unified diff.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from transparency.records import diffs, edits
from transparency.records.edits import NO_LINES, UNCONFIRMED, Call, Edit, Found, Replacement, Unattributed, text

_EDITORS: Final = frozenset({"edit", "multiedit", "write", "patch", "apply_patch"})


def found(entries: Iterable[edits.Entry], default_model: str | None = None) -> Iterator[Found]:
    """What the session did to files."""
    return edits.read(entries, _read, default_model)


def _read(call: Call) -> Iterable[Found] | None:
    if call.name not in _EDITORS:
        return None
    path = text(call.input, "filePath")
    if not call.succeeded:
        return [Unattributed(call, UNCONFIRMED, path=path)]
    metadata = call.native("state", "metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    made = list(_recorded(call, metadata))
    if made:
        return made
    if path is None:
        return [Unattributed(call, NO_LINES)]
    hunks = diffs.unified(text(metadata, "diff") or "")
    if call.name == "write":
        after = text(call.input, "content")
        return [Edit(path, call.by(), call, metadata.get("exists") is False, after=after, hunks=hunks)]
    return [Edit(path, call.by(), call, hunks=hunks, replacements=tuple(_replacements(call)))]


def _recorded(call: Call, metadata: Mapping[str, Any]) -> Iterator[Found]:
    """The edits whose texts or diffs the metadata holds."""
    files = metadata.get("files")
    for item in files if isinstance(files, list) else ():
        path = (text(item, "filePath") or text(item, "relativePath")) if isinstance(item, dict) else None
        if path is not None:
            yield _file(call, path, item)
    results = metadata.get("results")
    several = [item.get("filediff") for item in results if isinstance(item, dict)] if isinstance(results, list) else []
    for item in (metadata.get("filediff"), *several):
        path = text(item, "file")
        if isinstance(item, dict) and path is not None:
            yield _file(call, path, item)


def _file(call: Call, path: str, item: Mapping[str, Any]) -> Edit:
    before, after = text(item, "before"), text(item, "after")
    kind = item.get("type")
    created = kind == "add" and not before
    hunks = diffs.unified(text(item, "diff") or text(item, "patch") or "")
    return Edit(
        path,
        call.by(),
        call,
        created=created and after is not None,
        deleted=kind == "delete",
        moved_to=text(item, "movePath"),
        before=before,
        after=after,
        # With both texts the diff is ours to make: a recorded one may ignore blanks.
        hunks=None if before is not None and after is not None else hunks,
    )


def _replacements(call: Call) -> Iterator[Replacement]:
    several = call.input.get("edits")
    for item in several if isinstance(several, list) else [call.input]:
        old, new = text(item, "oldString"), text(item, "newString")
        if old and new is not None:
            yield Replacement(old, new, None if item.get("replaceAll") is True else 1)
