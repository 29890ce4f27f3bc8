"""``--cert``, ``--x5chain``, ``--x5t``: a command that signs says by certificates whose key it is.

@certificate_options()
def command(..., certificates: Certificates): ...

signer = certificates.certify(load_private(key))
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_KEY_FILE, read_input
from transparency.cose.keys import Signer
from transparency.cose.x509 import read_certificates
from transparency.errors import CertificateError
from transparency.statements.certified import HEADERS, CertifiedSigner, Header

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Certificates:
    """What was asked for; without a file nothing is."""

    file: str | None = None
    x5chain: Header = "protected"
    x5t: bool = False

    def certify(self, key: Signer) -> Signer:
        """The key as it is, or named by the chain in the file."""
        if self.file is None:
            return key
        try:
            chain = read_certificates(read_input(self.file, most=MAX_KEY_FILE))
            return CertifiedSigner(key, chain, self.x5chain, self.x5t)
        except CertificateError as error:
            hint = "Give the signing certificate and those above it, in one PEM file, in this order."
            raise CommandError(Exit.BAD_INPUT, f"{self.file}: {error}", hint) from error


_OPTIONS: Final = (
    click.option(
        "--cert", type=click.Path(), metavar="PEM",
        help="The key's X.509 certificate, then those above it: they name the key instead of its kid.",
    ),
    click.option(
        "--x5chain", type=click.Choice(HEADERS), help="With --cert: which header has the chain. Default: protected."
    ),
    click.option("--x5t", is_flag=True, help="With --cert: sign the certificate's SHA-256 too."),
)  # fmt: skip


def certificate_options() -> Callable[[_F], _F]:
    """The flags; the command gets one argument ``certificates`` for all of them."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def command(*args: Any, cert: str | None, x5chain: Header | None, x5t: bool, **kwargs: Any) -> Any:  # noqa: ANN401 - click's
            if cert is None and (x5chain is not None or x5t):
                raise CommandError(Exit.USAGE, "--x5chain and --x5t go with --cert")
            return function(*args, certificates=Certificates(cert, x5chain or "protected", x5t), **kwargs)

        for option in reversed(_OPTIONS):
            command = option(command)
        return cast("_F", command)

    return decorate
