"""The names of tiles (C2SP tlog-tiles), both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.errors import MalformedError
from transparency.merkle.hashing import MAX_SIZE
from transparency.merkle.tiles import parse_tile_path, tile_path, tile_width, widths

EXAMPLES = [
    ((0, 0, 256), "tile/0/000"),
    ((0, 1067, 5), "tile/0/x001/067.p/5"),
    ((0, 1234067, 256), "tile/0/x001/x234/067"),
    ((63, 999, 255), "tile/63/999.p/255"),
    ((1, 1000, 1), "tile/1/x001/000.p/1"),
    ((0, MAX_SIZE, 256), "tile/0/x009/x223/x372/x036/x854/x775/807"),
]


@pytest.mark.parametrize(("position", "path"), EXAMPLES)
def test_a_tile_has_one_path(position: tuple[int, int, int], path: str) -> None:
    """TL-2."""
    assert tile_path(*position) == path
    assert parse_tile_path(path) == position


@given(st.integers(0, 63), st.integers(0, MAX_SIZE), st.integers(1, 256))
def test_a_path_read_back_is_the_tile_it_was_written_for(level: int, index: int, width: int) -> None:
    """TL-2."""
    assert parse_tile_path(tile_path(level, index, width)) == (level, index, width)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/tile/0/000",
        "tile/0/000/",
        "tile/0/000\n",
        " tile/0/000",
        "tile/0",
        "tile/0/",
        "tile/00/000",
        "tile/01/000",
        "tile/64/000",
        "tile/-1/000",
        "tile/+1/000",
        "tile/0/0",
        "tile/0/0000",
        "tile/0/1000",
        "tile/0/x000/001",
        "tile/0/x000/x001/001",
        "tile/0/x001",
        "tile/0/001/001",
        "tile/0/x001/x001",
        "tile/0/X001/001",
        "tile/0/x01/001",
        "tile/0/x001//001",
        "tile/0/000.p",
        "tile/0/000.p/",
        "tile/0/000.p/0",
        "tile/0/000.p/00",
        "tile/0/000.p/05",
        "tile/0/000.p/256",
        "tile/0/000.p/257",
        "tile/0/000.p/-1",
        "tile/0/000.p/1_0",
        "tile/0/000.p/5/",
        "tile/0/000p/5",
        "tile/0/0_0",
        "tile/0/\u0660\u0660\u0660",
        "tile/\u0660/000",
        "tile/0/x009/x223/x372/x036/x854/x775/808",
        "tile/0/x001/x000/x000/x000/x000/x000/x000/000",
        "tile/0/" + "x001/" * 1000 + "001",
        "tile/entries/000",
        "tile/data/000",
        "tile/0/../000",
    ],
)
def test_whatever_tile_path_does_not_write_is_refused(path: str) -> None:
    """TL-2."""
    with pytest.raises(MalformedError, match="not the path of a tile"):
        parse_tile_path(path)


@given(st.text(alphabet="tile/0129x.p", max_size=24).map(lambda tail: "tile/" + tail) | st.text(max_size=30))
def test_what_is_accepted_prints_back_the_same(path: str) -> None:
    """TL-2."""
    try:
        position = parse_tile_path(path)
    except MalformedError:
        return
    assert tile_path(*position) == path


@pytest.mark.parametrize(
    "position",
    [(-1, 0, 1), (64, 0, 1), (True, 0, 1), (0, -1, 1), (0, True, 1), (0, 1 << 63, 1), (0, 0, 0), (0, 0, 257)],
)
def test_a_tile_that_cannot_be_has_no_path(position: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"tile (level|index|width)"):
        tile_path(*position)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, ()),
        (1, (1,)),
        (255, (255,)),
        (256, (0, 1)),
        (257, (1, 1)),
        (70000, (112, 17, 1)),
        (65536, (0, 0, 1)),
        (MAX_SIZE, (255,) * 7 + (127,)),
    ],
)
def test_the_partial_tiles_of_a_size(size: int, expected: tuple[int, ...]) -> None:
    """TL-4: floor(s / 256^l) mod 256."""
    assert widths(size) == expected


@given(st.integers(0, MAX_SIZE))
def test_widths_are_those_of_the_last_tile_of_each_level(size: int) -> None:
    """TL-4: and before it all are full, after it none is there."""
    for level, width in enumerate(widths(size)):
        last = size // 256 ** (level + 1)
        assert width == size // 256**level % 256
        assert tile_width(level, last, size) == width
        assert tile_width(level, last + 1, size) == 0
        if last:
            assert tile_width(level, last - 1, size) == 256
    assert tile_width(len(widths(size)), 0, size) == 0
