"""Diffs: only real ones count, lines are followed through them, and ours say what became of which line."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.records.diffs import Hunk, between, by_file, fits, patched, split_lines, structured, unified
from transparency.records.edits import Contributor
from transparency.records.ranges import Run, moved, runs_fit

ME = Contributor("ai", "m")


@pytest.mark.parametrize(
    "diff",
    [
        "@@ -1,6 +1,10 @@\n a\n+b\n",  # an excerpt under a header that promises more
        "@@ -1 +1 @@\n-a\n+b\n+c\n",
        "- old\n+ new",
        "@@ -1,2 +1,2 @@\n a\n?b\n",
        "@@ -5 +5 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n",  # out of order
        "@@ -1 +7 @@\n-a\n+b\n",  # numbers that do not fit each other
        "@@ -99999999999 +1 @@\n-a\n+b\n",
        "",
    ],
)
def test_a_diff_that_is_none_gives_nothing(diff: str) -> None:
    assert unified(diff) is None


def test_hunks_are_read_with_their_exact_lines() -> None:
    made = unified("--- a\n+++ b\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n")
    assert made == [Hunk(1, 1, (), ("a", "b"))]
    assert unified("Index: x\n===================\n@@ -2,3 +2,2 @@ def f\n a\n-b\n c\n") == [
        Hunk(2, 2, ("a", "b", "c"), ("a", "c"), ((0, 0), (2, 1)))
    ]
    assert unified("@@ -1 +1 @@\r\n-a\r\n+b\r\n") == [Hunk(1, 1, ("a",), ("b",))]


@pytest.mark.parametrize(
    "patch",
    [
        None,
        [],
        [{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 1, "lines": ["-a"]}],
        [{"oldStart": True, "oldLines": 1, "newStart": 1, "newLines": 0, "lines": ["-a"]}],
        [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 0, "lines": ["-a", " b"]}],
        [{"oldStart": 1, "oldLines": 1 << 40, "newStart": 1, "newLines": 0, "lines": ["-a"]}],
        ["@@"],
    ],
)
def test_a_structured_patch_that_is_none_gives_nothing(patch: object) -> None:
    assert structured(patch) is None


LINES = st.lists(st.sampled_from("abcdef"), max_size=12)


@given(LINES, LINES)
def test_our_diff_leads_from_one_text_to_the_other(before: list[str], after: list[str]) -> None:
    hunks = between(before, after)

    assert fits(before, hunks)
    assert patched(before, hunks) == after
    assert (hunks == []) == (before == after)
    for hunk in hunks:
        assert all(hunk.before[old] == hunk.after[new] for old, new in hunk.kept)
        made, shift = list(before), 0
        for old, removed, new, added in hunk.changes():
            assert new == old + shift
            made[new - 1 : new - 1 + removed] = added
            shift += len(added) - removed
        assert made == after


@given(LINES, LINES, LINES)
def test_following_is_what_writing_the_text_line_by_line_gives(
    first: list[str], second: list[str], third: list[str]
) -> None:
    runs = moved([], between(first, second), ME)
    hunks = between(second, third)

    followed = moved(runs, hunks, None)

    mine = {number for run in runs for number in range(run.start, run.end + 1)}
    stayed = {(1 + old, 1 + new) for hunk in hunks for old, new in hunk.kept}
    if not hunks:
        stayed = {(number, number) for number in range(1, len(second) + 1)}
    assert {n for run in followed for n in range(run.start, run.end + 1)} == {new for old, new in stayed if old in mine}
    assert all(run.stands_in(third) for run in followed)


def test_a_later_edit_moves_splits_and_removes_earlier_lines() -> None:
    before = [Run(1, ("a", "b", "c", "d"), ME)]

    made = moved(before, unified("@@ -2,2 +2,3 @@\n b\n-c\n+x\n+y\n") or [], Contributor("ai", "other"))

    assert [(run.start, run.lines) for run in made] == [(1, ("a", "b")), (3, ("x", "y")), (5, ("d",))]


def test_a_diff_whose_context_is_not_what_was_written_does_not_fit() -> None:
    runs = [Run(5, ("mine",), ME)]

    assert runs_fit(runs, unified("@@ -4,2 +4,3 @@\n x\n mine\n+y\n") or [])
    assert not runs_fit(runs, unified("@@ -4,2 +4,3 @@\n x\n yours\n+y\n") or [])


def test_a_git_diff_is_taken_apart_by_file() -> None:
    first = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    second = "diff --git a/y b/y\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+c\n"

    parts = by_file(first + second)

    assert unified(parts["x"]) == [Hunk(1, 1, ("a",), ("b",))]
    assert unified(parts["y"]) == [Hunk(1, 1, (), ("c",))]


def test_lines_have_no_endings() -> None:
    assert split_lines("a\r\nb\n\nc") == ["a", "b", "", "c"]
    assert split_lines("") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["x"] * 30_000, ["y", *["x"] * 29_990, "z"]),
        ([str(number) for number in range(30_000)], [str(number) for number in range(30_000)][::-1]),
        ([str(number % 7) for number in range(30_000)], [str(number % 5) for number in range(30_000)]),
    ],
)
def test_large_texts_made_to_be_slow_are_not(before: list[str], after: list[str]) -> None:
    began = time.process_time()

    assert patched(before, between(before, after)) == after

    assert time.process_time() - began < 5
