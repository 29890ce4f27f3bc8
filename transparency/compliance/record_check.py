"""A record check: a small named object that looks at a survey and says what it found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from transparency.compliance.finding import MAX_POINTERS, NO_COUNTS, NOT_READ, Finding, Verdict
from transparency.compliance.survey import Row, Survey
from transparency.compliance.wording import inflected
from transparency.records.vac_pointer import Path, pointer

Place = Row | Path | str


class Outcome(NamedTuple):
    """What a check found, before it has the name of the check."""

    verdict: Verdict
    summary: str
    counts: Mapping[str, int | str] = NO_COUNTS
    places: Collection[Place] = ()


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """``looks_at`` names the members that it reads; ``run`` never raises, whatever the record holds."""

    id: str
    requirement: int
    title: str
    looks_at: str
    run: Callable[[Survey], Finding]


Judge = Callable[[Survey], Outcome]


def record_check(
    identity: str, title: str, looks_at: str, *, content: bool = True, entries: bool = True, conversation: bool = False
) -> Callable[[Judge], RecordCheck]:
    """Make a check of a function.

    *content*: it needs the record; *entries*: it needs entries in it; *conversation*: it needs more than an attribution
    of lines, whose entries are ranges.
    """

    def wrap(judge: Judge) -> RecordCheck:
        def run(survey: Survey) -> Finding:
            if content and survey.missing:
                return Finding(identity, Verdict.NOT_APPLICABLE, survey.missing, NOT_READ)
            reason = ""
            if content and entries and not survey.rows and not survey.strays:
                reason = "the session has no entries"
            if not reason and conversation and survey.is_synthetic:
                reason = "an attribution of lines: there is no conversation in it"
            if reason:
                return Finding(identity, Verdict.NOT_APPLICABLE, reason)
            return finding(identity, judge(survey))

        return RecordCheck(identity, int(identity[1:].partition(".")[0]), title, looks_at, run)

    return wrap


def finding(identity: str, outcome: Outcome) -> Finding:
    if not outcome.places:
        return Finding(identity, outcome.verdict, inflected(outcome.summary), outcome.counts)
    places = list(outcome.places)
    shown = tuple(_pointer(place) for place in places[:MAX_POINTERS])
    more = len(places) - len(shown)
    return Finding(identity, outcome.verdict, inflected(outcome.summary), outcome.counts, shown, more)


def _pointer(place: Place) -> str:
    if isinstance(place, str):
        return place
    return place.pointer if isinstance(place, Row) else pointer(place)


def passed(summary: str, counts: Mapping[str, int | str], places: Collection[Place] = ()) -> Outcome:
    return Outcome(Verdict.PASS, summary, counts, places)


def warned(summary: str, counts: Mapping[str, int | str], places: Collection[Place] = ()) -> Outcome:
    return Outcome(Verdict.WARN, summary, counts, places)


def failed(summary: str, counts: Mapping[str, int | str], places: Collection[Place] = ()) -> Outcome:
    return Outcome(Verdict.FAIL, summary, counts, places)


def attest(summary: str, counts: Mapping[str, int | str], places: Collection[Place] = ()) -> Outcome:
    return Outcome(Verdict.ATTEST, summary, counts, places)


def not_applicable(summary: str) -> Outcome:
    return Outcome(Verdict.NOT_APPLICABLE, summary)


def by_share(wrong: int, total: int, tolerated_percent: int) -> Verdict:
    """None wrong passes; up to the tolerated share is a warning; more fails."""
    if not wrong:
        return Verdict.PASS
    return Verdict.WARN if wrong * 100 <= total * tolerated_percent else Verdict.FAIL
