"""What the witness commands share: ``--dir``, and a folder that holds a witness."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from transparency.cli.errors import OTHER_USER, CommandError
from transparency.cli.exits import Exit
from transparency.cli.passphrases import kept_passphrase, passphrase_option

if TYPE_CHECKING:
    from transparency.witness.folder import WitnessFolder

_F = TypeVar("_F", bound=Callable[..., Any])


def dir_option(*, keys: bool = False) -> Callable[[_F], _F]:
    """``--dir``; and ``--passphrase-file``, if the command needs the witness' private *keys*."""

    def decorate(function: _F) -> _F:
        if keys:
            function = passphrase_option(keeper="witness")(function)
        return click.option(
            "--dir", "folder", required=True, envvar="TRANSPARENCY_WITNESS", type=click.Path(path_type=Path),
            metavar="DIR", help="The witness' folder [TRANSPARENCY_WITNESS].",
        )(function)  # fmt: skip

    return decorate


def require_witness(path: Path) -> WitnessFolder:
    """The folder *path*, which must hold a witness that this user may read."""
    from transparency.witness.folder import WitnessFolder

    folder = WitnessFolder(path.absolute(), kept_passphrase())
    try:
        found = folder.exists()
    except PermissionError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error.strerror}", OTHER_USER) from error
    if not found:
        make_one = f"Make one with `transparency witness init --dir {path} --name NAME`."
        raise CommandError(Exit.NO_INPUT, f"there is no witness in {path}", make_one)
    return folder
