"""File attribution: which lines of which files a session wrote, as they stand at its end (seed 002 §10).

Every confirmed edit is followed through the later ones of the same file: lines move, ranges split, lines are written
over. Where the session shows that someone else changed the file in between (the text before an edit is not the text
after the last one), the lines that are still there keep their contributor and the others have none. An edit that
cannot be followed ends all that was known of its file, because its lines may be anywhere after that.

A range's ``content-hash`` is SHA-256 (lower-case hex) over its lines without their endings (LF or CRLF), joined by LF,
in UTF-8. -00 leaves open what is hashed; this form does not change with a checkout's line endings, nor with the end of
the file. What was not attributed is said in the session's ``not-attributed``: the maps of -00 have no place for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.records import (
    diffs,
    edits_agentlog,
    edits_claude,
    edits_codex,
    edits_cursor,
    edits_gemini,
    edits_opencode,
)
from transparency.records import format as known
from transparency.records.canonical import SessionDraft
from transparency.records.edits import NO_LINES, SHELL, Contributor, Edit, Found, Replacement, Unattributed
from transparency.records.paths import is_outside, relative_path
from transparency.records.ranges import Run, moved, runs_fit

NOT_ATTRIBUTED: Final = "not-attributed"
OUTSIDE: Final = "attributed-outside"
# An edit costs the lines of its file, and a long line as many as it would make. Where a file is large and edits are
# many and small, that is more than is read: beyond this many lines the rest of the session is not followed.
_MAX_LINES: Final = 20_000_000
_LONG_LINE: Final = 256
_TOO_MUCH: Final = "too-much"

_READERS: Final = {
    known.CLAUDE: edits_claude.found,
    known.CODEX: edits_codex.found,
    known.GEMINI_JSON: edits_gemini.found,
    known.GEMINI_JSONL: edits_gemini.found,
    known.OPENCODE: edits_opencode.found,
    known.OPENCODE_EXPORT: edits_opencode.found,
    known.CURSOR: edits_cursor.found,
    known.AGENTLOG: edits_agentlog.found,
    known.AGENTLOG_01: edits_agentlog.found,
}


def attribute(draft: SessionDraft) -> None:
    """Give *draft* the file attribution that follows from its entries; formats that state their own keep it."""
    reader = _READERS.get(draft.format)
    if reader is None or draft.attribution is not None:
        return
    book = Book((draft.environment or {}).get("working-dir"))
    book.read(reader(draft.entries, draft.model_id))
    draft.attribution = book.attribution()
    if book.not_attributed:
        draft.session_extra[NOT_ATTRIBUTED] = book.not_attributed
    if outside := book.outside():
        draft.session_extra[OUTSIDE] = outside


@dataclass(slots=True)
class _File:
    """What is known of a file: the lines someone is known to have written, and all its lines where they are known.

    ``seen`` is when the text was last known to be what is on disk: the number of shell commands before that.
    """

    runs: list[Run] = field(default_factory=list)
    text: list[str] | None = None
    seen: int = 0


class Book:
    """The files of one session while its edits are followed. Knows no file but through the session's own words."""

    def __init__(self, working_dir: str | None = None) -> None:
        self.not_attributed: list[dict[str, Any]] = []
        self._working_dir = working_dir
        self._files: dict[str, _File] = {}
        self._commands = 0
        self._lines = 0

    def read(self, found: Iterable[Found]) -> None:
        """Follow all that a session did, in order."""
        for each in found:
            if isinstance(each, Edit):
                self.edit(each)
            else:
                self.note(each)

    def note(self, what: Unattributed) -> None:
        """Say that a call is not attributed; what it may have changed is no longer known to be on disk."""
        if what.reason == SHELL:
            self._commands += 1
        path = None if what.path is None else relative_path(what.path, self._working_dir)
        if path is not None and what.reason != "unconfirmed":
            self._files.pop(path, None)
        self.not_attributed.append(
            {
                **what.call.note(),
                "reason": what.reason,
                **({"shows": what.shows} if what.shows is not None else {}),
                **({"path": path} if path is not None else {}),
            }
        )

    def edit(self, edit: Edit) -> None:
        """Follow one confirmed edit."""
        path = relative_path(edit.path, self._working_dir)
        file = self._files.pop(path, None) or _File()
        if edit.deleted:
            return
        if self._lines <= _MAX_LINES:
            self._lines += 1 + len(file.runs) + len(file.text or ()) + sum(map(len, file.text or ())) // _LONG_LINE
        reason: str | None = _TOO_MUCH
        if self._lines > _MAX_LINES:
            file = _File()  # its text is let go too: it would be measured again each time
        else:
            reason = self._apply(file, edit)
        target = path if edit.moved_to is None else relative_path(edit.moved_to, self._working_dir)
        self._files[target] = file
        if reason is not None:
            file.runs = []
            self.not_attributed.append({**edit.call.note(), "reason": reason, "path": path})

    def _apply(self, file: _File, edit: Edit) -> str | None:
        """Bring *file* to its state after *edit*; the reason if that cannot be followed."""
        after = None if edit.after is None else diffs.split_lines(edit.after)
        if edit.created and after is not None:
            file.runs, file.text = [Run(1, tuple(after), edit.by)] if after else [], after
            file.seen = self._commands
            return None
        if edit.moved_to is not None and not edit.says_how:
            return None  # renamed as it was
        before = self._before(file, edit)
        hunks = edit.hunks
        if hunks is not None and before is not None and not diffs.fits(before, hunks):
            # Texts that the diff does not fit: a whole text that was recorded with it is the better witness.
            before, hunks = (before, None) if after is not None and edit.before is not None else (None, hunks)
        if hunks is None and before is not None:
            after = after if after is not None else _replaced(before, edit.replacements)
            hunks = None if after is None else diffs.between(before, after)
        if hunks is None:
            file.text, file.seen = after, self._commands
            return NO_LINES
        if before is None and not runs_fit(file.runs, hunks):
            file.runs = []  # someone else changed the file since
        file.runs = moved(file.runs, hunks, edit.by)
        file.text = diffs.patched(before, hunks) if before is not None else after
        file.seen = self._commands
        return None

    def _before(self, file: _File, edit: Edit) -> list[str] | None:
        """The text before the edit, where it is known for sure; lines that others changed lose their contributor."""
        if edit.before is not None:
            before = diffs.split_lines(edit.before)
            if file.text is not None and file.text != before:
                file.runs = moved(file.runs, diffs.between(file.text, before), None)
            elif file.text is None and not all(run.stands_in(before) for run in file.runs):
                file.runs = []
            return before
        # A diff is checked against what is known; a search for a text would find a wrong place.
        sure = edit.hunks is not None or file.seen == self._commands
        return file.text if sure else None

    def attribution(self) -> dict[str, Any] | None:
        """``file-attribution`` (-00) of the lines that stand at the end; None where there are none."""
        files = [_file(path, file.runs) for path, file in self._files.items() if file.runs]
        return {"files": files} if files else None

    def outside(self) -> list[str]:
        """Attributed paths that lead out of the working directory, or may: nobody should open them by this record."""
        return [path for path, file in self._files.items() if file.runs and is_outside(path)]


