"""The report: a verdict that follows from the checks, and the same report as JSON and as text."""

from __future__ import annotations

import json

import pytest

from tests.verifier.world import Log, statement, trust
from transparency.verifier import Check, Outcome, Report, render_text, verify
from transparency.verifier.report import TITLES

REQUIRED = frozenset({"form", "registered"})


@pytest.mark.parametrize(
    ("registered", "other", "verdict", "code"),
    [
        ("passed", "passed", "verified", 0),
        ("passed", "failed", "failed", 1),
        ("not_checked", "failed", "failed", 1),
        ("not_checked", "passed", "cannot-tell", 2),
        ("not_checked", "warned", "cannot-tell", 2),
        ("warned", "passed", "cannot-tell", 2),
        ("passed", "warned", "warnings", 3),
        ("passed", "not_checked", "verified", 0),
    ],
)
def test_the_verdict_follows_from_the_checks(registered: Outcome, other: Outcome, verdict: str, code: int) -> None:
    report = Report((Check("form", "passed"), Check("registered", registered), Check("subject", other)), REQUIRED)

    assert (report.verdict, report.exit_code) == (verdict, code)


def test_a_required_check_that_was_never_made_leaves_the_question_open() -> None:
    assert Report((Check("form", "passed"),), REQUIRED).verdict == "cannot-tell"
    assert Report((), REQUIRED).verdict == "cannot-tell"


def test_an_essential_check_that_was_not_made_leaves_the_question_open() -> None:
    open_question = Check("trace-metadata/content-hash", "not_checked", "unknown", essential=True)

    report = Report((Check("form", "passed"), Check("registered", "passed"), open_question), REQUIRED)

    assert report.verdict == "cannot-tell"
    assert report.summary == "Cannot tell: unknown."


def test_the_keys_of_the_json_form_are_stable() -> None:
    report = verify(Log().register(statement()), trust()).to_json()

    assert list(report) == ["verdict", "exit-code", "summary", "checks", "claims", "not-checked"]
    assert list(report["checks"][0]) == [
        "id", "title", "outcome", "detail", "evidence", "receipt", "essential", "advisory",
    ]  # fmt: skip
    assert list(report["claims"][0]) == ["name", "value", "basis"]
    assert json.loads(json.dumps(report)) == report


def test_the_text_has_the_sentence_first_and_what_was_not_checked_last() -> None:
    report = verify(Log().register(statement()), trust())

    lines = render_text(report).splitlines()

    assert lines[0] == report.summary
    assert lines[-1].startswith("  · trace-metadata")
    assert sum(line.startswith("  ✓") for line in lines) == 15


def test_a_failure_is_the_sentence_and_shows_nothing_unproven() -> None:
    text = render_text(verify(Log().register(statement()), trust(origin="elsewhere")))

    assert text.startswith("Not verified: the receipt's sub is not the one its key is trusted for.")
    assert "issuer.example" not in text


def test_every_check_has_a_question_in_words() -> None:
    for name in TITLES:
        assert Check(name, "passed").title
    assert Check("trace-metadata/session-id", "passed").title.endswith("session-id")
