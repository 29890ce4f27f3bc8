"""``transparency log migrate``: a log goes from SQLite to PostgreSQL, or back."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.folders import refuse_existing_log, require_log
from transparency.cli.init import check_db
from transparency.cli.output import done, note, print_json, progress
from transparency.cli.settings import json_option
from transparency.errors import StoreError


@click.command(
    "migrate",
    epilog="\b\nExample: transparency log migrate --from ./log --to ./log-pg --db postgresql://log@db.example/log",
)
@click.option("--from", "source", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The log.")
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), metavar="DIR2", help="A new folder.")
@click.option(
    "--db", metavar="URL", callback=check_db,
    help="The tree goes to this PostgreSQL database, which must hold none. Without it: to SQLite, in DIR2.",
)  # fmt: skip
@json_option()
def command(source: Path, target: Path, db: str | None, as_json: bool) -> None:
    """Take a log to another store. Nobody may be running it; it stays the same log, with its keys and mark.

    Every root is computed anew on the way and every row compared afterwards. The old folder stays until you delete it:
    only one of the two can go on, and the first entry decides which.
    """
    from transparency.log.migrate import migrate

    require_log(source)
    refuse_existing_log(target, "Name a new folder; nothing is replaced.")
    try:
        with storage(f"migrating {source} to {target}"), progress("migrating", quiet=as_json) as bar:
            task = bar.add_task("entries", total=None)
            size = migrate(source, target, db, lambda count, total: bar.update(task, completed=count, total=total))
    except StoreError as error:
        raise CommandError(
            Exit.CANNOT_WRITE, str(error), f"Nothing was left in {target}, and {source} is as it was."
        ) from error
    if as_json:
        print_json({"from": str(source), "data": str(target), "size": size})
        return
    done(f"{target}: {size} entries, every one compared with {source}")
    note(f"next: transparency serve --data {target}")
    note(f"delete {source} when that runs; with it goes nothing that {target} does not have")
