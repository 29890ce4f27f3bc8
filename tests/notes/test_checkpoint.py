"""Checkpoints: their text both ways, and when one opens."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.notes.test_note import characters
from tests.notes.world import ORIGIN, ROOT, TIME, log_signer, log_signers, signed, witness, witnesses
from transparency.cose.algorithms import ML_DSA_44
from transparency.errors import NoteError, SignatureInvalidError
from transparency.merkle.hashing import MAX_SIZE
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint, open_checkpoint, verify_log_signatures
from transparency.notes.note import Note, Signature
from transparency.notes.numbers import write_base64

lines = st.text(characters, min_size=1, max_size=8)
roots = st.binary(min_size=32, max_size=32)
checkpoints = st.builds(Checkpoint, lines, st.integers(0, MAX_SIZE), roots, st.lists(lines, max_size=3).map(tuple))
KEYS = [signer.vkey for signer in log_signers()]
B64 = write_base64(ROOT)


@given(checkpoints)
def test_a_checkpoint_read_back_is_the_one_that_was_written(checkpoint: Checkpoint) -> None:
    """CP-1: the origin is any line."""
    assert Checkpoint.from_text(checkpoint.text) == checkpoint


@given(
    st.lists(
        st.sampled_from(["a", "a b", "5", "05", "0", "+5", " 5", "", "x\ty", "\u2028", B64, B64[:-1], B64 + " "]),
        max_size=6,
    ).map("\n".join),
    st.sampled_from(["", "\n", "\n\n", "\r\n"]),
)
def test_what_is_accepted_prints_back_the_same(text: str, end: str) -> None:
    """CP-1."""
    data = (text + end).encode()
    try:
        checkpoint = Checkpoint.from_text(data)
    except NoteError:
        return
    assert checkpoint.text == data


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        f"o\n5\n{B64}",
        "o\n5\n",
        f"\n5\n{B64}\n",
        f"o\n\n{B64}\n",
        f"o\n5\n{B64}\n\n",
        f"o\n5\n{B64}\n\next\n",
        f"o\n05\n{B64}\n",
        f"o\n+5\n{B64}\n",
        f"o\n 5\n{B64}\n",
        f"o\n5 \n{B64}\n",
        f"o\n-1\n{B64}\n",
        f"o\n1_0\n{B64}\n",
        f"o\n\u0665\n{B64}\n",
        f"o\n{MAX_SIZE + 1}\n{B64}\n",
        f"o\n5\n{B64} \n",
        f"o\n5\n{B64[:-1]}\n",
        f"o\n5\n{B64.rstrip('=')}\n",
        f"o\n5\n{write_base64(ROOT[:-1])}\n",
        f"o\n5\n{write_base64(ROOT + b'x')}\n",
        f"o\r\n5\n{B64}\n",
        f"o\n5\n{B64}\ne\tx\n",
    ],
)
def test_whatever_is_not_a_checkpoint_is_refused(text: str) -> None:
    """CP-1."""
    with pytest.raises(NoteError):
        Checkpoint.from_text(text.encode())


@pytest.mark.parametrize(
    "values",
    [
        ("", 5, ROOT),
        ("a\nb", 5, ROOT),
        ("a\rb", 5, ROOT),
        ("\ud800", 5, ROOT),
        ("o", -1, ROOT),
        ("o", True, ROOT),
        ("o", MAX_SIZE + 1, ROOT),
        ("o", 5, ROOT[:-1]),
        ("o", 5, ROOT, ("",)),
        ("o", 5, ROOT, ("x\n\n\u2014 o AAAAAAAA",)),
    ],
)
def test_a_checkpoint_that_cannot_be_written_cannot_be_made(values: tuple[object, ...]) -> None:
    """CP-1: an extension that brings its own blank line and signature among them."""
    with pytest.raises(NoteError):
        Checkpoint(*values)  # type: ignore[arg-type] # that is the point


def test_a_checkpoint_opens_with_each_key_of_its_log_alone_and_with_both() -> None:
    """CP-2, SN-3."""
    data = signed(cosigned_by=witnesses()).to_bytes()

    for keys in (KEYS[:1], KEYS[1:], KEYS, [*KEYS, witness().vkey]):
        opened = open_checkpoint(data, keys)
        assert opened.checkpoint == Checkpoint(ORIGIN, 5, ROOT)
        assert opened.to_bytes() == data
        assert verify_log_signatures(opened, keys) == tuple(key for key in KEYS if key in keys)


def test_lines_of_unknown_keys_are_ignored_also_where_name_or_id_is_known() -> None:
    """SN-3."""
    known = KEYS[0]
    strangers = (
        Signature(known.name, b"\0\0\0\0", b"junk"),
        Signature("other.example", known.key_id, b"junk"),
        log_signer(ML_DSA_44.id).sign(b"another log\n5\n" + B64.encode() + b"\n"),
    )
    note = signed(by=log_signers()[:1]).note
    for line in strangers:
        note = Note(note.text, (line, *note.signatures))

    assert open_checkpoint(note.to_bytes(), [known]).checkpoint.size == 5


def test_a_checkpoint_no_known_key_signed_does_not_open() -> None:
    """SN-3, CP-2."""
    data = signed(by=log_signers()[:1], cosigned_by=witnesses()).to_bytes()

    for keys in ([], KEYS[1:], [each.vkey for each in witnesses()]):
        with pytest.raises(SignatureInvalidError, match="not signed by a known key of its log"):
            open_checkpoint(data, keys)


def test_a_known_key_s_line_that_fails_spoils_the_note_whoever_else_signed() -> None:
    """SN-3: the other log key, a witness given among the keys, a second line of the same key."""
    good = signed(cosigned_by=witnesses())
    keys = [*KEYS, *(each.vkey for each in witnesses())]
    assert open_checkpoint(good.to_bytes(), keys) == good
    for place, line in enumerate(good.note.signatures):
        blob = line.blob[:-1] + bytes([line.blob[-1] ^ 1])
        failing = dataclasses.replace(line, blob=blob)
        others = good.note.signatures
        for changed in ((*others[:place], failing, *others[place + 1 :]), (*others, failing), (failing, *others)):
            with pytest.raises(SignatureInvalidError):
                open_checkpoint(Note(good.note.text, changed).to_bytes(), keys)


def test_a_key_signs_only_for_the_log_of_its_name() -> None:
    """CP-2: another log's valid signature does not open a checkpoint of this origin."""
    other = log_signer(name="other.example/log")
    data = signed(by=(other,)).to_bytes()

    with pytest.raises(SignatureInvalidError, match="not signed by a known key of its log"):
        open_checkpoint(data, [other.vkey, *KEYS])


