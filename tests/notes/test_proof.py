"""tlog-proof files and the requests to witnesses, which have the same form: lines, an empty line, a checkpoint."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.notes.vectors import c2sp_vectors, scitt_vectors
from tests.notes.world import ORIGIN, log_signer, log_signers, signed, witnesses
from transparency.errors import NoteError, ProofError, SignatureInvalidError
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import MAX_SIZE, leaf_hash
from transparency.merkle.proofs import consistency_path, inclusion_path, verify_consistency
from transparency.merkle.tiles import RightEdge, TileHashes
from transparency.notes.checkpoint import Checkpoint, open_checkpoint
from transparency.notes.numbers import write_base64
from transparency.notes.proof import TlogProof
from transparency.notes.requests import AddCheckpoint, SignSubtree
from transparency.notes.vkey import VerifierKey

NOTE = signed(cosigned_by=witnesses()).to_bytes()
LOG_KEYS = [signer.vkey for signer in log_signers()]
HASH = write_base64(b"h" * 32)

numbers = st.integers(0, MAX_SIZE)
hashes = st.binary(min_size=32, max_size=32)
paths = st.lists(hashes, max_size=5).map(tuple)
proofs = st.builds(TlogProof, numbers, paths, st.just(NOTE), st.none() | st.binary(min_size=1, max_size=40))
additions = st.builds(AddCheckpoint, numbers, paths, st.just(NOTE))
subtrees = st.builds(SignSubtree, numbers, numbers, hashes, paths, st.just(NOTE))


@given(proofs | additions | subtrees)
def test_what_is_read_back_is_what_was_written(value: TlogProof | AddCheckpoint | SignSubtree) -> None:
    """P-1, W-1."""
    assert type(value).from_bytes(value.to_bytes()) == value


@pytest.mark.parametrize("kind", [TlogProof, AddCheckpoint, SignSubtree])
@given(
    st.lists(
        st.sampled_from(
            "c2sp.org/tlog-proof@v1|extra aGk=|extra |extra|index 5|index 05|index\t5|old 5|old 5 |old|old +9|"
            f"subtree 4 8|subtree 4  8|{HASH}|{HASH[:-1]}| ".split("|")
        ),
        max_size=5,
    )
)
def test_what_is_accepted_prints_back_the_same(
    kind: type[TlogProof | AddCheckpoint | SignSubtree], lines: list[str]
) -> None:
    """P-1, W-1."""
    data = "".join(f"{line}\n" for line in lines).encode() + b"\n" + NOTE
    try:
        value = kind.from_bytes(data)
    except NoteError:
        return
    assert value.to_bytes() == data


FIRST = "c2sp.org/tlog-proof@v1\n"


@pytest.mark.parametrize(
    "head",
    [
        "",
        "\n",
        f"\n{FIRST}index 5\n",
        FIRST,
        "index 5\n",
        "c2sp.org/tlog-proof@v2\nindex 5\n",
        f" {FIRST}index 5\n",
        f"{FIRST}index 05\n",
        f"{FIRST}index +5\n",
        f"{FIRST}index -5\n",
        f"{FIRST}index  5\n",
        f"{FIRST}index 5 \n",
        f"{FIRST}index\n",
        f"{FIRST}Index 5\n",
        f"{FIRST}index {MAX_SIZE + 1}\n",
        f"{FIRST}index 5\r\n",
        f"{FIRST}extra aGk=\n",
        f"{FIRST}extra \nindex 5\n",
        f"{FIRST}extra\nindex 5\n",
        f"{FIRST}extra aGk\nindex 5\n",
        f"{FIRST}extra aGl=\nindex 5\n",
        f"{FIRST}extra aGk= \nindex 5\n",
        f"{FIRST}extra aGk=\nextra aGk=\nindex 5\n",
        f"{FIRST}index 5\nextra aGk=\n",
        f"{FIRST}index 5\nindex 5\n",
        f"{FIRST}index 5\n{HASH[:-1]}\n",
        f"{FIRST}index 5\n{HASH} \n",
        f"{FIRST}index 5\n{write_base64(b'h' * 31)}\n",
        f"{FIRST}index 5\n" + f"{HASH}\n" * 64,
        f"{FIRST}index 5\n\n",
    ],
)
def test_whatever_is_not_a_proof_is_refused(head: str) -> None:
    """P-1."""
    with pytest.raises(NoteError):
        TlogProof.from_bytes(head.encode() + b"\n" + NOTE)


@pytest.mark.parametrize(
    ("kind", "head"),
    [(AddCheckpoint, f"{word}\n") for word in ["old 09", "old +9", "old  9", "old 9 ", "old", "old -1", "Old 9", "9"]]
    + [(AddCheckpoint, "old 9\n" + f"{HASH}\n" * 64), (AddCheckpoint, "old 9\nx\n"), (AddCheckpoint, "")]
    + [(SignSubtree, f"{word}\n{HASH}\n") for word in ["subtree 4", "subtree 4 08", "subtree 4 8 9", "subtree  4 8"]]
    + [(SignSubtree, "subtree 4 8\n"), (SignSubtree, "subtree 4 8\nx\n"), (SignSubtree, f"{HASH}\n{HASH}\n")],
)
def test_whatever_is_not_a_request_is_refused(kind: type[AddCheckpoint | SignSubtree], head: str) -> None:
    """W-1: integers and base64 in requests are read byte for byte."""
    with pytest.raises(NoteError):
        kind.from_bytes(head.encode() + b"\n" + NOTE)


@pytest.mark.parametrize("kind", [TlogProof, AddCheckpoint])
def test_the_checkpoint_in_it_must_have_a_checkpoint_s_form(kind: type[TlogProof | AddCheckpoint]) -> None:
    """P-1, W-1."""
    head = b"old 5\n\n" if kind is AddCheckpoint else f"{FIRST}index 5\n\n".encode()
    for note in (b"", NOTE[:-1], NOTE + b"\n", b"\n" + NOTE, NOTE.replace(b"\n5\n", b"\n05\n")):
        with pytest.raises(NoteError):
            kind.from_bytes(head + note)
    with pytest.raises(NoteError):
        AddCheckpoint(5, (), b"no note").to_bytes()
    assert kind.from_bytes(head + NOTE).checkpoint == NOTE


def test_a_value_that_could_not_be_written_cannot_be_made() -> None:
    for index, path, extra in ((-1, (), None), (True, (), None), (5, (b"short",), None), (5, (), b"")):
        with pytest.raises(NoteError):
            TlogProof(index, path, NOTE, extra)
    with pytest.raises(NoteError):
        AddCheckpoint(-1, (), NOTE)
    with pytest.raises(NoteError):
        SignSubtree(0, -1, b"h" * 32, (), NOTE)


def tree(size: int) -> tuple[list[bytes], TileHashes, CompactRange]:
    leaves = [leaf_hash(b"entry %d" % index) for index in range(size)]
    tiles = RightEdge().append(leaves)
    edge = CompactRange()
    edge.extend(leaves)
    return leaves, TileHashes(lambda level, index: tiles.get((level, index))), edge


@pytest.mark.parametrize("size", [1, 2, 5, 8, 300])
def test_a_proof_of_each_entry_verifies_and_of_no_other_leaf(size: int) -> None:
    """P-1."""
    leaves, read, edge = tree(size)
    note = signed(Checkpoint(ORIGIN, size, edge.root())).to_bytes()
    for index in {0, size // 2, size - 1}:
        proof = TlogProof.from_bytes(TlogProof(index, tuple(inclusion_path(index, size, read)), note).to_bytes())

        assert proof.verify(leaves[index], LOG_KEYS).checkpoint.size == size
        with pytest.raises(ProofError):
            proof.verify(leaf_hash(b"another"), LOG_KEYS)
        for other in (index + size, index + 1):
            with pytest.raises(ProofError):
                dataclasses.replace(proof, index=other).verify(leaves[index], LOG_KEYS)
        with pytest.raises(SignatureInvalidError):
            proof.verify(leaves[index], [log_signer(name="other.example").vkey])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_proof_with_a_changed_byte_never_proves_another_thing(data: st.DataObject) -> None:
    """P-1, SN-3: what still verifies is the same tree, index and path."""
    leaves, read, edge = tree(5)
    proof = TlogProof(2, tuple(inclusion_path(2, 5, read)), signed(Checkpoint(ORIGIN, 5, edge.root())).to_bytes())
    changed = bytearray(proof.to_bytes())
    changed[data.draw(st.integers(0, len(changed) - 1) | st.integers(0, 260))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        again = TlogProof.from_bytes(bytes(changed))
        checkpoint = again.verify(leaves[2], LOG_KEYS).checkpoint
    except (NoteError, ProofError, SignatureInvalidError):
        return
    assert (again.index, again.path, checkpoint) == (2, proof.path, Checkpoint(ORIGIN, 5, edge.root()))


def test_the_proof_of_the_vectors_verifies_and_prints_back() -> None:
    """P-1."""
    vectors = c2sp_vectors()
    data = vectors["tlog_proof_leaf2"].encode()
    leaf = bytes.fromhex(scitt_vectors()["statement_2"]["leaf_hash"])

    proof = TlogProof.from_bytes(data)

    assert proof.to_bytes() == data
    assert proof.index == 2
    assert proof.verify(leaf, [VerifierKey.parse(vectors["log_vkey"])]).checkpoint.size == 5


def test_the_add_checkpoint_body_of_the_vectors_is_consistent_and_prints_back() -> None:
    """W-1."""
    vectors = c2sp_vectors()
    data = vectors["add_checkpoint_body_old3"].encode()
    roots = {int(size): bytes.fromhex(root) for size, root in scitt_vectors()["roots"].items()}
    tile = bytes.fromhex(vectors["level0_partial_tile_p5"])

    request = AddCheckpoint.from_bytes(data)
    checkpoint = open_checkpoint(request.checkpoint, [VerifierKey.parse(vectors["log_vkey"])]).checkpoint

    assert request.to_bytes() == data
    assert (request.old, checkpoint.size, checkpoint.root) == (3, 5, roots[5])
    verify_consistency(3, 5, roots[3], checkpoint.root, request.path)
    assert consistency_path(3, 5, TileHashes(lambda _level, _index: tile)) == list(request.path)
