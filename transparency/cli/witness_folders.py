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
    from transparency.witness.follow_folder import FollowerFolder

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


def require_follower(path: Path) -> FollowerFolder:
    """The folder *path*, which must hold a compliance witness."""
    from transparency.witness.folder import WitnessFolder
    from transparency.witness.follow_folder import FollowerFolder

    folder = FollowerFolder(path.absolute(), kept_passphrase())
    try:
        if WitnessFolder(folder.path).config.exists():
            raise CommandError(
                Exit.REFUSED, f"{path} is a plain witness': its keys have another meaning",
                "Make a compliance witness in a folder of its own: `transparency witness init-follower`.",
            )  # fmt: skip
        found = folder.exists()
    except PermissionError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error.strerror}", OTHER_USER) from error
    if not found:
        make_one = f"Make one with `transparency witness init-follower --dir {path} --name NAME …`."
        raise CommandError(Exit.NO_INPUT, f"there is no compliance witness in {path}", make_one)
    return folder


def is_follower(path: Path) -> bool:
    from transparency.witness.follow_folder import FollowerFolder

    return FollowerFolder(path).config.exists()


def require_either(path: Path) -> WitnessFolder:
    """A witness of one or the other kind."""
    return require_follower(path) if is_follower(path) else require_witness(path)


def require_witness(path: Path) -> WitnessFolder:
    """The folder *path*, which must hold a witness that this user may read."""
    from transparency.witness.folder import WitnessFolder

    folder = WitnessFolder(path.absolute(), kept_passphrase())
    try:
        if is_follower(folder.path):
            raise CommandError(
                Exit.REFUSED, f"{path} is a compliance witness': its keys have another meaning",
                "It is run by `transparency witness follow`; a plain witness has a folder of its own.",
            )  # fmt: skip
    except PermissionError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error.strerror}", OTHER_USER) from error
    try:
        found = folder.exists()
    except PermissionError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error.strerror}", OTHER_USER) from error
    if not found:
        make_one = f"Make one with `transparency witness init --dir {path} --name NAME`."
        raise CommandError(Exit.NO_INPUT, f"there is no witness in {path}", make_one)
    return folder
