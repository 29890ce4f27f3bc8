"""x5chain, x5t and one certificate, as RFC 9360 carries them."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose.x509 import (
    MAX_CERTIFICATE_BYTES,
    Certificate,
    Thumbprint,
    leaf_key,
    read_certificates,
    read_chain,
    read_x5t,
    write_chain,
    write_x5t,
)
from transparency.errors import CertificateError, MalformedError, TransparencyError
from transparency.testing.pki import BEGINS, ENDS, Authority

ROOT = Authority.create("Root")
LEAF = ROOT.authority("Issuing").leaf("agent")


def test_a_chain_of_one_is_a_byte_string_and_of_more_an_array() -> None:
    """SS-6: RFC 9360 §2 has one form for each."""
    assert read_chain(LEAF.der) == (LEAF.der,)
    assert read_chain(list(LEAF.chain)) == LEAF.chain
    assert write_chain([LEAF.der]) == LEAF.der
    assert write_chain(LEAF.chain) == list(LEAF.chain)


@pytest.mark.parametrize(
    "value",
    [None, 5, "text", b"", [], [b"one"], [b"one", "two"], [b"one", None], {1: b"one"}, [b"x"] * 9,
     b"x" * (MAX_CERTIFICATE_BYTES + 1)],
)  # fmt: skip
def test_anything_else_is_no_chain(value: object) -> None:
    """SS-6: also nine certificates, an array of one, and one beyond 16 KiB."""
    with pytest.raises(MalformedError, match=r"x5chain \(33\)"):
        read_chain(value)


def test_x5t_names_a_certificate_by_its_hash() -> None:
    """SS-6: SHA-256, SHA-384 and SHA-512 are taken."""
    assert read_x5t(write_x5t(LEAF.der)) == Thumbprint(-16, hashlib.sha256(LEAF.der).digest())
    assert Thumbprint(-16, hashlib.sha256(LEAF.der).digest()).names(LEAF.der)
    assert Thumbprint(-43, hashlib.sha384(LEAF.der).digest()).names(LEAF.der)
    assert Thumbprint(-44, hashlib.sha512(LEAF.der).digest()).names(LEAF.der)
    assert not Thumbprint(-16, hashlib.sha256(LEAF.der).digest()).names(ROOT.der)


def test_a_truncated_or_unknown_hash_names_nothing() -> None:
    with pytest.raises(CertificateError, match="not SHA-256, SHA-384 or SHA-512"):
        Thumbprint(-15, hashlib.sha256(LEAF.der).digest()[:8]).names(LEAF.der)
    assert not Thumbprint(-16, hashlib.sha256(LEAF.der).digest()[:8]).names(LEAF.der)


@pytest.mark.parametrize(
    "value", [None, b"d", [], [-16], [-16, "d"], [True, b"d"], [-16, b""], [-16, b"d", 1], [1.5, b"d"]]
)
def test_anything_else_is_no_x5t(value: object) -> None:
    with pytest.raises(MalformedError, match=r"x5t \(34\)"):
        read_x5t(value)


def test_a_certificate_gives_its_key_under_its_thumbprint() -> None:
    assert leaf_key(LEAF.der) == LEAF.signer.public
    assert leaf_key(LEAF.der).kid == LEAF.signer.public.thumbprint
    certificate = Certificate.from_der(LEAF.der)
    assert (certificate.not_before, certificate.not_after) == (BEGINS, ENDS)
    assert certificate.name == "'CN=agent,O=Acme'"


@pytest.mark.parametrize(
    "der", [b"", b"\x30\x00", LEAF.der + b"\x00", LEAF.der[:-1], b"x" * (MAX_CERTIFICATE_BYTES + 1)]
)
def test_trailing_bytes_and_cut_ones_are_no_certificate(der: bytes) -> None:
    with pytest.raises(CertificateError):
        Certificate.from_der(der)


def test_a_file_of_certificates_is_read_in_its_order() -> None:
    text = b"subject=CN = agent\n" + LEAF.chain_pem + LEAF.key_pem

    assert read_certificates(text) == LEAF.chain
    assert read_certificates(LEAF.der) == (LEAF.der,)


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", LEAF.key_pem, LEAF.pem.replace(b"M", b"!", 1), LEAF.pem[:200], LEAF.pem * 9,
     LEAF.pem + LEAF.pem[:200]],
)  # fmt: skip
def test_a_file_with_anything_broken_is_refused(data: bytes) -> None:
    with pytest.raises(CertificateError):
        read_certificates(data)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.binary() | st.text() | st.sampled_from([LEAF.der, ROOT.der]),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.integers(), inner, max_size=3),
    max_leaves=12,
)


@given(_values)
def test_no_value_raises_anything_but_our_errors(value: Any) -> None:
    for read in (read_chain, read_x5t):
        with contextlib.suppress(TransparencyError):
            read(value)


@settings(max_examples=300)
@given(st.integers(0, len(LEAF.der) - 1), st.integers(1, 255))
def test_a_certificate_with_any_byte_changed_is_read_or_refused(position: int, change: int) -> None:
    der = bytearray(LEAF.der)
    der[position] ^= change
    with contextlib.suppress(CertificateError):
        Certificate.from_der(bytes(der))
