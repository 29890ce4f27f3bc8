"""``transparency log status|fsck|reindex|manifest|backup|restore|rotate-key``: looking after a log."""

from __future__ import annotations

import os
from pathlib import Path

import click

from transparency.cli import manifest, reindex
from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.folders import check_names, refuse_existing_log, require_log, rotate_key
from transparency.cli.output import BAD, GOOD, done, note, out, print_json, print_tree, progress, safe, timestamp, warn
from transparency.cli.settings import data_option, json_option
from transparency.cose.algorithms import algorithm
from transparency.log import backup as backups
from transparency.log.admin import open_admin
from transparency.log.fsck import MARK
from transparency.log.fsck import fsck as check_log
from transparency.log.log import system_clock
from transparency.policy import keyset

_WATERMARK = click.option(
    "--watermark", type=click.Path(path_type=Path), metavar="FILE", help="The high-water mark, if it was moved."
)
# The two checkpoint keys are a pair, and the policy key stands in the policy: neither is exchanged alone.
_ROLES = [keyset.RECEIPTS, keyset.OPERATIONS]


@click.group()
def command() -> None:
    """Look after a log: status, fsck, reindex, manifest, backup, restore, rotate-key."""


command.add_command(manifest.command)
command.add_command(reindex.command)


@command.command(epilog="\b\nExample: transparency log status --data ./log")
@data_option()
@json_option()
def status(data: Path, as_json: bool) -> None:
    """Size, root and policy of a log, and what is waiting."""
    require_log(data)
    with open_admin(data, reading=True) as admin:
        answer = dict(admin.call("status"))
    view = {
        "origin": answer["origin"], "iss": answer["iss"], "size": answer["size"], "root": answer["root"].hex(),
        "head-time": timestamp(answer["head_time"]), "policy-generation": answer["generation"],
        "waiting": answer["waiting"], "accepted": answer["accepted"], "sequenced": answer["sequenced"],
        "published": answer["published"],
    }  # fmt: skip
    if as_json:
        print_json(view)
    else:
        print_tree(view, out())


@command.command(epilog="\b\nExample: transparency log fsck --data ./log")
@data_option()
@_WATERMARK
@click.option("--no-mark", is_flag=True, help="For a copy whose mark is not at hand: do not ask for it.")
@json_option()
def fsck(data: Path, watermark: Path | None, no_mark: bool, as_json: bool) -> None:
    """Recompute everything the log claims from what it stores. Exit 0 when clean, 1 when not.

    Reads only; works beside a running server. The high-water mark tells whether the folder is an older copy of its
    log: with --no-mark that is not checked.
    """
    if no_mark and watermark is not None:
        raise CommandError(Exit.USAGE, "--no-mark and --watermark exclude each other")
    require_log(data)
    with progress("checking", quiet=as_json) as bar:
        task = bar.add_task("entries", total=None)
        report = check_log(
            data, watermark=watermark, without_mark=no_mark,
            progress=lambda count, total: bar.update(task, completed=count, total=total),
        )  # fmt: skip
    if as_json:
        findings = [{"where": finding.where, "what": finding.what} for finding in report.findings]
        counts = {"size": report.size, "heads": report.heads, "artifacts": report.artifacts}
        print_json({"clean": report.clean, **counts, "mark-checked": report.mark_checked, "findings": findings})
    else:
        console = out()
        for finding in report.findings:
            console.print(f"[{BAD}]✗[/] {safe(finding.where)}: {safe(finding.what)}")
        if report.clean:
            console.print(
                f"[{GOOD}]✓[/] clean: {report.size} entries, {report.heads} heads, {report.artifacts} artifacts"
            )
        if not report.mark_checked:
            warn("the high-water mark was not looked at: this may be an older copy of the log")
        if any(finding.where == MARK for finding in report.findings):
            note("a copy whose mark is not at hand is checked with --no-mark")
    if not report.clean:
        raise click.exceptions.Exit(Exit.NEGATIVE)


