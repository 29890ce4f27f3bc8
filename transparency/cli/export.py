"""``transparency log export``: the log as plain files, for a web server or a bucket behind a CDN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from transparency.cli.connection import is_protected, tls_context
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import require_log
from transparency.cli.output import done, note, print_json, progress, warn
from transparency.cli.settings import json_option, log_options, refuse_several
from transparency.errors import MalformedError, StoreError

if TYPE_CHECKING:
    from transparency.log.static_export import Exported
    from transparency.log.static_source import Source
    from transparency.log.static_target import Target

_GOES_ON = "What was written before stays, and the next run goes on from there."


@click.command(
    "export",
    epilog="\b\nExample: transparency log export /srv/www/log --data ./log\n"
    "transparency log export s3://bucket/log --data ./log --statements --artifacts",
)
@click.argument("target", metavar="FOLDER|URL")
@click.option(
    "--data", type=click.Path(path_type=Path), envvar="TRANSPARENCY_DATA", metavar="DIR",
    help="The log's data folder; a server may be running [TRANSPARENCY_DATA].",
)  # fmt: skip
@log_options(required=False)
@click.option("--statements", is_flag=True, help="The statements, too: `audit` and `verify` can then read them there.")
@click.option("--artifacts", is_flag=True, help="The records that are kept beside the log, too.")
@click.option(
    "--receipts", is_flag=True,
    help="Each receipt in a file of its own. Readers need none: they compute receipts from heads and tiles.",
)  # fmt: skip
@click.option(
    "--check", is_flag=True,
    help="Read every file that should be there, too, and write anew what is missing or damaged.",
)  # fmt: skip
@json_option()
def command(
    target: str, data: Path | None, log: str | None, token: str | None, cacert: str | None, statements: bool,
    artifacts: bool, receipts: bool, check: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write a log as plain files: tiles, checkpoint, keys, policy, tree heads; a web server then serves it.

    A run writes what is new, the checkpoint last; run it again and again, and kill it when you like. Whatever a target
    has of statements, receipts and records is kept up to date, and what the log erases is erased there by the next run.
    The target is a folder, or a bucket (s3://…, credentials from the environment). `monitor`, `prove`, `verify --log`
    and `audit --log` read it, as a folder or at the URL that serves it.
    """
    refuse_several("data", "log")
    from transparency.log.static_export import Parts, export
    from transparency.log.static_target import TargetError

    try:
        with _open_source(data, log, token, cacert) as source, progress("exporting", quiet=as_json) as bar:
            task = bar.add_task("entries", total=None)
            place = _open_target(target)
            try:
                result = export(
                    source, place, Parts(statements, receipts, artifacts),
                    progress=lambda count, total: bar.update(task, completed=count, total=total), check=check,
                )  # fmt: skip
            finally:
                place.close()
    except TargetError as error:
        raise CommandError(Exit.CANNOT_WRITE, str(error)) from error
    except StoreError as error:
        raise CommandError(Exit.CANNOT_WRITE, str(error), _GOES_ON) from error
    except OSError as error:
        raise CommandError(Exit.CANNOT_WRITE, f"{error.filename or target}: {error.strerror}", _GOES_ON) from error
    _show(target, result, as_json=as_json)


def _open_target(text: str) -> Target:
    from transparency.log.static_target import open_target

    try:
        return open_target(text)
    except MalformedError as error:
        raise CommandError(Exit.USAGE, f"{text}: {error}") from error


@contextmanager
def _open_source(data: Path | None, log: str | None, token: str | None, cacert: str | None) -> Iterator[Source]:
    from transparency.log.static_source import FolderExport, RemoteExport

    if data is not None:
        require_log(data)
        source: Source = FolderExport(data)
    elif log is not None:
        if token is not None and not is_protected(log):
            warn("the token goes over plain HTTP, readable on the way; use an https:// URL")
        source = RemoteExport(log, token=token, tls=tls_context(cacert))
    else:
        raise CommandError(Exit.USAGE, "nothing to export", "Name the log's folder with --data, or the log with --log.")
    try:
        yield source
    finally:
        source.close()


def _show(target: str, result: Exported, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "target": target, "origin": result.origin, "size": result.size, "before": result.before,
                "files": result.written, "bytes": result.bytes, "erased": result.erased, "mended": result.mended,
                "erasures-awaited": len(result.awaited), "ahead": result.ahead,
            }
        )  # fmt: skip
        return
    if result.ahead:
        done(f"{target}: has {result.before} entries already, this log {result.size}; nothing was written")
        return
    done(f"{target}: {result.origin}, {result.size} entries ({result.size - result.before} new)")
    note(f"{result.written} files written, {result.bytes} bytes")
    if result.mended:
        warn(f"{result.mended} files that should have been there were missing or damaged; they are written anew")
    if result.erased:
        note(
            f"{result.erased} statements and records were erased there, as the log ordered; caches keep theirs a while"
        )
    if result.awaited:
        warn(f"{len(result.awaited)} erasures are ordered and not carried out by the log yet; run this again then")
