"""The data folder: what lies where, who owns it, and the private keys of the service.

DIR/log.sqlite     tree, statements, heads, intake          DIR/keys/*.pem   private keys, mode 0600
DIR/access.sqlite  tokens                                   DIR/lock         held by the owner
DIR/config.toml    origin, iss, watermark, policy key       DIR/admin.sock   the owner's door for commands
DIR/artifacts/     records too large for a statement, by their SHA-256
DIR/search.sqlite  what the two above can be found by; derived
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from transparency.cose.keys import PrivateKey, PublicKey
from transparency.errors import FolderOwnedError, LogUnusableError, MalformedError
from transparency.log.durable import create_durably, sync_folder
from transparency.policy.toml import Table, load, quote


@dataclass(frozen=True, slots=True)
class Folder:
    path: Path

    @property
    def database(self) -> Path:
        return self.path / "log.sqlite"

    @property
    def access(self) -> Path:
        return self.path / "access.sqlite"

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def socket(self) -> Path:
        return self.path / "admin.sock"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def search(self) -> Path:
        return self.path / "search.sqlite"

    def exists(self) -> bool:
        return self.config.exists() or self.database.exists()

    def save_key(self, role: str, key: PrivateKey) -> Path:
        path = self.keys / f"{role}-{key.public.thumbprint.hex()[:16]}.pem"
        create_durably(path, key.to_pem())
        return path

    def load_key(self, role: str, public: PublicKey) -> PrivateKey:
        """The private half of *public*; its file is found by role and thumbprint, and must be that key."""
        path = self.keys / f"{role}-{public.thumbprint.hex()[:16]}.pem"
        try:
            key = PrivateKey.from_pem(path.read_bytes(), alg=public.alg).with_kid(public.kid)
        except FileNotFoundError as error:
            raise LogUnusableError(f"the {role} key is missing: {path} should hold it") from error
        except (OSError, MalformedError) as error:
            raise LogUnusableError(f"the {role} key {path} cannot be read: {error}") from error
        if key.public.thumbprint != public.thumbprint:
            raise LogUnusableError(f"{path} holds another key than the log's {role} key")
        return key


@dataclass(frozen=True, slots=True)
class Config:
    """What a folder says of itself. The policy key is pinned here, as auditors pin it outside."""

    origin: str
    iss: str
    watermark: Path
    policy_key: bytes

    @classmethod
    def read(cls, path: Path) -> Config:
        try:
            table = Table(load(path.read_bytes(), "config"), "config")
            config = cls(
                origin=table.text("origin"),
                iss=table.text("iss"),
                watermark=Path(table.text("watermark")),
                policy_key=bytes.fromhex(table.text("policy-key-thumbprint")),
            )
            table.done()
        except OSError as error:
            raise LogUnusableError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise LogUnusableError(f"{path}: policy-key-thumbprint is not hexadecimal") from error
        except MalformedError as error:
            raise LogUnusableError(f"{path}: {error}") from error
        return config

    def write(self, path: Path) -> None:
        lines = [
            "# Written by `transparency init`. The watermark lies outside this folder on purpose.",
            f"origin = {quote(self.origin)}",
            f"iss = {quote(self.iss)}",
            f"watermark = {quote(str(self.watermark))}",
            f"policy-key-thumbprint = {quote(self.policy_key.hex())}",
        ]
        create_durably(path, ("\n".join(lines) + "\n").encode("utf-8"), mode=0o644)


class Ownership:
    """The lock on a folder. One process holds it; it ends with the process, however that ends."""

    def __init__(self, folder: Folder) -> None:
        self._descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise FolderOwnedError(f"{folder.path} is in use by another process") from error

    def release(self) -> None:
        os.close(self._descriptor)


def make_folder(path: Path) -> Folder:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Folder(path)
    folder.keys.mkdir(mode=0o700, exist_ok=True)
    return folder


def publish_folder(made: Folder, at: Path) -> Folder:
    """Move a folder that is ready to its place. Whoever looks sees nothing, or all of it."""
    for path in (made.keys, made.path):
        sync_folder(path)
    made.path.replace(at)
    sync_folder(at.parent)
    return Folder(at)
