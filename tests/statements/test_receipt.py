"""The receipt: RFC 9942's bytes, and what a verifier must not accept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose import labels
from transparency.cose.cbor import bstr, decode, encode
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1, sig_structure
from transparency.errors import MalformedError, ProofError, SignatureInvalidError, UnsupportedAlgorithmError
from transparency.merkle.batch_paths import batch_paths
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import consistency_path, inclusion_path, root_at
from transparency.merkle.tiles import RightEdge, TileHashes
from transparency.statements.receipt import (
    PATH_MARK,
    Receipt,
    SignedHead,
    consistency_receipt,
    inclusion_receipt,
    inclusion_receipts,
    sign_head,
)
from transparency.statements.transparent import attach_receipts, receipts_of

KEY = PrivateKey.generate(-7)
OTHER = PrivateKey.generate(-7)


class Tree:
    """A tree of numbered entries, its tiles in memory."""

    def __init__(self, size: int) -> None:
        self.tiles: dict[tuple[int, int], bytes] = {}
        self.edge = RightEdge()
        self.tiles.update(self.edge.append([leaf_hash(entry(number)) for number in range(size)]))
        self.read = TileHashes(lambda level, index: self.tiles.get((level, index)))

    def head(self, size: int, signer: PrivateKey = KEY) -> SignedHead:
        root = root_at(size, self.read)
        return sign_head(
            signer, iss="https://log.example", origin="log.example", size=size, root=root, time=1_790_000_000
        )

    def receipt(self, index: int, size: int) -> bytes:
        return inclusion_receipt(self.head(size), index, inclusion_path(index, size, self.read))

    def consistency(self, old: int, new: int) -> bytes:
        return consistency_receipt(self.head(new), old, consistency_path(old, new, self.read))


def entry(number: int) -> bytes:
    return number.to_bytes(32, "big")


TREE = Tree(300)


def rebuilt(
    receipt: bytes, *, protected: Any = None, vdp: Any = None, payload: Any = ..., signer: PrivateKey = KEY
) -> bytes:
    """The receipt with parts replaced, and signed again over the root it had."""
    message = Sign1.from_bytes(receipt)
    parsed = Receipt.from_bytes(receipt)
    root = parsed.root_for(entry(parsed.inclusion[0].index)) if parsed.inclusion else b""
    new = encode(protected) if protected is not None else message.protected
    unprotected = encode({labels.VDP: vdp}) if vdp is not None else encode(dict(message.unprotected))
    body = b"\xf6" if payload is ... else bstr(payload)
    return b"\xd2\x84" + bstr(new) + unprotected + body + bstr(signer.sign(sig_structure(new, root)))


def test_a_receipt_verifies_for_its_entry_and_no_other() -> None:
    """RC-5: inclusion; RC-9: root from the entry first, then the signature over it."""
    receipt = Receipt.from_bytes(TREE.receipt(4, 7))

    assert receipt.verify_inclusion(entry(4), KEY.public) == root_at(7, TREE.read)
    with pytest.raises(SignatureInvalidError):
        receipt.verify_inclusion(entry(5), KEY.public)
    with pytest.raises(SignatureInvalidError):
        receipt.verify_inclusion(entry(4), OTHER.public)


@given(st.integers(0, 300), st.integers(1, 40))
@settings(max_examples=30)
def test_the_receipts_of_a_batch_are_those_that_each_entry_gets_alone(first: int, count: int) -> None:
    size = first + count
    tree = Tree(size)
    head = tree.head(size)
    leaves = [leaf_hash(entry(number)) for number in range(first, size)]
    before = CompactRange()
    before.extend([leaf_hash(entry(number)) for number in range(first)])

    receipts = inclusion_receipts(head, first, batch_paths(first, leaves, before.by_level, PATH_MARK))

    assert receipts == [
        inclusion_receipt(head, index, inclusion_path(index, size, tree.read)) for index in range(first, size)
    ]


def test_a_path_of_more_than_23_hashes_has_the_longer_head() -> None:
    head = Tree(2).head(2)
    path = [bytes([number]) * 32 for number in range(40)]

    [batched] = inclusion_receipts(head, 7, [(40, b"".join(PATH_MARK + node for node in path))])

    assert batched == inclusion_receipt(head, 7, path)


def test_the_protected_header_is_the_same_for_every_receipt_under_a_head() -> None:
    """RC-2, RC-3: alg, kid, vds, iss, sub, and ours: iat and tree-size; one signature per head."""
    first, second = (Sign1.from_bytes(TREE.receipt(index, 7)) for index in (0, 6))

    assert first.protected == second.protected
    assert first.signature == second.signature
    assert dict(first.headers) == {
        labels.ALG: -7,
        labels.KID: KEY.public.thumbprint,
        labels.CWT_CLAIMS: {
            labels.CLAIM_ISS: "https://log.example",
            labels.CLAIM_SUB: "log.example",
            labels.CLAIM_IAT: 1_790_000_000,
            labels.CLAIM_TREE_SIZE: 7,
        },
        labels.VDS: labels.VDS_RFC9162_SHA256,
    }


def test_a_receipt_carries_one_inclusion_proof_and_a_detached_root() -> None:
    """RC-1, RC-4, RC-7: tagged; vdp {-1: [one bstr]}; payload nil."""
    data = TREE.receipt(4, 7)
    message = Sign1.from_bytes(data)

    assert data[0] == 0xD2
    assert message.payload is None
    assert list(message.unprotected) == [labels.VDP]
    ((key, (proof,)),) = message.unprotected[labels.VDP].items()
    assert key == labels.VDP_INCLUSION
    assert decode(proof) == [7, 4, inclusion_path(4, 7, TREE.read)]


def test_an_untagged_receipt_is_refused() -> None:
    """RC-1."""
    with pytest.raises(MalformedError):
        Receipt.from_bytes(TREE.receipt(4, 7)[1:])


@pytest.mark.parametrize("label", [labels.ALG, labels.VDS])
def test_alg_and_vds_are_required_in_the_protected_header(label: int) -> None:
    """RC-2."""
    data = TREE.receipt(4, 7)
    protected = {key: value for key, value in Sign1.from_bytes(data).headers.items() if key != label}

    with pytest.raises(MalformedError):
        Receipt.from_bytes(rebuilt(data, protected=protected))


@pytest.mark.parametrize("vds", [0, 2, 3, -1])
def test_an_unknown_data_structure_is_refused(vds: int) -> None:
    """RC-13."""
    data = TREE.receipt(4, 7)
    protected = {**Sign1.from_bytes(data).headers, labels.VDS: vds}

    with pytest.raises(UnsupportedAlgorithmError):
        Receipt.from_bytes(rebuilt(data, protected=protected))


@pytest.mark.parametrize("vdp", [{}, {-3: [b""]}, {-1: []}, {-1: b""}, {-1: ["text"]}, {1: [b""]}, [1], {"x": [b""]}])
def test_a_vdp_that_the_registry_does_not_define_is_refused(vdp: object) -> None:
    """RC-13, RC-4."""
    with pytest.raises(MalformedError):
        Receipt.from_bytes(rebuilt(TREE.receipt(4, 7), vdp=vdp))


@pytest.mark.parametrize(
    "proof",
    [
        [7, 7, []],
        [7, 8, []],
        [0, 0, []],
        [7, -1, []],
        [7.0, 4, []],
        [True, 0, []],
        [7, 4],
        [7, 4, [b"short"]],
        [7, 4, b"path"],
        [2**63, 4, []],
        [7, 4, [bytes(32)] * 65],
        "text",
    ],
)
def test_a_proof_of_wrong_shape_is_refused(proof: object) -> None:
    """RC-8: leaf_index < tree_size, and every field of its type."""
    with pytest.raises((MalformedError, ProofError)):
        Receipt.from_bytes(rebuilt(TREE.receipt(4, 7), vdp={-1: [encode(proof)]})).verify_inclusion(
            entry(4), KEY.public
        )


def test_a_proof_that_is_not_canonical_cbor_is_refused() -> None:
    proof = encode([7, 4, inclusion_path(4, 7, TREE.read)])
    long_head = b"\x83\x18\x07" + proof[2:]

    with pytest.raises(MalformedError):
        Receipt.from_bytes(rebuilt(TREE.receipt(4, 7), vdp={-1: [long_head]}))


def test_several_proofs_must_lead_to_one_root() -> None:
    """RC-11."""
    right = encode([7, 4, inclusion_path(4, 7, TREE.read)])
    wrong = encode([7, 3, inclusion_path(3, 7, TREE.read)])
    data = TREE.receipt(4, 7)

    assert Receipt.from_bytes(rebuilt(data, vdp={-1: [right, right]})).verify_inclusion(entry(4), KEY.public)
    with pytest.raises(ProofError, match="different roots"):
        Receipt.from_bytes(rebuilt(data, vdp={-1: [right, wrong]})).verify_inclusion(entry(4), KEY.public)


def test_a_relabelled_size_is_refused_because_the_size_is_signed() -> None:
    """RC-18: leaf 4 of 5 as [2, 1, same path] gives the same root; only the signed size tells."""
    data = TREE.receipt(4, 5)
    message = Sign1.from_bytes(data)
    forged = message.with_unprotected({labels.VDP: {-1: [encode([2, 1, inclusion_path(4, 5, TREE.read)])]}}).to_bytes()

    Receipt.from_bytes(data).verify_inclusion(entry(4), KEY.public)
    with pytest.raises(ProofError, match="signed header says 5"):
        Receipt.from_bytes(forged).verify_inclusion(entry(4), KEY.public)


def test_a_foreign_receipt_without_signed_size_is_readable_and_says_so() -> None:
    """RC-18, RC-20: tree_size is None, the size in the proof is only claimed; CWT claims and kid may be missing."""
    data = rebuilt(TREE.receipt(4, 5), protected={labels.ALG: -7, labels.VDS: 1})
    receipt = Receipt.from_bytes(data)

    assert (receipt.tree_size, receipt.kid, receipt.iss) == (None, None, None)
    receipt.verify_inclusion(entry(4), KEY.public)


def test_an_attached_root_must_be_the_one_the_proof_gives() -> None:
    """RC-7: the CDDL allows an attached root; it proves nothing by itself."""
    data = TREE.receipt(4, 7)
    right = rebuilt(data, payload=root_at(7, TREE.read))
    wrong = rebuilt(data, payload=bytes(32))

    Receipt.from_bytes(right).verify_inclusion(entry(4), KEY.public)
    with pytest.raises(ProofError):
        Receipt.from_bytes(wrong).verify_inclusion(entry(4), KEY.public)


def test_a_receipt_for_a_tree_of_one_has_an_empty_path_and_is_accepted_from_others() -> None:
    receipt = Receipt.from_bytes(TREE.receipt(0, 1))

    assert receipt.inclusion[0].path == ()
    receipt.verify_inclusion(entry(0), KEY.public)


# -- consistency ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [(1, 2), (3, 5), (4, 8), (255, 256), (256, 257), (6, 300)])
def test_a_consistency_receipt_leads_from_a_trusted_head_to_the_newer_root(old: int, new: int) -> None:
    """RC-6, RC-10: computed from (size, root), then the signature over the newer root."""
    receipt = Receipt.from_bytes(TREE.consistency(old, new))

    assert receipt.verify_consistency(old, root_at(old, TREE.read), KEY.public) == root_at(new, TREE.read)


def test_a_consistency_receipt_starts_from_a_size_and_a_root_both() -> None:
    """RC-19: a root alone is not enough, and another root or size fails."""
    receipt = Receipt.from_bytes(TREE.consistency(3, 5))

    with pytest.raises(ProofError):
        receipt.verify_consistency(4, root_at(3, TREE.read), KEY.public)
    with pytest.raises((ProofError, SignatureInvalidError)):
        receipt.verify_consistency(3, root_at(4, TREE.read), KEY.public)
    with pytest.raises(SignatureInvalidError):
        receipt.verify_consistency(3, root_at(3, TREE.read), OTHER.public)


def test_a_consistency_receipt_is_no_inclusion_receipt_and_the_other_way_round() -> None:
    with pytest.raises(ProofError, match="no inclusion proof"):
        Receipt.from_bytes(TREE.consistency(3, 5)).verify_inclusion(entry(0), KEY.public)
    with pytest.raises(ProofError, match="no consistency proof"):
        Receipt.from_bytes(TREE.receipt(3, 5)).verify_consistency(3, root_at(3, TREE.read), KEY.public)


@settings(max_examples=60)
@given(st.integers(1, 300), st.data())
def test_every_receipt_of_every_size_verifies_and_no_mutated_one_does(size: int, data: st.DataObject) -> None:
    """RC-12: verification either returns or raises; nothing in between."""
    index = data.draw(st.integers(0, size - 1))
    receipt = TREE.receipt(index, size)
    Receipt.from_bytes(receipt).verify_inclusion(entry(index), KEY.public)

    position = data.draw(st.integers(0, len(receipt) - 1))
    mutated = bytearray(receipt)
    mutated[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((MalformedError, ProofError, SignatureInvalidError, UnsupportedAlgorithmError)):
        Receipt.from_bytes(bytes(mutated)).verify_inclusion(entry(index), KEY.public)


# -- the transparent statement ----------------------------------------------------------------------------------------


def statement() -> bytes:
    return Sign1.from_bytes(
        b"\xd2\x84" + bstr(encode({1: -7})) + encode({100: {"a": 1}}) + bstr(b"p") + bstr(bytes(64))
    ).to_bytes()


def test_receipts_stand_at_394_as_byte_strings_in_their_order() -> None:
    """TSt-1, TSt-2."""
    made = Sign1.from_bytes(attach_receipts(statement(), [b"first", b"second"]))

    assert receipts_of(made) == (b"first", b"second")
    assert made.unprotected[100] == {"a": 1}


def test_a_log_serves_394_and_nothing_else() -> None:
    """TSt-4: Fig. 7 is a closed map; TSt-3: built without changing what is signed."""
    before = Sign1.from_bytes(statement())
    made = Sign1.from_bytes(attach_receipts(statement(), [b"r"], keep_unprotected=False))

    assert dict(made.unprotected) == {labels.RECEIPTS: [b"r"]}
    assert (made.protected, made.payload, made.signature) == (before.protected, before.payload, before.signature)


@pytest.mark.parametrize("value", [[], b"r", ["text"], [[b"r"]], {}, [b"r"] * 65])
def test_a_394_of_another_shape_is_refused(value: object) -> None:
    """TSt-1: an array of one or more byte strings, bounded."""
    message = Sign1.from_bytes(statement()).with_unprotected({labels.RECEIPTS: value})

    with pytest.raises(MalformedError):
        receipts_of(message)
