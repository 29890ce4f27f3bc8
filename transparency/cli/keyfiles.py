"""Key files as commands read them: private ones for signing, public ones for trusting."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_KEY_FILE, STDIO, read_input
from transparency.cli.output import warn
from transparency.cli.passphrases import VARIABLE, find_passphrase
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import (
    PrivateKey,
    PublicKey,
    Signer,
    is_encrypted,
    load_signer,
    names_signer,
    read_public_keys,
)
from transparency.errors import MalformedError, PassphraseError, TransparencyError, UnsupportedAlgorithmError

_F = TypeVar("_F", bound=Callable[..., Any])


def alg_option() -> Callable[[_F], _F]:
    """A PEM file does not say which of its key type's algorithms is meant (PS256 or PS384, ES256 or ESP256)."""
    return click.option(
        "--alg", metavar="NAME", help="Algorithm to sign with. Default: the usual one of the key's type."
    )


def load_private(path: str, passphrase_file: str | None = None, alg: str | None = None) -> Signer:
    """The key in the file *path*; or the signer of that name, ``NAME:ARGUMENT``, where there is no such file."""
    if names_signer(path) and not Path(path).exists():
        if alg is not None:
            raise CommandError(Exit.USAGE, "--alg goes with a key file; a signer has its algorithm")
        return load_signer(path)
    data = read_input(path, most=MAX_KEY_FILE)
    # One that was named is used, so that the wrong file is noticed; the environment's may be meant for another key.
    password = find_passphrase(passphrase_file) if passphrase_file is not None or is_encrypted(data) else None
    try:
        key = PrivateKey.from_pem(data, password, alg=None if alg is None else algorithm(alg).id)
    except TransparencyError as error:
        hint = "Make one with `transparency keygen --out issuer.pem`."
        if isinstance(error, PassphraseError):
            hint = f"Give its passphrase with --passphrase-file or {VARIABLE}."
        elif passphrase_file is not None and "passphrase" in str(error):
            hint = "Leave --passphrase-file away."
        elif isinstance(error, UnsupportedAlgorithmError) and alg is not None:
            raise CommandError(Exit.USAGE, f"--alg {alg}: {error}") from error
        elif b"BEGIN PUBLIC KEY" in data:
            hint = "This is a public key; signing needs the private one."
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error}", hint) from error
    _warn_if_readable(path)
    return key


def load_public(paths: Iterable[str]) -> tuple[PublicKey, ...]:
    """Every public key in *paths*, in whatever form each file has."""
    keys: list[PublicKey] = []
    for path in paths:
        try:
            keys.extend(read_public_keys(read_input(path, most=MAX_KEY_FILE)))
        except TransparencyError as error:
            hint = "Give the public part (`issuer.pub.pem`), not the private key." if "private" in str(error) else ""
            raise CommandError(Exit.BAD_INPUT, f"{path}: {error}", hint) from error
    return tuple(keys)


def public_of(data: bytes) -> PublicKey | None:
    """The public part of an unencrypted PEM private key; None for anything else. Nothing private leaves here."""
    try:
        return PrivateKey.from_pem(data).public
    except MalformedError:
        return None


def public_name(path: str) -> str:
    """Where the public part of the private key *path* is written: ``issuer.pem`` gives ``issuer.pub.pem``."""
    return f"{path.removesuffix('.pem')}.pub.pem"


def thumbprints(keys: Sequence[PublicKey]) -> list[str]:
    return [key.thumbprint.hex() for key in keys]


def _warn_if_readable(path: str) -> None:
    if path == STDIO:
        return
    mode = Path(path).stat().st_mode
    if stat.S_ISREG(mode) and mode & 0o077:
        warn(f"others can read the private key {path}; chmod 600 it")
