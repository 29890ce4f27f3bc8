"""A signer with a certificate: what it puts into the headers of a statement so that others find out whose key it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from transparency.cose import labels
from transparency.cose.keys import PublicKey, Signer
from transparency.cose.x509 import MAX_CERTIFICATES, Certificate, write_chain, write_x5t
from transparency.cose.x509_path import check_leaf
from transparency.errors import CertificateError

Header = Literal["protected", "unprotected"]
HEADERS: tuple[Header, ...] = get_args(Header)


@dataclass(frozen=True, slots=True)
class CertifiedSigner:
    """A :class:`Signer` that is named by its certificates (RFC 9943 §6, SS-6).

    Signed is the chain itself, or, with ``x5chain="unprotected"``, what picks it: the certificate's hash (``x5t``) or
    the thumbprint of its key as kid. The chain then travels beside what is signed, and a log keeps it as collateral.
    """

    key: Signer
    chain: tuple[bytes, ...]
    x5chain: Header = "protected"
    x5t: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.chain) <= MAX_CERTIFICATES:
            raise CertificateError(f"a chain has 1 to {MAX_CERTIFICATES} certificates, this one has {len(self.chain)}")
        leaf, *_ = [Certificate.from_der(der) for der in self.chain]
        if leaf.key.thumbprint != self.key.public.thumbprint:
            raise CertificateError(f"the first certificate, {leaf.name}, is for another key than the one that signs")
        check_leaf(leaf)

    @property
    def public(self) -> PublicKey:
        return self.key.public

    @property
    def alg(self) -> int:
        return self.key.alg

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data)

    @property
    def protected(self) -> Mapping[int | str, Any]:
        """What is signed to name the key."""
        named: dict[int | str, Any] = {labels.X5T: write_x5t(self.chain[0])} if self.x5t else {}
        if self.x5chain == "protected":
            return named | {labels.X5CHAIN: write_chain(self.chain)}
        return named or {labels.KID: self.public.thumbprint}

    @property
    def unprotected(self) -> Mapping[int | str, Any]:
        """What travels beside it."""
        return {} if self.x5chain == "protected" else {labels.X5CHAIN: write_chain(self.chain)}
