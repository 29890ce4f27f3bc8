"""``transparency review``: a person looked at an entry; that is registered as a statement too."""

from __future__ import annotations

import time
from typing import Any

import click

from transparency.cli.entry_command import EntryCommand
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.output import done, note, print_json
from transparency.cli.prove import entry_and_file
from transparency.cli.stating import Where, register, stating_options
from transparency.compliance.review import CONTENT_TYPE, VERDICTS, Review
from transparency.errors import MalformedError
from transparency.statements.statement import entry_id


@click.command(
    cls=EntryCommand,
    epilog="\b\nExample: transparency review session.cose --verdict concern --note 'It pushed without asking.' \\\n"
    "  --log https://log.example --key reviewer.pem --iss https://acme.example/reviews --reviewer 'Ada Lovelace'",
)
@click.argument("entry", metavar="ENTRY|STATEMENT")
@click.option("--verdict", required=True, type=click.Choice(VERDICTS), help="What you think of it.")
@click.option("--note", "said", required=True, metavar="TEXT", help="Why, in your words; everybody who may read can.")
@click.option("--reviewer", metavar="NAME", help="Who looked at it. Default: the issuer.")
@stating_options()
def command(
    entry: str, verdict: str, said: str, reviewer: str | None, as_json: bool, **where: Any,  # noqa: ANN401 - options
) -> None:  # fmt: skip
    """Register that a person reviewed an entry: ENTRY is its id, or the file of its statement.

    The review is a signed statement of its own that names the entry; the log's policy has to accept its issuer.
    `transparency report --log` counts reviews (L10) and names who made them.
    """
    digest, _ = entry_and_file(entry)
    identity = entry_id(digest)
    try:
        payload = Review.from_bytes(
            Review(identity, verdict, said, reviewer or where["iss"], int(time.time())).to_bytes()
        ).to_bytes()
    except MalformedError as error:
        raise CommandError(Exit.USAGE, str(error), "Check --note and --reviewer.") from error
    statement, file = register(
        payload, CONTENT_TYPE, identity, Where(**where), f"review-{identity}.cose", about=identity
    )
    if as_json:
        print_json({"entry": statement.entry_id, "reviewed": identity, "verdict": verdict, "statement": file})
        return
    done(f"{file}: {verdict}, registered as {statement.entry_id}")
    note(f"about {identity}")
