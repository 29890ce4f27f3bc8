"""Golden reports: where our fixtures stand, requirement by requirement and clause by clause; a file for each format.

python -m tests.compliance.golden_reports      # writes them anew, to be looked at with git diff
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.compliance.golden_findings import NOW, SIGNING, SOURCES, read
from transparency.cli.report_records import check_notes
from transparency.compliance.framework import load_frameworks, select
from transparency.compliance.record_checks import check_record
from transparency.compliance.report import Examination, Report, ReportBuilder
from transparency.compliance.subject import subjects

GOLDEN = Path(__file__).parent / "golden" / "reports"


def report(name: str) -> Report:
    builder = ReportBuilder("records", NOW, "golden", check_notes(), select(load_frameworks()))
    for subject in subjects(read(SOURCES[name]), SIGNING, retention=("audit", 3 * 365 * 86_400), now=NOW):
        builder.add(Examination(name, name, subject.format, check_record(subject), outcome="verified"))
    return builder.build()


def summary(made: Report) -> dict[str, Any]:
    """Small enough to be read in a diff: only what is not *evidence present* says why."""
    return {
        "requirements": {
            f"REQ-{number}": f"{rolled.status}; {rolled.why}".rstrip("; ") for number, rolled in made.requirements
        },
        "clauses": {
            result.framework.id: {clause.id: str(rolled.status) for clause, rolled in result.clauses}
            for result in made.frameworks
        },
        "attestations-needed": [each.subject for each in made.needed],
    }


def text(name: str) -> str:
    return json.dumps(summary(report(name)), indent=1, ensure_ascii=True) + "\n"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name in SOURCES:
        (GOLDEN / f"{name}.json").write_text(text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
