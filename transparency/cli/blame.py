"""``transparency blame``: who or what wrote a line, and where that is proven (seed 000 §6.5).

git blame → revision → registered record → range → receipt. Where one of the steps fails the answer is "not
attributed", and says which; nothing is inferred from a commit's author.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.git import UNCOMMITTED, Blamed, Repository
from transparency.cli.line_records import FOLDER, INDEX, Answer, Place, Shelf, entries_in, read_index
from transparency.cli.output import DIM, UNSURE, note, out, print_json, safe
from transparency.cli.settings import json_option
from transparency.cli.trust import load_trust, trust_options
from transparency.cli.verify_many import STYLES
from transparency.cli.working_tree import NotOpenedError, read_inside
from transparency.records.range_check import Text
from transparency.records.revisions import Revision, parse_revision
from transparency.verifier import Report, Verifier

_LINE: Final = re.compile(r"[1-9][0-9]{0,8}")
_MAX_INDEX: Final = 64 * 1024 * 1024
_RANK: Final = {"verified": 0, "warnings": 1, "cannot-tell": 2, "failed": 3}


@click.command(
    epilog="\b\nExample: transparency blame src/app.py:42 --records proofs --log-key log.keys --issuer-key i.pub.pem"
)
@click.argument("target", metavar="FILE[:LINE]")
@click.option(
    "--records", multiple=True, type=click.Path(path_type=Path), metavar="DIR",
    help="Folders of transparent statements (repeatable). Default: .transparency in the repository.",
)  # fmt: skip
@click.option("--repo", type=click.Path(path_type=Path), metavar="DIR", help="The git repository. Default: FILE's.")
@click.option(
    "--revision", metavar="TYPE:ID",
    help="Take LINE as it is in this revision (git:…, jj:…, hg:…), instead of asking git blame.",
)  # fmt: skip
@trust_options()
@json_option()
def command(
    target: str, records: tuple[Path, ...], repo: Path | None, revision: str | None, log_key: tuple[str, ...],
    issuer_key: tuple[str, ...], issuer_root: tuple[str, ...], trust: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Say who or what wrote a line, and where that is proven.

    Exit 0 if every line asked for is attributed by a record that verifies (3 with warnings, or if its hash could not
    be compared), 1 if a record that attributes one does not verify, 2 if a line is not attributed or nothing proves it.
    """
    file, line = _asked(target, repo)
    verifier = Verifier(load_trust(log_key, issuer_key, issuer_root, trust))
    given = _given(revision, line)
    if given is not None and line is not None:
        found = [_ask_revision(file, line, given, records, repo, verifier)]
    else:
        found = _ask_git(file, line, records, repo, verifier)
    if not found:
        note(f"{file} is empty: there is no line that somebody wrote")
    if as_json:
        print_json({"file": file, "lines": [each.to_json() for each in found]})
    else:
        _print(file, found, out())
    raise click.exceptions.Exit(_exit(found))


@dataclass(frozen=True, slots=True)
class _Proven:
    """An answer and what verifying its statement gave."""

    answer: Answer
    report: Report
    others: int


@dataclass(frozen=True, slots=True)
class _Line:
    line: int
    revision: str
    proven: _Proven | None
    silent: int = 0
    """Calls that the records of this revision declare as not attributed."""

    @property
    def reason(self) -> str:
        """Why a line is not attributed."""
        if self.silent:
            return f"no recorded edit holds it; the session's record names {self.silent} calls whose edits are not seen"
        if self.revision == "uncommitted":
            return "it is not committed, and no record holds its text"
        return "no registered record holds it"

    def to_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {"line": self.line, "revision": self.revision}
        if self.proven is None:
            return {**made, "attributed": False, "reason": self.reason}
        answer, report = self.proven.answer, self.proven.report
        return {
            **made,
            "attributed": True,
            "contributor": dict(answer.contributor),
            "session-id": answer.session_id,
            "path": answer.path,
            "range": dict(answer.range),
            "basis": answer.basis,
            "hash-checked": answer.checked,
            **({"hash-not-checked": answer.unchecked} if answer.unchecked else {}),
            "record": answer.statement.path,
            "entry-id": answer.statement.entry_id,
            "verdict": report.verdict,
            "summary": report.summary,
            "other-records": self.proven.others,
        }


