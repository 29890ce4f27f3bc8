"""Texts by others: the vectors of this project's specification, and the examples in the C2SP texts themselves."""

from __future__ import annotations

import base64

import pytest

from tests.notes.vectors import c2sp_vectors
from transparency.errors import SignatureInvalidError
from transparency.notes.checkpoint import Checkpoint, open_checkpoint, origin_hash
from transparency.notes.cosignature import Cosignature, verify_cosignatures
from transparency.notes.note import Note
from transparency.notes.vkey import COSIGNATURE, ED25519, VerifierKey

# signed-note, "Example".
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE_NOTE = (
    "This is an example message.\n\n\u2014 example.com/foo "
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
).encode()
# tlog-cosignature, its first example. The keys are not published.
SOFA = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "\u2014 example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "\u2014 witness.example.com/w1 "
    "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
).encode()


def test_the_example_key_of_the_specification_verifies_its_example_note() -> None:
    """SN-1, SN-2."""
    key = VerifierKey.parse(EXAMPLE_KEY)
    note = Note.from_bytes(EXAMPLE_NOTE)
    (signature,) = note.signatures

    assert (key.name, key.kind, key.text) == ("example.com/foo", ED25519, EXAMPLE_KEY)
    assert (signature.name, signature.key_id) == (key.name, key.key_id)
    assert note.to_bytes() == EXAMPLE_NOTE
    key.verify_note(note.text, signature.blob)
    with pytest.raises(SignatureInvalidError):
        key.verify_note(note.text.replace(b"example", b"Example"), signature.blob)


def test_the_example_checkpoint_of_the_specification_reads_and_prints_back() -> None:
    """CP-1, CS-1."""
    note = Note.from_bytes(SOFA)
    checkpoint = Checkpoint.from_text(note.text)

    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)
    assert base64.b64encode(checkpoint.root) == b"CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
    assert (checkpoint.text, note.to_bytes()) == (note.text, SOFA)
    assert [signature.name for signature in note.signatures] == [
        "example.com/behind-the-sofa",
        "witness.example.com/w1",
    ]
    assert int.from_bytes(note.signatures[1].blob[:8], "big") == 1679315147


def test_the_keys_of_the_vectors_print_back() -> None:
    """SN-2."""
    vectors = c2sp_vectors()
    log, witness = VerifierKey.parse(vectors["log_vkey"]), VerifierKey.parse(vectors["witness_vkey"])

    assert (log.kind, witness.kind) == (ED25519, COSIGNATURE)
    assert (log.text, witness.text) == (vectors["log_vkey"], vectors["witness_vkey"])


def test_the_checkpoint_of_the_vectors_opens_and_its_cosignature_holds() -> None:
    """CP-1, CS-1, SN-3."""
    vectors = c2sp_vectors()
    data = vectors["checkpoint"].encode()
    log, witness = VerifierKey.parse(vectors["log_vkey"]), VerifierKey.parse(vectors["witness_vkey"])

    signed = open_checkpoint(data, [log])
    (cosignature,) = verify_cosignatures(signed, [witness])

    assert signed.to_bytes() == data
    assert (signed.checkpoint.origin, signed.checkpoint.size) == ("log.example/tlog", 5)
    assert cosignature == Cosignature(witness.name, witness.key_id, cosignature.time, COSIGNATURE)
    assert open_checkpoint(data, [witness, log]) == signed
    with pytest.raises(SignatureInvalidError, match="not signed by a known key of its log"):
        open_checkpoint(data, [witness])


def test_the_origin_hash_of_the_vectors() -> None:
    """W-4."""
    vectors = c2sp_vectors()

    assert origin_hash("log.example/tlog") == vectors["origin_hash"]
