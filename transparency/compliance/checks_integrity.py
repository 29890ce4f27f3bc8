"""R6 and R7: how long the record is kept, and what makes a change of it visible."""

from __future__ import annotations

from typing import Final

from transparency.compliance.record_check import (
    Outcome,
    attest,
    failed,
    not_applicable,
    passed,
    record_check,
    warned,
)
from transparency.compliance.survey import Survey
from transparency.display import iso_utc, safe_text
from transparency.records.timestamps import instant
from transparency.records.vac import TRACE_FORMAT

_DAY: Final = 86_400
# A month as retention counts it: twelve of them are 365 days and not a day more.
_MONTH: Final = 365 * _DAY // 12
# What the frameworks ask for, in months: EU AI Act 6, PCI DSS and the draft 12, M-21-31 12 + 18.
_MONTHS: Final = (6, 12, 30)


@record_check(
    "R6.1",
    "The record is kept long enough",
    "the policy's retention class for it; the time of registration, else created, else session-end",
    content=False,
)
def retained(survey: Survey) -> Outcome:
    since = _since(survey)
    if since is None:
        return not_applicable("no time to count from")
    counts: dict[str, int | str] = {"from": iso_utc(since)}
    counts |= {f"{months}-months": iso_utc(since + months * _MONTH) for months in _MONTHS}
    if survey.subject.retention is None:
        return attest("no retention class is known: whoever keeps the record must state for how long", counts)
    name, seconds = survey.subject.retention
    until = since + seconds
    counts |= {"class": safe_text(name, 80), "days": seconds // _DAY, "until": iso_utc(until)}
    months = seconds // _MONTH
    if months < survey.settings.least_retention_months:
        return failed(f"kept {months} months: less than {survey.settings.least_retention_months}", counts)
    if months < survey.settings.retention_months:
        return warned(f"kept {months} months: less than {survey.settings.retention_months}", counts)
    if survey.subject.now is not None and survey.subject.now // 1000 > until:
        return warned(f"its time ended on {iso_utc(until)}, and it is still here", counts)
    return passed(f"kept {months} months, until {iso_utc(until)}", counts)


def _since(survey: Survey) -> int | None:
    """In seconds: what a log vouches for first, then what the record says."""
    registered = None if survey.signing is None else survey.signing.registered
    created = None if survey.is_native else instant(survey.record.get("created"))
    found = next((time for time in (registered, created, survey.edge_times[1]) if time is not None), None)
    return None if found is None else found // 1000


@record_check(
    "R7.1",
    "The signature is valid, by an allowed algorithm, and its headers are complete",
    "the COSE signature, alg, the protected header",
    content=False,
)
def signed(survey: Survey) -> Outcome:
    signing = survey.signing
    if signing is None:
        return not_applicable("nobody signed it")
    state = {True: "valid", False: "not valid", None: "not looked"}[signing.signature]
    counts: dict[str, int | str] = {
        "signature": state,
        "alg": safe_text(signing.alg or "-", 40),
        "missing": len(signing.headers),
    }
    if signing.signature is False:
        return failed("the signature is not valid", counts)
    if signing.alg is None or signing.alg not in survey.settings.algorithms:
        return failed(f"signed by {counts['alg']}, which is not allowed", counts)
    if signing.headers:
        shown = ", ".join(safe_text(name, 40) for name in signing.headers[:5])
        return failed(f"the protected header misses {shown}", counts)
    if signing.signature is None:
        return warned("nobody verified the signature", counts)
    return passed(f"the signature is valid ({counts['alg']}), the protected header complete", counts)


@record_check(
    "R7.2",
    "What the headers say of the record is true",
    "content-hash and the other members of trace-metadata, compared with the record",
    content=False,
)
def described(survey: Survey) -> Outcome:  # noqa: PLR0911 - a list of decisions, the gravest first
    signing = survey.signing
    if signing is None:
        return not_applicable("nobody signed it")
    wrong = sorted({safe_text(each[0], 60) for each in signing.metadata if each[1] == "failed"})
    odd = sorted({safe_text(each[0], 60) for each in signing.metadata if each[1] == "warned"})
    counts: dict[str, int | str] = {
        "content-hash": signing.content_hash or "not looked", "compared": len(signing.metadata),
        "contradicted": len(wrong), "odd": len(odd),
    }  # fmt: skip
    if signing.content_hash == "differs":
        return failed("the content-hash in the header is not that of the record", counts)
    if wrong:
        return failed(f"the header contradicts the record: {', '.join(wrong[:5])}", counts)
    if signing.content_hash is None:
        return not_applicable("nobody compared the headers with the record")
    if signing.content_hash == "absent":
        return warned("the header has no content-hash", counts)
    if odd:
        return warned(f"the header does not quite fit the record: {', '.join(odd[:5])}", counts)
    return passed(f"the content-hash is the record's, and {len(signing.metadata)} members agree with it", counts)


@record_check(
    "R7.3",
    "The statement stands in a log that is trusted and watched",
    "receipts, their inclusion proofs, the log's key, cosignatures of witnesses",
    content=False,
)
def included(survey: Survey) -> Outcome:  # noqa: PLR0911 - a list of decisions, the gravest first
    signing = survey.signing
    if signing is None:
        return not_applicable("nobody signed it")
    seen, asked = signing.witnesses or (0, 0)
    counts: dict[str, int | str] = {
        "receipts": signing.receipts, "inclusion": _answer(signing.inclusion),
        "log-trusted": _answer(signing.log_trusted),
        "witnesses": "not looked" if signing.witnesses is None else f"{seen} of {asked}",
    }  # fmt: skip
    if not signing.receipts:
        return failed("there is no receipt: nothing shows that it stands in a log", counts)
    if signing.inclusion is False:
        return failed("no inclusion proof leads to the log's root", counts)
    if signing.log_trusted is False:
        return failed("the log's key is not one that is trusted", counts)
    if signing.inclusion is None or signing.log_trusted is None:
        return warned("nobody verified the receipt", counts)
    if signing.witnesses is None:
        return warned("included; nobody looked for cosignatures of witnesses", counts)
    if seen < min(asked, survey.settings.least_witnesses):
        return warned(f"included; cosigned by {seen} of {asked} witnesses", counts)
    return passed(f"included in a trusted log, cosigned by {seen} of {asked} witnesses", counts)


def _answer(value: bool | None) -> str:  # noqa: FBT001 - what was looked at, or not
    return {True: "yes", False: "no", None: "not looked"}[value]


@record_check(
    "R7.4",
    "The signed bytes are what their format says",
    "the record's exact bytes, read strictly: no key twice, all of a profile",
    content=False,
)
def strict(survey: Survey) -> Outcome:
    violations = survey.subject.violations
    wrong = [each for each in violations if each.level == "violation"]
    counts: dict[str, int | str] = {
        "violations": len(wrong), "warnings": len(violations) - len(wrong),
        "format": safe_text(survey.subject.format or TRACE_FORMAT, 60),
    }  # fmt: skip
    places = [each.pointer for each in (*wrong, *(each for each in violations if each.level != "violation"))]
    if wrong:
        shown = safe_text(wrong[0].message, 120)
        return failed(f"{len(wrong)} violations of {counts['format']}; the first: {shown}", counts, places)
    if survey.missing:
        return not_applicable(survey.missing)
    if violations:
        shown = safe_text(violations[0].message, 120)
        return warned(f"{len(violations)} oddities; the first: {shown}", counts, places)
    return passed(f"as {counts['format']} asks", counts)


CHECKS: Final = (retained, signed, described, included, strict)