def _asked(target: str, repo: Path | None) -> tuple[str, int | None]:
    """The file and the line; what follows a colon is a line unless there is a file of the whole name."""
    file, colon, line = target.rpartition(":")
    if not colon or os.path.lexists((repo or Path()) / target):
        return target, None
    if not file or _LINE.fullmatch(line) is None:
        raise CommandError(Exit.USAGE, f"{target}: after the colon stands the number of a line, from 1")
    return file, int(line)


def _given(revision: str | None, line: int | None) -> Revision | None:
    if revision is None:
        return None
    found = parse_revision(revision)
    if found is None or line is None:
        raise CommandError(Exit.USAGE, "--revision is git:ID, jj:ID or hg:ID, and goes with FILE:LINE")
    return found


def _folders(records: tuple[Path, ...], repository: Repository | None) -> list[Path]:
    for folder in records:
        if not folder.is_dir():
            raise CommandError(Exit.NO_INPUT, f"{folder} is no folder")
    if records:
        return list(records)
    default = repository.root / FOLDER if repository is not None else Path(FOLDER)
    if not default.is_dir():
        note(f"there are no records: give their folder with --records, or keep them in {FOLDER}")
        return []
    return [default]


def _ask_git(
    file: str, line: int | None, records: tuple[Path, ...], repo: Path | None, verifier: Verifier
) -> list[_Line]:
    repository = Repository.at(Path(file).parent if repo is None else repo)
    path = _inside(repository, file, repo)
    places = _Places(repository, path)
    asked = [(blamed, places.of(blamed)) for blamed in repository.blame(path, None if line is None else (line, line))]
    # A file that was renamed: each commit has it, and its record names it, as it was called then.
    prover = _Prover(verifier, Shelf(_folders(records, repository), {Path(place.path).name for _, place in asked}))
    return [
        prover.line(blamed.line, "uncommitted" if UNCOMMITTED.fullmatch(blamed.commit) else blamed.commit, place)
        for blamed, place in asked
    ]


def _ask_revision(
    file: str, line: int, given: Revision, records: tuple[Path, ...], repo: Path | None, verifier: Verifier
) -> _Line:
    """The line as a revision has it. git's text and notes are at hand; of another system only the index is."""
    folder = Path(file).parent if repo is None else repo
    try:
        # What a revision has need not be in the working tree any more, nor need its folder.
        repository: Repository | None = Repository.at(folder if folder.is_dir() else Path())
    except CommandError:
        repository = None
    root, path = (Path(), file) if repository is None else (repository.root, _inside(repository, file, repo))
    if repository is not None and given.type == "git":
        place = _place_in_commit(repository, path, line, given)
    else:
        listed = frozenset(entry for said, entry in _read_index(root) if said.matches(given))
        place = Place(path, line, (given,), listed, None)
    shelf = Shelf(_folders(records, repository), (Path(file).name,))
    return _Prover(verifier, shelf).line(line, str(given), place)


def _place_in_commit(repository: Repository, path: str, line: int, given: Revision) -> Place:
    commit = repository.commit(given.id)
    if commit is None:
        raise CommandError(Exit.NO_INPUT, f"git has no commit {given.id} in {repository.root}", "Give it with --repo.")
    place = _Places(repository, path).of(Blamed(line, commit, path, line, ""))
    if place.text is None or line > len(place.text.lines):
        raise CommandError(Exit.NO_INPUT, f"git knows nothing of {path}:{line} in {given}", "Is there such a line?")
    return place


def _inside(repository: Repository, file: str, repo: Path | None) -> str:
    """The path of *file* from the root. It is not resolved itself: git knows a symbolic link by its own name."""
    whole = (Path(file).parent if repo is None else repo / Path(file).parent).resolve() / Path(file).name
    try:
        return whole.relative_to(repository.root.resolve()).as_posix()
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"{file} is not in the repository {repository.root}") from error


