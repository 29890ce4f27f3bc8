"""The files that a session touched, as its calls name them, and which of the calls write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from transparency.compliance.survey import CALL, EVENT, Row, Survey, as_map, as_text
from transparency.records.facts_gathering import Gathering
from transparency.records.paths import is_outside, relative_path

# Tools that change files, by their names in agents' records, without what an MCP server puts before them.
_WRITERS: Final = frozenset({
    "write", "edit", "multiedit", "notebookedit", "write_file", "replace", "apply_patch", "create_file", "edit_file",
    "str_replace", "str_replace_editor", "str_replace_based_edit_tool", "patch", "search_replace", "delete_file",
    "file.write", "file.edit", "file.create", "file.delete", "file.rename", "file.move", "insert_edit_into_file",
})  # fmt: skip


@dataclass(slots=True)
class Touched:
    """``paths`` are relative to the working directory where they lie in it. ``complete``: all of them are here."""

    paths: dict[str, None] = field(default_factory=dict)
    edits: list[Row] = field(default_factory=list)
    outside: list[Row] = field(default_factory=list)
    complete: bool = True


def touched(survey: Survey) -> Touched:
    """Paths by tool calls, and by the events in which agents say what a patch changed."""
    known = survey.__dict__.get("_touched")
    if isinstance(known, Touched):
        return known
    folder = as_text(survey.environment.get("working-dir")) or None
    found = Touched()
    everything = Gathering()
    for row in survey.kind(CALL):
        given = row.entry.get("input")
        everything.call(None, given)
        if as_text(row.entry.get("name")).lower().rsplit("__", 1)[-1] in _WRITERS:
            found.edits.append(row)
            here = Gathering()
            here.call(None, given)
            if folder is not None and any(_leaves(path, folder) for path in here.paths):
                found.outside.append(row)
    for row in survey.kind(EVENT):
        data = as_map(row.entry.get("data"))
        for member in ("files", "changes"):
            listed = data.get(member)
            for path in listed if isinstance(listed, list | dict) else ():
                everything.path(path)
    found.paths = dict.fromkeys(relative_path(path, folder) for path in everything.paths)
    found.complete = everything.complete
    survey.__dict__["_touched"] = found
    return found


def _leaves(path: str, folder: str) -> bool:
    return is_outside(relative_path(path, folder))
