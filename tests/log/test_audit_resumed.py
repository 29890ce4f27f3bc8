"""A replay that is put away after any entry and taken up again says what one without a break says."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.log.audited import Audited, flip, make_audited
from transparency.log.audit import AuditReport
from transparency.log.audit_replay import Replay
from transparency.log.audit_scratch import Scratch
from transparency.log.audit_sources import FolderSource

pytestmark = pytest.mark.sqlite_file


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return asyncio.run(make_audited(tmp_path_factory.mktemp("audited") / "log"))


def resumed(built: Audited, path: Path, every: int) -> AuditReport:
    """The log replayed by one process after the other: each takes up the database, goes on, commits, and is gone."""
    with FolderSource(built.made.data) as source:
        heads, rows = list(source.heads()), list(source.entries())
    findings = []
    report = AuditReport()
    done = 0
    while done < len(rows):
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("BEGIN")
        report = AuditReport()
        replay = Replay(built.policy_key, report, Scratch(database))
        assert report.size == done
        for row in rows[done : done + every]:
            head = next(head for head in heads if head.size > row.index)
            replay.entry(row, head)
            report.size += 1
            if report.size == head.size:
                replay.head(head)
        replay.save()
        database.execute("COMMIT")
        done = report.size
        findings += report.findings
        if done == len(rows):
            report.findings.clear()
            replay.end()
            findings += report.findings
        database.close()
    report.findings = findings
    return report


@pytest.mark.parametrize("every", [1, 2, 7])
def test_a_replay_in_pieces_gives_the_report_of_one_in_a_go(built: Audited, tmp_path: Path, every: int) -> None:
    assert resumed(built, tmp_path / "replay.sqlite", every) == built.audit()


def test_a_replay_in_pieces_finds_what_was_tampered_with_all_the_same(
    built: Audited, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = asyncio.run(make_audited(tmp_path_factory.mktemp("tampered") / "log"))
    flip(other.made.data, other.policy)

    whole, pieces = other.audit(), resumed(other, tmp_path / "replay.sqlite", 1)

    assert whole.findings_made > 1
    assert pieces == whole


def test_what_was_not_committed_is_replayed_again(built: Audited, tmp_path: Path) -> None:
    path = tmp_path / "replay.sqlite"
    with FolderSource(built.made.data) as source:
        heads, rows = list(source.heads()), list(source.entries())
    for _ in range(2):
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("BEGIN")
        report = AuditReport()
        replay = Replay(built.policy_key, report, Scratch(database))
        for row in rows[:3]:
            replay.entry(row, next(head for head in heads if head.size > row.index))
            report.size += 1
        replay.save()
        database.close()  # as a process that was killed

    assert resumed(built, path, 4) == built.audit()
