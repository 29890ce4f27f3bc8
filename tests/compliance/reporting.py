"""Reports to look at: made by hand, so that every verdict and status is in them."""

from __future__ import annotations

from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.framework import CHECK_IDS, load_frameworks, select
from transparency.compliance.report import Attested, CheckNote, Examination, Report, ReportBuilder

NOW = 1_790_000_000_000
DAY = 86_400_000
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\" ' & \x1b[31mred\u202egnp.exe\u2066\u200b]]> --> </style>"
)
_LOG_REQUIREMENTS = (1, 2, 3, 6, 7, 7, 7, 8, 9, 10, 11, 7, 9)


def check_notes(*, log: bool) -> tuple[CheckNote, ...]:
    notes = []
    for check in CHECK_IDS:
        if check.startswith("R"):
            notes.append(CheckNote(check, int(check[1:].partition(".")[0]), f"title of {check}", "what it looks at"))
        elif log:
            notes.append(CheckNote(check, _LOG_REQUIREMENTS[int(check[1:]) - 1], f"title of {check}", "the log"))
    return tuple(notes)


def made(check: str, verdict: Verdict, words: str = "") -> Finding:
    said = words or f"{check} counted 3 of 14"
    short = verdict in (Verdict.FAIL, Verdict.WARN)
    places = ("A" * 43,) if check.startswith("L") else ("/session/entries/3", "")
    return Finding(check, verdict, said, {"entries": 14}, places if short else (), 4 if short else 0)


def examination(number: int, worst: Verdict, words: str = "", name: str = "") -> Examination:
    """A session whose checks pass but for three of the verdict *worst*."""
    bad = {f"R{number % 9 + 1}.1", "R2.2", "R11.2"}
    findings = tuple(
        made(check, worst if check in bad else Verdict.PASS, words if check in bad else "")
        for check in CHECK_IDS
        if check.startswith("R")
    )
    return Examination(
        name or f"session-{number}.t.cose", words or f"7d1f3a5{number}", "claude-jsonl", findings,
        file=f"session-{number}.t.cose", entry=f"{number:064x}", index=number, registered=NOW - number * DAY,
        iss="https://acme.example", outcome="verified", statement=words or "Verified: a statement is registered.",
    )  # fmt: skip


def example_report(*, log: bool = True, words: str = "", count: int = 40) -> Report:
    builder = ReportBuilder(
        "log" if log else "records", NOW, "agent-transparency test", check_notes(log=log),
        select(load_frameworks(), ["eu-ai-act/biometric", "fedramp", "pci-dss", "cra"]),
        scope=[("log", words or "log.example"), ("entries", str(count))],
        trust=[("logs trusted", words or "log.example")],
        method=[words or "Everything was replayed."], limits=[words or "Whether all sessions were recorded."],
        link="https://log.example" if log else None,
    )  # fmt: skip
    verdicts = (Verdict.PASS, Verdict.PASS, Verdict.PASS, Verdict.WARN, Verdict.PASS, Verdict.FAIL, Verdict.ATTEST)
    for number in range(count):
        record = examination(number, verdicts[number % 7], words if number % 5 == 0 else "")
        builder.add(record, day=f"2026-{number % 3 + 7:02d}-{number * 7 % 28 + 1:02d}")
    if log:
        shown = (Verdict.PASS, Verdict.WARN, Verdict.PASS, Verdict.FAIL, Verdict.ATTEST, Verdict.PASS)
        builder.add_log([made(f"L{number}", shown[number % 6], words) for number in range(1, 14)])
    builder.attested.append(Attested("clock-sync", ("R2.2",), words or "https://acme.example", NOW + DAY))
    if words:
        builder.unreadable.append((words, words))
    return builder.build()
