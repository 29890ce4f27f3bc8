"""``transparency verify DIR`` on an evidence bundle, as ``transparency incident`` writes it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from rich.markup import escape

from transparency.cli.output import BAD, DIM, GOOD, note, out, print_json, progress, safe
from transparency.cli.report_options import software
from transparency.cli.verify_many import MARKS, STYLES
from transparency.notes.policy import WitnessPolicy
from transparency.verifier import Options, TrustStore
from transparency.verifier.bundle import BundleReport, BundleVerifier

SHOWN: Final = 50
_LOOKS: Final = {"passed": (GOOD, "✓"), "failed": (BAD, "✗"), "not_checked": (DIM, "·")}
_WORDS: Final = {
    "verified": "It verifies: every file, every statement, and the timeline that the records give.",
    "warnings": "It verifies, with warnings.",
    "failed": "It does not verify.",
    "cannot-tell": "Cannot tell: nothing is shown to be wrong with it, but not all of it could be verified.",
}


def verify_bundle(
    folder: Path, trust: TrustStore, options: Options, policy: WitnessPolicy | None, *, quiet: bool, as_json: bool
) -> int:
    """Verify and print; the exit code."""
    with progress("verifying", quiet=as_json) as bar:
        task = bar.add_task("statements", total=None)
        report = BundleVerifier(
            folder, trust, options, policy, software(),
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        ).verify()  # fmt: skip
    if as_json:
        print_json({"bundle-folder": str(folder), **report.to_json()})
        return report.exit_code
    _print(folder, report, quiet=quiet)
    if not trust.logs:
        note("no log is trusted: the keys in the bundle are only claimed. Give --trust or --log-key")
    elif not trust.issuers and report.verdict == "cannot-tell":
        note("no issuer is trusted: give --issuer-key or --trust, or ask for --receipt-only")
    return report.exit_code


def _print(folder: Path, report: BundleReport, *, quiet: bool) -> None:
    console = out()
    style, mark = STYLES[report.verdict], MARKS[report.verdict]
    console.print(f"[{style}]{mark}[/] [bold]{safe(str(folder))}: {_WORDS[report.verdict]}[/]")
    for look in report.looks:
        if look.outcome == "failed" or not quiet:
            style, mark = _LOOKS[look.outcome]
            console.print(f"  [{style}]{mark}[/] {safe(look.file)}: {safe(look.detail)}")
    shown = 0
    for file, each in report.statements:
        if each.verdict == "verified" or (quiet and each.verdict != "failed"):
            continue
        shown += 1
        if shown <= SHOWN:
            console.print(f"  [{STYLES[each.verdict]}]{MARKS[each.verdict]}[/] {safe(file)}: {escape(each.summary)}")
    if shown > SHOWN:
        console.print(f"  and {shown - SHOWN} more statements")
    counts = Counter(each.verdict for _, each in report.statements)
    if counts:
        said = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
        missing = f"; {report.without_record} without their record" if report.without_record else ""
        console.print(f"[{DIM}]{len(report.statements)} statements: {said}{missing}. {report.events} events[/]")
