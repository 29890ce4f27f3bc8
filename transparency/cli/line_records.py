"""From a line to the record that says who wrote it: revision, statement, range (seed 000 §6.5).

A statement is linked to a commit by the revision in its record, by a note of the commit, or by the index of the
repository. Agents record the revision they started from, not the one their work went into; so a range whose text
stands at that place in the commit (its hash tells) is taken too, and the answer says which of the two it was.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from transparency.cli.record_files import StatementFile, statements_in
from transparency.errors import MalformedError
from transparency.records import range_check
from transparency.records.attribution import not_attributed
from transparency.records.range_check import Text, Verdict, check_range
from transparency.records.revisions import Revision, parse_revision, revisions_of
from transparency.statements.statement import parse_entry_id

FOLDER: Final = ".transparency"
INDEX: Final = "index"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_NO_TEXT: Final = Verdict(range_check.UNVERIFIABLE, detail="the text of this revision is not at hand")


@dataclass(frozen=True, slots=True)
class Place:
    """A line where a revision has it, and the file's text there (None where that is not at hand)."""

    path: str
    line: int
    revisions: tuple[Revision, ...]
    entries: frozenset[str]
    text: Text | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A range of a record that holds the line. *basis*: ``revision`` or ``content``."""

    statement: StatementFile
    session_id: str
    contributor: Mapping[str, Any]
    range: Mapping[str, Any]
    path: str
    basis: str
    unchecked: str
    """Why its hash was not compared with the text; empty if it was, and agrees."""

    @property
    def checked(self) -> bool:
        return not self.unchecked

    @property
    def is_open(self) -> bool:
        """A hash was recorded, and it was not compared."""
        return bool(self.unchecked) and "content-hash" in self.range


@dataclass(slots=True)
class Shelf:
    """The statements of some folders whose records attribute lines of files of these names. Read once."""

    folders: Sequence[Path]
    names: Collection[str]
    """Base names: a file that was renamed has one for each commit that is asked about."""
    _kept: list[tuple[StatementFile, dict[str, Any]]] | None = None
    _verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    """What became of a range in a text, by their identities: both are kept as long as this is."""

    def records(self) -> list[tuple[StatementFile, dict[str, Any]]]:
        if self._kept is None:
            self._kept = [
                (statement, record)
                for statement in statements_in(self.folders)
                if self._may_name(statement)
                for record in statement.records()
                if "file-attribution" in record or not_attributed(record)
            ]
        return self._kept

    def _may_name(self, statement: StatementFile) -> bool:
        """Spare the reading of a record in which no such name stands; odd names may be written otherwise."""
        return any(_PLAIN_NAME.fullmatch(name) is None or name.encode() in statement.record for name in self.names)

    def answers(self, place: Place) -> Iterator[Answer]:
        """Every range that holds the line: those whose text was compared first, then those linked by revision."""
        found = [answer for statement, record in self.records() for answer in self._answers(statement, record, place)]
        yield from sorted(found, key=lambda answer: (not answer.checked, answer.basis != "revision"))

    def silent(self, place: Place) -> int:
        """How many calls the records linked to this revision declare as not attributed."""
        return sum(
            len(not_attributed(record)) for statement, record in self.records() if _is_linked(statement, record, place)
        )

    def _answers(self, statement: StatementFile, record: Mapping[str, Any], place: Place) -> Iterator[Answer]:
        linked = _is_linked(statement, record, place)
        session_id = record["session"]["session-id"]
        shown = session_id.hex() if isinstance(session_id, bytes) else session_id
        for file in record.get("file-attribution", {}).get("files", ()):
            same = file["path"] == place.path
            # The agent may have worked in a folder of the repository: its path is then the end of git's.
            if not same and not place.path.endswith(f"/{file['path']}"):
                continue
            for conversation in file["conversations"]:
                for found in conversation["ranges"]:
                    basis = self._basis(found, place, by_revision=linked and same)
                    if basis is not None:
                        who = found.get("contributor", conversation.get("contributor", {"type": "unknown"}))
                        yield Answer(statement, shown, who, found, file["path"], *basis)

    def _basis(self, found: Mapping[str, Any], place: Place, *, by_revision: bool) -> tuple[str, str] | None:
        """Why this range holds the line, and why its hash was not compared; None if it does not."""
        verdict = _NO_TEXT if place.text is None else self._verdict(found, place.text)
        holds = found["start-line"] <= place.line <= found["end-line"]
        if verdict.outcome == range_check.UNVERIFIABLE:
            why = verdict.detail if "content-hash" in found else "no hash was recorded"
            return ("revision", why) if by_revision and holds else None
        if verdict.line is None:
            return None
        shifted = verdict.line <= place.line <= verdict.line + found["end-line"] - found["start-line"]
        return ("revision" if by_revision else "content", "") if shifted else None

    def _verdict(self, found: Mapping[str, Any], text: Text) -> Verdict:
        key = (id(found), id(text))
        if key not in self._verdicts:
            self._verdicts[key] = check_range(found, text)
        return self._verdicts[key]


def _is_linked(statement: StatementFile, record: Mapping[str, Any], place: Place) -> bool:
    if any(said.matches(known) for said in revisions_of(record) for known in place.revisions):
        return True
    return bool(place.entries) and statement.entry_id in place.entries


def entries_in(text: str) -> frozenset[str]:
    """The entry ids among the words of a note."""
    return frozenset(word for word in text.split() if _is_entry(word))


def read_index(text: str) -> list[tuple[Revision, str]]:
    """The index of a repository: a revision (``git:…``, ``jj:…``, ``hg:…``) and an entry id on each line."""
    made = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        revision = parse_revision(words[0], default="git") if len(words) == 2 else None
        if revision is not None and _is_entry(words[1]):
            made.append((revision, words[1]))
    return made


def _is_entry(word: str) -> bool:
    try:
        parse_entry_id(word)
    except MalformedError:
        return False
    return True
