"""What the checks say of our fixtures, one file for each format: a change of it is looked at, and then committed."""

from __future__ import annotations

import json

import pytest

from tests.compliance.golden_findings import GOLDEN, SOURCES, findings, read
from transparency.records.detect import detect
from transparency.records.format import FORMATS


@pytest.mark.parametrize("name", SOURCES)
def test_the_findings_of_a_fixture_are_as_they_were(name: str) -> None:
    """Written anew by ``python -m tests.compliance.golden_findings``."""
    assert findings(name) == json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def test_every_format_has_a_golden_report() -> None:
    seen = {detect(read(name)).format.trace_format for name in SOURCES.values()}

    # VAC is one name in JSON and CBOR.
    assert seen == {format_.trace_format for format_ in FORMATS}


def test_no_golden_report_is_of_a_fixture_that_is_gone() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(SOURCES)
