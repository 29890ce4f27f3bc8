"""What people state about records, signed and registered: shared by ``review`` and ``attest``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from transparency.cli.certificates import Certificates, certificate_options
from transparency.cli.connection import connect
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import refuse_existing, write_output
from transparency.cli.keyfiles import load_private, load_public
from transparency.cli.passphrases import passphrase_option
from transparency.cli.settings import Setting, iss_option, json_option, key_option, log_options
from transparency.errors import MalformedError, ServiceRefusedError
from transparency.statements.statement import Statement, sign_statement
from transparency.statements.transparent import attach_receipts

if TYPE_CHECKING:
    from transparency.client.sync import SyncLogClient

_F = TypeVar("_F", bound=Callable[..., Any])
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Where:
    """Who states it, where it is registered, and where the statement is kept."""

    log: str
    token: str | None
    cacert: str | None
    log_key: tuple[str, ...]
    key: str
    iss: str
    passphrase_file: str | None
    certificates: Certificates
    out: str | None
    force: bool


def stating_options() -> Callable[[_F], _F]:
    def decorate(function: _F) -> _F:
        options: list[Callable[[Any], Any]] = [
            log_options(),
            click.option("--log-key", cls=Setting, multiple=True, type=click.Path(), metavar="KEYFILE",
                         help="Take the receipt only if it is signed with a key in this file (repeatable)."),
            key_option(required=True),
            iss_option(required=True),
            passphrase_option(),
            certificate_options(),
            click.option("--out", type=click.Path(), metavar="COSE", help="Where the statement with its receipt goes."),
            click.option("--force", is_flag=True, help="Replace an existing output file."),
            json_option(),
        ]  # fmt: skip
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def register(
    payload: bytes, content_type: str, sub: str, where: Where, default_out: str, *, about: str | None = None
) -> tuple[Statement, str]:
    """Sign, register and keep *payload*; *about* is an entry that must be on the log. The statement, and its file."""
    target = where.out or default_out
    refuse_existing(target, force=where.force)
    signer = where.certificates.certify(load_private(where.key, where.passphrase_file))
    try:
        statement = Statement.from_bytes(
            sign_statement(payload, signer, iss=where.iss, sub=sub, content_type=content_type)
        )
    except MalformedError as error:
        raise CommandError(Exit.BAD_INPUT, str(error), "Check --iss.") from error
    pinned = load_public(where.log_key) if where.log_key else None
    with connect(where.log, token=where.token, cacert=where.cacert, pinned_keys=pinned) as client:
        if about is not None:
            _check_there(client, where.log, about)
        submission = client.submit(statement.message.to_bytes())
        if submission.receipt is None:
            raise CommandError(Exit.TRY_LATER, f"still pending at {submission.location}")
        if pinned is None:
            from transparency.client.pinning import check_receipt

            check_receipt(submission.receipt, statement.entry, client.keys())
    write_output(target, attach_receipts(statement.message.to_bytes(), [submission.receipt]), force=where.force)
    return statement, target


def _check_there(client: SyncLogClient, log: str, entry: str) -> None:
    try:
        client.receipt(entry)
    except ServiceRefusedError as error:
        if error.status == _NOT_FOUND:
            raise CommandError(Exit.BAD_INPUT, f"{log} has no entry {entry}", "Nothing was registered.") from error
        raise
