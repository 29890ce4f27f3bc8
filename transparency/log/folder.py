"""The data folder: what lies where, who owns it, and the private keys of the service.

DIR/log.sqlite     tree, statements, heads, intake          DIR/keys/*.pem   private keys, mode 0600
DIR/access.sqlite  tokens                                   DIR/lock         held by the owner
DIR/config.toml    origin, iss, watermark, policy key       DIR/admin.sock   the owner's door for commands
A log in PostgreSQL has no log.sqlite; config.toml names the database (log/stores.py).
DIR/shared-mark    the mark that its nodes share, as its database named it (log/mark_named.py)
DIR/artifacts/     records too large for a statement, by their SHA-256
DIR/search.sqlite  what store and artifacts can be found by; derived
DIR/access-log/    who read or changed what, chained line by line
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from transparency.cose.keys import PrivateKey, PublicKey, Signer, is_encrypted, load_signer
from transparency.errors import FolderOwnedError, LogUnusableError, MalformedError, PassphraseError, SignerError
from transparency.log.durable import create_durably, sync_folder
from transparency.policy.toml import Table, load, quote

Passphrase = Callable[[], bytes | None]
"""Asked when an encrypted key is met, and not before; None for "there is none"."""


@dataclass(frozen=True, slots=True)
class Folder:
    path: Path
    passphrase: Passphrase | None = field(default=None, repr=False, compare=False)

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
    def access_log(self) -> Path:
        return self.path / "access-log"

    @property
    def search(self) -> Path:
        return self.path / "search.sqlite"

    @property
    def copies(self) -> Path:
        """The register of backups and other copies, each with the day it will be gone (log/copies.py)."""
        return self.path / "copies.toml"

    @property
    def shared_mark(self) -> Path:
        return self.path / "shared-mark"

    def exists(self) -> bool:
        return self.config.exists() or self.database.exists()

    def key_files(self) -> list[Path]:
        """The private keys, and the names of those that live elsewhere."""
        return sorted(path for ending in (".pem", ".signer") for path in self.keys.glob(f"*{ending}"))

    @property
    def encrypts(self) -> bool:
        """Whether this folder's private keys are encrypted: then a new one is, too."""
        return any(is_encrypted(path.read_bytes()) for path in self.keys.glob("*.pem"))

    def save_key(self, role: str, key: PrivateKey) -> Path:
        return self.write_key(role, key, ask(self.passphrase) if self.encrypts else None)

    def write_key(self, role: str, key: PrivateKey, password: bytes | None) -> Path:
        path = self._key_path(role, key.public, ".pem")
        create_durably(path, key.to_pem(password))
        return path

    def save_signer(self, role: str, public: PublicKey, name: str) -> Path:
        """For a key that lives elsewhere: the name by which its signer is opened (cose/signers.py)."""
        path = self._key_path(role, public, ".signer")
        create_durably(path, f"{name}\n".encode())
        return path

    def load_key(self, role: str, public: PublicKey) -> Signer:
        """The private half of *public*; its file is found by role and thumbprint, and must be that key."""
        path = self._key_path(role, public, ".pem")
        elsewhere = self._key_path(role, public, ".signer")
        try:
            key: Signer = self._open_signer(elsewhere) if elsewhere.exists() else self._read_key(path, public)
        except FileNotFoundError as error:
            raise LogUnusableError(f"the {role} key is missing: {path} should hold it") from error
        except PassphraseError as error:
            raise PassphraseError(f"the {role} key {path} cannot be read: {error}") from error
        except (OSError, MalformedError, SignerError) as error:
            raise LogUnusableError(f"the {role} key {path} cannot be read: {error}") from error
        if key.public.thumbprint != public.thumbprint or key.public.kid != public.kid:
            raise LogUnusableError(f"{path} holds another key than the log's {role} key")
        return key

    def _read_key(self, path: Path, public: PublicKey) -> PrivateKey:
        pem = path.read_bytes()
        password = ask(self.passphrase) if is_encrypted(pem) else None
        return PrivateKey.from_pem(pem, password, alg=public.alg).with_kid(public.kid)

    def _open_signer(self, path: Path) -> Signer:
        return load_signer(path.read_text(encoding="utf-8").removesuffix("\n"))

    def _key_path(self, role: str, public: PublicKey, ending: str) -> Path:
        return self.keys / f"{role}-{public.thumbprint.hex()[:16]}{ending}"


@dataclass(frozen=True, slots=True)
class Config:
    """What a folder says of itself. The policy key is pinned here, as auditors pin it outside."""

    origin: str
    iss: str
    watermark: Path
    policy_key: bytes
    db: str | None = None
    """The PostgreSQL database that holds the tree, without a password; None where it is DIR/log.sqlite."""
    watermark_db: str | None = None
    """Another one, that has the mark of all nodes; likewise."""

    @classmethod
    def read(cls, path: Path) -> Config:
        try:
            table = Table(load(path.read_bytes(), "config"), "config")
            config = cls(
                origin=table.text("origin"),
                iss=table.text("iss"),
                watermark=Path(table.text("watermark")),
                policy_key=bytes.fromhex(table.text("policy-key-thumbprint")),
                db=table.optional_text("db"),
                watermark_db=table.optional_text("watermark-db"),
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
            *([] if self.db is None else [f"db = {quote(self.db)}"]),
            *([] if self.watermark_db is None else [f"watermark-db = {quote(self.watermark_db)}"]),
        ]
        create_durably(path, ("\n".join(lines) + "\n").encode("utf-8"), mode=0o644)


def ask(passphrase: Passphrase | None) -> bytes:
    password = None if passphrase is None else passphrase()
    if password is None:
        raise PassphraseError("it is encrypted and needs a passphrase")
    return password


class Ownership:
    """The lock file of a folder, a log's or another. One process holds it; that ends with it, however it ends."""

    def __init__(self, lock: Path) -> None:
        self._descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise FolderOwnedError(f"{lock.parent} is in use by another process") from error

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
