"""``transparency init``: a new log, with its keys, its first policy and its high-water mark."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import check_names, make_log, refuse_existing_log
from transparency.cli.mark_options import SHARED_LATER, mark_file_option
from transparency.cli.output import done, note, print_json, warn
from transparency.cli.passphrases import new_kept_passphrase
from transparency.cli.settings import data_option, json_option
from transparency.errors import LogUnusableError
from transparency.policy.keyset import RECEIPT_ALGORITHMS


def check_db(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A URL of PostgreSQL's; its password goes where everything that is started from here finds it."""
    if value is not None:
        from transparency.log.stores import keep_password

        try:
            keep_password(value)
        except LogUnusableError as error:
            raise CommandError(Exit.USAGE, f"--db: {error}") from error
    return value


def log_creation_options(function: click.decorators.FC) -> click.decorators.FC:
    function = click.option(
        "--db", metavar="URL", callback=check_db,
        help="The tree in PostgreSQL: postgresql://user@host/name. A password is not kept: PGPASSWORD or a passfile.",
    )(function)  # fmt: skip
    function = click.option("--iss", metavar="URI", help="The service's name in receipts. Default: https://ORIGIN.")(
        function
    )
    return click.option("--origin", metavar="NAME", help="The log's own name, for ever. Default: a random one.")(
        function
    )


@click.command(epilog="\b\nExample: transparency init --data ./log --origin log.acme.example/agents")
@data_option()
@log_creation_options
@mark_file_option("The high-water mark; outside DIR, best on another disk. Default: beside DIR.", SHARED_LATER)
@click.option(
    "--receipt-alg", type=click.Choice(RECEIPT_ALGORITHMS), default=RECEIPT_ALGORITHMS[0], show_default=True,
    metavar="NAME", help=f"Algorithm of receipts: {', '.join(RECEIPT_ALGORITHMS)}. Every verifier takes the first.",
)  # fmt: skip
@click.option("--encrypt-keys", is_flag=True, help="Encrypt the log's private keys with a passphrase.")
@json_option()
def command(
    data: Path, origin: str | None, iss: str | None, db: str | None, watermark: Path | None, receipt_alg: str,
    encrypt_keys: bool, as_json: bool,
) -> None:  # fmt: skip
    """Create a log in DIR: keys, policy, store, high-water mark.

    Auditors pin the policy key's thumbprint, which is printed: publish it where the log cannot change it.
    """
    from transparency.log.mark import marks_beside

    check_names(origin, iss)
    refuse_existing_log(data, f"Run it: `transparency serve --data {data}`.")
    for stray in marks_beside(data):
        warn(f"{stray} is the mark of another log that was in {data}; this is a new one, with new keys")
    passphrase = new_kept_passphrase() if encrypt_keys else None
    created = make_log(
        data, origin=origin, iss=iss, watermark=watermark, receipt_alg=receipt_alg, passphrase=passphrase, db=db
    )
    if as_json:
        print_json(
            {
                "data": str(data),
                "origin": created.origin,
                "iss": created.iss,
                "watermark": str(created.watermark),
                "policy-key-thumbprint": created.policy_thumbprint.hex(),
            }
        )
        return
    click.echo(created.policy_thumbprint.hex())
    done(f"{data}: a new log, {created.origin}")
    note(f"the line on standard output is the policy key's thumbprint; the mark is {created.watermark}")
    note(f"next: transparency serve --data {data}")
