"""The folder of a witness: what lies where, and who owns it.

DIR/witness.toml   its name, and where its mark lies       DIR/keys/*.pem   private keys, mode 0600
DIR/state.sqlite   what it has cosigned, and evidence      DIR/lock         held by the owner
DIR/logs.toml      the logs it cosigns for; for editing
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from transparency.errors import LogUnusableError, MalformedError, NoteError
from transparency.log.durable import create_durably, sync_folder
from transparency.log.folder import Passphrase
from transparency.log.mark import Mark, MarkValue, check_outside, default_path
from transparency.policy.toml import Table, load, quote
from transparency.witness import schema
from transparency.witness.keys import WitnessKeys, check_witness_name, load_keys, make_keys
from transparency.witness.logs import LogList


@dataclass(frozen=True, slots=True)
class WitnessFolder:
    """*passphrase* is asked if the keys are encrypted, and not before."""

    path: Path
    passphrase: Passphrase | None = field(default=None, repr=False, compare=False)

    @property
    def config(self) -> Path:
        return self.path / "witness.toml"

    @property
    def state(self) -> Path:
        return self.path / "state.sqlite"

    @property
    def logs(self) -> Path:
        return self.path / "logs.toml"

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    def exists(self) -> bool:
        return self.config.exists() or self.state.exists()

    def load_keys(self) -> WitnessKeys:
        return load_keys(self.keys, WitnessConfig.read(self.config).name, self.passphrase)


@dataclass(frozen=True, slots=True)
class WitnessConfig:
    name: str
    watermark: Path

    @classmethod
    def read(cls, path: Path) -> WitnessConfig:
        try:
            table = Table(load(path.read_bytes(), "configuration"), "configuration")
            config = cls(table.text("name"), Path(table.text("watermark")))
            table.done()
            check_witness_name(config.name)
        except OSError as error:
            raise LogUnusableError(f"{path} cannot be read: {error.strerror}") from error
        except (MalformedError, NoteError) as error:
            raise LogUnusableError(f"{path}: {error}") from error
        return config

    def write(self, path: Path) -> None:
        lines = [
            "# Written by `init`. The mark lies outside this folder on purpose: a copy of the",
            "# folder that is put back later does not bring it along, and so is noticed.",
            f"name = {quote(self.name)}",
            f"watermark = {quote(str(self.watermark))}",
        ]
        create_durably(path, ("\n".join(lines) + "\n").encode(), mode=0o644)


def _with_log_list(making: WitnessFolder) -> None:
    LogList.write(making.logs, {})


def create_witness(
    path: Path,
    name: str,
    watermark: Path | None = None,
    passphrase: bytes | None = None,
    *,
    kind: type[WitnessFolder] = WitnessFolder,
    furnish: Callable[[WitnessFolder], None] = _with_log_list,
) -> WitnessFolder:
    """A new witness in *path*, which must be absent or empty. Whoever looks sees nothing, or all of it.

    With a *passphrase* its private keys are encrypted. *kind* is another one than the plain witness (follow_folder.py),
    and *furnish* puts into the folder what that kind has.
    """
    check_witness_name(name)
    path = path.absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise LogUnusableError(f"{path} is not an empty folder; name another, or use what is there")
    mark = (watermark or default_path(path, name)).absolute()
    check_outside(mark, path)
    if mark.exists():
        raise LogUnusableError(
            f"{mark} is there: a cosigner of this name was here. Put its folder back, or take another name, "
            "which means other keys"
        )
    making = kind(path.with_name(f".{path.name}.{secrets.token_hex(4)}.new"))
    try:
        making.path.mkdir(mode=0o700, parents=True)
        making.keys.mkdir(mode=0o700)
        make_keys(making.keys, passphrase)
        keys = load_keys(making.keys, name, None if passphrase is None else lambda: passphrase)
        first = schema.create(making.state, [key.text for key in keys.vkeys])
        furnish(making)
        WitnessConfig(name, mark).write(making.config)
        for each in (making.keys, making.path):
            sync_folder(each)
        mark.parent.mkdir(parents=True, exist_ok=True)
        Mark.create(mark, name, MarkValue(0, first)).close()
        try:
            making.path.replace(path)
        except OSError:
            mark.unlink()
            raise
        sync_folder(path.parent)
    finally:
        shutil.rmtree(making.path, ignore_errors=True)
    return kind(path, None if passphrase is None else lambda: passphrase)
