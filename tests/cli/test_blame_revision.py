"""``blame --revision``, and files that were renamed: the text of the commit decides, under the name it has there."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.lines import AFTER, PATH, TRACE_TYPE, TRUST, blame, make_repository, register, session, trace
from tests.records.repository import BASE, Repository
from tests.records.sessions import MODEL
from transparency.cli.git import NOTES

LINES = "\n".join(AFTER.split("\n")[2:4])
RIGHT = f"sha256:{hashlib.sha256(LINES.encode()).hexdigest()}"
WRONG = f"sha256:{'0' * 64}"


@pytest.fixture
def repository(folder: Path) -> Repository:
    return make_repository(folder)


def named(repository: Repository, **found: Any) -> bytes:
    """A trace that names the agent's commit."""
    commit = repository.git("rev-parse", "HEAD").strip()
    return trace({"type": "git", "revision": commit}, start_line=3, end_line=4, **found)


def test_a_hash_that_disagrees_with_the_revision_given_is_not_taken(
    run: Run, folder: Path, repository: Repository
) -> None:
    register(named(repository, content_hash=WRONG), folder / "records" / "t.cose", TRACE_TYPE)
    commit = repository.git("rev-parse", "HEAD").strip()

    words = ("--repo", "repository", "--revision", f"git:{commit[:10]}", *TRUST)

    (line,) = blame(run, f"{PATH}:3", *words, expected=2)

    assert line["attributed"] is False


def test_a_hash_that_agrees_with_the_revision_given_is_said_to(run: Run, folder: Path, repository: Repository) -> None:
    register(named(repository, content_hash=RIGHT), folder / "records" / "t.cose", TRACE_TYPE)
    words = (f"repository/{PATH}:3", "--revision", f"git:{repository.git('rev-parse', 'HEAD').strip()}", *TRUST)

    (line,) = blame(run, *words, expected=0)

    assert (line["basis"], line["hash-checked"]) == ("revision", True)
    assert "text and hash agree" in run("blame", *words).stdout


def test_a_record_whose_hash_agrees_is_preferred_to_one_without(run: Run, folder: Path, repository: Repository) -> None:
    register(named(repository), folder / "records" / "a.cose", TRACE_TYPE)
    register(session(repository), folder / "records" / "z.cose")
    commit = repository.git("rev-parse", "HEAD").strip()

    for words in ((), ("--revision", f"git:{commit}")):
        (line,) = blame(run, f"repository/{PATH}:3", *words, *TRUST, expected=0)
        assert (line["hash-checked"], line["contributor"]["model-id"]) == (True, MODEL)
        assert line["other-records"] == 1


def test_a_hash_that_cannot_be_compared_is_not_called_none(run: Run, folder: Path, repository: Repository) -> None:
    vcs = {"type": "hg", "revision": "a1b2c3d4e5f6"}
    register(trace(vcs, start_line=3, end_line=4, content_hash=WRONG), folder / "records" / "t.cose", TRACE_TYPE)
    words = (f"repository/{PATH}:3", "--revision", "hg:a1b2c3d4e5f6", *TRUST)

    (line,) = blame(run, *words, expected=3)

    assert line["hash-not-checked"] == "the text of this revision is not at hand"
    assert "NOT compared" in run("blame", *words).stdout


def test_an_unknown_kind_of_hash_is_not_called_none(run: Run, folder: Path, repository: Repository) -> None:
    register(named(repository, content_hash="crc32:01020304"), folder / "records" / "t.cose", TRACE_TYPE)

    shown = run("blame", f"repository/{PATH}:3", *TRUST)

    assert shown.exit_code == 3
    assert "NOT compared" in shown.stdout


@pytest.mark.parametrize("link", ["note", "index"])
def test_notes_and_the_index_count_for_the_revision_given(
    run: Run, folder: Path, repository: Repository, link: str
) -> None:
    entry = register(trace(None, start_line=3, end_line=4), folder / "records" / "t.cose", TRACE_TYPE)
    commit = repository.git("rev-parse", "HEAD").strip()
    if link == "note":
        repository.git("notes", "--ref", NOTES, "add", "-m", entry, commit)
    else:
        (repository.folder / ".transparency").mkdir()
        (repository.folder / ".transparency" / "index").write_text(f"git:{commit} {entry}\n")

    (line,) = blame(run, f"repository/{PATH}:3", "--revision", f"git:{commit}", *TRUST, expected=0)

    assert (line["basis"], line["entry-id"]) == ("revision", entry)


def test_the_text_of_the_revision_given_finds_a_record_that_does_not_name_it(
    run: Run, folder: Path, repository: Repository
) -> None:
    register(session(repository), folder / "records" / "s.cose")
    commit = repository.git("rev-parse", "HEAD").strip()
    repository.write(PATH, "gone\n", BASE)

    (line,) = blame(run, f"repository/{PATH}:4", "--revision", f"git:{commit}", *TRUST, expected=0)

    assert (line["basis"], line["contributor"]["model-id"]) == ("content", MODEL)


@pytest.mark.parametrize(("target", "revision"), [(f"{PATH}:3", "git:0123456789"), (f"{PATH}:99", ""), ("none:1", "")])
def test_a_commit_or_line_that_git_does_not_have_is_said(
    run: Run, folder: Path, repository: Repository, target: str, revision: str
) -> None:
    known = f"git:{repository.git('rev-parse', 'HEAD').strip()}"

    result = run("blame", f"repository/{target}", "--revision", revision or known, *TRUST)

    assert result.exit_code == 66
    assert "git " in result.stderr


@pytest.mark.parametrize("new", ["src/renamed.py", 'elsewhere/a "quoted"\tname.py'])
def test_a_file_that_was_renamed_keeps_its_proof(run: Run, folder: Path, repository: Repository, new: str) -> None:
    register(session(repository), folder / "records" / "s.cose")
    (repository.folder / new).parent.mkdir(exist_ok=True)
    repository.git("mv", PATH, new)
    repository.git("commit", "-q", "-m", "renamed")

    (line,) = blame(run, f"repository/{new}:4", *TRUST, expected=0)

    assert (line["path"], line["contributor"]["model-id"]) == (PATH, MODEL)


def test_a_name_that_git_quotes_is_the_name_of_the_file(run: Run, folder: Path, repository: Repository) -> None:
    odd = 'od"d\tnäme.py'
    commit = repository.write(odd, AFTER, BASE)
    record = trace({"type": "git", "revision": commit}, path=odd, start_line=3, end_line=4, content_hash=RIGHT)
    register(record, folder / "records" / "t.cose", TRACE_TYPE)

    (line,) = blame(run, f"repository/{odd}:3", *TRUST, expected=0)

    assert (line["path"], line["hash-checked"]) == (odd, True)


def test_a_file_without_lines_is_said_to_be_empty(run: Run, folder: Path, repository: Repository) -> None:
    repository.write("empty.txt", "", BASE)

    result = run("blame", "repository/empty.txt", *TRUST)

    assert result.exit_code == 2
    assert "is empty" in result.stderr
