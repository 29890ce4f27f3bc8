"""Every row of spec.md sections 2 to 8, and 10, that binds us has a test that names it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TESTS = Path(__file__).resolve().parents[1]
SPEC = TESTS.parents[1] / "shared" / "spec.md"

ROWS = {
    "SS": 13, "HE": 5, "REG": 23, "LEAF": 8, "RC": 20, "TSt": 5, "KEY": 10, "API": 16,
    "TL": 8, "CP": 2, "SN": 3, "CS": 2, "W": 4, "M": 3, "P": 1, "PO": 1, "AD": 1,
}  # fmt: skip
ALL = tuple(f"{prefix}-{number}" for prefix, last in ROWS.items() for number in range(1, last + 1))
# Rows whose level is no more than fact, MAY, SHOULD or recommended. A test for them is welcome, not owed.
OPTIONAL = frozenset({
    "SS-11", "SS-12", "REG-11", "REG-19", "RC-6", "RC-7", "RC-12", "RC-14", "RC-17", "TSt-2", "TSt-3",
    "KEY-7", "KEY-8", "KEY-9", "API-12", "API-13", "API-14", "API-16",
})  # fmt: skip
REQUIRED = tuple(row for row in ALL if row not in OPTIONAL)


def functions_in(source: str) -> Iterator[tuple[str, str]]:
    """Name and docstring of each test in *source*."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def named_rows(sources: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for source in sources:
        for name, docstring in functions_in(source):
            found.update(row for row in ALL if _names(row, name, docstring))
    return found


def _names(row: str, name: str, docstring: str) -> bool:
    prefix, number = row.split("-")
    in_name = re.search(rf"(?:^|_){prefix}_?{number}(?:_|$)", name, re.IGNORECASE)
    return bool(in_name or re.search(rf"(?<![\w-]){row}(?!\d)", docstring))


def sources() -> Iterator[str]:
    return (path.read_text() for path in sorted(TESTS.rglob("*.py")) if path != Path(__file__).resolve())


def test_every_row_that_binds_us_is_named_by_a_test() -> None:
    named = named_rows(sources())
    missing = [row for row in REQUIRED if row not in named]
    welcome = [row for row in ALL if row in OPTIONAL and row not in named]

    assert not missing, f"no test names {' '.join(missing)} (welcome too: {' '.join(welcome) or 'none'})"


def test_a_row_counts_only_in_a_test_s_name_or_docstring() -> None:
    assert named_rows(['def test_a():\n    """RC-18: the size is signed."""']) == {"RC-18"}
    assert named_rows(["async def test_reg_12_empties_the_header(): ..."]) == {"REG-12"}
    assert named_rows(['class TestX:\n    def test_a(self):\n        """SS-2, SS-3."""']) == {"SS-2", "SS-3"}

    assert named_rows(["def test_a():\n    # RC-18\n    ..."]) == set()
    assert named_rows(['def helper():\n    """RC-18"""']) == set()
    assert named_rows(['"""RC-18"""']) == set()
    assert named_rows(["def test_arc_18_degrees(): ..."]) == set()
    assert named_rows(['def test_a():\n    """RC-180, SRC-1."""']) == set()


def test_the_list_of_rows_is_that_of_the_specification() -> None:
    if not SPEC.exists():
        pytest.skip("the specification ../shared/spec.md is not on this machine")
    text = SPEC.read_text()
    # Section 9 is another profile, of which we only verify receipts.
    chapters = (
        text[text.index("\n## 2.") : text.index("\n## 9.")] + text[text.index("\n## 10.") : text.index("\n## 11.")]
    )
    rows = re.findall(r"^\| ([A-Za-z]+-\d+) \|", chapters, re.MULTILINE)

    assert sorted(rows) == sorted(ALL)
