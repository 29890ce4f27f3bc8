"""``transparency sign``: a record becomes a signed statement."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli.certificates import Certificates, certificate_options
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input, refuse_existing, write_output
from transparency.cli.keyfiles import alg_option, load_private
from transparency.cli.output import done, note, print_json
from transparency.cli.passphrases import passphrase_option
from transparency.cli.settings import iss_option, json_option, key_option
from transparency.client.signing import SignedRecord, sign_record
from transparency.cose.keys import Signer
from transparency.errors import MalformedError
from transparency.statements.statement import Statement


@click.command(
    epilog="\b\nExample: transparency sign session.json --key issuer.pem --iss https://acme.example --out session.cose"
)
@click.argument("file", type=click.Path())
@key_option(required=True)
@iss_option(required=True)
@click.option("--sub", metavar="URI", help="What the statement is about. Default: the session id of a VAC record.")
@click.option("--content-type", metavar="T", help="Media type of FILE. Default: by content and name.")
@click.option("--out", type=click.Path(), metavar="COSE", help="Default: FILE with .cose in place of its extension.")
@click.option("--detached", is_flag=True, help="Leave the record out of the statement; it travels beside it.")
@click.option(
    "--private", is_flag=True, help="Sign the record's SHA-256 only (RFC 9995): the log never sees the record."
)
@click.option(
    "--iat", type=click.IntRange(0, 2**53 - 1), metavar="SECONDS", help="State a time of signing. Default: none."
)
@alg_option()
@passphrase_option()
@certificate_options()
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@json_option()
def command(
    file: str, key: str, iss: str, sub: str | None, content_type: str | None, out: str | None,
    detached: bool, private: bool, iat: int | None, alg: str | None, passphrase_file: str | None, force: bool,
    as_json: bool, certificates: Certificates,
) -> None:  # fmt: skip
    """Sign FILE as a statement (COSE_Sign1, RFC 9943). "-" reads standard input.

    The bytes are signed exactly as they are. Signing the same file again gives the same statement. A VAC record also
    gets its trace-metadata, at label 100 and as a signed copy.
    """
    if detached and private:
        raise CommandError(Exit.USAGE, "--detached and --private exclude each other")
    target = out if out is not None else default_out(file)
    refuse_existing(target, force=force)
    record = read_input(file, may_be_empty=True)
    signer = certificates.certify(load_private(key, passphrase_file, alg))
    signed = sign_named(
        record, signer, file, iss=iss, sub=sub, content_type=content_type, detached=detached, private=private, iat=iat
    )
    write_output(target, signed.statement, force=force)
    entry_id = Statement.from_bytes(signed.statement, record if detached else None).entry_id
    if as_json:
        print_json(
            {
                "statement": target,
                "iss": iss,
                "sub": signed.sub,
                "content-type": signed.content_type,
                "entry-id": entry_id,
                "trace-metadata": signed.trace_metadata is not None,
                "note": signed.note,
            }
        )
        return
    done(f"{target}: signed by {iss} about {signed.sub} ({signed.content_type})")
    if signed.note:
        note(f"no trace-metadata: {signed.note}")
    if detached:
        note(f"detached: submit it with --payload {file}")
    note(f"next: transparency submit {target} --log URL")


def default_out(file: str) -> str:
    if file == STDIO:
        return STDIO
    path = Path(file)
    return str(path.with_suffix(".cose")) if path.suffix != ".cose" else f"{file}.cose"


def sign_named(
    record: bytes,
    signer: Signer,
    file: str,
    *,
    iss: str,
    sub: str | None,
    content_type: str | None,
    detached: bool = False,
    private: bool = False,
    iat: int | None = None,
) -> SignedRecord:
    """``sign_record`` with messages that name flags."""
    try:
        return sign_record(
            record, signer, iss=iss, sub=sub, content_type=content_type, name=Path(file).name, detached=detached,
            private=private, iat=iat,
        )  # fmt: skip
    except MalformedError as error:
        hint = "Give --sub URI." if sub is None else "Check --iss, --sub and --content-type."
        raise CommandError(Exit.BAD_INPUT, f"{file} cannot be signed: {error}", hint) from error
