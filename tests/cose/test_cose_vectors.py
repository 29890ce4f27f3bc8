"""Messages and keys made by others: the COSE working group's examples, and the vectors of this project's format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from transparency.cose import (
    PublicKey,
    Sign1,
    base64url,
    decode_key_set,
    encode_key_set,
    read_public_keys,
    sig_structure,
)
from transparency.errors import MalformedError, SignatureInvalidError, TransparencyError, UnsupportedAlgorithmError

VECTORS = Path(__file__).parents[3] / "shared" / "vectors"
pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason="the shared vectors are not beside this checkout")

# What the working group lets pass and we do not, and why.
STRICTER: dict[str, tuple[type[TransparencyError], str]] = {
    "sign-pass-01": (MalformedError, "an empty protected header spelled a0; its alg is unprotected as well"),
    "sign-pass-03": (MalformedError, "untagged (SS-1)"),
    "ecdsa-sig-04": (UnsupportedAlgorithmError, "ES512 with a key on P-256"),
    "eddsa-sig-02": (UnsupportedAlgorithmError, "Ed448"),
}


def examples() -> Iterator[Any]:
    if VECTORS.is_dir():
        folder = VECTORS / "cose-wg"
        for pattern in ("sign1-tests/*.json", "ecdsa-examples/ecdsa-sig-*.json", "eddsa-examples/eddsa-sig-*.json"):
            for path in sorted(folder.glob(pattern)):
                yield pytest.param(json.loads(path.read_text()), path.stem, id=path.stem)


def key_of(example: dict[str, Any]) -> PublicKey:
    jwk = {name: value for name, value in example["input"]["sign0"]["key"].items() if name not in ("d", "d_hex")}
    if "x_hex" in jwk:
        jwk["x"] = base64url.encode(bytes.fromhex(jwk.pop("x_hex")))
    return PublicKey.from_jwk(jwk)


def check(example: dict[str, Any]) -> None:
    message = Sign1.from_bytes(bytes.fromhex(example["output"]["cbor"]))
    external = bytes.fromhex(example["input"]["sign0"].get("external", ""))
    message.verify(key_of(example), external_aad=external)
    assert message.payload == example["input"]["plaintext"].encode()
    signed = bytes.fromhex(example["intermediates"]["ToBeSign_hex"])
    assert message.payload is not None
    assert sig_structure(message.protected, message.payload, external) == signed


@pytest.mark.parametrize(("example", "name"), list(examples()))
def test_the_working_groups_example(example: dict[str, Any], name: str) -> None:
    if name in STRICTER:
        with pytest.raises(STRICTER[name][0]):
            check(example)
    elif example.get("fail"):
        with pytest.raises((MalformedError, SignatureInvalidError, UnsupportedAlgorithmError)):
            check(example)
    else:
        check(example)


def test_the_examples_are_there() -> None:
    names = {each.id for each in examples()}
    assert len(names) == 15
    assert set(STRICTER) < names


@pytest.mark.parametrize("name", ["sign-fail-02", "sign-fail-06", "sign-fail-07"])
def test_a_failing_example_fails_by_its_signature_and_not_by_its_form(name: str) -> None:
    example = json.loads((VECTORS / "cose-wg" / "sign1-tests" / f"{name}.json").read_text())
    with pytest.raises(SignatureInvalidError):
        check(example)


@pytest.fixture
def vectors() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((VECTORS / "scitt-vectors.json").read_text())
    return loaded


def test_the_issuers_kid_is_its_thumbprint(vectors: dict[str, Any]) -> None:
    data = bytes.fromhex(vectors["issuer_cose_key"])
    key = PublicKey.from_cose_key_bytes(data)
    assert key.kid.hex() == key.thumbprint.hex() == vectors["issuer_kid"]
    assert key.to_cose_key_bytes() == data


def test_the_services_keys_are_one_cose_key_set(vectors: dict[str, Any]) -> None:
    body = bytes.fromhex(vectors["scitt_keys_body"])
    (key,) = decode_key_set(body)
    assert base64url.encode(key.thumbprint) == vectors["ts_kid_b64url"]
    assert key == PublicKey.from_cose_key_bytes(bytes.fromhex(vectors["ts_cose_key"]))
    assert encode_key_set([key]) == body
    assert read_public_keys(body) == (key,)


@pytest.mark.parametrize("number", range(5))
def test_the_statements_are_the_issuers(vectors: dict[str, Any], number: int) -> None:
    key = PublicKey.from_cose_key_bytes(bytes.fromhex(vectors["issuer_cose_key"]))
    statement = vectors[f"statement_{number}"]
    message = Sign1.from_bytes(bytes.fromhex(statement["submitted"]))
    message.verify(key)
    assert message.with_unprotected({}).to_bytes().hex() == statement["normalised"]


def test_a_detached_statement_verifies_with_its_payload(vectors: dict[str, Any]) -> None:
    key = PublicKey.from_cose_key_bytes(bytes.fromhex(vectors["issuer_cose_key"]))
    message = Sign1.from_bytes(bytes.fromhex(vectors["transparent_statement_2_detached"]))
    message.verify(key, bytes.fromhex(vectors["payload_2"]))


@pytest.mark.parametrize(
    ("folder", "valid"), [("valid-es256", True), ("valid-eddsa", True), ("fail-bad-statement-sig", False)]
)
def test_the_statements_of_scitt_cose(folder: str, valid: bool) -> None:
    path = VECTORS / "scitt-cose" / folder
    (key,) = read_public_keys((path / "issuer-key.pub").read_bytes())
    message = Sign1.from_bytes((path / "statement.cose").read_bytes())
    payload = (path / "payload.bin").read_bytes()
    if valid:
        message.verify(key, payload)
    else:
        with pytest.raises(SignatureInvalidError):
            message.verify(key, payload)


@pytest.mark.parametrize("name", ["cose-wg-inclusion-receipt", "cose-wg-consistency-receipt"])
def test_the_working_groups_receipts_are_of_our_form(name: str) -> None:
    """AMB-13: their protected headers are not sorted."""
    data = (VECTORS / "cose-wg" / f"{name}.cbor").read_bytes()
    message = Sign1.from_bytes(data)
    assert message.headers[395] == 1
    assert message.to_bytes() == data
