"""Each of the 36 checks on small records: the verdict and the evidence for it."""

from __future__ import annotations

import pytest

from tests.compliance.cases import CASES
from tests.compliance.records_under_check import Case, assert_case


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_check_says_what_the_record_shows(case: Case) -> None:
    assert_case(case)


def test_no_case_stands_here_twice() -> None:
    names = [str(case) for case in CASES]

    assert len(names) == len(set(names))
