"""``transparency submit``: register a statement and keep it together with its receipt."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli.connection import connect
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input, refuse_existing, write_output
from transparency.cli.keyfiles import load_private, load_public, passphrase_option
from transparency.cli.output import done, err, note, print_json, safe, timestamp
from transparency.cli.settings import Setting, iss_option, json_option, key_option, log_options
from transparency.cli.sign import sign_named
from transparency.client.client import Submission
from transparency.client.pinning import check_receipt
from transparency.client.sync import SyncLogClient
from transparency.cose.keys import PublicKey
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError, UnsupportedAlgorithmError
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts, receipts_of

_SIGN1_HEAD = b"\xd2"


@click.command(epilog="\b\nExample: transparency submit session.cose --log https://log.example --out session.t.cose")
@click.argument("file", type=click.Path())
@log_options()
@click.option("--payload", type=click.Path(), metavar="FILE", help="The record of a detached statement.")
@click.option(
    "--out", type=click.Path(), metavar="COSE", help="Transparent statement. Default: FILE with .t.cose at its end."
)
@click.option("--log-key", "log_key", cls=Setting, multiple=True, type=click.Path(), metavar="KEYFILE",
              help="Take the receipt only if it is signed with a key in this file (repeatable).")  # fmt: skip
@key_option()
@iss_option()
@click.option("--sub", metavar="URI", help="As for `sign`, where FILE is a record.")
@click.option("--content-type", metavar="T", help="As for `sign`, where FILE is a record.")
@click.option("--private", is_flag=True, help="As for `sign`, where FILE is a record.")
@click.option("--detached", is_flag=True, help="Leave the record out of the output file too.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the receipt; print where it will be.")
@passphrase_option()
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@json_option()
def command(
    file: str, log: str, token: str | None, cacert: str | None, payload: str | None, out: str | None,
    log_key: tuple[str, ...], key: str | None, iss: str | None, sub: str | None, content_type: str | None,
    private: bool, detached: bool, no_wait: bool, passphrase_file: str | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Register FILE on a log and write it with its receipt (a transparent statement).

    FILE is a signed statement; a record is signed first if --key and --iss are given. Submitting the same statement
    again gives the same receipt.
    """
    target = out if out is not None else _default_out(file)
    if not no_wait:
        refuse_existing(target, force=force)
    data = read_input(file)
    record = read_input(payload) if payload is not None else None
    if not data.startswith(_SIGN1_HEAD):
        if key is None or iss is None:
            raise CommandError(
                Exit.BAD_INPUT, f"{file} is not a signed statement",
                "Sign it first (`transparency sign`), or give --key and --iss to do both.",
            )  # fmt: skip
        signed = sign_named(
            data, load_private(key, passphrase_file), file, iss=iss, sub=sub, content_type=content_type, private=private
        )
        data = signed.statement
    elif private or sub is not None or content_type is not None:
        # Silently registering what was signed otherwise would send a record to the log that was to stay private.
        raise CommandError(
            Exit.USAGE, f"{file} is signed already: --private, --sub and --content-type say how to sign a record",
            "Give the record itself, with --key and --iss.",
        )  # fmt: skip
    statement = _read(file, data, record)
    # A detached statement goes with its record; an attached one needs nothing beside it.
    beside = statement.payload if statement.message.payload is None else None
    pinned = load_public(log_key) if log_key else None
    with connect(log, token=token, cacert=cacert, pinned_keys=pinned) as client:
        submission = client.submit(data, beside, wait=not no_wait)
        if submission.receipt is None:
            _print_pending(submission, as_json=as_json)
            return
        trusted = _check(client, submission.receipt, statement, pinned)
    complete = statement.message.with_payload(None if _leaves_out(statement, detached) else statement.payload).to_bytes()
    write_output(target, attach_receipts(complete, _receipts(statement.message, submission.receipt)), force=force)
    _print_done(target, submission, statement, trusted=trusted, as_json=as_json)


def _read(file: str, data: bytes, record: bytes | None) -> Statement:
    try:
        return Statement.from_bytes(data, record)
    except MalformedError as error:
        if not _is_sign1(data):
            raise CommandError(Exit.BAD_INPUT, f"{file} is not a signed statement: {error}") from error
        raise CommandError(Exit.BAD_INPUT, f"{file} is not a statement a log registers: {error}") from error


def _leaves_out(statement: Statement, detached: bool) -> bool:
    """The digest in a hash envelope is no record: it stays, whatever is left out."""
    return detached and statement.envelope is None


def _is_sign1(data: bytes) -> bool:
    try:
        Sign1.from_bytes(data)
    except (MalformedError, UnsupportedAlgorithmError):
        return False
    return True


def _check(client: SyncLogClient, receipt: bytes, statement: Statement, pinned: tuple[PublicKey, ...] | None) -> bool:
    """Pinned keys were used already. Without them the log's own word is at least held against itself."""
    if pinned is not None:
        return True
    check_receipt(receipt, statement.entry, client.keys())
    return False


def _receipts(message: Sign1, new: bytes) -> list[bytes]:
    """The new receipt first (TSt-2: the order is a priority), then those that other logs gave before."""
    receipt = Receipt.from_bytes(new)
    kept = [new]
    for old in receipts_of(message):
        try:
            known = Receipt.from_bytes(old)
        except (MalformedError, UnsupportedAlgorithmError):
            kept.append(old)  # of a kind we cannot read: somebody else's, not ours to drop
            continue
        if (known.iss, known.sub) != (receipt.iss, receipt.sub):
            kept.append(old)
    return kept


def _default_out(file: str) -> str:
    if file == STDIO:
        return STDIO
    return str(Path(file).with_suffix(".t.cose"))


def _print_pending(submission: Submission, *, as_json: bool) -> None:
    if as_json:
        print_json({"status": "pending", "entry-id": submission.entry_id, "location": submission.location})
    else:
        click.echo(submission.location)
        note("accepted; submit the same file again, without --no-wait, for its receipt")


def _print_done(target: str, submission: Submission, statement: Statement, *, trusted: bool, as_json: bool) -> None:
    receipt = Receipt.from_bytes(submission.receipt or b"")
    proof = receipt.inclusion[0]
    body = {
        "status": "registered", "entry-id": submission.entry_id, "location": submission.location, "file": target,
        "iss": statement.iss, "sub": statement.sub, "log": receipt.sub, "index": proof.index, "tree-size": proof.size,
        "time": timestamp(receipt.iat), "receipt-checked-with": "pinned keys" if trusted else "keys the log serves",
    }  # fmt: skip
    if as_json:
        print_json(body)
        return
    done(f"{target}: registered as entry {proof.index} of {receipt.sub or 'the log'}, {timestamp(receipt.iat)}")
    err().print(f"  [dim]{safe(submission.location)}[/]")
    if not trusted:
        note("the receipt was checked with the keys this log serves; pin them with --log-key")
