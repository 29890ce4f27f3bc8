"""pycose, an implementation of COSE we did not write: it accepts our signatures and we accept its (decision record)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.interop.side_environments import ask, site_packages
from tests.interop.trees import (
    ALGORITHMS,
    ISS,
    TIME,
    Tree,
    envelope,
    flip,
    payload,
    private_key,
    rebuilt,
    statement,
    transparent,
)
from transparency.cose.cbor import encode
from transparency.cose.sign1 import Sign1
from transparency.errors import SignatureInvalidError
from transparency.statements.statement import Statement

# What both sides know. pycose 1.1.0 has neither RFC 9864's names (Ed25519, ESP256 …) nor ML-DSA.
COMMON: Final = ("ES256", "ES384", "ES512", "EdDSA", "PS256")


def verify(message: bytes, alg: str, content: bytes | None = None, owner: str = "issuer") -> dict[str, Any]:
    """The question whether pycose verifies a message with a key that travels as our COSE_Key."""
    question = {
        "do": "verify",
        "message": message.hex(),
        "key": private_key(alg, owner).public.to_cose_key_bytes().hex(),
    }
    return question if content is None else question | {"payload": content.hex()}


def test_pycose_verifies_the_signatures_of_our_statements_and_refuses_spoiled_ones() -> None:
    good, bad = [], []
    for number, alg in enumerate(COMMON):
        attached = statement(number, alg)
        detached = statement(number, alg, detached=True)
        good += [
            verify(attached, alg),
            verify(detached, alg, payload(number)),
            verify(envelope(bytes(32), alg), alg),
            verify(transparent(attached, 3, 7), alg),
        ]
        bad += [
            verify(rebuilt(attached, payload=payload(number + 1)), alg),
            verify(rebuilt(attached, signature=flip(Sign1.from_bytes(attached).signature, 77)), alg),
            verify(detached, alg, payload(number + 1)),
            verify(attached, alg, owner="stranger"),
        ]

    answers = ask("pycose", good + bad)

    assert answers[: len(good)] == [{"value": True}] * len(good)
    assert answers[len(good) :] == [{"value": False}] * len(bad)


@pytest.mark.parametrize("alg", ["ES256", "ES384", "EdDSA"])
def test_pycose_verifies_the_signature_of_our_receipts_over_the_root_as_detached_payload(alg: str) -> None:
    """One signature for a head: inclusion and consistency receipts of a size are the same message to pycose."""
    tree = Tree(tuple(bytes([n]) * 32 for n in range(23)), private_key(alg, "log"))
    questions = []
    for size in (1, 2, 7, 8, 23):
        receipts = [tree.receipt(size - 1, size), tree.receipt(0, size)]
        receipts += [tree.consistency_receipt(old, size) for old in range(1, size, 5)]
        questions += [verify(receipt, alg, tree.root(size), "log") for receipt in receipts]
    of_another_size = verify(tree.receipt(0, 8), alg, tree.root(7), "log")

    answers = ask("pycose", [*questions, of_another_size])

    assert answers == [{"value": True}] * len(questions) + [{"value": False}]


def test_we_verify_statements_that_pycose_encoded_and_signed() -> None:
    questions = []
    for alg in COMMON:
        claims = {1: ISS, 2: "urn:example:by-pycose", 6: TIME}
        headers = {1: ALGORITHMS[alg], 3: "application/json", 4: private_key(alg).public.kid, 15: claims}
        question: dict[str, Any] = {
            "do": "sign",
            "pem": private_key(alg).to_pem().decode(),
            "protected": encode(headers).hex(),
        }
        questions += [question | {"payload": payload(1).hex(), "detached": detached} for detached in (False, True)]

    answers = ask("pycose", questions)

    for place, answer in enumerate(answers):
        alg, detached = COMMON[place // 2], place % 2 == 1
        made = Statement.from_bytes(bytes.fromhex(answer["value"]), payload(1) if detached else None)
        made.verify(private_key(alg).public)
        assert (made.claims.iss, made.claims.sub, made.payload) == (ISS, "urn:example:by-pycose", payload(1))
        with pytest.raises(SignatureInvalidError):
            made.verify(private_key(alg, "stranger").public)


def test_ecdsa_of_pycose_is_the_pure_python_package_and_costs_over_five_times_what_cryptography_costs() -> None:
    """Decision record on pycose: about 350 a second against 9,000; here a ratio within one process, with much room."""
    key = private_key("ES256").public.to_cose_key_bytes().hex()
    measure = {"do": "seconds", "message": statement().hex(), "key": key, "rounds": 100}

    versions, measured = ask("pycose", [{"do": "versions"}, measure])

    assert versions["value"]["pycose"] == "1.1.0"
    assert versions["value"]["ecdsa module"] == "ecdsa.keys"
    assert measured["value"]["verified"] is True
    assert measured["value"]["pycose"] > 5 * measured["value"]["cryptography"]


def test_pycose_cannot_decode_any_message_with_the_cbor2_that_this_project_needs() -> None:
    """Decision record on pycose, PY-1: cbor2 6 gives a tuple inside a tag and pycose asks for a list."""
    questions = [{"do": "versions"}, verify(statement(), "ES256")]

    old_versions, accepted = ask("pycose", questions)
    new_versions, refused = ask("pycose", questions, first_on_path=site_packages("scitt-cose"))

    assert old_versions["value"]["cbor2"].startswith("5.")
    assert accepted == {"value": True}
    assert new_versions["value"]["cbor2"].startswith("6.")
    assert new_versions["value"]["pycose folder"] == old_versions["value"]["pycose folder"]
    assert refused == {"error": "TypeError: Bytes cannot be decoded as COSE message"}
