"""The framing of a body: content and what is behind it, whatever way it comes in pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        b"0x5\r\nabcde\r\n",
        b"+5\r\nabcde\r\n",
        b"-5\r\nabcde\r\n",
        b" 5\r\nabcde\r\n",
        b"5 \r\nabcde\r\n",
        b"1_0\r\n",
        b"\r\n",
        b"5\nabcde\n" + bytes(1100),
        b"5\r\nabcdeX\r\n",
        b"5\r\nabcdefgh",
        b"5\r\nabcde\n\n",
        b"11111111111111111\r\n",  # seventeen digits
        b"5\x00;a\r\nabcde\r\n",
        b"5;a\x7f\r\nabcde\r\n",
        b"0\r\nno field\r\n\r\n",
        b"0\r\n folded: x\r\n\r\n",
        b"0\r\n" + b"a: b\r\n" * 40,
        b"\xb2\r\n",  # a superscript two
        b"5;" + b"a" * 1100,
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_nothing_lenient_is_read(stream: bytes, whole: bool) -> None:
    body = Body(None)

    fed(body, stream, [] if whole else list(range(len(stream))))

    assert not body.complete
    assert "of the body" in body.broken


@given(CUTS)
def test_extensions_and_trailers_are_passed_over(cuts: list[int]) -> None:
    """RFC 9112 §7.1.1, §7.1.2: a recipient ignores what it does not know."""
    stream = b'5;name=value;q="x y"\r\nabcde\r\n0000000002 ;x\r\nfg\r\n0;last\r\nTrailer: x\r\nOther:\r\n\r\nnext'
    body = Body(None)

    assert fed(body, stream, cuts) == (b"abcdefg", b"next")
    assert body.complete
    assert body.broken == ""


def test_what_came_before_the_break_is_content() -> None:
    body = Body(None)

    assert body.feed(b"5\r\nabcde\r\nzz\r\n") == (b"abcde", b"")
    assert body.broken == "a chunk of the body does not begin with its size"


@given(st.binary(max_size=60), CUTS)
def test_how_it_is_cut_does_not_decide_whether_it_is_read(stream: bytes, cuts: list[int]) -> None:
    """Whatever the bytes: read or refused, the same in one piece as in many."""

    def judged(cuts: list[int]) -> tuple[bytes, bytes, bool, str]:
        body = Body(None)
        return (*fed(body, stream, cuts), body.complete, body.broken)

    assert judged(cuts) == judged([])
