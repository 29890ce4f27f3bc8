"""docs/checks.md says of the record checks what the registry says."""

from __future__ import annotations

import re
from dataclasses import fields

from tests.project.tree import ROOT
from transparency.compliance.commands import BUILTIN
from transparency.compliance.record_checks import RECORD_CHECKS
from transparency.compliance.settings import DEFAULT, Settings

PAGE = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| R")]


def test_the_table_has_every_check_with_its_title_and_what_it_looks_at() -> None:
    assert [row[:3] for row in ROWS] == [[check.id, check.title, check.looks_at] for check in RECORD_CHECKS]


def test_every_row_says_when_it_is_not_applicable_and_its_limits() -> None:
    assert all(len(row) == 5 and "n-a: " in row[3] and row[4] for row in ROWS)


def test_the_table_names_the_thresholds_that_are_in_force() -> None:
    stated = {row[0]: row[3] for row in ROWS}

    for check, number in {
        "R2.1": f"{DEFAULT.timed_percent} %",
        "R2.2": f"{DEFAULT.clock_skew_seconds} s",
        "R2.3": f"{DEFAULT.gap_hours} h",
        "R2.5": f"{DEFAULT.lag_hours} h",
        "R4.1": f"{DEFAULT.tolerated_percent} %",
        "R6.1": f"{DEFAULT.least_retention_months} months",
        "R9.1": f"{DEFAULT.failed_percent} %",
        "R9.4": f"fewer than {DEFAULT.least_history} sessions",
    }.items():
        assert number in stated[check], check


def test_every_pattern_of_commands_is_explained() -> None:
    for risk in BUILTIN:
        assert re.search(rf"^\| {risk.name} \| {re.escape(risk.why)} \|$", PAGE, re.MULTILINE), risk.name


def test_the_settings_on_the_page_are_all_there_are_and_the_defaults() -> None:
    (block,) = re.findall(r"^```toml\n(\[checks\].*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    assert Settings.from_toml(block.encode()) == DEFAULT
    named = set(re.findall(r"^([a-z-]+) = ", block, re.MULTILINE))
    assert named == {each.name.replace("_", "-") for each in fields(Settings)} - {"risks"}
