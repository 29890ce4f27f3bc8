"""What ``issuer`` commands read: who is meant, key sets and certificates from files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_KEY_FILE, read_input
from transparency.cli.keyfiles import load_public
from transparency.cli.output import note
from transparency.cose.keys import PublicKey, read_public_keys
from transparency.cose.x509 import Certificate, read_certificates
from transparency.cose.x509_names import ATTRIBUTES
from transparency.cose.x509_path import Root, check_leaf, check_root
from transparency.errors import MalformedError, TransparencyError
from transparency.records import strict_json

_F = TypeVar("_F", bound=Callable[..., Any])


def named_option() -> Callable[[_F], _F]:
    """``--iss`` or ``--pattern``: exactly one of them."""

    def one_of(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        # The second of the two to be read sees both.
        other = ctx.params.get("iss")
        if parameter.name == "pattern" and (value is None) == (other is None):
            raise CommandError(Exit.USAGE, "which issuer?", "Give --iss URI or --pattern PATTERN: one of them.")
        return value

    def add(command: _F) -> _F:
        pattern = click.option("--pattern", metavar="PATTERN", callback=one_of, help="Or all whose iss matches it.")
        iss = click.option(
            "--iss", metavar="URI", is_eager=True, callback=one_of, help="The issuer, exactly as its statements say."
        )
        return iss(pattern(command))

    return add


def find_key(keys: Sequence[PublicKey], kid: str) -> PublicKey:
    """The one key whose id or thumbprint begins with *kid* in hex."""
    given = kid.lower()
    found = [key for key in keys if key.kid.hex().startswith(given) or key.thumbprint.hex().startswith(given)]
    if not re.fullmatch(r"[0-9A-Fa-f]{4,}", kid) or len(found) != 1:
        raise CommandError(
            Exit.BAD_INPUT, f"--kid {kid} names {len(found)} of its keys", "Give at least 4 hex digits of one."
        )
    return found[0]


def load_named_key(key_file: str | None, cert: str | None) -> PublicKey:
    """The one key in *key_file*; or else that of the first certificate in *cert*, under its thumbprint."""
    if cert is None:
        keys = load_public((key_file or "",))
        if len(keys) != 1:
            raise CommandError(Exit.BAD_INPUT, f"{key_file}: there are {len(keys)} keys; one is meant")
        return keys[0]
    try:
        first = Certificate.from_der(read_certificates(read_input(cert, most=MAX_KEY_FILE))[0])
        check_leaf(first)
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{cert}: {error}", "Give the signer's certificate.") from error
    return first.key


def load_jwks(paths: Iterable[str]) -> tuple[PublicKey, ...]:
    """Each key of the JWK Sets that is for signatures (RFC 7517 §5); one private key spoils its set."""
    keys: list[PublicKey] = []
    for path in paths:
        data = read_input(path, most=MAX_KEY_FILE)
        try:
            value = strict_json.loads(data)
            if not isinstance(value, dict) or not isinstance(value.get("keys"), list):
                raise MalformedError("this is no JWK Set, which has a member `keys`")
            found = read_public_keys(data)
        except TransparencyError as error:
            hint = (
                "Take the public part of each key; private ones stay where they are." if "private" in str(error) else ""
            )
            raise CommandError(Exit.BAD_INPUT, f"{path}: {error}", hint) from error
        left = len(value["keys"]) - len(found)
        if left:
            note(f"{path}: {left} of {len(value['keys'])} keys are not for signatures that are known here; left out")
        keys += found
    return tuple(keys)


def load_roots(
    paths: Iterable[str], subjects: Iterable[str], sans: Iterable[str], ekus: Iterable[str]
) -> tuple[Root, ...]:
    """The CA certificates in *paths*, each with what is required of the certificates below it."""
    subject: dict[str, str] = {}
    for each in subjects:
        attribute, equals, value = each.partition("=")
        if not equals or not value or attribute not in ATTRIBUTES or attribute in subject:
            raise CommandError(
                Exit.USAGE,
                f"--subject {each} is no requirement",
                f"As CN=agent-7, once each of {', '.join(ATTRIBUTES)}.",
            )
        subject[attribute] = value
    roots = []
    for path in paths:
        try:
            certificates = read_certificates(read_input(path, most=MAX_KEY_FILE))
            for der in certificates:
                check_root(der)
        except TransparencyError as error:
            raise CommandError(Exit.BAD_INPUT, f"{path}: {error}") from error
        roots += [Root(der, subject, tuple(sans), tuple(ekus)) for der in certificates]
    if not roots and (subject or tuple(sans) or tuple(ekus)):
        raise CommandError(Exit.USAGE, "--subject, --san and --eku are about certificates", "Give their --root, too.")
    return tuple(roots)
