"""Cosignatures of checkpoints and subtrees."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.notes.world import ORIGIN, ROOT, TIME, log_signer, signed, witness, witnesses
from transparency.cose.algorithms import ML_DSA_44
from transparency.errors import NoteError, SignatureInvalidError, UnsupportedAlgorithmError
from transparency.merkle.hashing import MAX_SIZE
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint
from transparency.notes.cosignature import (
    Cosignature,
    cosignature_v1_message,
    subtree_message,
    verify_cosignature,
    verify_cosignatures,
    verify_subtree_cosignature,
)
from transparency.notes.note import Note, Signature
from transparency.notes.signer import CosignatureSigner
from transparency.notes.vkey import COSIGNATURE, MLDSA

KEYS = [each.vkey for each in witnesses()]
BOTH = pytest.mark.parametrize("cosigner", witnesses(), ids=["ed25519", "mldsa"])


def test_the_ed25519_message_is_that_of_the_text() -> None:
    """CS-1: the example of tlog-cosignature."""
    text = b"example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"

    assert cosignature_v1_message(text, 1679315147) == b"cosignature/v1\ntime 1679315147\n" + text


def test_the_ml_dsa_message_is_the_struct_of_the_text() -> None:
    """CS-2: written out field by field."""
    expected = (
        b"subtree/v1\n\0"
        b"\x02w1"
        b"\x00\x00\x00\x00\x64\x18\x50\xcb"
        b"\x10log.example/tlog"
        b"\x00\x00\x00\x00\x00\x00\x00\x00"
        b"\x00\x00\x00\x00\x00\x00\x00\x05" + ROOT
    )

    assert subtree_message("w1", 0x641850CB, ORIGIN, 0, 5, ROOT) == expected


@pytest.mark.parametrize(
    "values",
    [
        ("", 0, ORIGIN, 0, 5, ROOT),
        ("w" * 256, 0, ORIGIN, 0, 5, ROOT),
        ("w", 0, "", 0, 5, ROOT),
        ("w", 0, "o" * 256, 0, 5, ROOT),
        ("w", 0, "\u00e9" * 128, 0, 5, ROOT),
        ("w", MAX_SIZE + 1, ORIGIN, 0, 5, ROOT),
        ("w", -1, ORIGIN, 0, 5, ROOT),
        ("w", True, ORIGIN, 0, 5, ROOT),
        ("w", 1, ORIGIN, 4, 5, ROOT),
        ("w", 0, ORIGIN, 6, 5, ROOT),
        ("w", 0, ORIGIN, 0, 5, ROOT[:-1]),
    ],
)
def test_a_message_that_has_no_form_is_refused(values: tuple[str, int, str, int, int, bytes]) -> None:
    """CS-2: names of 1 to 255 bytes, no time where the start is not 0."""
    with pytest.raises(NoteError):
        subtree_message(*values)


@BOTH
def test_a_cosignature_says_who_when_and_how(cosigner: CosignatureSigner) -> None:
    """CS-1, CS-2."""
    key = cosigner.vkey
    checkpoint = signed(cosigned_by=(cosigner,))

    assert verify_cosignatures(checkpoint, KEYS) == [Cosignature(key.name, key.key_id, TIME, key.kind)]
    line = checkpoint.note.signatures[-1]
    assert line.blob[:8] == TIME.to_bytes(8, "big")
    assert len(line.blob) == 8 + {COSIGNATURE: 64, MLDSA: 2420}[key.kind]


def test_lines_of_the_log_and_of_strangers_are_ignored() -> None:
    """SN-3."""
    stranger = witness(name="stranger.example")
    checkpoint = signed(cosigned_by=(*witnesses(), stranger))

    assert [each.kind for each in verify_cosignatures(checkpoint, KEYS)] == [COSIGNATURE, MLDSA]
    assert verify_cosignatures(signed(), KEYS) == []
    assert verify_cosignatures(checkpoint, []) == []


@BOTH
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_changed_time_or_signature_never_holds(cosigner: CosignatureSigner, data: st.DataObject) -> None:
    """CS-1, CS-2, SN-3: and spoils the note."""
    checkpoint = signed(cosigned_by=witnesses())
    line = cosigner.sign(checkpoint.note.text, TIME)
    blob = bytearray(line.blob)
    at = data.draw(st.integers(0, 7) | st.integers(0, len(blob) - 1))
    if data.draw(st.booleans()):
        blob[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del blob[at:]
        blob = blob or bytearray(1)
    failing = dataclasses.replace(line, blob=bytes(blob))

    with pytest.raises(SignatureInvalidError):
        verify_cosignature(checkpoint.note.text, failing, cosigner.vkey)
    with pytest.raises(SignatureInvalidError):
        verify_cosignatures(checkpoint.with_signature(failing), KEYS)


@BOTH
@pytest.mark.parametrize(
    "other",
    [
        Checkpoint("log.example/other", 5, ROOT),
        Checkpoint(ORIGIN, 6, ROOT),
        Checkpoint(ORIGIN, 5, bytes(32)),
    ],
)
def test_a_cosignature_holds_for_no_other_tree(cosigner: CosignatureSigner, other: Checkpoint) -> None:
    """CS-1, CS-2."""
    line = cosigner.sign(Checkpoint(ORIGIN, 5, ROOT).text, TIME)

    with pytest.raises(SignatureInvalidError):
        verify_cosignature(other.text, line, cosigner.vkey)


def test_extension_lines_are_covered_by_ed25519_and_not_by_ml_dsa() -> None:
    """CS-1, CS-2."""
    plain, extended = Checkpoint(ORIGIN, 5, ROOT).text, Checkpoint(ORIGIN, 5, ROOT, ("more",)).text
    ed25519, mldsa = witnesses()

    verify_cosignature(extended, mldsa.sign(plain, TIME), mldsa.vkey)
    with pytest.raises(SignatureInvalidError):
        verify_cosignature(extended, ed25519.sign(plain, TIME), ed25519.vkey)


@BOTH
def test_a_line_under_another_name_or_id_is_not_of_this_key(cosigner: CosignatureSigner) -> None:
    """SN-3: a witness that lends its signature to another's name is ignored in a note, refused alone."""
    checkpoint = signed()
    line = cosigner.sign(checkpoint.note.text, TIME)
    for changed in (dataclasses.replace(line, name="other.example"), dataclasses.replace(line, key_id=b"\0\0\0\0")):
        assert verify_cosignatures(checkpoint.with_signature(changed), KEYS) == []
        with pytest.raises(SignatureInvalidError, match="must both match"):
            verify_cosignature(checkpoint.note.text, changed, cosigner.vkey)


