"""Frames: whole messages over a stream, however it was cut."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.errors import MalformedError
from transparency.server import frames
from transparency.server.frames import MAX_FRAME, FrameReader, frame

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.binary() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers(0, 9), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.tuples(st.integers(0, 255), VALUES), max_size=8), st.lists(st.integers(0, 2**16), max_size=20))
def test_any_split_of_the_stream_gives_the_same_frames_in_order(
    sent: list[tuple[int, Any]], cuts: list[int]
) -> None:  # fmt: skip
    stream = b"".join(frame(kind, value) for kind, value in sent)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    reader = FrameReader()

    heard = [got for start, end in itertools.pairwise(places) for got in reader.feed(stream[start:end])]

    assert heard == sent


def test_a_frame_comes_with_its_last_byte_and_not_before() -> None:
    whole = frame(7, [1, b"x"])
    reader = FrameReader()

    for byte in whole[:-1]:
        assert list(reader.feed(bytes([byte]))) == []

    assert list(reader.feed(whole[-1:])) == [(7, [1, b"x"])]


@pytest.mark.parametrize("length", [0, MAX_FRAME + 1, 2**32 - 1])
def test_a_length_that_no_frame_has_is_refused_before_anything_is_waited_for(length: int) -> None:
    with pytest.raises(MalformedError, match=f"{length} bytes"):
        list(FrameReader().feed(struct.pack(">IB", length, 1)))


def test_frames_before_a_bad_one_are_heard() -> None:
    reader = FrameReader()
    heard: list[tuple[int, Any]] = []

    with pytest.raises(MalformedError):
        heard.extend(reader.feed(frame(1, "good") + struct.pack(">IB", 0, 1)))

    assert heard == [(1, "good")]


@pytest.mark.parametrize("body", [b"", b"\x5a\xff\xff\xff\xff", b"\xff", b"\x62\xc3\x28", b"\x1c"])
def test_what_is_no_cbor_value_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedError, match="no CBOR value"):
        list(FrameReader().feed(struct.pack(">IB", len(body) + 1, 1) + body))


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_be_frames_or_malformed(data: bytes) -> None:
    try:
        heard = list(FrameReader().feed(data))
    except MalformedError:
        return
    assert all(0 <= kind <= 255 for kind, _ in heard)


def test_a_value_that_fits_no_frame_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME", 100)

    assert cbor2.loads(frame(1, bytes(96))[5:]) == bytes(96)
    with pytest.raises(ValueError, match="longer than any may be"):
        frame(1, bytes(100))
