"""``transparency report --log`` and ``--data``: the command, against a real server with its real indexing process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, Run, Served, serving
from tests.cli.filling import fill
from tests.log.searching import session
from transparency.client.sync import SyncLogClient
from transparency.compliance.finding import Verdict
from transparency.compliance.log_check_tree import Drill
from transparency.compliance.log_facts import LogFacts
from transparency.compliance.log_settings import LogSettings
from transparency.witness.log_gathering import drill
from transparency.witness.log_pass import Findable
from transparency.witness.spill import TemporarySpill


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A log with its own entries and three sessions, one of them beside: entries 3, 5 and 6."""
    folder = tmp_path_factory.mktemp("reported")
    sessions = {
        "one.jsonl": session("s-1"),
        "two.jsonl": session("s-2", tool="Write", path="/home/a/docs/y.md"),
        "large.jsonl": session("s-3") + session("s-3", tool="Pad" + "x" * 1000) * 100,
    }
    with serving(folder, "--open") as log:
        fill(log, sessions)
        yield log


def reported(good: Run, *words: str | Path) -> dict[str, Any]:
    report = json.loads(good("report", "--json", *words).stdout)
    assert isinstance(report, dict)
    return report


def log_findings(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {finding["check"]: finding for finding in report["log"]}


def test_a_running_log_is_replayed_examined_verified_and_asked(good: Run, filled: Served) -> None:
    report = reported(good, "--log", filled.url)

    assert (report["about"], report["total"], report["availability"]) == ("log", 3, {"read": 3})
    assert report["trust"]["policy key"] == "not pinned: the log's own word"
    found = log_findings(report)
    assert [found[check]["verdict"] for check in ("L6", "L8")] == ["pass", "pass"]
    assert found["L6"]["counts"]["verified"] == 3
    assert found["L8"]["counts"]["queries"] == found["L8"]["counts"]["found"] == 3
    assert found["L8"]["counts"]["proofs"] == 3
    # One tree under the checkpoint that is served; nobody was asked about witnesses.
    assert (found["L5"]["verdict"], found["L5"]["counts"]["problems"]) == ("warn", 0)
    assert found["L5"]["counts"]["checkpoints"] == 1


def test_the_folder_gives_the_same_findings_of_records_as_the_running_log(good: Run, filled: Served) -> None:
    over_http, beside = reported(good, "--log", filled.url), reported(good, "--data", filled.data)

    assert [record["findings"] for record in beside["records"]] == [
        record["findings"] for record in over_http["records"]
    ]
    assert beside["outcomes"] == {"reproduced": 3}
    assert log_findings(beside)["L8"]["verdict"] == "n-a"


def test_the_period_and_the_issuer_bound_what_is_examined_and_not_what_is_replayed(good: Run, filled: Served) -> None:
    all_of_it = reported(good, "--data", filled.data, "--from", "2020-01-01", "--issuer", ISS)

    assert all_of_it["total"] == 3
    assert int(all_of_it["scope"]["entries"]) >= 6


@pytest.mark.parametrize("words", [("--to", "2020-01-01"), ("--issuer", "https://other.example")])
def test_a_period_or_an_issuer_without_a_statement_is_2_and_no_report(
    run: Run, filled: Served, words: tuple[str, ...]
) -> None:
    result = run("report", "--data", filled.data, *words)

    assert result.exit_code == 2
    assert "nothing could be examined" in result.stderr
    assert "Evidence report" not in result.stdout


def test_what_the_index_does_not_know_fails_the_drill(filled: Served) -> None:
    """A real query for an entry under a tool that it never called: the search does not find it."""
    with SyncLogClient(filled.url) as client:
        (hit,) = client.search([("session", "s-1")]).hits
        facts = drill(client.search, [Findable(hit.entry_id, hit.time, "NoSuchTool", "src/x.py")])
        right = drill(client.search, [Findable(hit.entry_id, hit.time, "Edit", "src/x.py")])
    with TemporarySpill() as spill:
        found = Drill(LogSettings(), spill).finish(LogFacts(drill=facts))
        slow = Drill(LogSettings(), spill).finish(LogFacts(drill=replace(right, slowest_ms=5_001)))

    assert (found.verdict, found.pointers) == (Verdict.FAIL, (hit.entry_id,))
    assert (found.counts["queries"], found.counts["found"]) == (1, 0)
    assert (slow.verdict, slow.counts["found"]) == (Verdict.WARN, 1)


def test_a_wrong_policy_key_is_the_first_finding(good: Run, filled: Served) -> None:
    report = reported(good, "--data", filled.data, "--policy-key", "0" * 64)

    assert log_findings(report)["L5"]["verdict"] == "fail"
    assert report["outcomes"] == {"unknown": 3}


def test_a_folder_without_a_log_and_settings_that_are_wrong_are_said_in_one_line(run: Run, folder: Path) -> None:
    (folder / "settings.toml").write_text("[log]\nsampel = 3\n")

    missing = run("report", "--data", folder / "nothing")
    wrong = run("report", "--data", folder / "nothing", "--settings", "settings.toml")

    assert missing.exit_code == 66
    assert "there is no log in" in missing.stderr
    assert wrong.exit_code == 65
    assert "log.sampel is not known" in wrong.stderr
