"""Attribution of sessions made to be slow, or to lead somebody out of the folder: bounded, and flagged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.records.sessions import Claude, record
from transparency.records import attribution, diffs, edits_codex
from transparency.records.paths import is_outside


def written(session: Claude, path: str, text: str) -> None:
    session.call("Write", {"file_path": path, "content": text}, {"type": "create", "filePath": path, "content": text})


def test_a_long_line_counts_as_the_lines_it_would_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "_MAX_LINES", 1000)
    session = Claude()
    written(session, "/home/ann/project/a", "x" * 100_000 + "0\n")
    for number in range(5):
        given = {"file_path": "/home/ann/project/a", "old_string": f"x{number}", "new_string": f"x{number + 1}"}
        session.call("Edit", given)

    made = record(session.data())

    assert {each["reason"] for each in made["session"]["not-attributed"]} == {"too-much"}
    assert "file-attribution" not in made


def test_a_file_of_a_turn_is_looked_up_not_searched_for() -> None:
    class Counted(dict[str, str]):
        def items(self) -> Any:
            raise AssertionError("every file of the turn was looked at for one of them")

    diff = "--- a/d/f\n+++ b/d/f\n@@ -1 +1 @@\n-a\n+b\n"
    parts = Counted({f"d/f{number}": "" for number in range(100)} | {"d/f": diff})

    assert edits_codex._hunks_of("/home/ann/d/f", parts) == diffs.unified(diff)
    assert edits_codex._hunks_of("d/f", Counted({"d/f": diff, "f": diff})) is None
    assert edits_codex._hunks_of("/" * 100_000, parts) is None


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "/etc/passwd", "a/../../b", "..\\..\\x", "C:\\x", "C:x", "\\\\server\\x", "~/x", "a\0b",
     "/home/ann/project/../x", "file:///etc/passwd"],
)  # fmt: skip
def test_a_path_that_may_lead_out_is_flagged_whatever_it_is_written_in(path: str) -> None:
    session = Claude()
    written(session, path, "x\n")

    made = record(session.data())

    assert [file["path"] for file in made["file-attribution"]["files"]] == [path]
    assert made["session"]["attributed-outside"] == [path]
    assert json.loads(json.dumps(made)) == made


@pytest.mark.parametrize("path", ["a", "a/b.py", "..a/b", "a..b", ".hidden", "ab:c", "src/C:x"])
def test_a_plain_path_is_inside(path: str) -> None:
    assert not is_outside(path)
