"""The report as one page: self-contained, without script, for a screen and for A4 paper.

A content security policy allows one thing, the style sheet in the page (by its hash): whatever a record smuggled in
could load and run nothing. Links lead to places in the page, and to the log's own address where one is known.
"""

from __future__ import annotations

import base64
import hashlib

from transparency.compliance.framework import REQUIREMENTS
from transparency.compliance.html_charts import bar, legend, over_time, patterns
from transparency.compliance.html_elements import Element, el, join, text
from transparency.compliance.html_lists import attestations, facts, findings, records, unreadable
from transparency.compliance.html_marks import chip, state
from transparency.compliance.html_style import STYLE
from transparency.compliance.report import FrameworkResult, Report
from transparency.compliance.rollup import Status
from transparency.display import iso_utc

_NOT_A_VERDICT = (
    "This page lists evidence. It is no legal opinion and no certificate: whether a law or standard is met is for "
    "people to judge, who know more than a record can tell."
)


def html(report: Report) -> str:
    """The whole page."""
    about = "log" if report.about == "log" else "records"
    sections = [
        _section("summary", "Summary", _summary(report)),
        _section("frameworks", "Laws and standards", _frameworks(report)),
        _section("findings", "Findings", findings(report)),
        _section("attestations", "Attestations", attestations(report)),
        _section("records", "Records", records(report)),
        _section("trust", "What was verified, and with which keys", facts(report.trust)),
        _section("method", "Method, and what this cannot tell", _method(report)),
    ]
    title = f"Evidence report: {about}, {iso_utc(report.time // 1000)}"
    return document(title, patterns(), _header(report), el("main", *sections), _footer(report))


