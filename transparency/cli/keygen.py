"""``transparency keygen``: a private key nobody else can read, and its public part beside it."""

from __future__ import annotations

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, refuse_existing, write_output
from transparency.cli.keyfiles import public_name
from transparency.cli.output import done, note
from transparency.cli.passphrases import new_passphrase, passphrase_option
from transparency.cli.settings import json_option
from transparency.cose.algorithms import ALGORITHMS, algorithm
from transparency.cose.keys import PrivateKey

_NAMES = [each.name for each in ALGORITHMS.values()]


@click.command(epilog="\b\nExample: transparency keygen --alg ES256 --out issuer.pem")
@click.option(
    "--alg",
    type=click.Choice(_NAMES, case_sensitive=False),
    default="ES256",
    show_default=True,
    metavar="NAME",
    help=f"Signature algorithm: {', '.join(_NAMES)}.",
)
@click.option(
    "--out", required=True, type=click.Path(), metavar="PEM", help="Private key; NAME.pub.pem is written too."
)
@click.option("--encrypt", is_flag=True, help="Encrypt the private key with a passphrase (so does --passphrase-file).")
@passphrase_option()
@click.option("--force", is_flag=True, help="Replace existing files. The old key is gone then.")
@json_option()
def command(alg: str, out: str, encrypt: bool, passphrase_file: str | None, force: bool, as_json: bool) -> None:
    """Make a signing key.

    The private key gets mode 0600. Hand the public part (NAME.pub.pem) to the log's operator, and to whoever is to
    verify what you sign.
    """
    if out == STDIO:
        raise CommandError(Exit.USAGE, "a private key is not printed", "Name a file with --out.")
    public_path = public_name(out)
    refuse_existing(out, public_path, force=force)
    password = new_passphrase(passphrase_file) if encrypt or passphrase_file is not None else None
    key = PrivateKey.generate(algorithm(alg).id)
    write_output(out, key.to_pem(password), force=force, mode=0o600)
    write_output(public_path, key.public.to_pem(), force=force)
    if as_json:
        from transparency.cli.output import print_json

        print_json({"private": out, "public": public_path, "alg": alg, "thumbprint": key.public.thumbprint.hex()})
        return
    done(f"{out} (private, mode 0600) and {public_path} (public): {key.public.kty_name}, {algorithm(key.alg).name}")
    note(f"thumbprint {key.public.thumbprint.hex()}")
    note(f"next: transparency issuer add --data DIR --iss URI --key {public_path}")
