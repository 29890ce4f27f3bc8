"""The roll-up, rule by rule, as docs/report.md states it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.compliance.finding import NOT_READ, Finding, Verdict
from transparency.compliance.framework import Clause
from transparency.compliance.rollup import MONTH_SECONDS, Status, Tallies, roll_up, roll_up_clause

PASS, WARN, FAIL, ATTEST, NONE = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ATTEST, Verdict.NOT_APPLICABLE


def tallies(**verdicts: tuple[Verdict, ...]) -> Tallies:
    return Tallies(
        Finding(check.replace("_", "."), verdict, "said") for check, given in verdicts.items() for verdict in given
    )


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ((PASS,), Status.PRESENT),
        ((PASS, NONE), Status.PRESENT),
        ((WARN,), Status.PARTIAL),
        ((PASS, WARN), Status.PARTIAL),
        ((PASS, FAIL), Status.PARTIAL),
        ((WARN, FAIL), Status.PARTIAL),
        ((FAIL,), Status.MISSING),
        ((FAIL, ATTEST), Status.MISSING),
        ((FAIL, NONE), Status.MISSING),
        ((ATTEST,), Status.ATTEST),
        ((PASS, ATTEST), Status.ATTEST),
        ((NONE,), Status.NOT_APPLICABLE),
    ],
)
def test_a_check_over_several_records(verdicts: tuple[Verdict, ...], status: Status) -> None:
    tally = tallies(R1_1=verdicts).get("R1.1")

    assert tally is not None
    assert tally.status is status


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (PASS, PASS, Status.PRESENT),
        (PASS, NONE, Status.PRESENT),
        (NONE, NONE, Status.NOT_APPLICABLE),
        (PASS, WARN, Status.PARTIAL),
        (PASS, FAIL, Status.PARTIAL),
        (WARN, FAIL, Status.PARTIAL),
        (FAIL, FAIL, Status.MISSING),
        (FAIL, NONE, Status.MISSING),
        (FAIL, ATTEST, Status.MISSING),
        (PASS, ATTEST, Status.ATTEST),
        (ATTEST, NONE, Status.ATTEST),
        (WARN, ATTEST, Status.PARTIAL),
    ],
)
def test_a_clause_over_two_checks(first: Verdict, second: Verdict, status: Status) -> None:
    found = tallies(R1_1=(first,), R2_1=(second,))

    assert roll_up(["R1.1", "R2.1"], found).status is status
    assert roll_up(["R2.1", "R1.1"], found).status is status


def test_what_was_not_looked_at_is_never_present() -> None:
    rolled = roll_up(["R1.1", "L4"], tallies(R1_1=(PASS,)))

    assert rolled.status is Status.PARTIAL
    assert rolled.not_run == ("L4",)
    assert rolled.why == "not looked at here: L4"
    assert roll_up(["L4"], tallies(R1_1=(PASS,))).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("beside", "status"),
    [
        ((), Status.MISSING),
        ((FAIL,), Status.MISSING),
        ((PASS,) * 17, Status.PARTIAL),
        ((ATTEST,), Status.PARTIAL),
        ((NONE,), Status.PARTIAL),
    ],
)
def test_a_record_that_could_not_be_read_keeps_a_check_from_being_present(
    beside: tuple[Verdict, ...], status: Status
) -> None:
    """Else whoever registers most sessions by hash alone would keep all their evidence."""
    found = tallies(R1_1=beside)
    found.add([Finding("R1.1", NONE, "the record is not available", NOT_READ)])
    rolled = roll_up(["R1.1"], found)

    assert rolled.status is status
    assert rolled.unread == ("R1.1",)
    assert "could not be judged of records that were not read: R1.1" in rolled.why


def test_a_subject_that_somebody_must_state_keeps_a_clause_open_until_it_is_stated() -> None:
    clause = Clause("8", "Clocks", "Clocks are right.", ("R2.2",), verified=False, attest=("clock-sync",))
    found = tallies(R2_2=(PASS,))

    assert roll_up_clause(clause, found).status is Status.ATTEST
    assert roll_up_clause(clause, found, attested={"clock-sync"}).status is Status.PRESENT


def test_a_clause_that_only_a_person_can_speak_for_asks_that_person() -> None:
    clause = Clause("b", "Database", "Which one.", (), verified=False, attest=("reference-database",))

    assert roll_up_clause(clause, Tallies()).status is Status.ATTEST
    assert roll_up_clause(clause, Tallies(), attested={"reference-database"}).status is Status.PRESENT


def test_an_attestation_fills_only_the_checks_it_names() -> None:
    found = Tallies()
    found.add([Finding("R3.2", ATTEST, "who?"), Finding("R2.2", ATTEST, "when?")], attested={"R3.2"})

    assert roll_up(["R3.2"], found).status is Status.PRESENT
    assert roll_up(["R2.2"], found).status is Status.ATTEST


def test_an_attestation_does_not_turn_a_failure_into_anything_else() -> None:
    found = Tallies()
    found.add([Finding("R3.2", FAIL, "wrong")], attested={"R3.2"})

    assert roll_up(["R3.2"], found).status is Status.MISSING


def test_a_record_that_nobody_signed_misses_the_evidence_of_a_signature() -> None:
    unsigned, hash_only = Tallies(), Tallies()
    findings = [Finding("R7.1", NONE, "nobody signed it"), Finding("R9.4", NONE, "no tokens")]
    unsigned.add(findings, signed=False)
    hash_only.add(findings)

    assert roll_up(["R7.1"], unsigned).status is Status.MISSING
    assert roll_up(["R9.4"], unsigned).status is Status.NOT_APPLICABLE
    assert roll_up(["R7.1"], hash_only).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(("months", "status"), [(6, Status.PRESENT), (12, Status.PRESENT), (13, Status.PARTIAL)])
def test_records_that_are_kept_for_less_than_a_clause_names_leave_it_partial(months: int, status: Status) -> None:
    clause = Clause("11", "Kept", "Kept.", ("R6.1",), verified=False, retention_months=months)

    rolled = roll_up_clause(clause, tallies(R6_1=(PASS,)), kept_seconds=12 * MONTH_SECONDS)

    assert rolled.status is status
    assert ("less than" in rolled.why) is (status is Status.PARTIAL)


@given(st.dictionaries(st.sampled_from(["R1.1", "R2.1", "R3.2", "L4"]), st.lists(st.sampled_from(Verdict), max_size=4)))
def test_present_means_that_every_check_ran_and_nothing_was_short(given_verdicts: dict[str, list[Verdict]]) -> None:
    found = Tallies(Finding(check, verdict, "") for check, all_of in given_verdicts.items() for verdict in all_of)
    checks = ["R1.1", "R2.1", "R3.2", "L4"]

    rolled = roll_up(checks, found)

    seen = {verdict for all_of in given_verdicts.values() for verdict in all_of}
    everything_ran = all(given_verdicts.get(check) for check in checks)
    assert (rolled.status is Status.PRESENT) == (everything_ran and PASS in seen and seen <= {PASS, NONE})
    if FAIL not in seen:
        assert rolled.status is not Status.MISSING
