"""``transparency retention apply``: erase what is due, or by order what an entry holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import open_admin, require_log
from transparency.cli.output import done, note, print_json, progress, timestamp, warn
from transparency.cli.settings import data_option, json_option
from transparency.errors import LogUnusableError, MalformedError, RefusedError, UnreachableError
from transparency.log.admin import Admin
from transparency.log.artifacts import ArtifactStore
from transparency.log.audit import Outcome, audit
from transparency.log.audit_sources import FolderSource
from transparency.log.copies import read_copies
from transparency.log.erasure import Request, judge
from transparency.log.folder import Config, Folder
from transparency.log.log import system_clock
from transparency.log.retention import artifact_of, plan, references_to
from transparency.log.stated import audited_size, erasures
from transparency.log.store import Store
from transparency.log.stores import open_for_reading
from transparency.policy.erasure import MAX_ITEMS
from transparency.statements.statement import Statement, parse_entry_id

_F = TypeVar("_F", bound=Callable[..., Any])
_EXAMPLES = (
    "\b\nExample: transparency retention apply --data ./log\n"
    "transparency retention apply --data ./log --entry ID --order 'request 4711' --authoriser 'D. Officer'"
)


def authoriser_option(*, required: bool) -> Callable[[_F], _F]:
    return click.option(
        "--authoriser", required=required, default=None if required else "", metavar="NAME",
        help="On whose word; it stands on the log for ever.",
    )  # fmt: skip


@contextmanager
def told() -> Iterator[None]:
    """A refusal here is about holds and terms; and a server that is silent may be copying its database."""
    try:
        yield
    except UnreachableError as error:
        raise CommandError(
            Exit.TRY_LATER, str(error),
            "A large database takes more than a minute to be erased from: `transparency retention plan` tells if "
            "anything is left.",
        ) from error  # fmt: skip
    except RefusedError as error:
        raise CommandError(Exit.REFUSED, str(error), "`transparency retention plan` shows terms and holds.") from error


@click.command("apply", epilog=_EXAMPLES)
@data_option()
@click.option("--entry", "entries", multiple=True, metavar="ID", help="Erase what this entry holds (repeatable).")
@click.option("--order", default="", metavar="TEXT", help="The order by which; it stands on the log for ever.")
@authoriser_option(required=False)
@json_option()
def command(data: Path, entries: tuple[str, ...], order: str, authoriser: str, as_json: bool) -> None:
    """Erase the artifacts whose terms are over; or, with --entry, --order and --authoriser, what an entry holds.

    Each erasure is registered on the log before anything goes. What cannot be finished now is finished by the next
    apply or start. An attached payload goes only after an audit of the log, which is made and registered here.
    """
    if bool(entries) != bool(order) or (order and not authoriser):
        raise CommandError(Exit.USAGE, "an order names its entries and who gave it: --entry, --order, --authoriser")
    folder = require_log(data)
    waiting = _waiting(folder)
    with told(), open_admin(data) as admin:
        if entries:
            size, indexes = _ordered(folder, admin, entries, order, authoriser, quiet=as_json)
        else:
            size, indexes = _due(folder, quiet=as_json)
        answers = _erase(admin, size, indexes, order, authoriser)
    unfinished = answers[-1]["unfinished"]
    registered = [answer["entry"] for answer in answers if answer["entry"]]
    left = _copies(folder)
    taken_up = 0 if unfinished else waiting
    if as_json:
        print_json({"erased": indexes, "erasures": registered, "taken-up": taken_up, "unfinished": unfinished,
                    "copies": left})  # fmt: skip
    else:
        _show(indexes, registered, left, taken_up)
    if unfinished:
        raise CommandError(Exit.TRY_LATER, f"the erasure is registered and not finished: {unfinished}",
                           "Run `transparency retention apply` again.")  # fmt: skip


def _waiting(folder: Folder) -> int:
    """How many erasures are registered and were not carried out to their end: opening the log may do that already."""
    try:
        with _reading(folder) as store:
            return len(erasures(store, down_to=store.erased_upto()))
    except LogUnusableError:
        return 0  # of an earlier version, perhaps: opening it tells, or brings it up to date


def _erase(admin: Admin, size: int, indexes: Sequence[int], order: str, authoriser: str) -> list[dict[str, Any]]:
    """Register in as many statements as it takes, then have all of it carried out at once."""
    parts = list(_parts(indexes))
    return [
        admin.call(
            "retention-erase", size=size, indexes=part, order=order, authoriser=authoriser, last=number == len(parts)
        )
        for number, part in enumerate(parts, 1)
    ]


def _parts(indexes: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, max(len(indexes), 1), MAX_ITEMS):
        yield list(indexes[start : start + MAX_ITEMS])


def _due(folder: Folder, *, quiet: bool) -> tuple[int, list[int]]:
    with _reading(folder) as store, progress("reading", quiet=quiet) as bar:
        task = bar.add_task("entries", total=None)
        made = plan(
            store, ArtifactStore(folder.artifacts), system_clock(),
            progress=lambda count, total: bar.update(task, completed=count, total=total),
        )  # fmt: skip
    return made.size, [each.index for due in made.due for each in due.references]


def _ordered(
    folder: Folder, admin: Admin, entries: Sequence[str], order: str, authoriser: str, *, quiet: bool
) -> tuple[int, list[int]]:
    """What is in the way is found before anything is registered for it."""
    with _reading(folder) as store:
        size = store.tip().size
        indexes = sorted({_find(store, entry) for entry in entries})
        digests, attached = _contents(store, indexes)
        others = sorted({index for index, _ in references_to(store, digests, 0, size)} - set(indexes))
        covered = audited_size(store)
        if others:
            listed = ", ".join(str(index) for index in others[:10])
            raise CommandError(
                Exit.REFUSED, f"other entries name the same artifact: {listed}",
                "An artifact goes with all of them: give each with --entry.",
            )  # fmt: skip
        artifacts, origin = ArtifactStore(folder.artifacts), Config.read(folder.config).origin
        for part in _parts(indexes):
            judge(
                store,
                artifacts,
                origin,
                Request(size, part, authoriser, order, last=False),
                system_clock(),
                audited=size,
            )
    if attached and max(attached) >= covered:
        _audit(folder, admin, quiet=quiet)
    return size, indexes


def _contents(store: Store, indexes: Sequence[int]) -> tuple[set[str], list[int]]:
    """The artifacts of those that are envelopes, and which of them carry their payload."""
    digests, attached = set(), []
    for index in indexes:
        row = store.entry(index)
        if row is None or row.erased:
            continue  # the log's owner says so
        statement = Statement.from_bytes(row.statement)
        digest = artifact_of(statement)
        if digest is not None:
            digests.add(digest)
        elif statement.envelope is None:
            attached.append(index)
    return digests, attached


def _audit(folder: Folder, admin: Admin, *, quiet: bool) -> None:
    """Cover everything by a manifest, replay the log, and register that it held: what is erased cannot be replayed."""
    admin.call("manifest")
    with FolderSource(folder.path) as source, progress("auditing", quiet=quiet) as bar:
        task = bar.add_task("entries", total=None)
        report = audit(
            source, Config.read(folder.config).policy_key,
            progress=lambda count, total: bar.update(task, completed=count, total=total),
        )  # fmt: skip
    if not report.clean or not report.certain:
        raise CommandError(
            Exit.NEGATIVE, "the audit of this log does not hold, so nothing is erased from it",
            "`transparency audit` names what it found.",
        )  # fmt: skip
    with _reading(folder) as store:
        head = store.head(report.size)
    admin.call(
        "retention-audited", size=report.size, root=b"" if head is None else head.root,
        erased=report.entries[Outcome.ERASED],
    )  # fmt: skip


def _find(store: Store, text: str) -> int:
    try:
        entry = parse_entry_id(text)
    except MalformedError as error:
        raise CommandError(
            Exit.USAGE, f"--entry {text} is not an entry id", "It is the last part of its URL."
        ) from error
    index = store.find(entry)
    if index is None:
        # The index may lag behind the log by what came in during the last second.
        recent = store.entries(store.indexed_size(), store.tip().size)
        index = next((row.index for row in recent if row.entry == entry), None)
    if index is None:
        raise CommandError(Exit.BAD_INPUT, f"there is no entry {text} on this log")
    return index


def _copies(folder: Folder) -> list[dict[str, object]]:
    """The copies that still hold what was erased."""
    with _reading(folder) as store:
        ordered = erasures(store)
    return [
        {"where": copy.where, "until": timestamp(copy.until), "entries": held}
        for copy in read_copies(folder.copies)
        if (held := copy.holds(ordered))
    ]


def _show(indexes: Sequence[int], registered: Sequence[str], left: Sequence[dict[str, object]], taken_up: int) -> None:
    if taken_up:
        done(f"finished: {taken_up} erasures that were interrupted")
    if not indexes:
        done("nothing else is due" if taken_up else "nothing is due")
    for entry in registered:
        done(f"erasure {entry}")
    if indexes:
        done(f"the content of {len(indexes)} entries is erased; their receipts hold as before")
    for copy in left:
        warn(f"{copy['where']} still holds erased content of {copy['entries']} entries, until {copy['until']}")
    if indexes:
        note("exports and copies that nobody noted are out of reach; docs/retention.md lists them")


@contextmanager
def _reading(folder: Folder) -> Iterator[Store]:
    with closing(open_for_reading(folder)) as store:
        yield store
