"""mini_verify, written from docs/profile.md alone, and our verifier come to one verdict about everything."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.interop import mini_verify
from tests.interop.trees import (
    RECEIPTS,
    VECTORS,
    Tree,
    envelope,
    flip,
    payload,
    private_key,
    proof_of,
    rebuilt,
    receipt_of,
    relabelled,
    spoiled,
    statement,
    transparent,
    tree_around,
    with_proof,
    with_receipt,
)
from tests.interop.verdicts import HEADERS, ISSUER_KEYS, KNOWN, LOG_KEYS, agreed, key_set, registered, signed
from tests.patience import PATIENCE
from transparency.cose.key_sets import encode_key_set
from transparency.cose.sign1 import Sign1
from transparency.errors import TransparencyError
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement

RECORD: Final = b'{"record":"kept elsewhere"}'
MINI: Final = Path(mini_verify.__file__)


def test_mini_verify_is_at_most_200_lines_and_imports_only_the_standard_library_and_cryptography() -> None:
    source = MINI.read_text()
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }

    assert len(source.splitlines()) <= 200
    assert imported <= sys.stdlib_module_names | {"cryptography"}


@pytest.mark.parametrize("alg", KNOWN)
@pytest.mark.parametrize("log_alg", ["ES256", "ES384", "ES512", "Ed25519"])
def test_both_verify_statements_and_receipts_of_every_algorithm_and_refuse_other_keys(alg: str, log_alg: str) -> None:
    message = transparent(statement(4, alg), 5, 13, key=private_key(log_alg, "log"))
    stranger = private_key(alg, "stranger")

    assert agreed(message) == "verified"
    assert agreed(message, payload(4)) == "verified"
    assert agreed(message, issuer_keys=key_set(stranger)) == "failed"
    assert agreed(message, log_keys=key_set(stranger)) == "cannot-tell"
    assert agreed(message, log_keys=private_key(log_alg, "log").public.to_pem()) == "verified"
    assert agreed(message, issuer_keys=private_key(alg).public.to_pem()) == "verified"
    assert agreed(message, log_keys=key_set(private_key(log_alg, "stranger"))) == "cannot-tell"


def test_both_refuse_a_receipt_whose_key_only_shares_the_kid_of_the_one_that_signed() -> None:
    message, kid = transparent(statement(), 5, 13), private_key("ES256", "log").public.kid
    posing = encode_key_set([private_key("ES256", "stranger").public.with_kid(kid)])

    assert agreed(message, log_keys=posing) == "failed"


def test_both_verify_every_place_of_trees_of_every_shape_and_refuse_the_entry_next_to_it() -> None:
    log_keys = mini_verify.read_keys(LOG_KEYS)
    key = private_key("ES256", "log").public
    for size in [*range(1, 18), 31, 32, 33, 255, 256, 257]:
        tree = Tree(tuple(hashlib.sha256(bytes([size % 256, n % 256, n // 256])).digest() for n in range(size)))
        for index in {*range(min(size, 17)), size // 2, size - 2, size - 1} - {-1}:
            receipt = tree.receipt(index)
            assert Receipt.from_bytes(receipt).verify_inclusion(tree.entries[index], key) == tree.root(size)
            assert mini_verify.check_receipt(receipt, tree.entries[index], log_keys)
            if size > 1:
                with pytest.raises(TransparencyError):
                    Receipt.from_bytes(receipt).verify_inclusion(tree.entries[index - 1], key)
                with pytest.raises(ValueError, match="signature"):
                    mini_verify.check_receipt(receipt, tree.entries[index - 1], log_keys)


def test_both_take_a_detached_payload_as_if_it_were_attached_and_cannot_tell_without_it() -> None:
    message = transparent(statement(7, detached=True), 2, 3, content=payload(7))

    assert agreed(message, payload(7)) == "verified"
    assert agreed(message, payload(8)) == "failed"
    assert agreed(message) == "cannot-tell"
    assert agreed(rebuilt(message, payload=payload(7))) == "verified"


@pytest.mark.parametrize(("hash_alg", "name"), [(-16, "sha256"), (-43, "sha384"), (-44, "sha512")])
def test_both_compare_the_record_with_a_hash_envelope(hash_alg: int, name: str) -> None:
    digest = hashlib.new(name, RECORD).digest()
    message = transparent(envelope(digest, hash_alg=hash_alg), 9, 10)

    assert agreed(message, RECORD) == "verified"
    assert agreed(message, RECORD + b"\n") == "failed"
    assert agreed(message) == "cannot-tell"
    assert agreed(rebuilt(message, payload=None), RECORD) == "verified"
    assert agreed(rebuilt(message, payload=None)) == "cannot-tell"


@pytest.mark.parametrize("fault", sorted(spoiled(transparent(statement(), 5, 13))))
def test_both_refuse_what_was_spoiled(fault: str) -> None:
    verdict = agreed(spoiled(transparent(statement(), 5, 13))[fault])

    assert verdict == ("cannot-tell" if fault == "no receipt" else "failed")


def test_both_refuse_a_receipt_relabelled_to_a_size_that_leads_to_the_same_root() -> None:
    """RC-18: the size in the proof is not the signed one, and root and signature are right all the same."""
    for message in relabelled():
        assert agreed(message) == "failed"


def test_a_receipt_by_a_stranger_neither_helps_nor_harms() -> None:
    plain = statement()
    entry = Statement.from_bytes(plain).entry
    known, strange = (tree_around(entry, 1, 2, private_key("ES256", who)).receipt(1) for who in ("log", "stranger"))

    assert agreed(rebuilt(plain, unprotected={RECEIPTS: [strange]})) == "cannot-tell"
    assert agreed(rebuilt(plain, unprotected={RECEIPTS: [strange, known]})) == "verified"
    assert agreed(rebuilt(plain, unprotected={RECEIPTS: [known, known]})) == "verified"
    assert agreed(rebuilt(plain, unprotected={RECEIPTS: [known, flip(known, 700)]})) == "failed"
    assert agreed(rebuilt(plain, unprotected={RECEIPTS: [known] * 64})) == "verified"
    assert agreed(rebuilt(plain, unprotected={RECEIPTS: [known] * 65})) == "failed"


BASES: Final = (
    (transparent(statement(1), 5, 13), None),
    (transparent(statement(2, "EdDSA"), 0, 2, key=private_key("EdDSA", "log")), None),
    (transparent(statement(3, detached=True), 6, 7, content=payload(3)), payload(3)),
    (transparent(envelope(hashlib.sha256(RECORD).digest()), 3, 4), RECORD),
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(BASES), st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=2))
@example(BASES[0], [0.0])
def test_both_come_to_one_verdict_about_flipped_bits_and_none_is_verified(
    base: tuple[bytes, bytes | None], places: list[float]
) -> None:
    data, content = base
    bits = {int(place * 8 * len(data)) for place in places}
    for bit in bits:
        data = flip(data, bit)

    assert agreed(data, content) != "verified"


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(BASES),
    st.floats(0, 1),
    st.integers(0, 40),
    st.binary(max_size=12),
)
def test_both_come_to_one_verdict_about_bytes_cut_out_and_put_in(
    base: tuple[bytes, bytes | None], place: float, removed: int, inserted: bytes
) -> None:
    data, content = base
    at = int(place * len(data))
    spoilt = data[:at] + inserted + data[at + removed :]

    assert (agreed(spoilt, content) == "verified") == (spoilt == data)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 600), st.data())
def test_both_refuse_a_true_receipt_with_any_other_place_or_a_shorter_path(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    message = transparent(statement(), index, size)
    receipt = receipt_of(message)
    _, _, path = proof_of(receipt)
    other = data.draw(st.integers(0, size))

    assert agreed(message) == "verified"
    moved = agreed(with_receipt(message, with_proof(receipt, size, other, path)))
    assert moved == ("verified" if other == index else "failed")
    if path:
        assert agreed(with_receipt(message, with_proof(receipt, size, index, path[:-1]))) == "failed"


def test_both_notice_a_forged_copy_of_trace_metadata_and_a_wrong_content_hash() -> None:
    content = b"no VAC record"
    honest = {
        "session-id": "s",
        "agent-vendor": "v",
        "trace-format": "other",
        "timestamp-start": 1,
        "content-hash": hashlib.sha256(content).hexdigest(),
    }
    lying = honest | {"content-hash": hashlib.sha256(b"").hexdigest()}
    unknown = honest | {"content-hash-alg": "sha-3"}

    def judged(protected: object, unprotected: object) -> str:
        headers = HEADERS | ({} if protected is None else {-70100: protected})
        message = signed(headers, private_key("ES256"), content, {} if unprotected is None else {100: unprotected})
        return agreed(registered(message))

    assert judged(honest, honest) == "verified"
    assert judged(honest, None) == "verified"
    assert judged(honest, honest | {"agent-vendor": "forged"}) == "failed"
    assert judged(lying, None) == "failed"
    assert judged(None, lying) == "failed"
    assert judged(None, [1]) == "failed"
    assert judged(unknown, None) == "cannot-tell"


def test_as_a_script_it_exits_0_for_what_is_verified_and_1_for_all_else(tmp_path: Path) -> None:
    data, content = BASES[2]
    files = {"good": data, "bad": flip(data, 999), "payload": content or b"", "log": LOG_KEYS, "issuer": ISSUER_KEYS}
    for name, written in files.items():
        (tmp_path / name).write_bytes(written)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", str(MINI), *arguments, "--log-key", "log", "--issuer-key", "issuer"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE)

    verified, failed, undecided = run("good", "--payload", "payload"), run("bad", "--payload", "payload"), run("good")

    assert (verified.returncode, verified.stderr) == (0, "")
    assert (failed.returncode, failed.stderr[:8]) == (1, "failed: ")
    assert (undecided.returncode, undecided.stderr[:13]) == (1, "cannot tell: ")


def test_both_verify_the_worked_example_of_the_profile() -> None:
    page = (MINI.parents[2] / "docs" / "profile.md").read_text()
    blocks = dict(re.findall(r"```hex ([\w-]+)\n(.*?)```", page, re.DOTALL))
    example = {name: bytes.fromhex(text) for name, text in blocks.items()}
    keys = {"log_keys": example["log-key-set"], "issuer_keys": example["issuer-key"]}

    assert agreed(example["transparent-statement"], **keys) == "verified"
    assert agreed(example["statement"], **keys) == "cannot-tell"
    assert agreed(example["receipt"], **keys) == "failed"
    assert mini_verify.check_receipt(example["receipt"], example["entry"], mini_verify.read_keys(keys["log_keys"]))
    assert example["issuer-thumbprint"] in mini_verify.read_keys(keys["issuer_keys"])[0].names


needs_vectors = pytest.mark.skipif(not VECTORS.is_dir(), reason="no ../shared/vectors beside the repository")


@needs_vectors
def test_both_judge_the_shared_vectors_alike() -> None:
    vectors = json.loads((VECTORS / "scitt-vectors.json").read_text())
    keys = {"log_keys": bytes.fromhex(vectors["scitt_keys_body"])}
    keys["issuer_keys"] = bytes.fromhex(vectors["issuer_cose_key"])
    found = [bytes.fromhex(text) for text in strings_in(vectors) if text.startswith("d284")]
    verdicts = [agreed(data, **keys) for data in found]

    assert verdicts.count("verified") >= 1
    assert verdicts.count("cannot-tell") >= 5, "the statements without a receipt"


@needs_vectors
@pytest.mark.parametrize(
    "name", ["valid-es256", "valid-eddsa", "fail-bad-statement-sig", "fail-tampered-path", "fail-unsupported-vds"]
)
def test_both_judge_the_vectors_of_scitt_cose_as_its_authors_do(name: str) -> None:
    folder = VECTORS / "scitt-cose" / name
    expected = json.loads((folder / "expected.json").read_text())
    read = {
        file: (folder / file).read_bytes()
        for file in ("statement.cose", "receipt.cose", "log-key.pub", "issuer-key.pub")
    }
    message = rebuilt(read["statement.cose"], unprotected={RECEIPTS: [read["receipt.cose"]]})

    verdict = agreed(message, log_keys=read["log-key.pub"], issuer_keys=read["issuer-key.pub"])

    assert verdict == ("verified" if expected["result"] == "VALID" else "failed")


def strings_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for each in value for text in strings_in(each)]
    return [value] if isinstance(value, str) else []


def test_rebuilding_keeps_a_message_as_it_was() -> None:
    for data, _ in BASES:
        assert rebuilt(data) == data == Sign1.from_bytes(data).to_bytes()
