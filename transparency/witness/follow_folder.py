"""The folder of a compliance witness: another identity than any plain witness, and never both.

DIR/cosigner.toml     its name, and where its mark lies       DIR/keys/*.pem      private keys, mode 0600
DIR/follow.toml       which log it follows, and its issuer    DIR/issuer.pub.pem  key of its attestations
DIR/state.sqlite      what it has cosigned                    DIR/evidence/       what convicts the log
DIR/findings.sqlite   replay and findings; can be made again  DIR/lock            held by the owner

Its cosigning keys say *I replayed every entry*; those of a plain witness say *the log grew*. One key, one meaning: so a
plain witness' folder is refused here, and this one there; the state knows the keys it was made with (state.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from transparency.cose.algorithms import ES256
from transparency.cose.keys import PrivateKey, is_encrypted
from transparency.errors import LogUnusableError, MalformedError, PassphraseError
from transparency.log.durable import create_durably
from transparency.log.folder import ask
from transparency.policy.toml import Table, load, quote
from transparency.witness.folder import WitnessFolder, create_witness

COSIGNER: Final = "cosigner.toml"
ISSUER: Final = "issuer.pem"
_THUMBPRINT_BYTES: Final = 32


class FollowerFolder(WitnessFolder):
    """A witness' folder by its state, its lock and its keys; its configuration has another name and says more."""

    __slots__ = ()

    @property
    def config(self) -> Path:
        return self.path / COSIGNER

    @property
    def follow(self) -> Path:
        return self.path / "follow.toml"

    @property
    def findings(self) -> Path:
        return self.path / "findings.sqlite"

    @property
    def evidence(self) -> Path:
        return self.path / "evidence"

    @property
    def issuer_public(self) -> Path:
        return self.path / "issuer.pub.pem"

    def load_issuer(self) -> PrivateKey:
        """The key that signs attestations."""
        path = self.keys / ISSUER
        try:
            pem = path.read_bytes()
            return PrivateKey.from_pem(pem, ask(self.passphrase) if is_encrypted(pem) else None, alg=ES256.id)
        except OSError as error:
            raise LogUnusableError(f"the issuer's key {path} cannot be read: {error.strerror}") from error
        except PassphraseError as error:
            raise PassphraseError(f"the issuer's key {path} cannot be read: {error}") from error
        except MalformedError as error:
            raise LogUnusableError(f"the issuer's key {path} cannot be used: {error}") from error


@dataclass(frozen=True, slots=True)
class FollowConfig:
    """Whom it follows: the log whose entry 0 names the policy key with this thumbprint. ``iss`` signs attestations."""

    policy_key: bytes
    iss: str

    @classmethod
    def read(cls, path: Path) -> FollowConfig:
        try:
            table = Table(load(path.read_bytes(), "configuration of a compliance witness"), "follow")
            config = cls(bytes.fromhex(table.text("policy-key")), table.text("iss"))
            table.done()
        except OSError as error:
            raise LogUnusableError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise LogUnusableError(f"{path}: policy-key is not hexadecimal") from error
        except MalformedError as error:
            raise LogUnusableError(f"{path}: {error}") from error
        if len(config.policy_key) != _THUMBPRINT_BYTES:
            raise LogUnusableError(f"{path}: policy-key is not a thumbprint")
        return config

    def write(self, path: Path) -> None:
        lines = [
            "# Written by `transparency witness init-follower`. Another log: another folder.",
            f"policy-key = {quote(self.policy_key.hex())}",
            f"iss = {quote(self.iss)}",
        ]
        create_durably(path, ("\n".join(lines) + "\n").encode(), mode=0o644)


def create_follower(
    path: Path, name: str, policy_key: bytes, iss: str, watermark: Path | None = None, passphrase: bytes | None = None
) -> FollowerFolder:
    """A new compliance witness in *path*, which must be absent or empty, for the log with this policy key."""

    def furnish(making: WitnessFolder) -> None:
        assert isinstance(making, FollowerFolder)  # noqa: S101 - as was asked for
        issuer = PrivateKey.generate(ES256.id)
        create_durably(making.keys / ISSUER, issuer.to_pem(passphrase), mode=0o600)
        create_durably(making.issuer_public, issuer.public.to_pem(), mode=0o644)
        FollowConfig(policy_key, iss).write(making.follow)

    made = create_witness(path, name, watermark, passphrase, kind=FollowerFolder, furnish=furnish)
    assert isinstance(made, FollowerFolder)  # noqa: S101 - as was asked for
    return made
