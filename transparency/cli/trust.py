"""Whom a command trusts: the keys of logs and issuers, by file or by name. Nothing else makes a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_KEY_FILE, read_input
from transparency.cli.keyfiles import load_public
from transparency.cli.settings import Setting
from transparency.cose.x509_path import Root
from transparency.errors import TransparencyError
from transparency.verifier import TrustStore
from transparency.verifier.trust_roots import roots_of

_F = TypeVar("_F", bound=Callable[..., Any])


def trust_options() -> Callable[[_F], _F]:
    """``--log-key``, ``--issuer-key``, ``--issuer-root`` and ``--trust``."""

    def decorate(function: _F) -> _F:
        function = click.option(
            "--trust", cls=Setting, type=click.Path(), metavar="TOML", help="Logs and issuers by name, with their keys."
        )(function)
        function = click.option(
            "--issuer-root", cls=Setting, multiple=True, type=click.Path(), metavar="PEM",
            help="CA certificates that the issuer's certificate may lead to (repeatable).",
        )(function)  # fmt: skip
        function = click.option(
            "--issuer-key", cls=Setting, multiple=True, type=click.Path(), metavar="KEYFILE",
            help="Keys of the issuer (repeatable).",
        )(function)  # fmt: skip
        return click.option(
            "--log-key", cls=Setting, multiple=True, type=click.Path(), metavar="KEYFILE",
            help="Keys of the log (repeatable).",
        )(function)  # fmt: skip

    return decorate


def load_trust(
    log_keys: Sequence[str], issuer_keys: Sequence[str], issuer_roots: Sequence[str], trust: str | None
) -> TrustStore:
    """The store that these files make."""
    store = TrustStore.from_keys(load_public(log_keys), load_public(issuer_keys), _load_roots(issuer_roots))
    if trust is None:
        return store
    data = read_input(trust)
    try:
        return store.merged(TrustStore.from_toml(data, Path(trust).parent))
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{trust}: {error}") from error


def _load_roots(paths: Sequence[str]) -> list[Root]:
    roots: list[Root] = []
    for path in paths:
        try:
            roots += roots_of(read_input(path, most=MAX_KEY_FILE), path)
        except TransparencyError as error:
            hint = "Give the certificate of the CA, not the one that signed (that came with the statement)."
            raise CommandError(Exit.BAD_INPUT, str(error), hint) from error
    return roots
