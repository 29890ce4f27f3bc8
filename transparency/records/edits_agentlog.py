"""Edits of AgentLog: ``fileOperation`` events whose diff is a real unified one (formats.md 8.2).

The event says that the operation was made; there is no other result. Converters write diffs that are none, and cut
them: such an operation is not attributed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from transparency.records import diffs, edits
from transparency.records.edits import NO_LINES, Call, Edit, Found, Unattributed, text

# Tool calls by which converters pass on edits of the agents they read; their texts are cut.
_EDITORS: Final = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit", "replace", "write_file", "apply_patch"})


def found(entries: Iterable[edits.Entry], default_model: str | None = None) -> Iterator[Found]:
    """What the session did to files."""
    return edits.read(entries, _read, default_model)


def _read(call: Call) -> Iterable[Found] | None:
    kind, dot, operation = call.name.partition(".")
    path = text(call.input, "path")
    if kind != "file" or not dot:
        return [Unattributed(call, NO_LINES)] if call.name in _EDITORS else None
    if operation == "read" or path is None:
        return []
    if operation == "delete":
        return [Edit(path, call.by(), call, deleted=True)]
    output = call.result.get("output") if call.result is not None else None
    diff = text(output, "diff")
    cut = isinstance(output, dict) and output.get("truncated") is True
    hunks = None if diff is None or cut else diffs.unified(diff)
    return [Edit(path, call.by(), call, hunks=hunks) if hunks is not None else Unattributed(call, NO_LINES, path=path)]
