"""Whom a command trusts: the keys of logs and issuers, by file or by name. Nothing else makes a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import read_input
from transparency.cli.keyfiles import load_public
from transparency.cli.settings import Setting
from transparency.errors import TransparencyError
from transparency.verifier import TrustStore

_F = TypeVar("_F", bound=Callable[..., Any])


def trust_options() -> Callable[[_F], _F]:
    """``--log-key``, ``--issuer-key`` and ``--trust``."""

    def decorate(function: _F) -> _F:
        function = click.option(
            "--trust", cls=Setting, type=click.Path(), metavar="TOML", help="Logs and issuers by name, with their keys."
        )(function)
        function = click.option(
            "--issuer-key", cls=Setting, multiple=True, type=click.Path(), metavar="KEYFILE",
            help="Keys of the issuer (repeatable).",
        )(function)  # fmt: skip
        return click.option(
            "--log-key", cls=Setting, multiple=True, type=click.Path(), metavar="KEYFILE",
            help="Keys of the log (repeatable).",
        )(function)  # fmt: skip

    return decorate


def load_trust(log_keys: Sequence[str], issuer_keys: Sequence[str], trust: str | None) -> TrustStore:
    """The store that these files make."""
    store = TrustStore.from_keys(load_public(log_keys), load_public(issuer_keys))
    if trust is None:
        return store
    data = read_input(trust)
    try:
        return store.merged(TrustStore.from_toml(data, Path(trust).parent))
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{trust}: {error}") from error
