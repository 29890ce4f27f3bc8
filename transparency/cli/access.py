"""``transparency log access``: who read or changed what, and whether anything was taken out of that record."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import click

from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.folders import require_log
from transparency.cli.output import BAD, GOOD, note, out, print_json, safe, warn
from transparency.cli.settings import data_option, json_option
from transparency.errors import MalformedError
from transparency.log.access_check import check_access
from transparency.log.access_digests import digests_in
from transparency.log.access_lines import Use, read_line
from transparency.log.access_log import lines_of, segments
from transparency.log.folder import Config, Folder
from transparency.records.timestamps import rfc3339


@click.command("access", epilog="\b\nExample: transparency log access --data ./log --verify")
@data_option(keys=False)
@click.option("--verify", is_flag=True, help="Check every line, and all of them against the digests on the log.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Show the last N lines only.")
@json_option()
def command(data: Path, verify: bool, last: int | None, as_json: bool) -> None:
    """List who read or changed what; with --verify, check that nothing was taken out. Exit 0 when clean, 1 when not.

    Reads only; works beside a running server. With --json each line of the list is an object of its own.
    """
    if verify and last is not None:
        raise CommandError(Exit.USAGE, "--verify looks at every line: leave --last away")
    folder = require_log(data)
    with storage(folder.access_log):
        if verify:
            _verify(folder, as_json)
        else:
            _list(folder, last, as_json)


def _list(folder: Folder, last: int | None, as_json: bool) -> None:
    uses: Iterator[Use] = _uses(folder)
    console = out()
    for use in uses if last is None else deque(uses, maxlen=last):
        if as_json:
            click.echo(use.to_body())
        else:
            time = rfc3339(use.time)
            console.print(f"{use.number:>8}  {time}  {use.status}  {use.action:<16}  {safe(use.who)}  {safe(use.what)}")
    if not segments(folder.access_log):
        note("nobody has used the log yet")


def _uses(folder: Folder) -> Iterator[Use]:
    for number in segments(folder.access_log):
        for data in lines_of(folder.access_log, number):
            try:
                line = read_line(data.removesuffix(b"\n"))[0]
            except MalformedError:
                warn(f"segment {number} has a line that cannot be read: transparency log access --verify tells which")
                continue
            if isinstance(line, Use):
                yield line


def _verify(folder: Folder, as_json: bool) -> None:
    # The digests first: what is registered meanwhile speaks of lines that were written before.
    digests = digests_in(folder)
    report = check_access(folder.access_log, Config.read(folder.config).origin, digests)
    clean = not report.findings
    if as_json:
        print_json(
            {"clean": clean, "lines": report.lines, "segments": report.segments, "digests": report.digests,
             "covered": report.covered, "unfinished": report.unfinished, "findings": report.findings}
        )  # fmt: skip
    else:
        console = out()
        for finding in report.findings:
            console.print(f"[{BAD}]✗[/] {safe(finding)}")
        if clean:
            counts = f"{report.lines} lines, of which {report.covered} are registered by {report.digests} digests"
            console.print(f"[{GOOD}]✓[/] nothing is missing or changed: {counts}")
        if report.unfinished:
            note("the last line is being written, or was cut off by power loss; the next use removes it")
    if not clean:
        raise click.exceptions.Exit(Exit.NEGATIVE)
