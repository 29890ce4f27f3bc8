"""``attribution``: the lines a session wrote, compared with a working tree; nothing outside of it is opened."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.lines import AFTER, PATH, make_repository, register, session
from tests.records.repository import Repository
from tests.records.sessions import MODEL, Claude


@pytest.fixture
def repository(folder: Path) -> Repository:
    return make_repository(folder)


def test_attribution_prints_lines_and_what_is_not_attributed(good: Run, folder: Path, repository: Repository) -> None:
    (folder / "s.jsonl").write_bytes(session(repository))

    shown = good("attribution", "s.jsonl").stdout

    assert f"3-5  ai {MODEL}" in shown
    assert "not attributed: Bash call-2: a command that may have written files" in shown


def test_attribution_reads_statements_and_says_that_it_does_not_verify(
    good: Run, folder: Path, repository: Repository
) -> None:
    register(session(repository), folder / "s.t.cose")

    result = good("attribution", "s.t.cose", "--json")
    found = json.loads(result.stdout)

    assert found["signed"] is True
    assert found["sessions"][0]["files"][0]["ranges"][0]["start-line"] == 3
    assert "transparency verify" in good("attribution", "s.t.cose").stderr


@pytest.mark.parametrize(
    ("text", "code", "outcome"),
    [
        (AFTER, 0, "match"),
        (AFTER.replace("\n", "\r\n"), 0, "match"),
        ("# head\n" + AFTER, 3, "moved"),
        (AFTER.replace("42", "43"), 1, "changed"),
        (None, 1, "missing"),
    ],
)
def test_a_working_tree_is_compared_line_by_line(
    run: Run, folder: Path, repository: Repository, text: str | None, code: int, outcome: str
) -> None:
    (folder / "s.jsonl").write_bytes(session(repository))
    target = repository.folder / PATH
    target.unlink()
    if text is not None:
        target.write_bytes(text.encode())

    result = run("attribution", "s.jsonl", "--verify", "repository", "--json")

    assert result.exit_code == code
    (found,) = json.loads(result.stdout)["sessions"][0]["files"][0]["ranges"]
    assert found["outcome"] == outcome
    assert run("attribution", "s.jsonl", "--verify", "repository").exit_code == code


@pytest.mark.parametrize("kind", ["file", "folder", "inside"])
def test_symbolic_links_are_not_followed(run: Run, folder: Path, repository: Repository, kind: str) -> None:
    (folder / "s.jsonl").write_bytes(session(repository))
    outside = folder / "outside"
    outside.mkdir()
    (outside / "app.py").write_text(AFTER)
    target = repository.folder / PATH
    target.unlink()
    if kind == "folder":
        target.parent.rmdir()
        target.parent.symlink_to(outside)
    else:
        target.symlink_to(outside / "app.py" if kind == "file" else "../other.py")

    result = run("attribution", "s.jsonl", "--verify", "repository", "--json")

    (found,) = json.loads(result.stdout)["sessions"][0]["files"][0]["ranges"]
    assert result.exit_code == 2
    assert (found["outcome"], found["detail"]) == ("unverifiable", "not opened: a symbolic link is not followed")


@pytest.mark.parametrize("path", ["../outside.py", "/etc/hostname", "src/../../outside.py", "~/x", "C:\\x", "a\0b"])
def test_paths_that_lead_out_are_shown_and_never_opened(
    run: Run, folder: Path, repository: Repository, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Claude()
    made.create_at(path)
    (folder / "s.jsonl").write_bytes(made.data())
    opened: list[object] = []
    real = os.open

    def watched(*words: Any, **more: Any) -> int:
        opened.append(words[0])
        return real(*words, **more)

    monkeypatch.setattr(os, "open", watched)

    result_shown = run("attribution", "s.jsonl", "--verify", "repository", "--json")

    assert result_shown.exit_code == 2
    (file,) = json.loads(result_shown.stdout)["sessions"][0]["files"]
    assert file["path"] == path
    assert file["outside"] is True
    assert "leads out" in file["ranges"][0]["detail"]
    assert not [name for name in opened if isinstance(name, str) and ("outside" in name or "hostname" in name)]


def test_pipes_and_folders_in_the_place_of_a_file_do_not_keep_anyone_waiting(
    run: Run, folder: Path, repository: Repository
) -> None:
    (folder / "s.jsonl").write_bytes(session(repository))
    target = repository.folder / PATH
    target.unlink()
    os.mkfifo(target)

    result = run("attribution", "s.jsonl", "--verify", "repository", "--json")

    assert "no regular file" in result.stdout


def test_escape_sequences_in_paths_and_models_do_not_reach_the_terminal(good: Run, folder: Path) -> None:
    made = Claude()
    path = "a\x1b[2Jb\u202e.py"
    result: dict[str, Any] = {
        "type": "create",
        "filePath": path,
        "content": "x\n",
        "structuredPatch": [],
        "originalFile": None,
    }
    made.call("Write", {"file_path": path, "content": "x\n"}, result, model="m\x1b]0;x\x07")
    (folder / "s.jsonl").write_bytes(made.data())

    shown = good("attribution", "s.jsonl").stdout

    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_what_is_no_record_is_65(run: Run, folder: Path) -> None:
    (folder / "x.txt").write_text("hello")

    assert run("attribution", "x.txt").exit_code == 65
    assert run("attribution", "none.jsonl").exit_code == 66
    assert run("attribution", "x.txt", "--verify", "nowhere").exit_code == 66
