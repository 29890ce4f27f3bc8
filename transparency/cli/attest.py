"""``transparency attest``: an operator states, signed and until a date, what no data can show."""

from __future__ import annotations

import time
from typing import Any

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.output import done, note, print_json, timestamp
from transparency.cli.report_options import read_time
from transparency.cli.stating import Where, register, stating_options
from transparency.compliance.attestation import CONTENT_TYPE, Attestation
from transparency.errors import MalformedError


@click.command(
    epilog="\b\nExample: transparency attest human-identity --checks R3.2,L3 --statement 'Every issuer key belongs to "
    "one\n  employee, checked monthly.' --expires 2027-06-30 --log https://log.example --key ops.pem --iss https://acme"
)
@click.argument("subject")
@click.option(
    "--checks", metavar="R3.2,…", help="The checks it speaks for. Default: clauses that ask for SUBJECT only."
)
@click.option("--statement", "said", required=True, metavar="TEXT", help="What you state, in your words.")
@click.option("--expires", required=True, metavar="DATE", help="In force before this time, as 2027-06-30.")
@click.option("--by", metavar="NAME", help="Who states it. Default: the issuer.")
@click.option("--scope-iss", metavar="URI", help="Only of what this issuer registered.")
@click.option("--from", "since", metavar="TIME", help="Only of what was registered at this time or later.")
@click.option("--to", "until", metavar="TIME", help="Only of what was registered before this time.")
@stating_options()
def command(
    subject: str, checks: str | None, said: str, expires: str, by: str | None, scope_iss: str | None,
    since: str | None, until: str | None, as_json: bool, **where: Any,  # noqa: ANN401 - options
) -> None:  # fmt: skip
    """Register an operator's attestation of SUBJECT, as clock-sync, human-identity, completeness or access.

    While it is in force it fills *attest* verdicts of the checks that it names, and clauses that ask for its subject,
    in reports about the log, and about records when its file is given too. What a check found wrong stays wrong. The
    log's policy has to accept the issuer; reports say who attested what until when.
    """
    until_when = _moment("--expires", expires)
    if until_when is None or until_when <= time.time():
        raise CommandError(Exit.USAGE, f"--expires {expires} is past", "It would never be in force.")
    said_of = tuple(check.strip() for check in checks.split(",")) if checks else ()
    stated = Attestation(
        subject, said_of, said, by or where["iss"], until_when, scope_iss or "", _moment("--from", since),
        _moment("--to", until),
    )  # fmt: skip
    try:
        payload = Attestation.from_bytes(stated.to_bytes()).to_bytes()
    except MalformedError as error:
        raise CommandError(Exit.USAGE, str(error), "docs/report.md says what each part is.") from error
    statement, file = register(payload, CONTENT_TYPE, subject, Where(**where), f"attestation-{subject}.cose")
    if as_json:
        print_json({"entry": statement.entry_id, "subject": subject, "checks": list(said_of),
                    "expires": timestamp(until_when), "statement": file})  # fmt: skip
        return
    done(f"{file}: {subject} attested until {timestamp(until_when)}, registered as {statement.entry_id}")
    if not said_of:
        note("no --checks: it speaks for clauses that ask for this subject, and for no check")


def _moment(flag: str, text: str | None) -> int | None:
    """In seconds since 1970."""
    milliseconds = read_time(flag, text)
    return None if milliseconds is None else milliseconds // 1000
