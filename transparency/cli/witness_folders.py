"""What the witness commands share: ``--dir``, and a folder that holds a witness."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from transparency.cli.errors import OTHER_USER, CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.passphrases import kept_passphrase, passphrase_option
from transparency.errors import NoteError

if TYPE_CHECKING:
    from transparency.mirror.folder import MirrorFolder
    from transparency.witness.folder import WitnessFolder
    from transparency.witness.follow_folder import FollowerFolder

_F = TypeVar("_F", bound=Callable[..., Any])


def dir_option(*, keys: bool = False, keeper: str = "witness") -> Callable[[_F], _F]:
    """``--dir``; and ``--passphrase-file``, if the command needs the private *keys*. *keeper*: or "mirror"."""

    def decorate(function: _F) -> _F:
        if keys:
            function = passphrase_option(keeper=keeper)(function)
        variable = f"TRANSPARENCY_{keeper.upper()}"
        whose = "witness'" if keeper == "witness" else f"{keeper}'s"
        return click.option(
            "--dir", "folder", required=True, envvar=variable, type=click.Path(path_type=Path),
            metavar="DIR", help=f"The {whose} folder [{variable}].",
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


def check_new(folder: Path, name: str, like: str) -> None:
    """That a cosigner of this name can be made in this folder."""
    from transparency.witness.keys import check_witness_name

    hint = f"It is like {like}."
    try:
        check_witness_name(name)
    except NoteError as error:
        raise CommandError(Exit.USAGE, f"--name cannot be used: {error}", hint) from error
    if "://" in name:
        raise CommandError(Exit.USAGE, "--name cannot be used: it is a name, without https://", hint)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(Exit.CANNOT_WRITE, f"{folder} is not an empty folder", "Name another.")


def print_vkeys(found: WitnessFolder) -> None:
    """The verifier keys, one a line, if they are those that the folder was made with."""
    from transparency.witness.state import WitnessState

    vkeys = [key.text for key in found.load_keys().vkeys]
    with storage(found.state), closing(WitnessState.for_reading(found)) as state:
        state.check_keys(vkeys)
    for line in vkeys:
        click.echo(line)


def require_mirror(path: Path) -> MirrorFolder:
    """The folder *path*, which must hold a mirror."""
    from transparency.mirror.folder import MirrorFolder

    folder = MirrorFolder(path.absolute(), kept_passphrase())
    try:
        found = folder.config.exists()
        other = not found and folder.state.exists()
    except PermissionError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error.strerror}", OTHER_USER) from error
    if other:
        raise CommandError(
            Exit.REFUSED, f"{path} is a witness': its keys have another meaning",
            "Make a mirror in a folder of its own: `transparency mirror init`.",
        )  # fmt: skip
    if not found:
        make_one = f"Make one with `transparency mirror init --dir {path} --name NAME`."
        raise CommandError(Exit.NO_INPUT, f"there is no mirror in {path}", make_one)
    return folder


def is_mirror(path: Path) -> bool:
    from transparency.mirror.folder import MirrorFolder

    return MirrorFolder(path).config.exists()


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
        if is_mirror(folder.path):
            raise CommandError(
                Exit.REFUSED, f"{path} is a mirror's: its keys have another meaning",
                "It is run by `transparency mirror serve`; a witness has a folder of its own.",
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