@BOTH
def test_a_time_beyond_2_63_never_holds_and_a_witness_never_signs_0(cosigner: CosignatureSigner) -> None:
    """CS-1, W-3."""
    text = signed().note.text
    line = cosigner.sign(text, MAX_SIZE)

    assert verify_cosignature(text, line, cosigner.vkey).time == MAX_SIZE
    late = dataclasses.replace(line, blob=b"\x80" + line.blob[1:])
    with pytest.raises(SignatureInvalidError, match="2\\^63-1"):
        verify_cosignature(text, late, cosigner.vkey)
    for time in (0, -1, MAX_SIZE + 1, True):
        with pytest.raises(NoteError):
            cosigner.sign(text, time)


def test_a_log_s_ml_dsa_line_is_a_cosignature_by_its_own_name() -> None:
    """CP-2: tlog-checkpoint lets logs sign by the same message; a time of 0 makes no statement."""
    log = log_signer(ML_DSA_44.id)
    text = Checkpoint(ORIGIN, 5, ROOT).text
    line = log.sign(text)

    log.vkey.verify(subtree_message(ORIGIN, 0, ORIGIN, 0, 5, ROOT), line.blob[8:])
    assert log.vkey.verify_note(text, line.blob) == 0
    assert log.vkey.verify_note(text, log.sign(text, TIME).blob) == TIME


def test_a_log_s_signature_is_not_a_cosignature() -> None:
    """CS-1: type 0x01 has no time."""
    log = log_signer()
    checkpoint = signed()

    with pytest.raises(SignatureInvalidError, match="not a cosignature"):
        verify_cosignature(checkpoint.note.text, log.sign(checkpoint.note.text), log.vkey)
    with pytest.raises(SignatureInvalidError, match="not a cosignature"):
        verify_cosignatures(checkpoint, [log.vkey])


def test_a_subtree_is_cosigned_without_a_time_by_ml_dsa_only() -> None:
    """CS-2."""
    ed25519, mldsa = witnesses()
    line = mldsa.sign_subtree(ORIGIN, 8, 13, ROOT)

    assert verify_subtree_cosignature(line, mldsa.vkey, ORIGIN, 8, 13, ROOT).time == 0
    for changed in ((ORIGIN, 8, 12, ROOT), (ORIGIN, 0, 13, ROOT), ("other", 8, 13, ROOT), (ORIGIN, 8, 13, bytes(32))):
        with pytest.raises(SignatureInvalidError):
            verify_subtree_cosignature(line, mldsa.vkey, *changed)
    timed = Signature(line.name, line.key_id, TIME.to_bytes(8, "big") + line.blob[8:])
    with pytest.raises(SignatureInvalidError, match="the time is 0"):
        verify_subtree_cosignature(timed, mldsa.vkey, ORIGIN, 8, 13, ROOT)
    with pytest.raises(UnsupportedAlgorithmError):
        ed25519.sign_subtree(ORIGIN, 8, 13, ROOT)
    with pytest.raises(SignatureInvalidError, match="not one of a subtree"):
        verify_subtree_cosignature(ed25519.sign(signed().note.text, 1), ed25519.vkey, ORIGIN, 0, 5, ROOT)


def test_a_subtree_from_0_is_the_checkpoint_of_its_size() -> None:
    """CS-2: one message, with and without a note around it."""
    _, mldsa = witnesses()
    line = mldsa.sign_subtree(ORIGIN, 0, 5, ROOT)
    checkpoint = SignedCheckpoint(Note(signed().note.text, (line,)), signed().checkpoint)

    assert [each.time for each in verify_cosignatures(checkpoint, KEYS)] == [0]
