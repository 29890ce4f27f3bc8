"""``transparency log``: looking after a log. Status, fsck, backup and restore are here, the rest beside."""

from __future__ import annotations

import os
from pathlib import Path

import click

from transparency.cli import access, export, log_keys, log_vkey, manifest, migrate, reindex
from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.folders import check_names, open_admin, refuse_existing_log, require_log
from transparency.cli.mark_options import SHARED_LATER, mark_file_option, mark_place
from transparency.cli.output import (
    BAD,
    GOOD,
    done,
    note,
    out,
    print_json,
    print_tree,
    progress,
    safe,
    sentence,
    timestamp,
    warn,
)
from transparency.cli.passphrases import kept_passphrase, new_kept_passphrase
from transparency.cli.settings import data_option, json_option
from transparency.log import backup as backups
from transparency.log import copies
from transparency.log.folder import Config, Folder
from transparency.log.fsck import MARK
from transparency.log.fsck import fsck as check_log
from transparency.log.log import system_clock


@click.group()
def command() -> None:
    """Look after a log: status, fsck, reindex, manifest, backup, restore, migrate, export, keys."""


command.add_command(access.command)
command.add_command(export.command)
command.add_command(manifest.command)
command.add_command(migrate.command)
command.add_command(reindex.command)
command.add_command(log_keys.keys)
command.add_command(log_vkey.command)
command.add_command(log_keys.rotate)
command.add_command(log_keys.compromise)


@command.command(epilog="\b\nExample: transparency log status --data ./log")
@data_option(keys=False)
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
@data_option(keys=False)
@click.option(
    "--watermark",
    callback=mark_place,
    metavar="FILE|URL",
    help="The high-water mark, if it is elsewhere than config.toml says: a file or a database.",
)
@click.option("--no-mark", is_flag=True, help="For a copy whose mark is not at hand: do not ask for it.")
@json_option()
def fsck(data: Path, watermark: Path | str | None, no_mark: bool, as_json: bool) -> None:
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
            console.print(f"[{BAD}]✗[/] {safe(finding.where)}: {sentence(finding.what)}")
        if report.clean:
            console.print(
                f"[{GOOD}]✓[/] clean: {report.size} entries, {report.heads} heads, {report.artifacts} artifacts"
            )
        if not report.mark_checked:
            warn("the high-water mark was not looked at: this may be an older copy of the log")
        if any(finding.where == MARK for finding in report.findings):
            note("--no-mark is for a copy whose mark is not at hand: nobody knows then whether it is the newest")
    if not report.clean:
        raise click.exceptions.Exit(Exit.NEGATIVE)


@command.command(epilog="\b\nExample: transparency log backup --data ./log --out ./log-2026-11-16")
@data_option(keys=False)
@click.option("--out", "target", required=True, type=click.Path(path_type=Path), metavar="DIR2", help="A new folder.")
@click.option("--with-keys", is_flag=True, help="Copy the private keys too. Keep the copy as you keep the keys.")
@click.option(
    "--keep-days", type=click.IntRange(1, copies.MOST_DAYS), default=copies.KEEP_DAYS, show_default=True, metavar="N",
    help="Gone after N days: you delete it, `transparency retention plan` reminds you.",
)  # fmt: skip
@json_option()
def backup(data: Path, target: Path, with_keys: bool, keep_days: int, as_json: bool) -> None:
    """Copy a log, also while a server runs. The copy is noted in the log's register of copies, with its expiry."""
    folder = require_log(data)
    if os.path.lexists(target):
        raise CommandError(Exit.CANNOT_WRITE, f"{target} exists and is left as it is", "Name a new folder.")
    with storage(f"copying {data} to {target}"):
        size = backups.backup(data, target, with_keys=with_keys, keep_days=keep_days)
    noted = next((each for each in copies.read_copies(folder.copies) if each.where == copies.place(target)), None)
    if as_json:
        until = None if noted is None else timestamp(noted.until)
        print_json({"backup": str(target), "size": size, "with-keys": with_keys, "until": until})
        return
    done(f"{target}: {size} entries")
    if noted is None:
        warn(f"{folder.copies} cannot be written, so `retention plan` will not remind you of this copy")
    else:
        note(f"noted as kept until {timestamp(noted.until)}; what is erased meanwhile stays in it until then")
    if not with_keys:
        note("without the private keys; a log restored from it needs those of its folder (or --with-keys)")


@command.command(epilog="\b\nExample: transparency log restore --from ./log-2026-11-16 --data ./log")
@click.option("--from", "source", required=True, type=click.Path(path_type=Path), metavar="DIR2", help="The backup.")
@data_option()
@mark_file_option("The high-water mark, if it was moved.", SHARED_LATER)
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
        # A log whose keys were encrypted is followed by one whose keys are.
        passphrase = new_kept_passphrase() if Folder(source.absolute()).encrypts else None
        with storage(f"copying {source} to {data}"):
            created = backups.restore_as_new(
                source, data, clock=system_clock, origin=new_origin or None, passphrase=passphrase
            )
        if as_json:
            print_json({"data": str(data), "origin": created.origin, "size": 2})
        else:
            done(f"{data}: a new log, {created.origin}, with the issuers of {source}")
            note(f"its policy key's thumbprint is {created.policy_thumbprint.hex()}; publish it")
        return
    if not Folder(source.absolute()).key_files():
        raise CommandError(
            Exit.NO_INPUT, f"{source} was copied without the private keys",
            f"Put the log's keys/*.pem into {source / 'keys'} first.",
        )  # fmt: skip
    # Without the flag, too: a log that was never opened gets its mark at its first opening.
    mark = watermark or Config.read(Folder(source.absolute()).config).watermark
    new_mark = not mark.exists()
    with storage(f"copying {source} to {data}"):
        size = backups.restore(
            source, data, clock=system_clock, watermark=watermark, accept_missing_mark=accept_missing_mark,
            passphrase=kept_passphrase(),
        )  # fmt: skip
    if as_json:
        print_json({"data": str(data), "size": size})
        return
    if new_mark:
        done(f"{data}: {size} entries, with a new mark")
        warn("there was no mark to compare with: whether the log went on after this copy was taken, nothing tells")
    else:
        done(f"{data}: {size} entries, at or past the mark")
    note(f"next: transparency serve --data {data}")
