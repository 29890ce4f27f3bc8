"""What the commands of witnesses and mirrors share: ``--dir``, and a folder that holds one of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
_Folder = TypeVar("_Folder", bound="WitnessFolder")


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


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of cosigner. Its keys have one meaning, so a folder holds one kind, and commands refuse another's."""

    name: str
    whose: str
    run: str
    make: str


_WITNESS: Final = _Kind("witness", "a plain witness'", "witness serve", "witness init --dir {} --name NAME")
_FOLLOWER: Final = _Kind(
    "compliance witness", "a compliance witness'", "witness follow", "witness init-follower --dir {} --name NAME …"
)
_MIRROR: Final = _Kind("mirror", "a mirror's", "mirror serve", "mirror init --dir {} --name NAME")


def require_witness(path: Path) -> WitnessFolder:
    """The folder *path*, which must hold a plain witness that this user may read."""
    from transparency.witness.folder import WitnessFolder

    return _require(path, _WITNESS, WitnessFolder)


def require_follower(path: Path) -> FollowerFolder:
    """The folder *path*, which must hold a compliance witness."""
    from transparency.witness.follow_folder import FollowerFolder

    return _require(path, _FOLLOWER, FollowerFolder)


def require_mirror(path: Path) -> MirrorFolder:
    """The folder *path*, which must hold a mirror."""
    from transparency.mirror.folder import MirrorFolder

    return _require(path, _MIRROR, MirrorFolder)


def require_either(path: Path) -> WitnessFolder:
    """A witness of one or the other kind."""
    return require_follower(path) if _holds(path, _FOLLOWER) else require_witness(path)


def is_mirror(path: Path) -> bool:
    return _holds(path, _MIRROR)


def _require(path: Path, wanted: _Kind, folder_of: type[_Folder]) -> _Folder:
    folder = folder_of(path.absolute(), kept_passphrase())
    try:
        other = next((kind for kind in (_WITNESS, _FOLLOWER, _MIRROR) if kind != wanted and _holds(path, kind)), None)
        found = folder.exists()
    except PermissionError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error.strerror}", OTHER_USER) from error
    if other is not None:
        raise CommandError(
            Exit.REFUSED, f"{path} is {other.whose}: its keys have another meaning",
            f"It is run by `transparency {other.run}`; a {wanted.name} has a folder of its own.",
        )  # fmt: skip
    if not found:
        hint = f"Make one with `transparency {wanted.make.format(path)}`."
        raise CommandError(Exit.NO_INPUT, f"there is no {wanted.name} in {path}", hint)
    return folder


def _holds(path: Path, kind: _Kind) -> bool:
    from transparency.mirror.folder import MirrorFolder
    from transparency.witness.folder import WitnessFolder
    from transparency.witness.follow_folder import FollowerFolder

    folder_of = {_WITNESS: WitnessFolder, _FOLLOWER: FollowerFolder, _MIRROR: MirrorFolder}[kind]
    return folder_of(path).config.exists()
