"""Edits of Gemini CLI: ``replace`` and ``write_file``, with the ``resultDisplay`` of newer versions.

``resultDisplay`` holds the diff and the whole texts before and after. Older versions record only that the call worked:
then a file's lines are known if the session itself made the file, and not otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from transparency.records import diffs, edits
from transparency.records.edits import AI, MIXED, UNCONFIRMED, Call, Edit, Found, Replacement, Unattributed, text

_EDITORS: Final = frozenset({"replace", "edit", "write_file"})
# What the tool answers: the path as it resolved it, and whether the file is new.
_ANSWER: Final = re.compile(
    r"Successfully (?P<how>created and wrote to new file|overwrote file|modified file): (?P<path>[^\n]+?)"
    r"(?: \([0-9]+ replacements?\))?\.(?:\s|$)"
)
_CREATED: Final = ("created and wrote to new file", "Created new file: ")


def found(entries: Iterable[edits.Entry], default_model: str | None = None) -> Iterator[Found]:
    """What the session did to files."""
    return edits.read(entries, _read, default_model)


def _read(call: Call) -> Iterable[Found] | None:
    if call.name not in _EDITORS:
        return None
    given = text(call.input, "file_path")
    if given is None or not call.succeeded:
        return [Unattributed(call, UNCONFIRMED, path=given)]
    answer = _answer(call)
    said = _ANSWER.match(answer)
    # A relative path is relative to a folder that the file does not name; the answer has the whole path.
    path = said["path"] if said is not None and said["path"].endswith(given) else given
    shown = call.native("resultDisplay")
    detail = shown if isinstance(shown, dict) else {}
    before, after = text(detail, "originalContent"), text(detail, "newContent")
    diff = text(detail, "fileDiff")
    by = call.by(MIXED if _changed_by_user(detail, answer) else AI)
    created = detail.get("isNewFile") is True or any(sign in answer for sign in _CREATED)
    if call.name == "write_file":
        content = text(call.input, "content") if by.type == AI else None
        after = content if after is None else after
        return [Edit(path, by, call, created, before=before, after=after, hunks=_hunks(diff))]
    if created and after is None and by.type == AI:
        after = text(call.input, "new_string")
    return [
        Edit(
            path, by, call, created,
            before=before, after=after, hunks=_hunks(diff), replacements=tuple(_replacements(call)),
        )
    ]  # fmt: skip


def _hunks(diff: str | None) -> list[diffs.Hunk] | None:
    return None if diff is None else diffs.unified(diff)


def _replacements(call: Call) -> Iterator[Replacement]:
    old, new = text(call.input, "old_string"), text(call.input, "new_string")
    if old and new is not None:
        count: Any = call.input.get("expected_replacements", 1)
        several = call.input.get("allow_multiple") is True
        yield Replacement(old, new, None if several else count if type(count) is int else 1)


def _changed_by_user(detail: dict[str, Any], answer: str) -> bool:
    stat = detail.get("diffStat")
    figures = [stat.get(name) for name in ("user_added_lines", "user_removed_lines")] if isinstance(stat, dict) else []
    return any(type(figure) is int and figure > 0 for figure in figures) or "User modified the `" in answer


def _answer(call: Call) -> str:
    """What the tool told the model."""
    output = call.result.get("output") if call.result is not None else None
    for part in output if isinstance(output, list) else [output]:
        for step in ("functionResponse", "response", "output"):
            part = part.get(step) if isinstance(part, dict) else part  # noqa: PLW2901 - stepping inwards
        if isinstance(part, str):
            return part
    return ""