@command.command(epilog="\b\nExample: transparency log backup --data ./log --out ./log-2026-11-16")
@data_option()
@click.option("--out", "target", required=True, type=click.Path(path_type=Path), metavar="DIR2", help="A new folder.")
@click.option("--with-keys", is_flag=True, help="Copy the private keys too. Keep the copy as you keep the keys.")
@json_option()
def backup(data: Path, target: Path, with_keys: bool, as_json: bool) -> None:
    """Copy a log, also while a server runs."""
    require_log(data)
    if os.path.lexists(target):
        raise CommandError(Exit.CANNOT_WRITE, f"{target} exists and is left as it is", "Name a new folder.")
    with storage(f"copying {data} to {target}"):
        size = backups.backup(data, target, with_keys=with_keys)
    if as_json:
        print_json({"backup": str(target), "size": size, "with-keys": with_keys})
        return
    done(f"{target}: {size} entries")
    if not with_keys:
        note("without the private keys; a log restored from it needs those of its folder (or --with-keys)")


@command.command(epilog="\b\nExample: transparency log restore --from ./log-2026-11-16 --data ./log")
@click.option("--from", "source", required=True, type=click.Path(path_type=Path), metavar="DIR2", help="The backup.")
@data_option()
@_WATERMARK
@click.option("--accept-missing-mark", is_flag=True, help="The mark is lost: go on from the backup and make a new one.")
@click.option(
    "--new-origin",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[NAME]",
    help="Start a new log instead, with the backup's issuers.",
)
@json_option()
def restore(
    source: Path, data: Path, watermark: Path | None, accept_missing_mark: bool, new_origin: str | None, as_json: bool
) -> None:
    """Put a backup back. It must be at or past the high-water mark: an older one would fork the log.

    With --new-origin a new log is made: new name, new keys, the same issuers, none of the old entries.
    """
    require_log(source, "--from is the folder that `transparency log backup` wrote.")
    refuse_existing_log(data, "Move it away first; nothing is replaced.")
    if new_origin is not None:
        check_names(new_origin or None, None)
        with storage(f"copying {source} to {data}"):
            created = backups.restore_as_new(source, data, clock=system_clock, origin=new_origin or None)
        if as_json:
            print_json({"data": str(data), "origin": created.origin, "size": 2})
        else:
            done(f"{data}: a new log, {created.origin}, with the issuers of {source}")
            note(f"its policy key's thumbprint is {created.policy_thumbprint.hex()}; publish it")
        return
    if not any((source / "keys").glob("*.pem")):
        raise CommandError(
            Exit.NO_INPUT, f"{source} was copied without the private keys",
            f"Put the log's keys/*.pem into {source / 'keys'} first.",
        )  # fmt: skip
    with storage(f"copying {source} to {data}"):
        size = backups.restore(
            source, data, clock=system_clock, watermark=watermark, accept_missing_mark=accept_missing_mark
        )
    if as_json:
        print_json({"data": str(data), "size": size})
        return
    done(f"{data}: {size} entries, at or past the mark")
    note(f"next: transparency serve --data {data}")


@command.command("rotate-key", epilog="\b\nExample: transparency log rotate-key --data ./log")
@data_option()
@click.option("--role", type=click.Choice(_ROLES), default=keyset.RECEIPTS, show_default=True, help="Which key.")
@click.option("--alg", metavar="NAME", help="Its algorithm. Default: ES256 for receipts, Ed25519 for operations.")
@json_option()
def rotate(data: Path, role: str, alg: str | None, as_json: bool) -> None:
    """Put a new key in the place of one of the log's own. Old receipts stay valid under the old key."""
    folder = require_log(data)
    chosen = algorithm(alg or ("ES256" if role == keyset.RECEIPTS else "Ed25519"))
    with open_admin(data, allow_lost_key=role == keyset.RECEIPTS) as admin:
        keys, thumbprint = rotate_key(admin, folder, role, chosen.id)
    if as_json:
        print_json({"role": role, "thumbprint": thumbprint.hex(), "generation": keys.generation})
        return
    done(f"{role} key {thumbprint.hex()} ({chosen.name}) is in use, key set generation {keys.generation}")
    note("verifiers fetch it with `transparency keys`; whoever pinned the old one adds the new")
