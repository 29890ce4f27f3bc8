"""Which certificates say who signed a statement (RFC 9943 §6, RFC 9360), and which of them may be listened to.

The protected header decides: a chain (33), or a name for the leaf: its hash (34) or its key's RFC 9679 thumbprint as
kid. Certificates of the unprotected header only complete what the protected one names (AMB-10); any others are noise
that anybody could have added, and are ignored, whatever they are. Those that were used are kept as collateral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transparency.cose import cbor, labels
from transparency.cose.sign1 import Sign1
from transparency.cose.x509 import leaf_key, read_chain, read_x5t, write_chain
from transparency.errors import CertificateError, CertificateMissingError, MalformedError, TransparencyError
from transparency.statements.member import member
from transparency.statements.statement import Statement


@dataclass(frozen=True, slots=True)
class Identification:
    """The chain that names a statement's signer, leaf first, and whether it came in the unprotected header."""

    chain: tuple[bytes, ...]
    from_unprotected: bool


def identify(statement: Statement) -> Identification | None:
    """The chain of *statement*; None where it is identified by its kid alone. CertificateError for a contradiction."""
    return identify_message(statement.message, statement.kid)


def identify_message(message: Sign1, kid: bytes | None) -> Identification | None:
    """:func:`identify` for a message that may be no statement a log would take."""
    chain = member(message.headers, labels.X5CHAIN)
    x5t = member(message.headers, labels.X5T)
    thumbprint = None if x5t is None else read_x5t(x5t)
    if chain is not None:
        certificates = read_chain(chain)
        if thumbprint is not None and not thumbprint.names(certificates[0]):
            raise CertificateError("x5t (34) names another certificate than the first of x5chain (33)")
        return Identification(certificates, from_unprotected=False)
    beside = _beside(message)
    if thumbprint is not None:
        if beside and thumbprint.names(beside[0]):
            return Identification(beside, from_unprotected=True)
        if kid is None:
            raise CertificateMissingError(
                "x5t (34) names a certificate that did not come with the statement; send its chain in the unprotected "
                "header as x5chain (33)"
            )
        return None
    if beside and kid is not None and _is_key_of(kid, beside[0]):
        return Identification(beside, from_unprotected=True)
    return None


def write_collateral(certificates: Sequence[bytes]) -> bytes:
    """What is kept beside an entry whose chain was not signed: a CBOR array of DER certificates, leaf first."""
    return cbor.encode(list(certificates))


def read_collateral(data: bytes) -> tuple[bytes, ...]:
    """The certificates that :func:`write_collateral` wrote, and nothing else."""
    certificates = cbor.decode(data)
    if not isinstance(certificates, list) or not certificates or cbor.encode(certificates) != data:
        raise MalformedError("collateral is not a CBOR array of certificates")
    return read_chain(write_chain(certificates))


def with_collateral(statement: Statement, collateral: bytes) -> Statement:
    """A stored statement as it was judged: with the certificates that had come beside it (REG-10)."""
    if not collateral:
        return statement
    chain = write_chain(read_collateral(collateral))
    return statement._replace(message=statement.message.with_unprotected({labels.X5CHAIN: chain}))


def _beside(message: Sign1) -> tuple[bytes, ...]:
    try:
        return read_chain(message.unprotected.get(labels.X5CHAIN))
    except MalformedError:
        return ()


def _is_key_of(kid: bytes, der: bytes) -> bool:
    try:
        return leaf_key(der).thumbprint == kid
    except TransparencyError:
        return False
