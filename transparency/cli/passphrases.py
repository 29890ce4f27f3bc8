"""Passphrases of private keys: from a file, from the environment, or typed at a terminal. Never from a flag.

Flags are seen by every user of the machine and kept in shell histories. The passphrase itself stands in no message.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import read_input

VARIABLE: Final = "TRANSPARENCY_PASSPHRASE"
MAX_BYTES: Final = 4096
MAX_PASSPHRASE: Final = 1023
"""As many bytes as cryptography takes."""
_META: Final = __name__
_F = TypeVar("_F", bound=Callable[..., Any])


def passphrase_option(*, keeper: str | None = None) -> Callable[[_F], _F]:
    """``--passphrase-file``. *keeper*: of the keys in its folder; not handed over, but kept for `kept_passphrase`."""
    whose = "The key's passphrase" if keeper is None else f"The passphrase of the {keeper}'s keys"
    return click.option(
        "--passphrase-file",
        type=click.Path(),
        metavar="FILE",
        expose_value=keeper is None,
        callback=None if keeper is None else _keep,
        help=f"{whose} is this file's first line. Else [{VARIABLE}], else asked for.",
    )


def _keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
    context.find_root().meta[_META] = value


def find_passphrase(path: str | None) -> bytes | None:
    """The passphrase, from wherever it is first to be had; None where there is none and nobody to ask."""
    if path is not None:
        return _first_line(path)
    value = os.environ.get(VARIABLE)
    if value:
        return _checked(os.fsencode(value), VARIABLE)
    if sys.stdin.isatty():
        typed: str = click.prompt("Passphrase", hide_input=True, err=True)
        return _checked(typed.encode(), "the passphrase")
    return None


def new_passphrase(path: str | None) -> bytes:
    """The same for a key that is to be encrypted: typed twice, and there must be one."""
    if path is None and not os.environ.get(VARIABLE) and sys.stdin.isatty():
        typed: str = click.prompt("Passphrase", hide_input=True, err=True, confirmation_prompt=True)
        return _checked(typed.encode(), "the passphrase")
    passphrase = find_passphrase(path)
    if passphrase is None:
        raise CommandError(
            Exit.USAGE, "there is no passphrase to encrypt with", f"Give --passphrase-file FILE, or set {VARIABLE}."
        )
    return passphrase


def kept_passphrase() -> Callable[[], bytes | None]:
    """Asked at most once in a command, and only if one of the folder's keys is encrypted."""
    path = _kept()
    return functools.cache(lambda: find_passphrase(path))


def new_kept_passphrase() -> bytes:
    return new_passphrase(_kept())


def _kept() -> str | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.find_root().meta.get(_META)


def _first_line(path: str) -> bytes:
    line = read_input(path, most=MAX_BYTES).split(b"\n", 1)[0].rstrip(b"\r")
    if not line:
        raise CommandError(Exit.BAD_INPUT, f"{path}: its first line is empty, so there is no passphrase")
    return _checked(line, path)


def _checked(passphrase: bytes, where: str) -> bytes:
    if len(passphrase) > MAX_PASSPHRASE:
        raise CommandError(Exit.BAD_INPUT, f"{where}: a passphrase has at most {MAX_PASSPHRASE} bytes")
    return passphrase
