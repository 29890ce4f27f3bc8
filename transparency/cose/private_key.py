"""PrivateKey and the Signer it satisfies: what makes signatures. Key material never shows in a repr or a message."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol, Self, get_args

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from transparency.cose.algorithms import RawPrivateKey, algorithm
from transparency.cose.public_key import PublicKey
from transparency.errors import MalformedError, PassphraseError, UnsupportedAlgorithmError


class Signer(Protocol):
    """Whatever signs: a key in memory, or one that lives elsewhere (an HSM, an agent)."""

    @property
    def public(self) -> PublicKey:
        """The key that checks the signatures."""

    @property
    def alg(self) -> int:
        """The algorithm of the signatures."""

    def sign(self, data: bytes) -> bytes:
        """Sign ``data``, in the form COSE wants."""


def is_encrypted(pem: bytes) -> bool:
    """Whether a private key in PEM says that it is encrypted: PKCS #8, or OpenSSL's older way."""
    return b" ENCRYPTED PRIVATE KEY-----" in pem or b"Proc-Type: 4,ENCRYPTED" in pem


class PrivateKey:
    """A private key in memory, bound to one algorithm."""

    __slots__ = ("_raw", "_sign", "alg", "public")

    alg: int
    public: PublicKey

    def __init__(self, raw: RawPrivateKey, *, alg: int | None = None, kid: bytes | None = None) -> None:
        if not isinstance(raw, get_args(RawPrivateKey)):
            msg = f"a private key of type {type(raw).__name__.removesuffix('PrivateKey')} is not supported"
            raise UnsupportedAlgorithmError(msg)
        public = PublicKey(raw.public_key(), kid=kid)
        self.alg = public.default_alg if alg is None else algorithm(alg).id
        # Another than the usual algorithm is part of what the key is: forms that can say it (COSE_Key) do.
        self.public = public if self.alg == public.default_alg else public.with_alg(self.alg)
        self._sign = algorithm(self.alg).signer(raw)
        self._raw = raw

    @classmethod
    def generate(cls, alg: int) -> Self:
        """Make a new key for an algorithm, from the operating system's randomness."""
        return cls(algorithm(alg).generate(), alg=alg)

    @classmethod
    def from_pem(cls, data: bytes, password: bytes | None = None, *, alg: int | None = None) -> Self:
        """Read a private key; ``alg`` where the key type's usual one is not wanted."""
        try:
            raw: Any = serialization.load_pem_private_key(data, password)
        except UnsupportedAlgorithm as error:
            msg = f"PEM: {error}"
            raise UnsupportedAlgorithmError(msg) from None
        except TypeError:
            # cryptography's way to say that a password is missing, or was given for a key that has none.
            if password is None:
                msg = "PEM: the key is encrypted and needs a passphrase"
                raise PassphraseError(msg) from None
            msg = "PEM: the key is not encrypted, so it has no passphrase"
            raise MalformedError(msg) from None
        except ValueError:
            if password is not None and is_encrypted(data):
                msg = "PEM: the passphrase is wrong, or the file is damaged"
                raise PassphraseError(msg) from None
            msg = "PEM: not a private key"
            raise MalformedError(msg) from None
        return cls(raw, alg=alg)

    def to_pem(self, password: bytes | None = None) -> bytes:
        """Give the key as PKCS #8, encrypted if there is a passphrase."""
        if password == b"":
            msg = "PEM: an empty passphrase protects nothing; leave it out to write the key in the clear"
            raise MalformedError(msg)
        encryption: serialization.KeySerializationEncryption = (
            serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
        )
        pem: bytes = self._raw.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        return pem

    def with_kid(self, kid: bytes) -> PrivateKey:
        """Give the same key under another id."""
        return PrivateKey(self._raw, alg=self.alg, kid=kid)

    def sign(self, data: bytes) -> bytes:
        """Sign ``data`` with this key's algorithm; ECDSA is deterministic (RFC 6979)."""
        return self._sign(data)

    def __repr__(self) -> str:
        return f"<PrivateKey {self.public.kty_name} {algorithm(self.alg).name} kid={self.public.kid.hex()}>"

    def __reduce__(self) -> NoReturn:
        msg = "a private key is not pickled; use to_pem with a passphrase"
        raise TypeError(msg)
