"""scitt-cose (PyPI), a receipt verifier we did not write: it accepts what we issue and rejects what was spoiled."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.side_environments import ask
from tests.interop.trees import (
    LOG_ISS,
    TIME,
    VECTORS,
    Tree,
    flip,
    payload,
    pem,
    private_key,
    receipt_of,
    relabelled,
    spoiled,
    statement,
    transparent,
    tree_around,
    with_receipt,
)
from tests.interop.verdicts import ours
from transparency.errors import TransparencyError
from transparency.log.create import create_log
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts
from transparency.testing import FakeClock, MadeLog, SampleIssuer, running

# What scitt-cose 0.5.0 verifies. It knows Ed25519 only by its older name, EdDSA (-8).
COMMON: Final = ("ES256", "ES384", "EdDSA")


def judge(message: bytes, alg: str = "ES256", log_alg: str = "ES256", owner: str = "log") -> dict[str, Any]:
    keys = {"log_key": pem(private_key(log_alg, owner)), "issuer_key": pem(private_key(alg))}
    return {"do": "judge", "transparent": message.hex(), **keys}


def accepted(answers: list[Any]) -> list[bool]:
    """An exception of the peer is a refusal too."""
    return ["value" in answer and answer["value"]["accepted"] for answer in answers]


def test_it_is_the_version_this_was_written_against() -> None:
    (answer,) = ask("scitt-cose", [{"do": "versions"}])

    assert answer["value"]["scitt-cose"] == "0.5.0"


@pytest.mark.parametrize("log_alg", COMMON)
def test_it_accepts_our_transparent_statements_at_every_place_of_trees_of_2_to_40_entries(log_alg: str) -> None:
    """Every place for the odd shapes, the ends and the middle for the rest, and larger trees at random."""
    chance = random.Random(2)
    sizes = {size: range(size) if size < 18 else sorted({0, size // 2, size - 1}) for size in range(2, 41)}
    sizes |= {size: [chance.randrange(size) for _ in range(3)] for size in (255, 256, 257, 1000, 4099)}
    places = [(index, size) for size, indexes in sizes.items() for index in indexes]
    if log_alg != "ES256":
        places = chance.sample(places, 30)
    alg = log_alg
    message = statement(1, alg)
    log_key = private_key(log_alg, "log")

    answers = ask("scitt-cose", [judge(transparent(message, *place, key=log_key), alg, log_alg) for place in places])

    for (index, size), answer in zip(places, answers, strict=True):
        (receipt,) = answer["value"]["receipts"]
        root = tree_around(Statement.from_bytes(message).entry, index, size).root(size).hex()
        assert answer["value"]["accepted"], (index, size, receipt["errors"])
        assert (receipt["index"], receipt["size"], receipt["root"]) == (index, size, root)
        assert (receipt["iss"], receipt["iat"]) == (LOG_ISS, TIME)


@pytest.mark.parametrize("log_alg", COMMON)
def test_it_accepts_the_receipts_of_a_real_log_of_every_algorithm_it_knows(tmp_path: Path, log_alg: str) -> None:
    """RC-17: as ``init --receipt-alg`` makes it; Ed25519 keys under the number it knows."""
    issuer = SampleIssuer(key=private_key("ES256"))
    created = create_log(tmp_path / "log", clock=FakeClock(), issuers=(issuer.as_policy_issuer(),), receipt_alg=log_alg)
    made = MadeLog(tmp_path / "log", created.watermark, issuer, FakeClock())

    async def register() -> tuple[bytes, str]:
        async with running(made) as log:
            index = (await log.register(issuer.sign(b"for another verifier"))).index
            return log.transparent_statement(index), log.receipt_keys()[0].to_pem().decode()

    message, log_key = asyncio.run(register())
    question = {"do": "judge", "transparent": message.hex(), "log_key": log_key, "issuer_key": pem(issuer.key)}

    (answer,) = ask("scitt-cose", [question])

    assert answer["value"]["accepted"], answer
    assert ours(message, log_keys=log_key.encode(), issuer_keys=pem(issuer.key).encode()) == "verified"


def test_it_accepts_one_statement_with_receipts_of_two_heads() -> None:
    message = statement(2)
    tree = tree_around(Statement.from_bytes(message).entry, 3, 11)
    both = attach_receipts(message, [tree.receipt(3, 7), tree.receipt(3, 11)])

    assert accepted(ask("scitt-cose", [judge(both)])) == [True]


def test_it_accepts_our_receipt_for_a_detached_statement_once_the_payload_is_back_in_its_place() -> None:
    """LEAF-1: attached and detached are one entry, so the receipt of the one is the receipt of the other."""
    detached = statement(3, detached=True)
    receipt = receipt_of(transparent(detached, 4, 9, content=payload(3)))
    attached = Statement.from_bytes(detached, payload(3)).normalised

    assert accepted(ask("scitt-cose", [judge(attach_receipts(attached, [receipt]))])) == [True]


def test_it_rejects_our_transparent_statements_once_they_are_spoiled() -> None:
    """Path, leaf, size, signature, statement, key: what we refuse is refused by the peer as well."""
    good = transparent(statement(4), 5, 13)
    faults = spoiled(good)
    other_entry = with_receipt(good, receipt_of(transparent(statement(5), 5, 13)))
    moved = with_receipt(good, receipt_of(transparent(statement(4), 4, 13)))

    answers = ask(
        "scitt-cose",
        [judge(good), judge(moved)]
        + [judge(bad) for bad in faults.values()]
        + [judge(other_entry), judge(good, owner="stranger")],
    )

    verdicts = accepted(answers)
    assert verdicts[:2] == [True, True]
    names = [*faults, "receipt of another entry", "another log's key"]
    assert [name for name, verdict in zip(names, verdicts[2:], strict=True) if verdict] == []
    assert [name for name, bad in faults.items() if ours(bad) == "verified"] == []


def test_it_rejects_single_flipped_bits_anywhere() -> None:
    good = transparent(statement(6), 2, 5)
    chance = random.Random(7)
    flipped = [flip(good, chance.randrange(8 * len(good))) for _ in range(250)]

    answers = ask("scitt-cose", [judge(bad) for bad in flipped])

    assert not any(accepted(answers))


def test_it_accepts_a_relabelled_receipt_that_we_refuse_by_the_signed_tree_size() -> None:
    """RC-18, the decision record on tree-size: RFC 9942 alone leaves size and index of a receipt unsigned."""
    messages = relabelled()

    assert accepted(ask("scitt-cose", [judge(message) for message in messages])) == [True] * len(messages)
    assert [ours(message) for message in messages] == ["failed"] * len(messages)


def test_it_agrees_with_our_roots_and_consistency_proofs() -> None:
    tree = Tree(tuple(hashlib.sha256(bytes([n])).digest() for n in range(40)))
    pairs = [(old, new) for new in (2, 3, 7, 8, 9, 21, 32, 40) for old in range(1, new)]
    roots: list[dict[str, Any]] = [
        {"do": "root", "entries": [entry.hex() for entry in tree.entries[:size]]} for size in range(1, 41)
    ]
    proofs: list[dict[str, Any]] = [
        {
            "do": "consistency",
            "old": old,
            "new": new,
            "path": [each.hex() for each in tree.consistency_path(old, new)],
            "old_root": tree.root(old).hex(),
            "new_root": tree.root(new).hex(),
        }
        for old, new in pairs
    ]
    wrong = [proof | {"new_root": tree.root(1).hex()} for proof in proofs]

    answers = ask("scitt-cose", roots + proofs + wrong)

    values = [answer["value"] for answer in answers]
    assert values[:40] == [tree.root(size).hex() for size in range(1, 41)]
    assert values[40:] == [True] * len(proofs) + [False] * len(wrong)


@pytest.mark.parametrize("alg", COMMON)
def test_we_accept_statements_and_receipts_that_scitt_cose_made_and_refuse_them_for_another_entry(alg: str) -> None:
    """RC-20: its receipts do not sign their size, so size and index stay claimed."""
    issuer, log = private_key(alg), private_key(alg, "log")
    places = [(0, 1), (0, 2), (4, 5), (6, 13), (39, 40)]
    common = {"do": "make", "pem": issuer.to_pem().decode(), "log_pem": log.to_pem().decode(), "alg": alg}
    questions = [
        common
        | {"payload": payload(size).hex(), "others": [bytes([n]).hex() * 32 for n in range(size - 1)], "index": index}
        for index, size in places
    ]

    for answer in ask("scitt-cose", questions):
        made = {name: bytes.fromhex(value) for name, value in answer["value"].items()}
        foreign = Statement.from_bytes(made["statement"])
        receipt = Receipt.from_bytes(made["receipt"])
        foreign.verify(issuer.public)
        assert receipt.verify_inclusion(foreign.entry, log.public) == made["root"]
        assert receipt.tree_size is None
        with pytest.raises(TransparencyError):
            receipt.verify_inclusion(hashlib.sha256(foreign.entry).digest(), log.public)


@pytest.mark.skipif(not VECTORS.is_dir(), reason="no ../shared/vectors beside the repository")
def test_it_judges_its_own_vectors_as_we_do() -> None:
    folders = sorted((VECTORS / "scitt-cose").glob("*-*"))
    read = [{file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders]
    messages = [attach_receipts(each["statement.cose"], [each["receipt.cose"]]) for each in read]
    questions = [
        {
            "do": "judge",
            "transparent": message.hex(),
            "log_key": each["log-key.pub"].decode(),
            "issuer_key": each["issuer-key.pub"].decode(),
        }
        for message, each in zip(messages, read, strict=True)
    ]

    answers = ask("scitt-cose", questions)

    expected = [json.loads(each["expected.json"])["result"] == "VALID" for each in read]
    assert len(expected) == 5
    assert accepted(answers) == expected
    for valid, message, each in zip(expected, messages, read, strict=True):
        verdict = ours(message, log_keys=each["log-key.pub"], issuer_keys=each["issuer-key.pub"])
        assert verdict == ("verified" if valid else "failed")
