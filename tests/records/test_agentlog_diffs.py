"""Line ranges out of AgentLog's diffs: only real ones count, and later edits move what earlier ones wrote."""

from __future__ import annotations

import pytest

from transparency.records.agentlog_diffs import Change, attribution, changes_of


@pytest.mark.parametrize(
    "diff",
    [
        "@@ -1,6 +1,10 @@\n a\n+b\n",  # an excerpt under a header that promises more
        "@@ -1 +1 @@\n-a\n+b\n+c\n",
        "- old\n+ new",
        "@@ -1,2 +1,2 @@\n a\n?b\n",
        "@@ -5 +5 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n",
        "",
    ],
)
def test_a_diff_that_is_none_gives_nothing(diff: str) -> None:
    assert changes_of(diff) is None
    assert attribution([{"operation": "edit", "path": "x", "diff": diff}], None) is None


def test_hunks_are_read_with_their_exact_lines() -> None:
    assert changes_of("--- a\n+++ b\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n") == [Change(1, 0, 1, 2)]
    assert changes_of("@@ -2,3 +2,2 @@ def f\n a\n-b\n c\n") == [Change(3, 1, 3, 0)]


def ranges(*diffs: str | None) -> list[tuple[int, int]]:
    made = attribution([{"operation": "edit", "path": "x", "diff": diff} for diff in diffs], None)
    if made is None:
        return []
    (file,) = made["files"]
    return [(one["start-line"], one["end-line"]) for one in file["conversations"][0]["ranges"]]


def test_a_later_edit_moves_splits_and_removes_earlier_ranges() -> None:
    first = "@@ -0,0 +1,4 @@\n+a\n+b\n+c\n+d\n"

    assert ranges(first, "@@ -2,2 +2,1 @@\n b\n-c\n") == [(1, 3)]
    assert ranges("@@ -9,0 +10,2 @@\n+a\n+b\n", "@@ -3,2 +2,0 @@\n-x\n-y\n") == [(8, 9)]
    assert ranges("@@ -4,0 +5 @@\n+a\n", "@@ -0,0 +1 @@\n+b\n") == [(1, 1), (6, 6)]


def test_an_edit_that_cannot_be_followed_ends_what_was_known() -> None:
    assert ranges("@@ -0,0 +1 @@\n+a\n", None) == []
    assert ranges(None, "@@ -0,0 +1 @@\n+a\n") == [(1, 1)]
