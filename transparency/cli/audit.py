"""``transparency audit``: replay every registration decision of a log, from a copy of its folder or over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from transparency.cli.connection import connect
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import require_log
from transparency.cli.output import BAD, GOOD, UNSURE, note, out, print_json, progress, safe
from transparency.cli.settings import json_option, log_options, refuse_several
from transparency.errors import LogUnusableError, StoreError

if TYPE_CHECKING:
    from transparency.log.audit import AuditReport, AuditSource

_MARKS = {
    Exit.OK: (GOOD, "✓"), Exit.NEGATIVE: (BAD, "✗"), Exit.CANNOT_TELL: (UNSURE, "?"), Exit.WARNINGS: (UNSURE, "!"),
}  # fmt: skip
_THUMBPRINT = re.compile(r"[0-9a-f]{64}")


@click.command(
    epilog="\b\nExample: transparency audit --data ./copy-of-the-log --policy-key 5f1c…\n"
    "transparency audit --log https://log.example --policy-key 5f1c…"
)
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="DIR",
    help="A data folder or a copy of one; its keys and configuration are not needed.",
)  # fmt: skip
@log_options(required=False)
@click.option(
    "--policy-key", required=True, metavar="THUMBPRINT",
    help="The policy key's thumbprint as `transparency init` printed it and its operator published it.",
)  # fmt: skip
@json_option()
def command(
    data: Path | None, log: str | None, token: str | None, cacert: str | None, policy_key: str, as_json: bool
) -> None:
    """Judge every entry of a log again, by the policy of its place and moment, and name what cannot be reproduced.

    Only the policy key's thumbprint is trusted. Exit 0: every decision was reproduced; 1: findings; 2: nothing is
    wrong, but not everything could be told; 3: as 0, but entries were erased and cannot be replayed any more.
    """
    refuse_several("data", "log")
    pinned = read_thumbprint(policy_key)
    from transparency.log.audit import audit  # late, as in connection.py: it takes the store with it

    with open_source(data, log, token, cacert) as source, progress("auditing", quiet=as_json) as bar:
        task = bar.add_task("entries", total=None)
        try:
            report = audit(
                source, pinned,
                progress=lambda count, total: bar.update(task, completed=count, total=total),
            )  # fmt: skip
        except StoreError as error:
            raise CommandError(
                Exit.CANNOT_TELL, str(error), "`transparency log fsck` looks at the database."
            ) from error
    verdict = _verdict(report)
    if as_json:
        print_json(_view(report, verdict))
    else:
        _show(report, verdict)
    if verdict is not Exit.OK:
        raise click.exceptions.Exit(verdict)


def read_thumbprint(policy_key: str) -> bytes:
    """What ``--policy-key`` pins."""
    if not _THUMBPRINT.fullmatch(policy_key):
        raise CommandError(
            Exit.USAGE, "--policy-key is not 64 lower-case hexadecimal digits",
            "It is the line that `transparency init` printed; ask the log's operator where it was published.",
        )  # fmt: skip
    return bytes.fromhex(policy_key)


@contextmanager
def open_source(data: Path | None, log: str | None, token: str | None, cacert: str | None) -> Iterator[AuditSource]:
    """What is to be read. A folder that is named is meant, whatever log the settings name."""
    from transparency.log.audit_sources import FolderSource, RemoteSource

    if data is not None:
        require_log(data, "A log's folder holds config.toml.")
        try:
            folder = FolderSource(data)
        except LogUnusableError as error:
            raise CommandError(Exit.CANNOT_TELL, str(error)) from error
        with folder:
            yield folder
    elif log is not None:
        with connect(log, token=token, cacert=cacert) as client:
            yield RemoteSource(client.export)
    else:
        raise CommandError(Exit.USAGE, "nothing to audit", "Name a folder with --data, or a log with --log.")


def _verdict(report: AuditReport) -> Exit:
    from transparency.log.audit import Outcome

    if not report.clean:
        return Exit.NEGATIVE
    if not report.certain:
        return Exit.CANNOT_TELL
    return Exit.WARNINGS if report.entries[Outcome.ERASED] or report.holds_untold else Exit.OK


def _view(report: AuditReport, verdict: Exit) -> dict[str, object]:
    words = {Exit.OK: "reproduced", Exit.NEGATIVE: "findings", Exit.WARNINGS: "reproduced-but-erased"}
    return {
        "verdict": words.get(verdict, "cannot-tell"), "origin": report.origin or None, "size": report.size,
        "heads": report.heads, "policy-generations": report.generations, "key-sets": report.key_sets,
        "manifests": report.manifests, "unproven": report.unproven,
        "holds-untold": report.holds_untold,
        "entries": {str(outcome): count for outcome, count in sorted(report.entries.items()) if count},
        "findings-made": report.findings_made,
        "findings": [
            {"index": found.index, "entry": found.entry, "what": found.what} if found.entry or found.index >= 0
            else {"what": found.what}
            for found in report.findings
        ],
    }  # fmt: skip


def _show(report: AuditReport, verdict: Exit) -> None:
    from transparency.log.audit import Outcome

    console = out()
    for found in report.findings:
        where = f"entry {found.index} {found.entry}".rstrip() + ": " if found.index >= 0 else ""
        console.print(f"[{BAD}]✗[/] {where}{safe(found.what)}")
    if report.findings_made > len(report.findings):
        console.print(f"[{BAD}]✗[/] and {report.findings_made - len(report.findings)} more")
    counts = report.entries
    named = safe(report.origin) or "an unknown log"
    about = (
        f"{named}: {counts[Outcome.REPRODUCED]} of {report.size} decisions reproduced "
        f"({report.heads} heads, {report.generations} policies, {report.key_sets} key sets, "
        f"{report.manifests} manifests)"
    )
    console.print(f"[{_MARKS[verdict][0]}]{_MARKS[verdict][1]}[/] {about}")
    if counts[Outcome.ERASED]:
        note(f"{counts[Outcome.ERASED]} entries were erased by a registered order; they cannot be replayed any more")
    if report.holds_untold:
        note(
            f"{report.holds_untold} erasures were ordered while a hold by issuer or session stood, and whether it kept "
            "them cannot be told any more"
        )
    if report.unproven:
        note(
            f"{report.unproven} entries were judged with certificates that no manifest covers; "
            "`transparency log manifest` covers them"
        )
    note("whether this is the newest state of the log, only its mark or a witness can tell")