def test_a_cosignature_under_the_log_s_own_name_is_not_its_signature() -> None:
    """CP-2: type 0x04 is a witness' type."""
    namesake = witness(name=ORIGIN)
    note = Note(Checkpoint(ORIGIN, 5, ROOT).text)
    data = note.with_signature(namesake.sign(note.text, TIME)).to_bytes()

    with pytest.raises(SignatureInvalidError, match="not signed by a known key of its log"):
        open_checkpoint(data, [namesake.vkey])


def test_extension_lines_that_only_an_ml_dsa_line_stands_under_are_refused() -> None:
    """CP-2: the ML-DSA-44 format does not sign them, so anyone could have written them."""
    plain, extended = Checkpoint(ORIGIN, 5, ROOT), Checkpoint(ORIGIN, 5, ROOT, ("injected",))
    _, mldsa = log_signers()
    line = mldsa.sign(plain.text)

    mldsa.vkey.verify_note(extended.text, line.blob)
    with pytest.raises(SignatureInvalidError, match="covers the extension lines"):
        open_checkpoint(Note(extended.text, (line,)).to_bytes(), KEYS)
    assert open_checkpoint(signed(extended).to_bytes(), KEYS).checkpoint.extensions == ("injected",)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_changed_checkpoint_opens_as_another(data: st.DataObject) -> None:
    """SN-3: with a flipped, removed or added byte it is refused, or only lines of unknown keys differ."""
    good = signed(cosigned_by=witnesses())
    changed = bytearray(good.to_bytes())
    at = data.draw(st.integers(0, len(changed) - 1) | st.integers(0, len(good.note.text) + 200))
    match data.draw(st.sampled_from(["flip", "remove", "add"])):
        case "flip":
            changed[at] ^= 1 << data.draw(st.integers(0, 7))
        case "remove":
            del changed[at]
        case _:
            changed.insert(at, data.draw(st.integers(0, 255)))
    try:
        opened = open_checkpoint(bytes(changed), KEYS)
    except (NoteError, SignatureInvalidError):
        return
    assert opened.to_bytes() == bytes(changed)
    assert opened.checkpoint == good.checkpoint
    known = {(key.name, key.key_id) for key in KEYS}
    for line in opened.note.signatures:
        assert line in good.note.signatures or (line.name, line.key_id) not in known


def test_one_more_line_leaves_the_checkpoint_as_it_is() -> None:
    good = signed()
    more = good.with_signature(witness().sign(good.note.text, TIME))

    assert more.checkpoint == good.checkpoint
    assert len(more.note.signatures) == len(good.note.signatures) + 1
    assert SignedCheckpoint.from_bytes(more.to_bytes()) == more
