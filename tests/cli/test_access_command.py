"""``transparency log access``: the list, the check, and what the check says of a log that was tampered with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def log(good: Run, folder: Path) -> Path:
    """A log on which a token was made and revoked."""
    good("init", "--data", "log", "--watermark", "mark")
    token = json.loads(good("token", "create", "--data", "log", "--json").stdout)["id"]
    good("token", "revoke", "--data", "log", token)
    return folder / "log"


def test_what_was_done_is_listed_the_last_ones_on_request(good: Run, log: Path) -> None:
    created, revoked = (json.loads(line) for line in good("log", "access", "--data", log, "--json").stdout.splitlines())
    last = good("log", "access", "--data", log, "--last", "1").stdout

    assert (created["action"], created["who"], created["status"]) == ("token-create", "local", 200)
    assert revoked["action"] == "token-revoke"
    assert revoked["what"] == created["what"]
    assert "token-revoke" in last
    assert "token-create" not in last


def test_a_clean_log_verifies_and_a_line_that_was_taken_out_is_named(good: Run, run: Run, log: Path) -> None:
    clean = good("log", "access", "--data", log, "--verify")
    (path,) = (log / "access-log").glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    tampered = run("log", "access", "--data", log, "--verify")
    as_json = run("log", "access", "--data", log, "--verify", "--json")

    assert "3 lines" in clean.stdout
    assert tampered.exit_code == as_json.exit_code == 1
    assert "line 2 is missing before line 3" in tampered.stdout
    assert json.loads(as_json.stdout)["findings"] == ["line 2 is missing before line 3"]


def test_a_log_that_nobody_used_has_nothing_to_show(good: Run, folder: Path) -> None:
    good("init", "--data", "log", "--watermark", "mark")

    assert good("log", "access", "--data", "log").stdout == ""
    good("log", "access", "--data", "log", "--verify")
    assert not (folder / "log" / "access-log").exists()


def test_all_lines_are_checked_or_the_last_are_shown(run: Run, log: Path) -> None:
    assert run("log", "access", "--data", log, "--verify", "--last", "1").exit_code == 64


@pytest.mark.sqlite_file
def test_a_backup_takes_the_access_log_along_and_a_restored_log_goes_on_with_it(good: Run, log: Path) -> None:
    good("log", "backup", "--data", log, "--out", "copy", "--with-keys")
    good("log", "restore", "--from", "copy", "--data", "again")
    good("token", "create", "--data", "again")
    report = json.loads(good("log", "access", "--data", "again", "--verify", "--json").stdout)

    assert (report["lines"], report["findings"]) == (4, [])
