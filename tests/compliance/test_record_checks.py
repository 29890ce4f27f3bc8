"""The registry of record checks, and what holds for all of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from tests.compliance.cases import CASES
from tests.compliance.records_under_check import FAIL, NOT_APPLICABLE, PASS, Case, good
from transparency.compliance.finding import MAX_POINTERS, Finding, Verdict, worst
from transparency.compliance.record_checks import RECORD_CHECKS, check_record
from transparency.compliance.subject import RecordSubject, Signing, subjects
from transparency.records.violation import Violation

# Checks whose rule has no failure (formats.md 10.3): what they can say at worst.
NEVER_FAIL = {
    "R1.3": "warn", "R3.2": "attest", "R4.3": "warn", "R5.4": "warn", "R8.2": "warn", "R9.1": "warn", "R9.2": "warn",
    "R9.4": "warn", "R10.1": "warn", "R11.1": "fail",
}  # fmt: skip
SIGNING_CHECKS = {"R2.5", "R3.4", "R6.1", "R7.1", "R7.2", "R7.3", "R7.4"}


def test_there_are_36_checks_in_the_order_of_their_requirements() -> None:
    ids = [check.id for check in RECORD_CHECKS]

    assert len(ids) == len(set(ids)) == 36
    assert ids == sorted(ids, key=lambda name: tuple(map(int, name[1:].split("."))))
    assert all(check.id.startswith(f"R{check.requirement}.") for check in RECORD_CHECKS)
    assert {check.requirement for check in RECORD_CHECKS} == set(range(1, 12))


def test_a_record_can_pass_every_check() -> None:
    findings = check_record(Case("R1.1", PASS, "as it is").subject())

    assert [(each.check, each.verdict, each.summary) for each in findings if each.verdict is not PASS] == []


def test_every_check_has_a_case_that_passes_one_that_does_not_and_one_that_is_not_applicable() -> None:
    seen = {check.id: {case.verdict for case in CASES if case.check == check.id} for check in RECORD_CHECKS}

    for check, verdicts in seen.items():
        assert {PASS, NOT_APPLICABLE} <= verdicts, check
        assert Verdict(NEVER_FAIL.get(check, "fail")) in verdicts, check


def test_a_record_that_is_not_available_is_judged_by_its_signature_alone() -> None:
    subject = replace(Case("R1.1", PASS, "").subject(), record=None)

    findings = {each.check: each for each in check_record(subject)}

    content = {name for name, each in findings.items() if each.summary == "the record is not available"}
    assert set(findings) - content == SIGNING_CHECKS - {"R7.4"}
    assert all(findings[name].verdict is NOT_APPLICABLE for name in content)
    assert findings["R7.1"].verdict is findings["R7.3"].verdict is findings["R6.1"].verdict is PASS


def test_bytes_that_are_no_record_give_one_subject_that_says_why() -> None:
    (subject,) = subjects(
        b'{"version": "3.0.0-draft", "id": 1, "id": 2, "session": {}}', Signing(iss="https://a.example")
    )

    findings = {each.check: each for each in check_record(subject)}

    assert subject.record is None
    assert findings["R7.4"].verdict is FAIL
    assert findings["R7.4"].counts["violations"] == 1
    assert findings["R1.1"].verdict is NOT_APPLICABLE
    assert findings["R1.1"].summary.startswith("the record cannot be read: ")


def test_evidence_is_bounded_and_says_how_much_is_left_out() -> None:
    record = good()
    record["session"]["entries"] = [{"type": "nothing"} for _ in range(500)]

    for finding in check_record(RecordSubject(record)):
        assert len(finding.pointers) <= MAX_POINTERS
        assert not finding.more or len(finding.pointers) == MAX_POINTERS
    (typed,) = (each for each in check_record(RecordSubject(record)) if each.check == "R4.1")
    assert (len(typed.pointers), typed.more) == (20, 480)


def test_every_pointer_leads_somewhere_in_the_record() -> None:
    for case in CASES:
        subject = case.subject()
        for finding in check_record(subject, case.settings):
            if finding.check == "R7.4":
                continue  # into the signed bytes, which a case does not have
            for pointer in finding.pointers:
                value: object = subject.record
                for token in pointer.split("/")[1:]:
                    name = token.replace("~1", "/").replace("~0", "~")
                    value = value[int(name)] if isinstance(value, list) else value[name]  # type: ignore[index]


def test_a_finding_is_plain_json_with_its_figures() -> None:
    for finding in check_record(Case("R1.1", PASS, "").subject()):
        again = json.loads(json.dumps(finding.to_json()))
        assert list(again) == ["check", "verdict", "summary", "counts", "pointers", "more"]
        assert all(isinstance(value, int | str) for value in again["counts"].values())


def test_text_of_a_stranger_is_shown_only_made_safe_and_cut() -> None:
    evil = "\x1b[31m\u202e" + "x" * 10_000
    record = good()
    record["recording-agent"]["name"] = evil
    record["session"]["agent-meta"] = {
        "model-id": evil,
        "model-provider": evil,
        "cli-name": evil,
        "models": [evil, "b"],
    }
    record["vcs"] = {"type": evil, "revision": evil}
    signing = Signing(iss=evil, alg=evil, headers=(evil,), metadata=((evil, "failed", evil),))
    subject = RecordSubject(record, evil, (Violation("violation", "", evil),), signing, (evil, 10))

    for finding in check_record(subject):
        shown = json.dumps(finding.to_json(), ensure_ascii=False)
        assert len(finding.summary) < 400
        assert not re.search("[\x1b\u202e]", shown), finding


def test_the_worst_of_verdicts_is_what_is_said_of_all() -> None:
    order = [Verdict.FAIL, Verdict.WARN, Verdict.ATTEST, Verdict.PASS, Verdict.NOT_APPLICABLE]

    for place, verdict in enumerate(order):
        assert worst(reversed(order[place:])) is verdict
    assert worst(()) is Verdict.NOT_APPLICABLE


def test_no_finding_says_that_anybody_complies() -> None:
    words = [case.finding().summary for case in CASES]

    assert not [text for text in words if "complian" in text.lower()]
    assert Finding("R1.1", PASS, "").counts == {}
