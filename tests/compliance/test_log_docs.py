"""docs/checks.md says of the log checks what they say of themselves, and its settings are theirs."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict
from pathlib import Path

from transparency.compliance.framework import REQUIREMENTS
from transparency.compliance.inventory import Inventory
from transparency.compliance.log_checks import LOG_CHECKS
from transparency.compliance.log_settings import LogSettings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "checks.md").read_text(encoding="utf-8")


def test_every_log_check_has_its_row() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| L[0-9]+ \|", line)]

    assert [check.id for check in LOG_CHECKS] == [f"L{number}" for number in range(1, 14)]
    assert len(rows) == len(LOG_CHECKS)
    for check, row in zip(LOG_CHECKS, rows, strict=True):
        assert row.startswith(f"| {check.id} | {check.title} | {check.looks_at} |")
        assert row.endswith(f"| {check.bound} |")
        assert check.requirement in REQUIREMENTS


def test_the_settings_on_the_page_are_the_defaults_all_of_them() -> None:
    (block,) = re.findall(r"```toml\n(\[log\]\n.*?)```", PAGE, re.DOTALL)

    assert LogSettings.from_toml(block.encode()) == LogSettings()
    assert set(tomllib.loads(block)["log"]) == {name.replace("_", "-") for name in asdict(LogSettings())}


def test_the_inventory_on_the_page_can_be_read() -> None:
    (block,) = re.findall(r"```toml\n(\[\[expect\]\]\n.*?)```", PAGE, re.DOTALL)

    assert len(Inventory.from_toml(block.encode()).expected) == 1
