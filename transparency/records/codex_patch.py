"""The patch format of Codex's ``apply_patch``: files added, deleted, moved and updated, in lines without numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from transparency.records.diffs import split_lines
from transparency.records.edits import Replacement

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_FILES: Final = {"*** Add File: ": "add", "*** Delete File: ": "delete", "*** Update File: ": "update"}
_MOVE: Final = "*** Move to: "
_END_OF_FILE: Final = "*** End of File"


@dataclass(slots=True)
class FilePatch:
    """What a patch does to one file. ``chunks`` are (lines before, lines after); of an added file only the latter."""

    kind: str
    path: str
    moved_to: str | None = None
    chunks: list[tuple[list[str], list[str]]] = field(default_factory=list)

    def content(self) -> str:
        """The whole text of an added file."""
        return "".join(f"{line}\n" for _, after in self.chunks for line in after)

    def replacements(self) -> tuple[Replacement, ...]:
        """The chunks as texts to be found, each in one place only; none if one of them says not where it belongs."""
        pairs = [("".join(f"{line}\n" for line in side) for side in chunk) for chunk in self.chunks if any(chunk)]
        made = tuple(Replacement(old, new, whole_lines=True) for old, new in pairs)
        return made if all(each.old for each in made) else ()


def read_patch(text: str) -> list[FilePatch] | None:
    """The files of a patch; None if it is not one, whole."""
    lines = split_lines(text.strip())
    if len(lines) < 2 or lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        return None
    files: list[FilePatch] = []
    for line in lines[1:-1]:
        kind = next((kind for mark, kind in _FILES.items() if line.startswith(mark)), None)
        if kind is not None:
            files.append(FilePatch(kind, line.partition(": ")[2].strip()))
        elif not files or not _take(files[-1], line):
            return None
    return files or None


def _take(file: FilePatch, line: str) -> bool:
    """One line of a file's part; False if it has no place there."""
    if line.startswith(_MOVE):
        file.moved_to = line.removeprefix(_MOVE).strip()
        return True
    if line == "@@" or line.startswith("@@ "):
        file.chunks.append(([], []))
        return file.kind == "update"
    if line == _END_OF_FILE:
        return True
    if not file.chunks:
        file.chunks.append(([], []))
    sign, text = line[:1], line[1:]
    before, after = file.chunks[-1]
    if sign in (" ", "", "-"):
        before.append(text)
    if sign in (" ", "", "+"):
        after.append(text)
    return sign in (" ", "", "-", "+") and (file.kind == "update" or (file.kind == "add" and sign == "+"))