def _replaced(before: Sequence[str], replacements: Sequence[Replacement]) -> list[str] | None:
    """The lines after the replacements; None unless each is found exactly as often as it says."""
    if not replacements:
        return None
    # Whether the file ends with an ending is not known, and a text to be replaced may end with one.
    text: str | None = "\n".join(before) + "\n"
    for each in replacements:
        text = None if text is None else each.applied(text)
    return None if text is None else diffs.split_lines(text)


def _file(path: str, runs: Iterable[Run]) -> dict[str, Any]:
    """A file of -00: one conversation for each contributor, in the order of their first lines."""
    ranges: dict[Contributor, list[dict[str, Any]]] = {}
    for run in _joined(runs):
        assert run.by is not None  # noqa: S101 - lines without a contributor are no runs
        made = {
            "start-line": run.start,
            "end-line": run.end,
            "content-hash": content_hash(run.lines),
            "content-hash-alg": "sha-256",
        }
        ranges.setdefault(run.by, []).append(made)
    conversations = [{"contributor": by.to_map(), "ranges": found} for by, found in ranges.items()]
    return {"path": path, "conversations": conversations}


def _joined(runs: Iterable[Run]) -> list[Run]:
    """Neighbours of one contributor are one range."""
    joined: list[list[Run]] = []
    for run in runs:
        if joined and joined[-1][-1].end + 1 == run.start and joined[-1][-1].by == run.by:
            joined[-1].append(run)
        else:
            joined.append([run])
    return [Run(group[0].start, tuple(line for run in group for line in run.lines), group[0].by) for group in joined]


def content_hash(lines: Sequence[str]) -> str:
    """The hash of a range, as this module's text defines it."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def not_attributed(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a record's session says it does not attribute; what is no such list is none."""
    session = record.get("session")
    found = session.get(NOT_ATTRIBUTED) if isinstance(session, Mapping) else None
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


__all__ = ["NOT_ATTRIBUTED", "OUTSIDE", "Book", "attribute", "content_hash", "not_attributed"]