def document(title: str, *body: Element) -> str:
    """A page of these elements that may load and run nothing."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="referrer", content="no-referrer"),
        el("meta", name="viewport", content="width=device-width,initial-scale=1"),
        el("title", title),
        el("style", Element(STYLE)),
    )
    return f"<!DOCTYPE html>\n{el('html', head, el('body', *body), lang='en')}\n"


def _header(report: Report) -> Element:
    places = (
        ("summary", "Summary"),
        ("frameworks", "Laws and standards"),
        ("findings", "Findings"),
        ("attestations", "Attestations"),
        ("records", "Records"),
        ("trust", "Keys"),
        ("method", "Method and limits"),
    )
    what = "a log" if report.about == "log" else "agent records"
    return el(
        "header",
        el("p", "Evidence report", class_="kind"),
        el("h1", f"What {what} can show, and what not"),
        el("p", f"{iso_utc(report.time // 1000)} · {report.software}", class_="soft"),
        facts(report.scope),
        el("p", _NOT_A_VERDICT, class_="honest"),
        el("nav", el("ol", *(el("li", el("a", title, href=f"#{place}")) for place, title in places))),
    )


def _section(name: str, title: str, *content: Element) -> Element:
    return el("section", el("h2", title, id=name), *content)


def _summary(report: Report) -> Element:
    counts = [rolled.status for _, rolled in report.requirements]
    figures = [
        ("sessions examined", report.total),
        *((f"requirements: {status}", counts.count(status)) for status in Status if counts.count(status)),
    ]
    rows = [
        el(
            "tr",
            el("td", f"REQ-{number}", class_="id"),
            el("td", REQUIREMENTS[number]),
            el("td", state(rolled.status), class_="state"),
            el("td", bar(_requirement_counts(report, number))),
            el("td", el("span", rolled.why, class_="note")),
        )
        for number, rolled in report.requirements
    ]
    chart = over_time(report.days)
    return join(
        el("dl", *(el("div", el("dt", what), el("dd", str(count))) for what, count in figures), class_="figures"),
        unreadable(report),
        legend(),
        _table(("", "Requirement", "Evidence", "Verdicts of all checks", "Where it is short"), rows),
        *(() if chart is None else (el("h3", "Over time"), chart)),
    )


def _requirement_counts(report: Report, number: int) -> dict[str, int]:
    total: dict[str, int] = {}
    for check in report.checks:
        if check.requirement == number:
            for verdict, count in report.tallies.get(check.id, {}).items():
                total[verdict] = total.get(verdict, 0) + count
    return total


def _frameworks(report: Report) -> Element:
    if not report.frameworks:
        return el("p", "No framework was asked for.")
    intro = el(
        "p",
        "Each clause in our own words, with the checks that bear on it. ",
        el("span", "unverified", class_="tag"),
        " marks a clause whose own text nobody compared with this wording.",
    )
    return join(_overview(report), intro, *(_framework(report, result) for result in report.frameworks))


def _overview(report: Report) -> Element:
    """One line a framework: how many of its clauses stand where."""
    rows = []
    for result in report.frameworks:
        statuses = [rolled.status for _, rolled in result.clauses]
        unverified = sum(not clause.verified for clause, _ in result.clauses)
        cells = [el("td", str(statuses.count(status) or "·"), class_="count") for status in Status]
        name = el("a", result.framework.title, href=f"#f-{result.framework.id}")
        read = el("td", f"{unverified} of {len(statuses)}" if unverified else "none", class_="count")
        rows.append(el("tr", el("td", name), *cells, read))
    return _table(("Clauses of", *(str(status) for status in Status), "wording unverified"), rows, class_="overview")


def _framework(report: Report, result: FrameworkResult) -> Element:
    framework = result.framework
    rows = [
        el(
            "tr",
            el("td", clause.id, *(() if clause.verified else (el("br"), _unverified())), class_="id"),
            el(
                "td",
                el("p", el("strong", clause.title)),
                el("p", clause.text),
                *_notes(clause.note, clause.read, clause.retention_months),
            ),
            el("td", state(rolled.status), el("p", rolled.why, class_="note"), class_="evidence"),
            el("td", *(chip(check, rolled.checks.get(check), report) for check in clause.checks), class_="checks"),
        )
        for clause, rolled in result.clauses
    ]
    profiles = [el("p", f"Profile: {profile.title}. {profile.text}") for profile in framework.profiles]
    return join(
        el("h3", framework.title, id=f"f-{framework.id}"),
        el("p", f"{framework.document}, {framework.version}; {framework.articles}", class_="soft"),
        *profiles,
        *(() if framework.note is None else (el("p", framework.note, class_="note"),)),
        _table(("Clause", "In our words", "Evidence", "Checks"), rows, class_="wide"),
    )


def _unverified() -> Element:
    return el("span", "unverified", class_="tag")


def _notes(note: str | None, read: str | None, months: int | None) -> list[Element]:
    lines = []
    if months is not None:
        lines.append(f"Least time of keeping: {months} months.")
    if note is not None:
        lines.append(f"Note: {note}")
    if read is not None:
        lines.append(f"Read: {read}.")
    return [el("p", line, class_="note") for line in lines]


def _method(report: Report) -> Element:
    rules = (
        "A check gives pass, warning, fail, not applicable, or attest: what no data can show and somebody must state. "
        "A clause has evidence present when all its checks pass; partial when some warn, fail or were not run here; "
        "missing when checks fail and none passes; else it needs attestation, or nothing of it could be judged."
    )
    return join(
        el("p", rules),
        el("ul", *(el("li", *_prose(line)) for line in report.method)),
        el("h3", "What this cannot tell"),
        el("ul", *(el("li", *_prose(line)) for line in report.limits)),
    )


def _prose(line: str) -> list[str]:
    """A sentence of ours, with what stands between backticks as code."""
    return [el("code", part) if number % 2 else part for number, part in enumerate(line.split("`"))]


def _table(titles: tuple[str, ...], rows: list[Element], class_: str | None = None) -> Element:
    head = el("thead", el("tr", *(el("th", title, scope="col") for title in titles)))
    return el("table", head, el("tbody", *rows), class_=class_)


def _footer(report: Report) -> Element:
    said = (
        "Made by {}. This page loads nothing and runs nothing; keep it beside the JSON report, which has the same data."
    )
    return el("footer", el("p", text(said.format(report.software))))
