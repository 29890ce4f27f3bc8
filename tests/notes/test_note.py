"""Signed notes, both ways."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.errors import NoteError
from transparency.notes.note import MAX_SIGNATURES, Note, Signature, read_signatures, write_signatures
from transparency.notes.numbers import MAX_BYTES

BLOB = base64.b64encode(bytes(range(4)) + b"signature").decode()
LINE = f"\u2014 example.com/a {BLOB}\n"

characters = st.characters(exclude_categories=["Cs"], exclude_characters=[chr(code) for code in range(32)])
texts = st.lists(st.text(characters, max_size=8), min_size=1, max_size=4).map(
    lambda lines: "".join(f"{line}\n" for line in lines).encode()
)
names = st.text(characters, min_size=1, max_size=10).filter(lambda name: not any(c.isspace() or c == "+" for c in name))
signatures = st.builds(Signature, names, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80))
notes = st.builds(Note, texts, st.lists(signatures, min_size=1, max_size=5).map(tuple))


@given(notes)
def test_a_note_read_back_is_the_note_that_was_written(note: Note) -> None:
    """SN-1: texts with empty lines too, since the last one divides."""
    assert Note.from_bytes(note.to_bytes()) == note


def pieces() -> st.SearchStrategy[bytes]:
    odd = ["\n", "\n\n", "\u2014 ", "\u2014", "- ", " ", "a", "+", BLOB, BLOB[:-1], LINE, "\r\n", "\u2028", "\x00", "="]
    return st.lists(st.sampled_from([piece.encode() for piece in odd]), max_size=10).map(b"".join)


@given(pieces() | pieces().map(lambda head: head + b"\n\n" + LINE.encode()) | st.binary(max_size=60))
def test_what_is_accepted_prints_back_the_same(data: bytes) -> None:
    """SN-1."""
    try:
        note = Note.from_bytes(data)
    except NoteError:
        return
    assert note.to_bytes() == data


@given(notes, st.data())
def test_a_note_with_a_changed_byte_is_refused_or_prints_back_the_same(note: Note, data: st.DataObject) -> None:
    """SN-1."""
    changed = bytearray(note.to_bytes())
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        again = Note.from_bytes(bytes(changed))
    except NoteError:
        return
    assert again.to_bytes() == bytes(changed)
    assert again != note


def test_the_last_empty_line_divides_text_from_signatures() -> None:
    """SN-1."""
    inner = f"text\n\n{LINE}"
    note = Note.from_bytes(f"{inner}\n{LINE}".encode())

    assert note.text == inner.encode()
    assert len(note.signatures) == 1


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("", "no empty line"),
        ("text\n", "no empty line"),
        (f"text\n{LINE}", "no empty line"),
        (f"\n{LINE}", "no empty line"),
        ("text\n\n", "0 lines"),
        (f"text\n\n{LINE}"[:-1], "does not end in a newline"),
        (f"text\n\n{LINE}\n", "0 lines"),
        (f"text\n\n{LINE}x\n", "signature line"),
        (f"text\r\n\n{LINE}", "control character"),
        (f"te\txt\n\n{LINE}", "control character"),
        (f"te\x00xt\n\n{LINE}", "control character"),
        (f"text\n\n{LINE}".replace("\u2014", "-"), "em dash"),
        (f"text\n\n{LINE}".replace("\u2014", "\u2013"), "em dash"),
        (f"text\n\n{LINE}".replace("\u2014 ", "\u2014"), "em dash"),
        (f"text\n\n{LINE}".replace("\u2014 ", "\u2014  "), "em dash"),
        (f"text\n\n{LINE}".replace("/a ", "/a  "), "em dash"),
        (f"text\n\n{LINE}".replace("/a ", "/a\u00a0"), "em dash"),
        (f"text\n\n{LINE}".replace("/a ", "/\u2003a "), "has a space"),
        (f"text\n\n{LINE}".replace("/a ", "/\u0085a "), "has a space"),
        (f"text\n\n{LINE}".replace("/a ", "/+a "), "has a space, a plus"),
        (f"text\n\n{LINE}".replace("example.com/a ", " "), "key name: empty"),
        (f"text\n\n{LINE}".replace("\n", " \n").replace(" \n \n", "\n\n"), "em dash"),
        (f"text\n\n{LINE}".replace(BLOB, BLOB[:-1] + "!"), "base64"),
        (f"text\n\n{LINE}".replace(BLOB, BLOB.replace("=", "")[:-1]), "base64"),
        (f"text\n\n{LINE}".replace(BLOB, "AAECAw=="), "four bytes and a signature"),
        (f"text\n\n{LINE}".replace(BLOB, "AAE="), "four bytes and a signature"),
        (f"text\n\n{LINE}".replace(BLOB, "AAECAwR="), "spare bits"),
        (f"text\n\n{LINE}".replace(BLOB, "-_-_-_-_"), "base64"),
    ],
)
def test_whatever_is_not_a_note_is_refused(data: str, complaint: str) -> None:
    """SN-1."""
    with pytest.raises(NoteError, match=complaint):
        Note.from_bytes(data.encode())


@pytest.mark.parametrize("junk", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
def test_what_is_not_utf_8_is_refused_in_text_and_names(junk: bytes) -> None:
    """SN-1."""
    line = LINE.encode()
    for data in (b"te" + junk + b"\n\n" + line, b"text\n\n" + line.replace(b"/a", b"/" + junk)):
        with pytest.raises(NoteError, match="UTF-8"):
            Note.from_bytes(data)


def test_up_to_a_hundred_signatures_are_read() -> None:
    """SN-3: at least 16."""
    for count in (1, 16, MAX_SIGNATURES):
        assert len(Note.from_bytes(f"text\n\n{LINE * count}".encode()).signatures) == count
    with pytest.raises(NoteError, match="not 1 to 100"):
        Note.from_bytes(f"text\n\n{LINE * (MAX_SIGNATURES + 1)}".encode())


def test_a_note_has_a_greatest_size() -> None:
    tail = f"\n\n{LINE}".encode()
    data = b"x" * (MAX_BYTES - len(tail)) + tail

    assert Note.from_bytes(data).to_bytes() == data
    with pytest.raises(NoteError, match="more than"):
        Note.from_bytes(b"x" + data)
    with pytest.raises(NoteError, match="more than"):
        Note(b"x" + data[: -len(tail) + 1], Note.from_bytes(data).signatures).to_bytes()


def test_a_note_without_signatures_can_be_made_but_not_sent() -> None:
    note = Note(b"text\n")

    with pytest.raises(NoteError, match="0 signatures"):
        note.to_bytes()
    for text in (b"", b"text", b"te\rxt\n", b"\xff\n"):
        with pytest.raises(NoteError):
            Note(text)


@given(notes, signatures)
def test_a_new_line_of_the_same_key_takes_the_place_of_the_old(note: Note, line: Signature) -> None:
    once = note.with_signature(line)

    assert once.signatures[-1] == line
    assert once.with_signature(line) == once
    newer = Signature(line.name, line.key_id, line.blob + b"2")
    assert once.with_signature(newer).signatures == (*once.signatures[:-1], newer)


@given(st.lists(signatures, min_size=1, max_size=5).map(tuple))
def test_lines_alone_as_a_witness_answers_them_are_read_back(lines: tuple[Signature, ...]) -> None:
    """W-2: 200 lines of cosignatures."""
    assert read_signatures(write_signatures(lines)) == lines


@pytest.mark.parametrize("data", [b"", b"\n", LINE.encode()[:-1], LINE.encode() + b"\n", b"\n" + LINE.encode()])
def test_an_answer_that_is_not_lines_of_signatures_is_refused(data: bytes) -> None:
    with pytest.raises(NoteError):
        read_signatures(data)
