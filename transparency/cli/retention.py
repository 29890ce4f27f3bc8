"""``transparency retention plan|apply|hold|release|copy``: what is kept how long, and what goes (docs/retention.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from transparency.cli import retention_apply
from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.folders import open_admin, require_log
from transparency.cli.output import done, note, out, print_json, progress, safe, timestamp, warn
from transparency.cli.retention_apply import authoriser_option, told
from transparency.cli.settings import data_option, json_option
from transparency.log.artifacts import ArtifactStore
from transparency.log.copies import DAY, MOST_DAYS, Copy, add_copy, read_copies
from transparency.log.folder import Folder
from transparency.log.log import system_clock
from transparency.log.retention import DueArtifact, Plan
from transparency.log.retention import plan as make_plan
from transparency.log.stated import StandingHold, erasures
from transparency.log.store import Store
from transparency.log.stores import open_for_reading
from transparency.policy.hold import ENTRY, ISSUER, SESSION

_LISTED = 50


@click.group()
def command() -> None:
    """How long records are kept: plan, apply, hold, release, copy."""


command.add_command(retention_apply.command)


@dataclass(frozen=True, slots=True)
class HeldCopy:
    """A copy, and of how many entries it has content that is erased here."""

    copy: Copy
    entries: int


@dataclass(frozen=True, slots=True)
class Outlook:
    plan: Plan
    copies: Sequence[HeldCopy]
    erased: int
    unfinished: int


@command.command(epilog="\b\nExample: transparency retention plan --data ./log")
@data_option(keys=False)
@json_option()
def plan(data: Path, as_json: bool) -> None:
    """Say what may be erased now, what is on hold, and which copies still hold what was erased. Changes nothing."""
    folder = require_log(data)
    with _reading(folder) as store, progress("reading", quiet=as_json) as bar:
        task = bar.add_task("entries", total=None)
        made = make_plan(
            store, ArtifactStore(folder.artifacts), system_clock(),
            progress=lambda count, total: bar.update(task, completed=count, total=total),
        )  # fmt: skip
        ordered = erasures(store)
        pending = sum(at >= store.erased_upto() for at, _ in ordered)
    copies = [HeldCopy(copy, copy.holds(ordered)) for copy in read_copies(folder.copies)]
    outlook = Outlook(made, copies, sum(len(each.items) for _, each in ordered), pending)
    if as_json:
        print_json(_view(outlook))
    else:
        _show(outlook)


@command.command(
    epilog="\b\nExample: transparency retention hold --data ./log --session 4f1c… --authoriser 'A. Counsel' "
    "--reason 'case 17'"
)
@data_option()
@click.option("--entry", metavar="ID", help="Keep what this entry has.")
@click.option("--iss", metavar="URI", help="Keep what this issuer registered, and what it will.")
@click.option("--session", metavar="ID", help="Keep the records of this session.")
@authoriser_option(required=True)
@click.option("--reason", required=True, metavar="TEXT", help="Why; it stands on the log for ever.")
@json_option()
def hold(
    data: Path, entry: str | None, iss: str | None, session: str | None, authoriser: str, reason: str, as_json: bool
) -> None:
    """Keep records whatever their term says, until `retention release`. The hold is registered on the log."""
    given = [(scope, value) for scope, value in ((ENTRY, entry), (ISSUER, iss), (SESSION, session)) if value]
    if len(given) != 1:
        raise CommandError(Exit.USAGE, "a hold is on one --entry, one --iss or one --session")
    require_log(data)
    ((scope, value),) = given
    with told(), open_admin(data) as admin:
        answer = admin.call("retention-hold", scope=scope, value=value, authoriser=authoriser, reason=reason)
    if as_json:
        print_json({"hold": answer["entry"], "index": answer["index"], "scope": scope, "value": value})
        return
    click.echo(answer["entry"])
    done(f"the {scope} {value} is on hold; `transparency retention release --hold {answer['entry']}` ends it")


@command.command(
    epilog="\b\nExample: transparency retention release --data ./log --hold ID --authoriser 'A. Counsel' "
    "--reason 'case closed'"
)
@data_option()
@click.option("--hold", "hold_id", required=True, metavar="ID", help="The hold, as `retention plan` lists it.")
@authoriser_option(required=True)
@click.option("--reason", required=True, metavar="TEXT", help="Why; it stands on the log for ever.")
@json_option()
def release(data: Path, hold_id: str, authoriser: str, reason: str, as_json: bool) -> None:
    """End a hold. What it kept goes when its term is over and `retention apply` is run."""
    require_log(data)
    with told(), open_admin(data) as admin:
        answer = admin.call("retention-release", hold=hold_id, authoriser=authoriser, reason=reason)
    if as_json:
        print_json({"release": answer["entry"], "index": answer["index"], "hold": hold_id})
        return
    done(f"the hold {hold_id} is released by {answer['entry']}")


@command.command(epilog="\b\nExample: transparency retention copy --data ./log --where 'auditor X' --keep-days 90")
@data_option(keys=False)
@click.option("--where", required=True, metavar="TEXT", help="Where it is, or who has it.")
@click.option("--keep-days", required=True, type=click.IntRange(1, MOST_DAYS), metavar="N", help="Gone after N days.")
@json_option()
def copy(data: Path, where: str, keep_days: int, as_json: bool) -> None:
    """Note a copy that `log backup` did not make (an export, a snapshot): `plan` tells until when it lasts."""
    if not where.isprintable():
        raise CommandError(Exit.USAGE, "--where has a control character")
    folder = require_log(data)
    now = system_clock()
    with _reading(folder) as store:
        made = Copy(where, now, now + keep_days * DAY, store.tip().size, store.erased_upto())
    with storage(folder.copies):
        add_copy(folder.copies, made, now)
    if as_json:
        print_json(_copy_view(HeldCopy(made, 0)))
        return
    done(f"{where}: noted until {timestamp(made.until)}")


@contextmanager
def _reading(folder: Folder) -> Iterator[Store]:
    with closing(open_for_reading(folder)) as store:
        yield store


def _view(outlook: Outlook) -> dict[str, object]:
    made = outlook.plan
    tiers = [
        {"class": name, "tier": tier, "entries": count} for (name, tier), count in sorted(made.tiers.items())
    ]  # fmt: skip
    return {
        "size": made.size, "time": timestamp(made.time),
        "due": [_due_view(due) for due in made.due],
        "held": [{**_due_view(due), "hold": hold.entry} for due, hold in made.held],
        "holds": [_hold_view(each) for each in made.holds],
        "kept": {"artifacts": made.kept, "bytes": made.kept_bytes}, "tiers": tiers,
        "next-due": None if made.next is None else timestamp(made.next),
        "payloads": {"attached": made.payloads, "past-their-term": made.payloads_past},
        "unreferenced": {"artifacts": made.unreferenced, "bytes": made.unreferenced_bytes},
        "erased": outlook.erased, "unfinished": outlook.unfinished,
        "copies": [_copy_view(each) for each in outlook.copies],
    }  # fmt: skip


def _due_view(due: DueArtifact) -> dict[str, object]:
    entries = [
        {"index": each.index, "entry": each.entry, "rule": each.rule, "until": timestamp(each.until)}
        for each in due.references
    ]
    return {"artifact": due.digest, "bytes": due.bytes, "entries": entries}


def _hold_view(each: StandingHold) -> dict[str, object]:
    said = each.hold
    return {
        "hold": each.entry, "scope": said.scope, "value": said.value, "authoriser": said.authoriser,
        "reason": said.reason, "since": timestamp(said.time),
    }  # fmt: skip


def _copy_view(each: HeldCopy) -> dict[str, object]:
    return {
        "where": each.copy.where, "made": timestamp(each.copy.time), "until": timestamp(each.copy.until),
        "over": each.copy.until <= system_clock(), "entries": each.copy.size, "erased-content": each.entries,
    }  # fmt: skip


def _show(outlook: Outlook) -> None:
    made = outlook.plan
    console = out()
    for due in made.due[:_LISTED]:
        first = due.references[0]
        more = f" and {len(due.references) - 1} more" if len(due.references) > 1 else ""
        what = f"entry {first.index} {first.entry}{more}, {first.rule}, until {timestamp(first.until)}"
        console.print(f"due   {due.digest}  {due.bytes} bytes  {safe(what)}")
    if len(made.due) > _LISTED:
        console.print(f"due   and {len(made.due) - _LISTED} more; --json lists all")
    for due, hold in made.held[:_LISTED]:
        console.print(f"held  {due.digest}  {due.bytes} bytes  by {hold.entry}")
    for each in made.holds:
        said = each.hold
        why = f"{said.scope} {said.value}: {said.reason} ({said.authoriser}, {timestamp(said.time)})"
        console.print(f"hold  {each.entry}  {safe(why)}")
    for (name, tier), count in sorted(made.tiers.items()):
        console.print(f"kept  {safe(name)}{' ' + safe(tier) if tier else ''}: {count} entries")
    console.print(
        f"{len(made.due)} artifacts are due ({sum(due.bytes for due in made.due)} bytes), {len(made.held)} on hold, "
        f"{made.kept} kept; the next is due {'-' if made.next is None else timestamp(made.next)}"
    )
    console.print(
        f"{made.payloads_past} of {made.payloads} attached payloads are past their term; they go by order only"
    )
    if made.unreferenced:
        note(f"{made.unreferenced} artifacts ({made.unreferenced_bytes} bytes) are named by no entry")
    for each_copy in outlook.copies:
        _show_copy(each_copy)
    if outlook.unfinished:
        warn(f"{outlook.unfinished} erasures are not finished; `transparency retention apply` goes on with them")


def _show_copy(each: HeldCopy) -> None:
    until = timestamp(each.copy.until)
    if each.copy.until <= system_clock():
        warn(f"{each.copy.where} was to be gone by {until}: delete it (erased content of {each.entries} entries in it)")
    elif each.entries:
        warn(f"{each.copy.where} holds erased content of {each.entries} entries until {until}")
    else:
        note(f"{each.copy.where} is kept until {until}; nothing that was erased is in it")
