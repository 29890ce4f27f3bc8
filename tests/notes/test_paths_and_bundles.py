"""Where entry bundles stand, and what is in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.notes.vectors import c2sp_vectors, scitt_vectors
from transparency.errors import NoteError
from transparency.merkle.hashing import MAX_SIZE
from transparency.notes.bundle import MAX_ENTRY, read_bundle, write_bundle
from transparency.notes.paths import CHECKPOINT, entries_path, parse_entries_path, parse_tile_path, tile_path


@pytest.mark.parametrize(
    ("position", "path"),
    [
        ((0, 256), "tile/entries/000"),
        ((1067, 5), "tile/entries/x001/067.p/5"),
        ((1234067, 256), "tile/entries/x001/x234/067"),
    ],
)
def test_an_entry_bundle_has_one_path(position: tuple[int, int], path: str) -> None:
    """TL-2, TL-5."""
    assert entries_path(*position) == path
    assert parse_entries_path(path) == position
    assert CHECKPOINT == "checkpoint"


@given(st.integers(0, MAX_SIZE), st.integers(1, 256))
def test_a_bundle_stands_where_its_tile_of_level_0_does(index: int, width: int) -> None:
    """TL-2."""
    path = entries_path(index, width)

    assert parse_entries_path(path) == (index, width)
    assert parse_tile_path(path.replace("entries", "0")) == (0, index, width)
    assert tile_path(0, index, width).replace("/0/", "/entries/", 1) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tile/entries",
        "tile/entries/",
        "tile/0/000",
        "/tile/entries/000",
        "tile/entries/0",
        "tile/entries/000\n",
        "tile/entries/x000/001",
        "tile/entries/000.p/256",
        "tile/entries/000.p/0",
        "tile/entries/000.p/05",
        "tile/entries/000.p/",
        "tile/entries/1000",
        "tile/entries/\u0660\u0660\u0660",
        "tile/entries/tile/entries/000",
    ],
)
def test_whatever_entries_path_does_not_write_is_refused(path: str) -> None:
    """TL-2."""
    with pytest.raises(NoteError, match="not the path of an entry bundle"):
        parse_entries_path(path)


@given(st.text(alphabet="/0129x.p", max_size=24).map(lambda tail: "tile/entries/" + tail))
def test_a_path_that_is_accepted_prints_back_the_same(path: str) -> None:
    """TL-2."""
    try:
        position = parse_entries_path(path)
    except NoteError:
        return
    assert entries_path(*position) == path


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=256))
def test_a_bundle_read_back_has_the_entries_that_were_written(entries: list[bytes]) -> None:
    """TL-5."""
    assert read_bundle(write_bundle(entries), len(entries)) == entries


@given(st.lists(st.sampled_from([0, 1, 2, 3, 255]), max_size=30).map(bytes), st.integers(1, 256))
def test_a_bundle_that_is_accepted_prints_back_the_same(data: bytes, width: int) -> None:
    """TL-5: and has as many entries as its path says."""
    try:
        entries = read_bundle(data, width)
    except NoteError:
        return
    assert len(entries) == width
    assert write_bundle(entries) == data


def test_a_bundle_that_is_cut_or_too_long_is_refused() -> None:
    """TL-5."""
    data = write_bundle([b"one", b"", b"x" * MAX_ENTRY])

    for bad, width in (
        (data[:-1], 3),
        (data + b"\0", 3),
        (data + b"\0\0", 3),
        (data, 2),
        (data, 4),
        (b"", 1),
        (b"\0", 1),
    ):
        with pytest.raises(NoteError, match="entry bundle"):
            read_bundle(bad, width)
    for entries in ([], [b""] * 257, [b"x" * (MAX_ENTRY + 1)]):
        with pytest.raises(NoteError, match="entry bundle"):
            write_bundle(entries)


def test_the_bundle_of_the_vectors() -> None:
    """TL-5: entries of 32 bytes, the digests of LEAF-2."""
    vectors = scitt_vectors()
    entries = [bytes.fromhex(vectors[f"statement_{index}"]["entry"]) for index in range(5)]
    data = bytes.fromhex(c2sp_vectors()["entry_bundle_p5"])

    assert read_bundle(data, 5) == entries
    assert write_bundle(entries) == data