class _Places:
    """Lines as their commits have them; what a commit says is asked for once."""

    def __init__(self, repository: Repository, path: str) -> None:
        self._repository = repository
        self._path = path
        self._index = _read_index(repository.root)
        self._links: dict[str, tuple[tuple[Revision, ...], frozenset[str]]] = {}
        self._texts: dict[tuple[str, str], Text | None] = {}

    def of(self, blamed: Blamed) -> Place:
        path = blamed.path or self._path
        key = (blamed.commit, path)
        if blamed.commit not in self._links:
            self._links[blamed.commit] = self._link(blamed.commit)
        if key not in self._texts:
            data = self._read(*key)
            self._texts[key] = None if data is None else Text(data)
        return Place(path, blamed.original, *self._links[blamed.commit], self._texts[key])

    def _link(self, commit: str) -> tuple[tuple[Revision, ...], frozenset[str]]:
        if UNCOMMITTED.fullmatch(commit):
            return (), frozenset()
        names = self._repository.revisions(commit)
        listed = (entry for said, entry in self._index for name in names if said.matches(name))
        return tuple(names), entries_in(self._repository.notes(commit)) | frozenset(listed)

    def _read(self, commit: str, path: str) -> bytes | None:
        if not UNCOMMITTED.fullmatch(commit):
            return self._repository.file_at(commit, path)
        try:
            return read_inside(self._repository.root, path)
        except NotOpenedError:
            return None


def _read_index(root: Path) -> list[tuple[Revision, str]]:
    try:
        data = read_inside(root, f"{FOLDER}/{INDEX}")
    except NotOpenedError:
        return []
    return read_index((data or b"")[:_MAX_INDEX].decode("utf-8", "replace"))


class _Prover:
    """Verifies each statement once."""

    def __init__(self, verifier: Verifier, shelf: Shelf) -> None:
        self._verifier = verifier
        self._shelf = shelf
        self._reports: dict[str, Report] = {}

    def line(self, number: int, revision: str, place: Place) -> _Line:
        """The answer that is proven best; among equals the one that the revision links."""
        proven = [(answer, self._report(answer)) for answer in self._shelf.answers(place)]
        if not proven:
            return _Line(number, revision, None, self._shelf.silent(place))
        answer, report = min(proven, key=lambda pair: _RANK[pair[1].verdict])
        return _Line(number, revision, _Proven(answer, report, len(proven) - 1))

    def _report(self, answer: Answer) -> Report:
        statement = answer.statement
        if statement.path not in self._reports:
            self._reports[statement.path] = self._verifier.verify(statement.data, statement.given)
        return self._reports[statement.path]


def _exit(found: Sequence[_Line]) -> Exit:
    verdicts = {"none" if each.proven is None else each.proven.report.verdict for each in found}
    if "failed" in verdicts:
        return Exit.NEGATIVE
    if verdicts & {"none", "cannot-tell"} or not verdicts:
        return Exit.CANNOT_TELL
    is_open = any(each.proven is not None and each.proven.answer.is_open for each in found)
    return Exit.WARNINGS if is_open or "warnings" in verdicts else Exit.OK


def _print(file: str, found: Sequence[_Line], console: Console) -> None:
    for same, group in groupby(found, key=_sameness):
        lines = list(group)
        first, last = lines[0], lines[-1]
        span = str(first.line) if first is last else f"{first.line}-{last.line}"
        console.print(f"[bold]{safe(file)}:{span}[/]  {_who(first)}  [{DIM}]{safe(same[0])}[/]")
        if first.proven is not None:
            _print_proof(first.proven, console)


def _sameness(each: _Line) -> tuple[str, int, str]:
    proven = each.proven
    return (each.revision, 0 if proven is None else id(proven.answer.range), each.reason if proven is None else "")


def _who(each: _Line) -> str:
    if each.proven is None:
        return f"[{UNSURE}]not attributed[/]: {safe(each.reason)}"
    who: Mapping[str, Any] = each.proven.answer.contributor
    model = f" {safe(who['model-id'])}" if "model-id" in who else ""
    return f"{safe(who.get('type', 'unknown'))}{model}, session {safe(each.proven.answer.session_id)}"


def _print_proof(proven: _Proven, console: Console) -> None:
    answer, report = proven.answer, proven.report
    why = "named by its revision" if answer.basis == "revision" else "found by its text"
    hashed = answer.unchecked or "text and hash agree"
    if answer.is_open:
        hashed = f"its hash was NOT compared: {hashed}"
    span = f"lines {answer.range['start-line']}-{answer.range['end-line']}"
    console.print(f"  record {safe(answer.statement.path)}, {span}: {why}, {hashed}")
    # The report made its sentence safe for a terminal; what is left to escape is rich's own markup.
    console.print(f"  [{STYLES[report.verdict]}]{escape(report.summary)}[/]")
    if proven.others:
        console.print(f"  [{DIM}]{proven.others} more records hold this line[/]")
