"""The lists of a report's page: findings, attestations, records. All bounded; what is left out is counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.framework import REQUIREMENTS
from transparency.compliance.html_elements import Element, el, join
from transparency.compliance.html_marks import verdict_mark
from transparency.compliance.report import Attested, Examination, Example, Report
from transparency.compliance.rollup import ATTESTED, UNREAD, UNSIGNED
from transparency.display import iso_utc

SHOWN_POINTERS: Final = 5
SHOWN_EXAMPLES: Final = 5
SHOWN_CLAUSES: Final = 6
SHOWN_UNREADABLE: Final = 20
SHOWN_STATED: Final = 100
# An entry's id: a SHA-256 in base64url. No JSON pointer looks like it: they begin with a slash, or are empty.
_ENTRY: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def facts(lines: Sequence[tuple[str, str]]) -> Element:
    return el("dl", *(join(el("dt", what), el("dd", value)) for what, value in lines), class_="facts")


def unreadable(report: Report) -> Element:
    if not report.unreadable:
        return join()
    items = [el("li", el("code", name), f": {why}") for name, why in report.unreadable[:SHOWN_UNREADABLE]]
    left = len(report.unreadable) - len(items)
    more = [el("li", f"and {left} more")] if left else []
    return join(
        el("p", el("strong", "Problems of the log:" if report.about == "log" else "Could not be examined:")),
        el("ul", *items, *more),
    )


def findings(report: Report) -> Element:
    """Each check that did not pass everywhere, with places to look at."""
    log = {finding.check: finding for finding in report.log}
    shown: list[Element] = []
    for check in report.checks:
        examples = report.examples.get(check.id, ())
        finding = log.get(check.id)
        if not examples and finding is None:
            continue
        counts = report.tallies.get(check.id, {})
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _COUNTED if counts.get(verdict))
        items = [] if finding is None else [_finding(finding, report)]
        items += [_alike(alike, report) for alike in _groups(examples)[:SHOWN_EXAMPLES]]
        kept = sum(len(alike) for alike in _groups(examples)[:SHOWN_EXAMPLES])
        not_passed = sum(counts.get(verdict, 0) for verdict in (Verdict.FAIL, Verdict.WARN)) if finding is None else 0
        more = [el("li", f"and {not_passed - kept} more", class_="soft")] if not_passed > kept else []
        shown += [
            el("h3", f"{check.id} · {check.title}", id=f"c-{check.id}"),
            el(
                "p",
                f"REQ-{check.requirement} {REQUIREMENTS[check.requirement]}. Looks at {check.looks_at}.",
                class_="note",
            ),
            el("p", said),
            el("ul", *items, *more, class_="plain"),
        ]
    return join(*shown) if shown else el("p", "No check warned or failed.")


_COUNTED: Final = (*(str(verdict) for verdict in Verdict), ATTESTED, UNSIGNED, UNREAD)


def _finding(finding: Finding, report: Report) -> Element:
    return el("li", verdict_mark(finding.verdict), " ", finding.summary, _pointers(finding, report))


def _groups(examples: Sequence[Example]) -> list[list[Example]]:
    """Examples that say the same of several records, together."""
    groups: dict[tuple[str, str], list[Example]] = {}
    for example in examples:
        groups.setdefault((example.finding.verdict, example.finding.summary), []).append(example)
    return list(groups.values())


def _alike(examples: Sequence[Example], report: Report) -> Element:
    first = examples[0].finding
    places = [el("div", _entry(each.record, each.entry, report), _pointers(each.finding, report)) for each in examples]
    left = len(places) - SHOWN_EXAMPLES
    more = [el("div", f"and {left} more", class_="note")] if left > 0 else []
    return el("li", verdict_mark(first.verdict), " ", first.summary, *places[:SHOWN_EXAMPLES], *more)


def _pointers(finding: Finding, report: Report) -> Element:
    """Where: JSON pointers into the record, the empty one being the whole; of a log check, entries."""
    if not finding.pointers:
        return join()
    shown = [pointer or "(whole record)" for pointer in finding.pointers[:SHOWN_POINTERS]]
    left = len(finding.pointers) - len(shown) + finding.more
    parts = [join(_entry(pointer, pointer if _ENTRY.fullmatch(pointer) else None, report), " ") for pointer in shown]
    return el("span", " ", *parts, *((f"and {left} more",) if left else ()), class_="note")


def _entry(name: str, entry: str | None, report: Report) -> Element:
    """The record's name; a link to its statement where the log's address is known and is one of the web."""
    address = entry_address(report, entry)
    return el("code", name) if address is None else _link(el("code", name), f"{address}/statement")


def _link(shown: str, address: str) -> Element:
    return el("a", shown, href=address, rel="noreferrer noopener")


def entry_address(report: Report, entry: str | None) -> str | None:
    if entry is None or report.link is None or not report.link.startswith(("https://", "http://")):
        return None
    return f"{report.link.rstrip('/')}/entries/{quote(entry, safe='')}"


def attestations(report: Report) -> Element:
    """What was stated, by whom and until when; and what nobody has stated."""
    needed = [
        el(
            "tr",
            el("td", each.subject, class_="id"),
            el("td", str(each.records) if each.records else "-"),
            el("td", _some(each.clauses)),
        )
        for each in report.needed
    ]
    parts: list[Element] = []
    if report.attested:
        parts += [el("h3", "In force"), _stated(report.attested)]
    if report.lapsed:
        parts += [el("h3", "Expired"), el("p", "These fill nothing any more."), _stated(report.lapsed)]
    parts.append(el("h3", "Needed"))
    if needed:
        parts.append(el("p", "No data can show these. An operator states them, signed (transparency attest)."))
        parts.append(_rows(("Check or subject", "Records", "Asked for by"), needed))
    else:
        parts.append(el("p", "None."))
    return join(*parts)


def _stated(attested: Sequence[Attested]) -> Element:
    rows = [
        el(
            "tr",
            el("td", each.subject, class_="id"),
            el("td", ", ".join(each.checks) or "-"),
            el("td", each.scope or "all"),
            el("td", each.statement or "-"),
            el("td", each.by),
            el("td", "no end" if each.expires is None else iso_utc(each.expires // 1000)),
        )
        for each in attested[:SHOWN_STATED]
    ]
    left = len(attested) - len(rows)
    more = [el("p", f"and {left} more", class_="note")] if left else []
    return join(_rows(("Subject", "Checks", "Of", "Statement", "Stated by", "Until"), rows), *more)


def _some(names: Sequence[str]) -> str:
    left = len(names) - SHOWN_CLAUSES
    said = ", ".join(names[:SHOWN_CLAUSES])
    return f"{said} and {left} more" if left > 0 else said or "-"


def records(report: Report) -> Element:
    if not report.records:
        return el("p", "None.")
    left = report.total - len(report.records)
    note = f"{left} further sessions are counted above and not listed." if left else "All sessions that were examined."
    return join(el("p", note), *(_record(number, record, report) for number, record in enumerate(report.records, 1)))


def _record(number: int, record: Examination, report: Report) -> Element:
    lines = [
        ("session", record.session or "-"),
        ("format", record.format or "not known"),
        ("statement", record.statement or record.outcome),
    ]
    if record.availability != "read":
        lines.append(("record", f"not available: {record.availability}"))
    if record.entry is not None:
        lines.append(("entry", record.entry if record.index is None else f"{record.entry} (index {record.index})"))
    if record.registered is not None:
        lines.append(("registered", iso_utc(record.registered // 1000)))
    address = entry_address(report, record.entry)
    place = [] if address is None else [_proofs(address)]
    return join(el("h3", record.name, id=f"r-{number}"), facts(lines), *place, _strip(record.findings))


def _proofs(address: str) -> Element:
    """The statement with its receipt, which `transparency verify` takes, and the path to a cosigned checkpoint."""
    ways = (("statement with receipt", "/statement"), ("proof to a checkpoint", "/proof"))
    parts = [join(_link(what, address + way), ", " if number == 0 else " ") for number, (what, way) in enumerate(ways)]
    return el("p", "On the log: ", *parts, el("span", address, class_="on-paper"))


def _strip(found: Sequence[Finding]) -> Element:
    """All verdicts of one record in a line each requirement can be found in."""
    groups: dict[str, list[Element]] = {}
    for finding in found:
        groups.setdefault(finding.check.partition(".")[0], []).append(verdict_mark(finding.verdict, finding.check))
    return el("p", *(join(mark, " ") for marks in groups.values() for mark in marks), class_="strip")


def _rows(titles: Sequence[str], rows: Sequence[Element]) -> Element:
    head = el("thead", el("tr", *(el("th", title, scope="col") for title in titles)))
    return el("table", head, el("tbody", *rows))
