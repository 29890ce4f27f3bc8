"""``transparency submit``: register sessions and statements, and keep each together with its receipt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from transparency.cli.certificates import Certificates, certificate_options
from transparency.cli.connection import connect
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import SIGN1_HEAD, STDIO, read_input, refuse_existing, write_output
from transparency.cli.keyfiles import load_private, load_public
from transparency.cli.outcome import Options
from transparency.cli.output import print_json
from transparency.cli.passphrases import passphrase_option
from transparency.cli.redaction_options import Redaction, redaction_options
from transparency.cli.registration import Registrar, with_receipt
from transparency.cli.registration_batch import register_all
from transparency.cli.sessions import AGENTS, Source, expand, latest
from transparency.cli.settings import Setting, iss_option, json_option, key_option, log_options
from transparency.cli.submit_output import print_outcome, print_pending, print_registered, registered, row, submit_many
from transparency.client.pinning import check_receipt
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError, UnsupportedAlgorithmError
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts

if TYPE_CHECKING:
    from transparency.client.sync import SyncLogClient
    from transparency.cose.keys import PublicKey


@click.command(
    epilog="\b\nExamples: transparency submit session.jsonl --log https://log.example --key issuer.pem --iss https://me"
    "\n          transparency submit --latest claude      (log, key and iss from the configuration)"
    "\n          transparency submit session.cose --log https://log.example --out session.t.cose"
)
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]...")
@click.option("--latest", type=click.Choice(AGENTS), help="The session this agent wrote to last, in its usual place.")
@log_options()
@click.option("--payload", type=click.Path(), metavar="FILE", help="The record of a detached statement.")
@click.option("--out", type=click.Path(), metavar="COSE", help="Default: SESSION.cose; for a statement x.t.cose.")
@click.option("--log-key", "log_key", cls=Setting, multiple=True, type=click.Path(), metavar="KEYFILE",
              help="Take the receipt only if it is signed with a key in this file (repeatable).")  # fmt: skip
@key_option()
@iss_option()
@click.option("--sub", metavar="URI", help="What the statement is about. Default: the session id.")
@click.option("--content-type", metavar="T", help="Media type of the record. Default: by its format.")
@click.option("--private", is_flag=True, help="Register the record's SHA-256 only: the log never sees the record.")
@click.option("--attach", is_flag=True, help="Put the record into the statement, however large it is.")
@click.option("--trace-metadata", is_flag=True, help="With --private: say whose session it was all the same.")
@click.option("--convert", is_flag=True, help="Register the canonical record (VAC) too; it names the session by hash.")
@redaction_options()
@click.option("--detached", is_flag=True, help="Leave the record out of the output file.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the receipt; print where it will be.")
@passphrase_option()
@certificate_options()
@click.option("--force", is_flag=True, help="Replace an existing output file that is about something else.")
@json_option()
def command(
    files: tuple[str, ...], latest: str | None, log: str, token: str | None, cacert: str | None, payload: str | None,
    out: str | None, log_key: tuple[str, ...], key: str | None, iss: str | None, sub: str | None,
    content_type: str | None, private: bool, attach: bool, trace_metadata: bool, convert: bool, detached: bool,
    no_wait: bool, passphrase_file: str | None, force: bool, as_json: bool, redaction: Redaction,
    certificates: Certificates,
) -> None:  # fmt: skip
    """Register sessions on a log; each is written with its receipt to SESSION.cose, beside it.

    FILE is a session of any known agent or format, a folder of them, a pattern, or a signed statement. Up to 64 KiB a
    session goes into the statement; a larger one is kept beside the log under its SHA-256. Submitting again changes
    nothing; a session that has grown supersedes what was registered before.
    """
    if private and attach:
        raise CommandError(Exit.USAGE, "--private and --attach exclude each other")
    sources = _sources(files, latest)
    if len(sources) > 1 and (out is not None or payload is not None or sub is not None):
        raise CommandError(Exit.USAGE, "--out, --sub and --payload go with a single file", "Submit it by itself.")
    pinned = load_public(log_key) if log_key else None
    if len(sources) > 1 and any(_is_statement(source) for source in sources):
        raise CommandError(Exit.USAGE, "a signed statement is submitted by itself", "Give sessions, or one statement.")
    if len(sources) == 1 and _is_statement(sources[0]):
        how = {"--private": private, "--attach": attach, "--trace-metadata": trace_metadata, "--convert": convert}
        how |= {"--sub": sub is not None, "--content-type": content_type is not None}
        how |= {"--cert": certificates.file is not None}
        how |= {"--redact, --omit or --pseudonymous": redaction.wanted}
        _refuse_signing_options(sources[0].name, [name for name, given in how.items() if given])
        target = out if out is not None else _default_out(sources[0].name)
        if not no_wait:
            refuse_existing(target, force=force)
        record = None if payload is None else read_input(payload, may_be_empty=True)
        statement = _read(sources[0].name, sources[0].read(), record)
        with connect(log, token=token, cacert=cacert, pinned_keys=pinned) as client:
            _submit_statement(client, statement, target, pinned, detached=detached, wait=not no_wait, as_json=as_json,
                              force=force)  # fmt: skip
        return
    if key is None or iss is None:
        raise CommandError(
            Exit.BAD_INPUT, f"{sources[0].name} is not a signed statement",
            "Give --key and --iss to sign it, or sign it first (`transparency sign`).",
        )  # fmt: skip
    options = Options(
        iss, sub, content_type, private=private, attach=attach, detached=detached, trace_metadata=trace_metadata,
        convert=convert, wait=not no_wait, force=force, redaction=redaction,
    )  # fmt: skip
    signer = certificates.certify(load_private(key, passphrase_file))
    with connect(log, token=token, cacert=cacert, pinned_keys=pinned) as client:
        registrar = Registrar(client, signer, options, pinned)
        if len(sources) > 1:
            settled = register_all(client, registrar, sources)
            raise click.exceptions.Exit(submit_many(sources, settled, as_json=as_json))
        outcome = registrar.register(sources[0], out)
    if as_json:
        print_json(row(outcome))
    else:
        print_outcome(outcome)


def _sources(files: tuple[str, ...], agent: str | None) -> list[Source]:
    if agent is not None:
        if files:
            raise CommandError(Exit.USAGE, "--latest finds the session itself; it goes without FILE")
        return [latest(agent)]
    if not files:
        raise CommandError(Exit.USAGE, "nothing to submit: give FILE, or --latest and an agent")
    return expand(files)


def _is_statement(source: Source) -> bool:
    """By its first byte."""
    if source.packed:
        return False
    if source.data is not None:
        return source.data.startswith(SIGN1_HEAD)
    try:
        with Path(source.name).open("rb") as file:
            return file.read(1) == SIGN1_HEAD
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"{source.name}: {error.strerror}") from error


def _refuse_signing_options(file: str, given: list[str]) -> None:
    """Silently registering what was signed otherwise would send a record to the log that was to stay private."""
    if given:
        raise CommandError(
            Exit.USAGE, f"{file} is signed already: {', '.join(given)} can only be said of a record",
            "Give the record itself, with --key and --iss.",
        )  # fmt: skip


def _submit_statement(
    client: SyncLogClient, statement: Statement, target: str, pinned: tuple[PublicKey, ...] | None,
    *, detached: bool, wait: bool, as_json: bool, force: bool,
) -> None:  # fmt: skip
    message = statement.message
    # A detached statement goes with its record; an attached one needs nothing beside it.
    beside = statement.payload if message.payload is None else None
    submission = client.submit(message.to_bytes(), beside, wait=wait)
    if submission.receipt is None:
        print_pending(submission, as_json=as_json)
        return
    # Pinned keys were used already. Without them the log's own word is at least held against itself.
    if pinned is None:
        check_receipt(submission.receipt, statement.entry, client.keys())
    # The digest in a hash envelope is no record: it stays, whatever is left out.
    left_out = detached and statement.envelope is None
    complete = message.with_payload(None if left_out else statement.payload).to_bytes()
    write_output(target, attach_receipts(complete, with_receipt(message, submission.receipt)), force=force)
    body = registered(target, submission, statement, trusted=pinned is not None)
    if as_json:
        print_json(body)
    else:
        print_registered(body, trusted=pinned is not None)


def _read(file: str, data: bytes, record: bytes | None) -> Statement:
    try:
        return Statement.from_bytes(data, record)
    except MalformedError as error:
        if not _is_sign1(data):
            raise CommandError(Exit.BAD_INPUT, f"{file} is not a signed statement: {error}") from error
        raise CommandError(Exit.BAD_INPUT, f"{file} is not a statement a log registers: {error}") from error


def _is_sign1(data: bytes) -> bool:
    try:
        Sign1.from_bytes(data)
    except (MalformedError, UnsupportedAlgorithmError):
        return False
    return True


def _default_out(file: str) -> str:
    return STDIO if file == STDIO else str(Path(file).with_suffix(".t.cose"))
