"""The framing of a body: content and what is behind it, whatever way it comes in pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.errors import MalformedError
from transparency.server.chunked import LAST_CHUNK, Body, chunk

CUTS = st.lists(st.integers(0, 2**16), max_size=30)


def fed(body: Body, stream: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Content and rest. As a connection does, nothing is fed once the body is complete."""
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    content, rest = b"", b""
    for start, end in itertools.pairwise(places):
        if body.complete:
            rest += stream[start:end]
            continue
        got, behind = body.feed(stream[start:end])
        assert not behind or body.complete
        content += got
        rest += behind
    return content, rest


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6), st.binary(max_size=40), CUTS)
def test_any_split_of_chunks_gives_the_same_content_and_rest(
    parts: list[bytes], behind: bytes, cuts: list[int]
) -> None:
    body = Body(None)

    got = fed(body, b"".join(chunk(part) for part in parts) + LAST_CHUNK + behind, cuts)

    assert got == (b"".join(parts), behind)
    assert body.complete


@given(st.binary(max_size=300), st.binary(max_size=40), CUTS)
def test_any_split_of_a_body_of_known_length_gives_the_same(content: bytes, behind: bytes, cuts: list[int]) -> None:
    body = Body(len(content))

    assert fed(body, content + behind, cuts) == (content, behind)
    assert body.complete


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=4), st.integers(1, 5), CUTS)
def test_a_chunked_body_is_complete_with_its_last_byte_and_not_before(
    parts: list[bytes], short: int, cuts: list[int]
) -> None:
    stream = b"".join(chunk(part) for part in parts) + LAST_CHUNK
    body = Body(None)

    content, _ = fed(body, stream[:-short], cuts)

    assert content == b"".join(parts)
    assert not body.complete


def test_a_body_of_no_bytes_is_complete_from_the_start() -> None:
    assert Body(0).complete
    assert not Body(1).complete
    assert not Body(None).complete


def test_sizes_may_be_in_either_case() -> None:
    assert Body(None).feed(b"A\r\n" + bytes(10) + b"\r\na\r\n" + bytes(10) + b"\r\n0\r\n\r\n") == (bytes(20), b"")


@pytest.mark.parametrize(
    "stream",
    [
        b"5;name=value\r\nabcde\r\n",  # an extension
        b"0\r\nTrailer: x\r\n\r\n",
        b"0x5\r\nabcde\r\n",
        b"+5\r\nabcde\r\n",
        b"-5\r\nabcde\r\n",
        b" 5\r\nabcde\r\n",
        b"5 \r\nabcde\r\n",
        b"1_0\r\n",
        b"\r\n",
        b"5\nabcde\n" + bytes(20),
        b"5\r\nabcdeX\r\n",
        b"5\r\nabcdefgh",
        b"5\r\nabcde\n\n",
        b"fffffffff\r\n",  # nine digits
        b"0000000005\r\nabcde\r\n",
        b"\xb2\r\n",  # a superscript two
        b"abcdefghijklmnop",
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_nothing_lenient_is_read(stream: bytes, whole: bool) -> None:
    body = Body(None)

    with pytest.raises(MalformedError, match="a chunk of the body does not"):
        fed(body, stream, [] if whole else list(range(len(stream))))


@given(st.binary(max_size=60), CUTS)
def test_how_it_is_cut_does_not_decide_whether_it_is_read(stream: bytes, cuts: list[int]) -> None:
    """Whatever the bytes: read or refused, the same in one piece as in many."""

    def judged(cuts: list[int]) -> tuple[bytes, bytes, bool] | None:
        body = Body(None)
        try:
            return (*fed(body, stream, cuts), body.complete)
        except MalformedError:
            return None

    assert judged(cuts) == judged([])
