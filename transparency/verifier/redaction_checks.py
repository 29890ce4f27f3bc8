"""What was taken out of the record before it was signed (-70103), and originals that their owner has disclosed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from transparency.cose import labels
from transparency.errors import MalformedError
from transparency.records import format as formats
from transparency.records.detect import UnknownFormatError, detect
from transparency.records.disclosure import PSEUDONYM, Redaction, read_header, strings_at
from transparency.verifier.record_checks import CONTRADICTION
from transparency.verifier.report import Check, Claim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transparency.records.disclosure import Disclosure
    from transparency.verifier.statement_checks import Subject

_AROUND: Final = 60
_NOTHING: Final = "the statement declares no redaction, so there is nothing to disclose"


class Redactions(NamedTuple):
    """The checks, and the originals that may be shown."""

    checks: list[Check]
    claims: tuple[Claim, ...] = ()


def check_redactions(subject: Subject, disclosures: Sequence[Disclosure]) -> Redactions:
    """That every mark stands where the signed header says, and that what is disclosed is what was committed to."""
    if labels.REDACTIONS not in subject.message.headers:
        return Redactions([_disclosed(one, "failed", _NOTHING) for one in disclosures])
    try:
        declared = read_header(subject.message.headers[labels.REDACTIONS])
    except MalformedError as error:
        return Redactions([Check("redactions", "failed", str(error))])
    texts, check = _check_marks(subject, declared)
    checks, claims = [check], []
    for one in disclosures:
        redaction = declared[one.number - 1] if one.number <= len(declared) else None
        if redaction is None:
            checks.append(_disclosed(one, "failed", f"the statement declares {len(declared)} redactions only"))
        elif not one.matches(redaction):
            detail = "salt and original are not what the statement commits to at this place"
            checks.append(_disclosed(one, "failed", detail))
        else:
            where = f"{redaction.rule} at {redaction.location}"
            checks.append(_disclosed(one, "passed", where))
            claims += _claims(one, redaction, texts)
    return Redactions(checks, tuple(claims))


def _disclosed(one: Disclosure, outcome: str, detail: str) -> Check:
    return Check(f"disclosure/{one.number}", "passed" if outcome == "passed" else "failed", detail)


def _check_marks(subject: Subject, declared: Sequence[Redaction]) -> tuple[Mapping[tuple[int, str], str], Check]:
    counts = Counter(redaction.rule for redaction in declared)
    detail = ", ".join(f"{count} {rule}" for rule, count in sorted(counts.items()))
    if subject.record is None:
        return {}, Check("redactions", "not_checked", f"declared: {detail}; the record is not at hand")
    marks = [redaction for redaction in declared if redaction.rule != PSEUDONYM]
    try:
        by_line = detect(subject.record).format.content_type == formats.JSONL
        texts = strings_at(subject.record, [redaction.location for redaction in marks], by_line=by_line)
    except UnknownFormatError:
        return {}, Check("redactions", "not_checked", f"declared: {detail}; the record is in no format read here")
    except MalformedError as error:
        return {}, Check("redactions", "failed", f"{CONTRADICTION}: the record is not strict JSON ({error})")
    for redaction in marks:
        text = texts.get((redaction.location.line, redaction.location.pointer), "")
        if not text.startswith(redaction.mark, redaction.location.start):
            where = f"redaction {redaction.number} is declared at {redaction.location} and is not there"
            return texts, Check("redactions", "failed", f"{CONTRADICTION}: {where}")
    return texts, Check("redactions", "passed", detail, dict(counts))


def _claims(one: Disclosure, redaction: Redaction, texts: Mapping[tuple[int, str], str]) -> list[Claim]:
    basis = f"disclosed; the statement commits to it as redaction {one.number} ({redaction.rule})"
    claims = [Claim(f"disclosed-{one.number}", one.original, basis)]
    location = redaction.location
    text = texts.get((location.line, location.pointer))
    if text is not None and text.startswith(redaction.mark, location.start):
        end = location.start + len(redaction.mark)
        before, after = text[max(0, location.start - _AROUND) : location.start], text[end : end + _AROUND]
        place = f"{before}{one.original}{after}"
        claims.append(Claim(f"disclosed-{one.number}-in-place", place, f"line {location.line}, {location.pointer}"))
    return claims
