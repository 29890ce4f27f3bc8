"""R2: when things happened, in which order, and how soon that was registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from transparency.compliance.record_check import Outcome, Place, failed, not_applicable, passed, record_check, warned
from transparency.compliance.survey import Survey
from transparency.display import iso_utc
from transparency.records.timestamps import instant

_HOUR: Final = 3_600_000
# Below this a number of milliseconds would be before March 1973 (formats.md 2.4).
_SECONDS: Final = 10**11
_1970: Final = 1970
_YEAR: Final = 31_556_952_000


@record_check("R2.1", "Every entry has a time", "timestamp of each entry, and of the entry it stands in")
def timed(survey: Survey) -> Outcome:
    total = len(survey.rows)
    own = sum(row.time is not None for row in survey.rows)
    untimed = [row for row in survey.rows if row.effective is None]
    effective = total - len(untimed)
    counts = {"entries": total, "own": own, "effective": effective}
    summary = f"{effective} of {total} entries have a time ({own} one of their own)"
    if not untimed:
        return passed(summary, counts)
    enough = effective * 100 >= total * survey.settings.timed_percent
    return (warned if enough else failed)(summary, counts, untimed)


@record_check(
    "R2.2",
    "Times are RFC 3339 with an offset, and can be true",
    "timestamp of each entry, session-start, session-end, created; the time of registration",
)
def well_formed(survey: Survey) -> Outcome:
    latest = _latest(survey)
    earliest = (survey.settings.earliest_year - _1970) * _YEAR
    numbers: list[Place] = []
    seconds: list[Place] = []
    wrong: list[Place] = []
    future: list[Place] = []
    past: list[Place] = []
    seen = 0
    for place, value, moment in _stamps(survey):
        seen += 1
        if moment is None:
            wrong.append(place)
            continue
        if not isinstance(value, str):
            numbers.append(place)
        if not isinstance(value, str) and moment < _SECONDS:
            seconds.append(place)
        elif moment < earliest:
            past.append(place)
        elif latest is not None and moment > latest:
            future.append(place)
    if not seen:
        return not_applicable("nothing in the record has a time")
    counts = {
        "times": seen, "wrong": len(wrong), "numbers": len(numbers), "seconds": len(seconds), "future": len(future),
        "past": len(past),
    }  # fmt: skip
    if wrong or future or past:
        parts = ((wrong, "no time"), (future, "in the future"), (past, f"before {survey.settings.earliest_year}"))
        summary = "of {} times {}".format(seen, ", ".join(f"{len(found)} are {what}" for found, what in parts if found))
        return failed(summary, counts, [*wrong, *future, *past])
    if numbers:
        probably = f", {len(seconds)} of them probably seconds" if seconds else ""
        return warned(f"{len(numbers)} of {seen} times are numbers{probably}", counts, [*seconds, *numbers])
    return passed(f"{seen} times, all RFC 3339 with an offset", counts)


def _latest(survey: Survey) -> int | None:
    """What is later than this is in the future: of the registration, else of now."""
    registered = None if survey.signing is None else survey.signing.registered
    known = survey.subject.now if registered is None else registered
    return None if known is None else known + survey.settings.clock_skew_seconds * 1000


def _stamps(survey: Survey) -> Iterator[tuple[Place, object, int | None]]:
    """Each time of the record: its place, as it is written, and the instant that it names."""
    for name in ("session-start", "session-end"):
        if name in survey.session:
            yield f"/session/{name}", survey.session[name], instant(survey.session[name])
    if "created" in survey.record and not survey.is_native:
        yield "/created", survey.record["created"], instant(survey.record["created"])
    for row in survey.rows:
        if "timestamp" in row.entry:
            yield (row.path, "timestamp"), row.entry["timestamp"], row.time


@record_check("R2.3", "Times do not go back from entry to entry", "the times of the entries in their order")
def ordered(survey: Survey) -> Outcome:
    back: list[Place] = []
    gaps: list[Place] = []
    # Of each list of entries: what is nested happened within, not after.
    latest: dict[int, int] = {}
    steps = 0
    pause = survey.settings.gap_hours * _HOUR
    longest = 0
    for row in survey.rows:
        if row.time is None:
            continue
        siblings = id(row.path[0]) if row.path else 0
        before = latest.get(siblings)
        if before is not None:
            steps += 1
            if row.time < before:
                back.append(row)
            elif row.time - before > pause:
                gaps.append(row)
            longest = max(longest, row.time - before)
        latest[siblings] = row.time
    if not steps:
        return not_applicable("no two entries in a row have times of their own")
    counts = {"steps": steps, "inversions": len(back), "gaps": len(gaps), "longest-gap-minutes": longest // 60_000}
    noted = f"; {len(gaps)} pauses of more than {survey.settings.gap_hours} h" if gaps else ""
    if not back:
        return passed(f"{steps} steps in time, none back{noted}", counts, gaps)
    much = len(back) * 100 > steps * survey.settings.inverted_percent
    return (failed if much else warned)(f"{len(back)} of {steps} steps go back in time{noted}", counts, [*back, *gaps])


@record_check(
    "R2.4",
    "Entries lie between the session's start and end",
    "session-start, session-end, created (of a record that was signed as VAC), the times of the entries",
)
def within(survey: Survey) -> Outcome:
    start, end = instant(survey.session.get("session-start")), instant(survey.session.get("session-end"))
    if start is None and end is None:
        return not_applicable("the record says neither when the session began nor when it ended")
    skew = survey.settings.clock_skew_seconds * 1000
    early = [row for row in survey.rows if row.time is not None and start is not None and row.time < start]
    late = [row for row in survey.rows if row.time is not None and end is not None and row.time > end]
    counts = {"before-start": len(early), "after-end": len(late)}
    if start is not None and end is not None and end < start:
        return failed("the session ends before it begins", counts, ["/session/session-start", "/session/session-end"])
    if early or late:
        summary = f"{len(early)} entries are before the session's start, {len(late)} after its end"
        grave = any(start is not None and (row.time or 0) < start - skew for row in early) or any(
            end is not None and (row.time or 0) > end + skew for row in late
        )
        return (failed if grave else warned)(summary, counts, [*early, *late])
    created = None if survey.is_native else instant(survey.record.get("created"))
    if created is not None and end is not None and created < end - skew:
        return warned("the record was created before the session that it holds ended", counts, ["/created"])
    return passed("all times lie within the session's", counts)


@record_check(
    "R2.5",
    "The header's times are the record's, and it was registered soon",
    "trace-metadata times, session-end, the time of registration",
    content=False,
)
def prompt(survey: Survey) -> Outcome:  # noqa: PLR0911 - a list of decisions, the gravest first
    signing = survey.signing
    if signing is None:
        return not_applicable("nobody signed or registered it")
    stated = [each for each in signing.metadata if each[0].rpartition("/")[2] in ("timestamp-start", "timestamp-end")]
    contradicted = [each for each in stated if each[1] == "failed"]
    counts: dict[str, int | str] = {"compared": len(stated), "contradicted": len(contradicted)}
    if contradicted:
        return failed(f"{len(contradicted)} times in the header contradict the record", counts)
    end = survey.edge_times[1]
    if signing.registered is None or end is None:
        if stated:
            return passed(f"{len(stated)} times in the header are the record's", counts)
        return not_applicable("no time in the header, and no time of registration or of the session's end")
    lag = signing.registered - end
    counts |= {"lag-minutes": lag // 60_000, "registered": iso_utc(signing.registered // 1000)}
    if lag < -survey.settings.clock_skew_seconds * 1000:
        return warned(f"registered {-lag // 60_000} minutes before the session ended: a clock is wrong", counts)
    if lag > survey.settings.lag_hours * _HOUR:
        return warned(f"registered {lag // _HOUR} hours after the session ended", counts)
    return passed(f"registered {max(0, lag) // 60_000} minutes after the session ended", counts)


CHECKS: Final = (timed, well_formed, ordered, within, prompt)
