"""Which certificates of a statement are listened to: what the protected header carries or names, and nothing else."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose import cbor, labels
from transparency.cose.sign1 import sign1
from transparency.cose.x509 import write_chain, write_x5t
from transparency.errors import CertificateError, CertificateMissingError, MalformedError, TransparencyError
from transparency.statements.certificates import (
    Identification,
    identify,
    read_collateral,
    with_collateral,
    write_collateral,
)
from transparency.statements.statement import Statement
from transparency.testing.pki import Authority

ROOT = Authority.create("Root")
ISSUING = ROOT.authority("Issuing")
LEAF = ISSUING.leaf("agent")
CHAIN = write_chain(LEAF.chain)
KID = LEAF.signer.public.thumbprint
CLAIMS = {labels.CLAIM_ISS: "https://acme.example", labels.CLAIM_SUB: "session"}


def statement(protected: dict[int, Any], unprotected: dict[int, Any] | None = None, iss: str = "acme") -> Statement:
    claims = CLAIMS | {labels.CLAIM_ISS: iss}
    headers = {labels.ALG: -7, labels.CWT_CLAIMS: claims, labels.CONTENT_TYPE: "text/plain", **protected}
    message = sign1(headers, b"said", LEAF.signer, unprotected=unprotected or {})
    return Statement.from_bytes(message.to_bytes())


def test_a_protected_chain_identifies_the_signer_without_a_kid() -> None:
    """SS-6: x5chain in the protected header; SS-3: no kid is needed then."""
    signed = statement({labels.X5CHAIN: CHAIN})

    assert signed.kid is None
    assert identify(signed) == Identification(LEAF.chain, from_unprotected=False)


def test_a_protected_x5t_picks_the_chain_beside_it() -> None:
    """SS-6: x5t in the protected header, whose certificates come unprotected."""
    signed = statement({labels.X5T: write_x5t(LEAF.der)}, {labels.X5CHAIN: CHAIN})

    assert identify(signed) == Identification(LEAF.chain, from_unprotected=True)


def test_a_thumbprint_kid_picks_the_chain_beside_it() -> None:
    """SS-6: kid with an unprotected x5chain, where the kid can be held against the certificate (AMB-10)."""
    signed = statement({labels.KID: KID}, {labels.X5CHAIN: CHAIN})

    assert identify(signed) == Identification(LEAF.chain, from_unprotected=True)


@pytest.mark.parametrize(
    ("protected", "unprotected"),
    [
        ({labels.KID: KID}, {}),
        ({labels.KID: b"my-key"}, {labels.X5CHAIN: CHAIN}),
        ({labels.KID: KID}, {labels.X5CHAIN: ISSUING.der}),
        ({labels.KID: KID}, {labels.X5CHAIN: 5}),
        ({labels.KID: KID}, {labels.X5CHAIN: b"no certificate"}),
        ({labels.KID: KID}, {labels.X5CHAIN: [LEAF.der] * 9}),
        ({labels.KID: KID}, {labels.X5T: write_x5t(LEAF.der)}),
        ({labels.KID: KID, labels.X5T: write_x5t(LEAF.der)}, {labels.X5CHAIN: ISSUING.der}),
        ({labels.KID: KID, labels.X5T: write_x5t(LEAF.der)}, {}),
    ],
)
def test_other_unprotected_certificates_are_ignored(protected: dict[int, Any], unprotected: dict[int, Any]) -> None:
    """SS-5: the identity is bound in the protected header; what anybody could have added changes nothing."""
    assert identify(statement(protected, unprotected)) is None


def test_an_x5t_beside_a_chain_must_name_its_leaf() -> None:
    """SS-5: of several identifiers each must hold."""
    both = {labels.X5T: write_x5t(LEAF.der), labels.X5CHAIN: CHAIN}
    wrong = {labels.X5T: write_x5t(ISSUING.der), labels.X5CHAIN: CHAIN}

    assert identify(statement(both)) == Identification(LEAF.chain, from_unprotected=False)
    with pytest.raises(CertificateError, match="names another certificate"):
        identify(statement(wrong))


@pytest.mark.parametrize("unprotected", [{}, {labels.X5CHAIN: ISSUING.der}, {labels.X5CHAIN: 5}])
def test_an_x5t_alone_without_its_certificate_identifies_nobody(unprotected: dict[int, Any]) -> None:
    signed = statement({labels.X5T: write_x5t(LEAF.der)}, unprotected)

    with pytest.raises(CertificateMissingError, match="did not come with the statement"):
        identify(signed)


def test_an_unknown_hash_in_x5t_is_refused_when_it_is_needed() -> None:
    signed = statement({labels.X5T: ["sha3", b"digest"]}, {labels.X5CHAIN: CHAIN})

    with pytest.raises(CertificateError, match="not SHA-256"):
        identify(signed)


@pytest.mark.parametrize(
    ("label", "value"),
    [(labels.X5CHAIN, 5), (labels.X5CHAIN, [LEAF.der]), (labels.X5CHAIN, None), (labels.X5CHAIN, [b"x"] * 9),
     (labels.X5T, b"digest"), (labels.X5T, [-16]), (labels.X5T, None)],
)  # fmt: skip
def test_a_protected_label_of_another_form_is_no_statement(label: int, value: object) -> None:
    """SS-6: what is signed has the form RFC 9360 §2 gives it, or is refused as malformed, with a kid or without."""
    with pytest.raises(MalformedError):
        statement({labels.KID: KID, label: value})


def test_iss_beside_a_certificate_is_a_string_or_uri_of_bounded_length() -> None:
    """SS-4: RFC 8392 StringOrURI, 1 to 8192 characters."""
    certified = {labels.X5CHAIN: CHAIN}

    assert statement(certified, iss="a" * 8192).iss == "a" * 8192
    for wrong in ("", "a" * 8193, "1:not a uri"):
        with pytest.raises(MalformedError, match="claim iss"):
            statement(certified, iss=wrong)


def test_collateral_gives_back_what_was_judged() -> None:
    """REG-10: the log drops the unprotected header, and the chain that was used is kept beside the entry."""
    sent = statement({labels.X5T: write_x5t(LEAF.der)}, {labels.X5CHAIN: CHAIN, labels.TRACE_METADATA: {}})
    stored = Statement.from_bytes(sent.normalised)

    again = with_collateral(stored, write_collateral(LEAF.chain))

    assert identify(again) == identify(sent)
    assert again.entry == sent.entry
    assert read_collateral(write_collateral([LEAF.der])) == (LEAF.der,)
    assert with_collateral(stored, b"") is stored


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\xa0", cbor.encode(LEAF.der), cbor.encode([1]), b"\x81\x40", b"\x80\x00"]
)
def test_other_bytes_are_no_collateral(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read_collateral(data)


_values = st.binary(max_size=64) | st.lists(
    st.binary(max_size=64) | st.integers(-20, 20) | st.sampled_from([*LEAF.chain, write_x5t(LEAF.der)[1]]), max_size=9
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([33, 34]), _values), st.dictionaries(st.sampled_from([33, 34]), _values))
def test_random_certificates_raise_nothing_but_our_errors(protected: dict[int, Any], beside: dict[int, Any]) -> None:
    """SS-6: anybody may send anything under 33 and 34."""
    with contextlib.suppress(TransparencyError):
        identify(statement({labels.KID: KID, **protected}, beside))
