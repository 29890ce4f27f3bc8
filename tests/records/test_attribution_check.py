"""Ranges against a text, and the names of revisions."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest

from transparency.records.murmur3 import murmur3_hex
from transparency.records.range_check import CHANGED, MATCH, MOVED, UNVERIFIABLE, Text, check_range
from transparency.records.revisions import Revision, parse_revision, revisions_of

TEXT = b"first\nsecond line of some length\nthird line of some length\nfourth\n"
TWO = b"second line of some length\nthird line of some length"


def found(data: bytes, start: int, end: int, **others: Any) -> dict[str, Any]:
    return {
        "start-line": start, "end-line": end, "content-hash": hashlib.sha256(data).hexdigest(), **others,
    }  # fmt: skip


@pytest.mark.parametrize("hashed", [TWO, TWO + b"\n"])
@pytest.mark.parametrize("text", [TEXT, TEXT.replace(b"\n", b"\r\n"), TEXT.removesuffix(b"\n")])
def test_lines_match_with_or_without_their_last_ending_and_whatever_the_endings(hashed: bytes, text: bytes) -> None:
    assert check_range(found(hashed, 2, 3), Text(text)).outcome == MATCH


def test_a_hash_over_crlf_matches_a_file_that_has_them() -> None:
    hashed = TWO.replace(b"\n", b"\r\n") + b"\r"

    assert check_range(found(hashed, 2, 3), Text(TEXT.replace(b"\n", b"\r\n"))).outcome == MATCH


@pytest.mark.parametrize(
    ("algorithm", "digest"),
    [
        ("murmur3", murmur3_hex(TWO)),
        ("sha256", hashlib.sha256(TWO).hexdigest()),
        ("SHA-512", hashlib.sha512(TWO).hexdigest().upper()),
    ],
)
def test_the_hashes_of_agent_trace_are_known_too(algorithm: str, digest: str) -> None:
    one = {"start-line": 2, "end-line": 3, "content-hash": digest, "content-hash-alg": algorithm}

    assert check_range(one, Text(TEXT)).outcome == MATCH
    moved = check_range(one, Text(b"new\n" + TEXT))
    assert (moved.outcome, moved.line) == (MOVED, 3)
    assert check_range(one, Text(TEXT.replace(b"third", b"THIRD"))).outcome == CHANGED


def test_lines_that_are_everywhere_are_not_said_to_have_moved() -> None:
    assert check_range(found(b"}", 1, 1), Text(b"x\n}\n")).outcome == CHANGED
    assert check_range(found(TWO, 9, 10), Text(TEXT + TEXT)).outcome == CHANGED


@pytest.mark.parametrize(
    "one",
    [
        {"start-line": 1, "end-line": 1},
        {"start-line": 2, "end-line": 1, "content-hash": "00"},
        {"start-line": 0, "end-line": 1, "content-hash": "00" * 32},
        {"start-line": 1, "end-line": 1, "content-hash": "00" * 8, "content-hash-alg": "sha256"},
        {"start-line": 1, "end-line": 1, "content-hash": "00" * 32, "content-hash-alg": "crc32"},
        {"start-line": 1, "end-line": 1, "content-hash": "zz" * 32},
        {"start-line": True, "end-line": 1, "content-hash": "00" * 32},
    ],
)
def test_what_cannot_be_compared_is_neither_right_nor_wrong(one: dict[str, Any]) -> None:
    verdict = check_range(one, Text(TEXT))

    assert verdict.outcome == UNVERIFIABLE
    assert verdict.detail


def test_a_range_far_beyond_the_file_costs_nothing() -> None:
    began = time.process_time()

    assert check_range(found(b"x", 1, 1 << 60), Text(TEXT)).outcome == CHANGED
    assert check_range(found(b"x", 1, 20_000), Text(b"line\n" * 40_000)).outcome == CHANGED

    assert time.process_time() - began < 5


def test_revisions_of_git_jj_and_hg_are_told_apart() -> None:
    """Seed 000 §6.4."""
    commit = "a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0"

    assert parse_revision(f"git:{commit}") == Revision("git", commit)
    assert parse_revision("jj:kkmpptxz") == Revision("jj", "kkmpptxz")
    assert parse_revision("hg:a1b2c3d4e5f6") == Revision("hg", "a1b2c3d4e5f6")
    assert parse_revision(commit, default="git") == Revision("git", commit)
    for wrong in ("git:HEAD", "git:abc", "jj:a1b2c3d4", "hg:a1b2", "svn:12", "", commit, "git:", "--help"):
        assert parse_revision(wrong) is None


def test_a_shortened_revision_matches_the_whole_one_of_its_own_system_only() -> None:
    whole = Revision("git", "a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0")

    assert whole.matches(Revision("git", "a1b2c3d"))
    assert not whole.matches(Revision("hg", "a1b2c3d4e5f6"))
    assert not whole.matches(Revision("git", "b1b2c3d"))


def test_a_record_names_its_revision_in_either_place() -> None:
    vcs = {"type": "jj", "revision": "kkmpptxz"}

    assert revisions_of({"vcs": vcs}) == [Revision("jj", "kkmpptxz")]
    assert revisions_of({"session": {"environment": {"working-dir": "/", "vcs": vcs}}}) == [Revision("jj", "kkmpptxz")]
    assert revisions_of({"vcs": {"type": "git"}, "session": {}}) == []
