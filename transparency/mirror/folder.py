"""The folder of a mirror: a cosigner of its own, whose keys say *I have these entries*, and never another's.

DIR/mirror.toml    its name, and where its mark lies         DIR/keys/*.pem   private keys, mode 0600
DIR/state.sqlite   what it has cosigned, and evidence        DIR/lock         held by the owner
DIR/tree.sqlite    entries, tiles, pending checkpoints       DIR/logs.toml    the logs it mirrors; for editing
DIR/statements.sqlite   what logs of this project say beside their entries, to those who may read it
DIR/scrub.json     how far the scrub has come

tlog-mirror has a mirror be "a distinct cosigner", so a witness' folder is refused here, and this one there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from transparency.mirror import tree_schema
from transparency.witness.folder import WitnessFolder, create_witness
from transparency.witness.logs import LogList

MIRROR: Final = "mirror.toml"


class MirrorFolder(WitnessFolder):
    """A witness' folder by its state, its lock, its keys and its list, with trees beside them."""

    __slots__ = ()

    @property
    def config(self) -> Path:
        return self.path / MIRROR

    @property
    def trees(self) -> Path:
        return self.path / "tree.sqlite"

    @property
    def statements(self) -> Path:
        return self.path / "statements.sqlite"

    @property
    def scrub(self) -> Path:
        return self.path / "scrub.json"


def create_mirror(
    path: Path, name: str, watermark: Path | None = None, passphrase: bytes | None = None
) -> MirrorFolder:
    """A new mirror in *path*, which must be absent or empty."""

    def furnish(making: WitnessFolder) -> None:
        assert isinstance(making, MirrorFolder)  # noqa: S101 - as was asked for
        tree_schema.create(making.trees)
        LogList.write(making.logs, {})

    made = create_witness(path, name, watermark, passphrase, kind=MirrorFolder, furnish=furnish)
    assert isinstance(made, MirrorFolder)  # noqa: S101 - as was asked for
    return made
