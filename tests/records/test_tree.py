"""Packed folders: the same files give the same bytes, and every file comes out as it went in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.errors import MalformedError
from transparency.records import json_sequence, tree

NAMES = st.text(alphabet="abc.-é", min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))


@given(st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=30), min_size=1))
def test_files_come_out_as_they_went_in_in_the_order_of_their_paths(files: dict[str, bytes]) -> None:
    packed = tree.pack(files)

    found = list(tree.unpack(packed))

    assert {file.path: file.data for file in found} == files
    assert [file.path.encode() for file in found] == sorted(path.encode() for path in files)
    assert tree.pack(dict(reversed(files.items()))) == packed
    assert tree.is_packed(packed)


def test_a_pack_of_json_files_is_a_sequence_of_json_values() -> None:
    packed = tree.pack({"b.json": b'{"b": 1}', "a.json": b'{"a": 1}\n'})

    assert [found.value for found in json_sequence.values(packed)][1::2] == [{"a": 1}, {"b": 1}]


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\\b", "a\nb", "\ud800", "x" * 5000]
)
def test_a_path_that_is_not_plain_is_refused(path: str) -> None:
    with pytest.raises(MalformedError, match="path"):
        tree.pack({path: b""})


@pytest.mark.parametrize(
    "change",
    [
        lambda pack: pack[:-1],
        lambda pack: pack + b"x",
        lambda pack: pack.replace(b'"size":3', b'"size":4', 1),
        lambda pack: pack.replace(b'"size":3', b'"size":99999999999', 1),
        lambda pack: pack.replace(b'"size":3', b'"size": 3', 1),
        lambda pack: pack.replace(b'"size":3', b'"size":-3', 1),
        lambda pack: pack.replace(b'"path":"a"', b'"path":"c"', 1),
        lambda pack: pack.replace(b'"path":"b"', b'"path":"a"', 1),
        lambda pack: pack.replace(b'"path":"a"', b'"path":"../a"', 1),
    ],
)
def test_only_what_pack_writes_is_read(change: object) -> None:
    packed = tree.pack({"a": b"one", "b": b"two"})

    assert callable(change)
    with pytest.raises(MalformedError):
        list(tree.unpack(change(packed)))


def test_an_empty_folder_is_no_record() -> None:
    with pytest.raises(MalformedError, match="no file"):
        tree.pack({})
