"""Reports are data: figures over all records, lists that are bounded, and nothing that is not said."""

from __future__ import annotations

import json

import pytest

from tests.compliance.golden_findings import SOURCES
from tests.compliance.golden_reports import GOLDEN, report, text
from tests.compliance.reporting import HOSTILE, check_notes, examination, example_report
from transparency.cli.report_log import log_check_notes
from transparency.cli.report_records import check_notes as record_check_notes
from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.framework import CHECK_IDS
from transparency.compliance.report import KIND, MAX_EXAMPLES, MAX_RECORDS, NOT_AVAILABLE, Examination, ReportBuilder
from transparency.compliance.rollup import Status


def builder() -> ReportBuilder:
    return ReportBuilder("records", 0, "test", check_notes(log=False), ())


def test_the_checks_that_frameworks_name_are_the_checks_that_there_are() -> None:
    assert tuple(check.id for check in (*record_check_notes(), *log_check_notes())) == CHECK_IDS


@pytest.mark.parametrize("name", SOURCES)
def test_the_report_about_a_fixture_is_the_golden_one(name: str) -> None:
    """`python -m tests.compliance.golden_reports` writes them anew."""
    assert text(name) == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")


def test_no_record_alone_is_evidence_of_what_only_a_log_can_show() -> None:
    for name in SOURCES:
        for result in report(name).frameworks:
            for clause, rolled in result.clauses:
                if any(check.startswith("L") for check in clause.checks):
                    assert rolled.status is not Status.PRESENT, (name, result.framework.id, clause.id)


def test_figures_are_over_all_records_and_lists_are_not() -> None:
    many = builder()
    for number in range(MAX_RECORDS + 30):
        many.add(examination(number, Verdict.PASS if number < MAX_RECORDS else Verdict.FAIL))

    made = many.build()

    assert made.total == MAX_RECORDS + 30
    assert sum(made.tallies["R2.2"].values()) == MAX_RECORDS + 30
    assert len(made.records) == MAX_RECORDS
    assert [record.verdict for record in made.records].count(Verdict.FAIL) == 30
    assert made.to_json()["records-left-out"] == 30
    assert len(made.examples["R2.2"]) == MAX_EXAMPLES


def test_the_json_has_no_key_that_another_report_lacks() -> None:
    log, records = example_report().to_json(), example_report(log=False).to_json()

    assert log["kind"] == records["kind"] == KIND
    assert log.keys() == records.keys()
    assert json.loads(json.dumps(example_report(words=HOSTILE).to_json()))["scope"]["log"] == HOSTILE


def test_a_record_that_cannot_be_read_is_counted_as_not_available() -> None:
    made = builder()
    made.add(Examination("x", "", "", (), availability="hash-only"), day="2026-01-31")

    report_ = made.build()

    assert report_.days == (("2026-01-31", {NOT_AVAILABLE: 1}),)
    assert report_.availability == {"hash-only": 1}


def test_an_erased_statement_leaves_no_check_of_records_present() -> None:
    made = builder()
    made.add(examination(1, Verdict.PASS))
    before = dict(made.build().requirements)
    made.add(Examination("entry 7", "", "", (), availability="erased"))
    after = dict(made.build().requirements)

    assert before[5].status is Status.PRESENT
    assert after[5].status is Status.PARTIAL


def test_an_attestation_hides_no_place_where_a_check_failed() -> None:
    """It fills what no data can show, and nothing else: what was found wrong stays wrong, and in sight."""
    made = builder()
    made.add(
        Examination("x", "", "", (Finding("R9.3", Verdict.FAIL, "a card number"),), outcome="verified"),
        attested=("R9.3",),
    )

    report_ = made.build()

    assert report_.tallies["R9.3"] == {"fail": 1}
    assert [each.record for each in report_.examples["R9.3"]] == ["x"]


def test_what_is_needed_names_the_clauses_that_ask_for_it() -> None:
    needed = {each.subject: each for each in example_report().needed}

    assert "clock-sync" not in needed  # it was attested
    assert "FedRAMP / NIST SP 800-53 AU-12" in needed["completeness"].clauses
    assert needed["R2.2"].records == 5


def test_the_word_that_nobody_may_say_is_in_no_report() -> None:
    assert "compliant" not in json.dumps(example_report().to_json()).lower()
