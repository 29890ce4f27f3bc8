"""Roots in a trust file: what may be said of them, and that nothing in it is passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.verifier.world import ISS, ISSUER, LOG_KEY, Log, statement
from transparency.cose.x509_path import Root
from transparency.errors import MalformedError
from transparency.statements.certified import CertifiedSigner
from transparency.testing.pki import BEGINS, CODE_SIGNING, Authority
from transparency.verifier import TrustStore, verify

if TYPE_CHECKING:
    from pathlib import Path

ROOT = Authority.create("Root")
OTHER = Authority.create("Other")
LEAF = ROOT.leaf("agent")
ISSUER_TABLE = f'[[issuer]]\niss = "{ISS}"\n'


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "ca.pem").write_bytes(ROOT.pem)
    (tmp_path / "two.pem").write_bytes(ROOT.pem + OTHER.pem)
    (tmp_path / "leaf.pem").write_bytes(LEAF.pem)
    (tmp_path / "key.pem").write_bytes(ISSUER.public.to_pem())
    return tmp_path


def test_a_trust_file_names_roots_and_what_they_are_trusted_for(desk: Path) -> None:
    toml = ISSUER_TABLE + (
        'roots = ["two.pem", { file = "ca.pem", subject = { CN = "agent", O = "Acme" }, '
        f'san = ["dns:*.acme.example"], eku = ["{CODE_SIGNING}"] }}]\n'
    )

    (issuer,) = TrustStore.from_toml(toml.encode(), desk).issuers

    assert (issuer.iss, issuer.keys) == (ISS, ())
    assert issuer.roots == (
        Root(ROOT.der),
        Root(OTHER.der),
        Root(ROOT.der, {"CN": "agent", "O": "Acme"}, ("dns:*.acme.example",), (CODE_SIGNING,)),
    )


def test_a_statement_verifies_under_a_root_of_a_trust_file(desk: Path) -> None:
    """SS-7: and its issuer is the one that the root is trusted for."""
    toml = ISSUER_TABLE + 'roots = ["ca.pem"]\nkeys = ["key.pem"]\n'
    store = TrustStore.from_toml(toml.encode(), desk).merged(TrustStore.from_keys([LOG_KEY.public]))
    certified = CertifiedSigner(LEAF.signer, LEAF.chain)

    assert verify(Log().register(statement(signer=certified), time=BEGINS), store).verdict == "verified"
    assert verify(Log().register(statement(), time=BEGINS), store).verdict == "verified"
    foreign = statement(signer=certified, iss="https://other.example")
    assert verify(Log().register(foreign, time=BEGINS), store).verdict == "cannot-tell"


@pytest.mark.parametrize(
    ("roots", "what"),
    [
        ("[]", "at least one CA certificate"),
        ('"ca.pem"', "at least one CA certificate"),
        ("[5]", "a root is"),
        ("[{ subject = {} }]", "a root is"),
        ('[{ file = "ca.pem", sans = ["dns:a"] }]', "'sans' is not one of"),
        ('[{ file = "ca.pem", subject = "CN=x" }]', "a table of texts"),
        ('[{ file = "ca.pem", subject = { CN = "" } }]', "a table of texts"),
        ('[{ file = "ca.pem", subject = { emailAddress = "x" } }]', "are not one of CN, O"),
        ('[{ file = "ca.pem", san = "dns:a" }]', "san is a list"),
        ('[{ file = "ca.pem", san = [] }]', "san is a list of at least one"),
        ('[{ file = "ca.pem", san = ["a.example"] }]', "dns:, uri: or email:"),
        ('[{ file = "ca.pem", san = ["email:acme.example"] }]', "a mailbox, @ and a host"),
        ('[{ file = "ca.pem", eku = ["codeSigning"] }]', "dotted numbers"),
        ('["nowhere.pem"]', "cannot be read"),
        ('["key.pem"]', "BEGIN CERTIFICATE"),
        ('["leaf.pem"]', "is not a CA certificate"),
    ],
)
def test_a_mistake_in_roots_is_refused_and_named(desk: Path, roots: str, what: str) -> None:
    with pytest.raises(MalformedError) as refused:
        TrustStore.from_toml(f"{ISSUER_TABLE}roots = {roots}\n".encode(), desk)

    assert what in str(refused.value)
    assert "[[issuer]] number 1" in str(refused.value)
