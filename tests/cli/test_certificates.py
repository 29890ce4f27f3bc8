"""Signing with a certificate from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, Run
from transparency.cose import labels
from transparency.cose.x509 import write_chain, write_x5t
from transparency.statements.certificates import Identification, identify
from transparency.statements.statement import Statement
from transparency.testing.pki import Authority, Holder, key_usage

ROOT = Authority.create("Root")
LEAF = ROOT.authority("Issuing").leaf("agent")
CHAIN = write_chain(LEAF.chain)
X5T = write_x5t(LEAF.der)
KID = LEAF.signer.public.thumbprint


@pytest.fixture
def desk(folder: Path) -> Path:
    put(folder, LEAF)
    (folder / "note.txt").write_text("hello")
    return folder


def put(folder: Path, holder: Holder) -> None:
    (folder / "agent.pem").write_bytes(holder.key_pem)
    (folder / "agent.pem").chmod(0o600)
    (folder / "chain.pem").write_bytes(holder.chain_pem)


def sign(run: Run, *words: str) -> Any:
    return run("sign", "note.txt", "--key", "agent.pem", "--cert", "chain.pem", "--iss", ISS, "--sub", "note", *words)


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("words", "protected", "unprotected"),
    [
        ((), {labels.X5CHAIN: CHAIN}, {}),
        (("--x5chain", "protected", "--x5t"), {labels.X5CHAIN: CHAIN, labels.X5T: X5T}, {}),
        (("--x5chain", "unprotected", "--x5t"), {labels.X5T: X5T}, {labels.X5CHAIN: CHAIN}),
        (("--x5chain", "unprotected"), {labels.KID: KID}, {labels.X5CHAIN: CHAIN}),
    ],
)
def test_a_certificate_names_the_key(
    good: Run, words: tuple[str, ...], protected: dict[int, Any], unprotected: dict[int, Any]
) -> None:
    """SS-6: x5chain or x5t in the protected header, or a thumbprint kid with an unprotected x5chain."""
    sign(good, *words)

    statement = Statement.from_bytes(Path("note.cose").read_bytes())
    names = {labels.KID, labels.X5T, labels.X5CHAIN}
    assert {label: value for label, value in statement.message.headers.items() if label in names} == protected
    assert statement.message.unprotected == unprotected
    assert identify(statement) == Identification(LEAF.chain, from_unprotected=bool(unprotected))
    statement.verify(LEAF.signer.public)


def test_the_same_file_signed_again_is_the_same_statement_but_for_its_signature(good: Run, desk: Path) -> None:
    sign(good)
    first = Statement.from_bytes((desk / "note.cose").read_bytes())

    sign(good, "--force")

    assert Statement.from_bytes((desk / "note.cose").read_bytes()).to_be_signed == first.to_be_signed


@pytest.mark.usefixtures("desk")
def test_a_certificate_goes_with_private_and_detached_records_too(good: Run) -> None:
    sign(good, "--private")
    sign(good, "--detached", "--out", "detached.cose")

    private = Statement.from_bytes(Path("note.cose").read_bytes())
    assert private.envelope is not None
    assert identify(private) is not None
    assert identify(Statement.from_bytes(Path("detached.cose").read_bytes(), b"hello")) is not None


def test_a_certificate_that_cannot_sign_with_this_key_is_refused(run: Run, desk: Path) -> None:
    cases = [
        (ROOT.leaf("other").chain_pem, "is for another key than the one that signs"),
        (
            ROOT.leaf(key=LEAF.key, extensions=[(key_usage("key_agreement"), True)]).pem,
            "keyUsage lacks digitalSignature",
        ),
        (ROOT.authority("CA", key=LEAF.key).pem, "is a CA certificate"),
        (LEAF.key_pem, "blocks of BEGIN CERTIFICATE belong here"),
        (LEAF.pem * 9, "there are 9 certificates"),
        (b"hello", "not DER that can be read"),
    ]
    for content, reason in cases:
        (desk / "chain.pem").write_bytes(content)

        refused = sign(run)

        assert refused.exit_code == 65
        assert "chain.pem: " in refused.stderr
        assert reason in refused.stderr
        assert not (desk / "note.cose").exists()


@pytest.mark.usefixtures("desk")
def test_how_a_chain_is_carried_goes_with_a_chain(run: Run) -> None:
    for words in (("--x5t",), ("--x5chain", "unprotected")):
        refused = run("sign", "note.txt", "--key", "agent.pem", "--iss", ISS, "--sub", "note", *words)
        assert refused.exit_code == 64
        assert "go with --cert" in refused.stderr
    missing = run("sign", "note.txt", "--key", "agent.pem", "--iss", ISS, "--sub", "note", "--cert", "none.pem")
    assert missing.exit_code == 66


@pytest.mark.usefixtures("desk")
def test_a_statement_that_is_signed_already_takes_no_certificate(good: Run, run: Run) -> None:
    sign(good)

    refused = run("submit", "note.cose", "--cert", "chain.pem", "--log", "http://127.0.0.1:9")

    assert refused.exit_code == 64
    assert "--cert can only be said of a record" in refused.stderr
