"""``transparency keys``: what a log says its keys are, kept as a COSE_KeySet to verify with."""

from __future__ import annotations

import click

from transparency.cli.connection import connect
from transparency.cli.files import STDIO, refuse_existing, write_output
from transparency.cli.output import note, out, print_json, safe
from transparency.cli.settings import json_option, log_options
from transparency.cose.keys import encode_key_set


@click.command(epilog="\b\nExample: transparency keys --log https://log.example --out log.keys")
@log_options()
@click.option(
    "--out", "target", type=click.Path(), metavar="KEYFILE", help="Write a COSE_KeySet, for `verify --log-key`."
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@json_option()
def command(log: str, token: str | None, cacert: str | None, target: str | None, force: bool, as_json: bool) -> None:
    """Fetch a log's public keys (GET /.well-known/scitt-keys).

    A log can serve any keys it likes: compare the thumbprints with what its operator published elsewhere, once, then
    keep the file.
    """
    if target is not None:
        refuse_existing(target, force=force)
    with connect(log, token=token, cacert=cacert) as client:
        keys = client.keys()
    if target is not None:
        write_output(target, encode_key_set(keys), force=force)
    if target == STDIO:
        return
    rows = [
        {"thumbprint": key.thumbprint.hex(), "kid": key.kid.hex(), "type": key.kty_name, "alg": key.alg} for key in keys
    ]
    if as_json:
        print_json({"log": log, "keys": rows, "file": target})
        return
    for key in keys:
        out().print(f"{key.thumbprint.hex()}  {safe(key.kty_name)}")
    if target is not None:
        note(f"{len(keys)} key(s) in {target}; compare the thumbprints with the operator's before relying on them")
