"""The bytes of tlog-mirror both ways: uploads in pieces of any length, and mirror-info (M-1, M-2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.errors import NoteError
from transparency.notes.numbers import MAX_PATH
from transparency.notes.upload import MAX_TICKET, MirrorInfo, Package, Span, UploadHead, UploadReader, spans

NUMBERS = st.integers(0, 2**63 - 1)
HASHES = st.lists(st.binary(min_size=32, max_size=32), max_size=MAX_PATH)
TICKETS = st.binary(max_size=300)


@st.composite
def heads(draw: st.DrawFn, most: int = 2**64 - 1) -> UploadHead:
    start = draw(st.integers(0, most))
    end = draw(st.integers(start, min(most, start + 700)))
    return UploadHead(draw(st.binary(max_size=300)), start, end, draw(TICKETS))


@st.composite
def uploads(draw: st.DrawFn) -> tuple[UploadHead, list[Package]]:
    head = draw(heads())
    entry = st.binary(max_size=3)
    packages = []
    for span in spans(head.start, head.end):
        count = span.end - span.start
        entries = draw(st.lists(entry, min_size=1, max_size=3))
        entries = (entries * -(-count // len(entries)))[:count]
        packages.append(Package(span, tuple(entries), tuple(draw(HASHES)[:5])))
    return head, packages


@given(NUMBERS, st.integers(0, 5_000))
def test_the_packages_of_an_upload_are_those_of_the_text(start: int, count: int) -> None:
    """M-1: by the formula of tlog-mirror, "Request Body"."""
    end = start + count
    first, last = start - start % 256, -(-end // 256) * 256
    formula = [
        Span(first + i * 256, max(start, first + i * 256), min(end, first + (i + 1) * 256))
        for i in range((last - first) // 256)
    ]

    assert list(spans(start, end)) == ([] if start == end else formula)


@given(uploads(), st.data())
def test_an_upload_is_read_the_same_however_it_is_cut(
    upload: tuple[UploadHead, list[Package]], data: st.DataObject
) -> None:
    """M-1: and nothing after its last package is looked at."""
    head, packages = upload
    body = head.to_bytes() + b"".join(package.to_bytes() for package in packages)
    rest = data.draw(st.binary(max_size=10))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    reader, found = UploadReader(), []
    for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        found += reader.feed(body[begin:end])
    found += reader.feed(rest)

    assert (reader.head, found, reader.done) == (head, packages, True)


@given(uploads(), st.data())
def test_of_an_upload_that_ends_early_the_whole_packages_are_read(
    upload: tuple[UploadHead, list[Package]], data: st.DataObject
) -> None:
    """M-2: what is cut off is discarded, and it is known that something is missing."""
    head, packages = upload
    parts = [head.to_bytes(), *(package.to_bytes() for package in packages)]
    body = b"".join(parts)
    length = data.draw(st.integers(0, len(body) - 1)) if body else 0
    reader = UploadReader()
    found = reader.feed(body[:length])

    whole = sum(len(b"".join(parts[: at + 1])) <= length for at in range(len(parts)))
    assert (reader.head is not None) == (whole > 0)
    assert found == packages[: max(0, whole - 1)]
    assert not reader.done


@given(st.binary(max_size=2_000), st.integers(1, 50))
def test_whatever_comes_is_read_within_bounds_or_refused(data: bytes, step: int) -> None:
    """M-1: what is accepted prints back the same."""
    reader, found = UploadReader(), []
    try:
        for at in range(0, len(data), step):
            found += reader.feed(data[at : at + step])
    except NoteError:
        return
    if reader.head is not None:
        printed = reader.head.to_bytes() + b"".join(package.to_bytes() for package in found)
        assert data.startswith(printed)


def test_a_range_that_goes_back_and_a_proof_too_long_are_refused() -> None:
    """M-1: upload_start is at most upload_end, num_hashes at most 63."""
    backwards = b"\x00\x01a" + (2).to_bytes(8, "big") + (1).to_bytes(8, "big") + b"\x00\x00"
    with pytest.raises(NoteError, match="after its end"):
        UploadReader().feed(backwards)
    reader = UploadReader()
    head = UploadHead(b"a", 0, 1).to_bytes()
    with pytest.raises(NoteError, match="64 hashes"):
        reader.feed(head + b"\x00\x00" + bytes([64]))
    with pytest.raises(NoteError):
        Package(Span(0, 0, 2), (b"one",), ())
    with pytest.raises(NoteError):
        Package(Span(0, 0, 1), (bytes(65_536),), ())
    with pytest.raises(NoteError):
        UploadHead(b"a", 0, 2**64)
    with pytest.raises(NoteError):
        UploadHead(b"a", True, 2)


@given(NUMBERS, NUMBERS, TICKETS)
def test_mirror_info_is_three_lines_both_ways(size: int, following: int, ticket: bytes) -> None:
    """M-2: decimal, decimal, base64, each followed by a newline."""
    info = MirrorInfo(size, following, ticket)

    assert MirrorInfo.from_bytes(info.to_bytes()) == info
    assert info.to_bytes().count(b"\n") == 3


@pytest.mark.parametrize(
    "data",
    [
        b"", b"1\n2\n", b"1\n2\n\n\n", b"01\n2\n\n", b"+1\n2\n\n", b" 1\n2\n\n", b"1\r\n2\n\n", b"1\n-2\n\n",
        b"1_0\n2\n\n", b"\xd9\xa1\n2\n\n", b"9223372036854775808\n2\n\n",
        b"1\n2\nAA\n", b"1\n2\nAB==\n", b"1\n2\nA-==\n",
        b"1\n2\nAA== \n", b"1\n2\nAAAA", b"1\n2\n\xff\n", b"1 2 \n\n\n",
        b"1\n2\n" + b"AAAA" * ((MAX_TICKET + 3) // 3) + b"\n",
    ],
)  # fmt: skip
def test_mirror_info_is_read_byte_strictly(data: bytes) -> None:
    """M-2: one spelling, and no other is read."""
    with pytest.raises(NoteError):
        MirrorInfo.from_bytes(data)


@given(st.binary(max_size=80))
def test_mirror_info_that_is_read_prints_back(data: bytes) -> None:
    try:
        info = MirrorInfo.from_bytes(data)
    except NoteError:
        return
    assert info.to_bytes() == data
