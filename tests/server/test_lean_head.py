"""The head of a request as a worker reads it: the plain ones, and none that could be read in another way."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest
from aiohttp.http_parser import HttpRequestParser, HttpRequestParserPy
from hypothesis import example, given
from hypothesis import strategies as st

from transparency.server.lean_head import END, Head, read_head

SINGLE = b"POST /entries HTTP/1.1"
BATCH = b"POST /entries/batch HTTP/1.1"
HOST = b"Host: log.example:8080"
COSE = b"Content-Type: application/cose"
SEQUENCE = b"Content-Type: application/cbor-seq"
LENGTH = b"Content-Length: 12"
CHUNKED = b"Transfer-Encoding: chunked"


def head(*lines: bytes, start: bytes = SINGLE) -> Head | None:
    return read_head(b"\r\n".join([start, *lines]))


def plain(*more: bytes) -> Head | None:
    return head(HOST, COSE, LENGTH, *more)


def test_a_plain_registration_is_read() -> None:
    assert plain() == Head(
        batch=False, host="log.example:8080", length=12, authorization=None, close=False, expects=False
    )


def test_names_are_read_in_any_case_and_values_without_the_spaces_around_them() -> None:
    read = head(b"hOST:x", b"CONTENT-TYPE: \t application/scitt-statement+cose \t", b"content-length:0",
                b"AUTHORIZATION:  Bearer abc ", b"Connection: Close", b"accept: */*")  # fmt: skip

    assert read == Head(batch=False, host="x", length=0, authorization="Bearer abc", close=True, expects=False)


def test_fields_that_change_nothing_are_passed_over() -> None:
    assert plain(b"User-Agent: curl/8", b"X-Forwarded-For: 10.0.0.1", b"traceparent: 00-a-b-01", b"Date:") is not None


def test_a_batch_may_be_chunked_and_ask_first() -> None:
    chunked = head(HOST, SEQUENCE, CHUNKED, b"Expect: 100-Continue", start=BATCH)
    known = head(HOST, SEQUENCE, LENGTH, b"Accept: application/cbor-seq", start=BATCH)

    assert chunked is not None
    assert known is not None
    assert (chunked.batch, chunked.length, chunked.expects) == (True, None, True)
    assert (known.batch, known.length, known.expects) == (True, 12, False)


@pytest.mark.parametrize(
    "start",
    [
        b"", b"GET /entries HTTP/1.1", b"post /entries HTTP/1.1", b"Post /entries HTTP/1.1", b"POST /entries HTTP/1.0",
        b"POST /entries HTTP/2.0", b"POST /entries http/1.1", b"POST  /entries HTTP/1.1", b"POST /entries  HTTP/1.1",
        b"POST /entries HTTP/1.1 ", b" POST /entries HTTP/1.1", b"POST\t/entries HTTP/1.1", b"POST /entries/ HTTP/1.1",
        b"POST /entries? HTTP/1.1", b"POST /entries?a=b HTTP/1.1", b"POST /entries#a HTTP/1.1",
        b"POST http://log.example/entries HTTP/1.1", b"POST //entries HTTP/1.1", b"POST /Entries HTTP/1.1",
        b"POST /entries/../entries HTTP/1.1", b"POST /%65ntries HTTP/1.1", b"POST * HTTP/1.1", b"POST /entries",
    ],
)  # fmt: skip
def test_another_request_line_is_for_others(start: bytes) -> None:
    assert head(HOST, COSE, LENGTH, start=start) is None


@pytest.mark.parametrize(
    "line",
    [
        b"Host: other", HOST, LENGTH, b"content-length: 13", COSE,  # a second time
        CHUNKED, b"Transfer-Encoding: identity",  # both framings
        b"Content-Encoding: gzip", b"Prefer: respond-async", b"Upgrade: h2c", b"Expect: 100-continue", b"TE: trailers",
        b"Cookie: a=b", b"Range: bytes=0-1", b"If-None-Match: *", b"X-Unknown: 1", b"X-HTTP-Method-Override: GET",
        b"Connection: keep-alive, close", b"Connection: upgrade", b"Connection: ", b"Connection: Host",
        b"Accept: application/json", b"Accept: */*;q=0", b"Accept: application/cose, */*",
        b" folded", b"\tfolded", b"", b"no colon", b": no name", b"User-Agent : x", b"User Agent: x",
        b"User-Agent\t: x", b"User-Agent\x00: x", b"User-Agent: a\x00b", b"User-Agent: a\nHost: b",
        b"User-Agent: a\rHost: b",
        b"User-Agent: a\x0bb", b"User-Agent: a\x7fb", b"User-Agent: caf\xc3\xa9", b"Us\xc3\xa9r: x", b"(comment): x",
        b"User-Agent: a\x85b",
    ],
)  # fmt: skip
def test_one_odd_line_makes_the_whole_request_one_for_others(line: bytes) -> None:
    assert plain() is not None
    assert plain(line) is None
    assert head(line, HOST, COSE, LENGTH) is None


@pytest.mark.parametrize(
    "value",
    [b"+12", b"-0", b"-12", b"012", b"00", b"1 2", b"1_2", b"0x12", b"12.0", b"1e3", b"", b"12, 12", b"12;", b"12,",
     "١٢".encode(), b"9999999999999"],
)  # fmt: skip
def test_a_length_is_plain_digits(value: bytes) -> None:
    assert head(HOST, COSE, b"Content-Length: " + value) is None
    assert head(HOST, SEQUENCE, b"Content-Length: " + value, start=BATCH) is None


@pytest.mark.parametrize(
    "value",
    [b"", b"Chunked", b"chunked, chunked", b"gzip, chunked", b"chunked;a=b", b"identity", b"xchunked", b"chunked,"],
)
def test_only_the_one_spelling_of_chunked_is_read(value: bytes) -> None:
    assert head(HOST, SEQUENCE, b"Transfer-Encoding: " + value, start=BATCH) is None


def test_a_batch_with_both_framings_or_none_is_for_others() -> None:
    assert head(HOST, SEQUENCE, LENGTH, CHUNKED, start=BATCH) is None
    assert head(HOST, SEQUENCE, CHUNKED, LENGTH, start=BATCH) is None
    assert head(HOST, SEQUENCE, start=BATCH) is None


def test_a_single_statement_is_never_chunked() -> None:
    assert head(HOST, COSE, CHUNKED) is None
    assert head(HOST, COSE) is None


@pytest.mark.parametrize("value", [b"", b"a b", b"a,b", b"user@log.example", b"log.example:", b"log.example:999999",
                                   b"http://log.example", b"log.example/x", b"[::1", b"a\\b"])  # fmt: skip
def test_a_host_that_would_not_fit_into_a_url_is_for_others(value: bytes) -> None:
    assert head(b"Host: " + value, COSE, LENGTH) is None
    assert head(COSE, LENGTH) is None


@pytest.mark.parametrize(
    "value",
    [b"application/cbor-seq", b"application/COSE", b'application/cose; cose-type="cose-sign1"', b"multipart/form-data",
     b"", b"application/cose, application/cose"],
)  # fmt: skip
def test_other_media_types_are_for_others(value: bytes) -> None:
    assert head(HOST, b"Content-Type: " + value, LENGTH) is None
    assert head(HOST, COSE, LENGTH, start=BATCH) is None
    assert head(HOST, LENGTH) is None


# -- no smuggling ------------------------------------------------------------------------------------------------------


def parsed(parser_class: type[Any], data: bytes) -> Any:
    """One message and its body as aiohttp reads it."""
    loop = asyncio.new_event_loop()
    try:
        parser = parser_class(mock.Mock(), loop, 2**16, max_line_size=8190, max_field_size=8190)
        messages, upgraded, _ = parser.feed_data(data)
        assert not upgraded
        assert len(messages) == 1
        return messages[0]
    finally:
        loop.close()


LINES = st.sampled_from(
    [HOST, COSE, SEQUENCE, LENGTH, CHUNKED, b"Content-Length: 0", b"content-length: 5", b"Connection: close",
     b"Connection: keep-alive", b"Accept: */*", b"Accept: application/cose", b"Authorization: Bearer t",
     b"User-Agent: x", b"Expect: 100-continue", b"Date: \t", b"Host:a", b"Transfer-Encoding:\tchunked ",
     b"Via: 1.1 a, 1.1 b"]
)  # fmt: skip


@st.composite
def near_heads(draw: st.DrawFn) -> bytes:
    """Mostly whole heads, some with a few bytes of them replaced, doubled or lost."""
    lines = draw(st.lists(LINES, max_size=6, unique=True))
    whole = [HOST, SEQUENCE, CHUNKED] if (batch := draw(st.booleans())) else [HOST, COSE, LENGTH]
    if draw(st.booleans()):
        lines = [*whole, *(line for line in lines if line.split(b":")[0].lower() not in
                           {each.split(b":")[0].lower() for each in whole})]  # fmt: skip
    data = b"\r\n".join([BATCH if batch else SINGLE, *lines])
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data)))
        new = draw(
            st.sampled_from([b"", b" ", b"\t", b"\n", b"\r", b":", b",", b"\x00", b"0", b"\xff", b"\r\n ", b";"])
        )
        data = data[:at] + new + data[at + draw(st.integers(0, 1)) :]
    return data


@pytest.mark.parametrize("parser", [HttpRequestParserPy, HttpRequestParser])
@given(near_heads())
@example(b"\r\n".join([SINGLE, HOST, COSE, LENGTH]))
@example(b"\r\n".join([BATCH, HOST, SEQUENCE, CHUNKED]))
def test_whatever_is_accepted_is_the_same_request_to_the_library_that_reads_the_rest(
    parser: type[Any], data: bytes
) -> None:
    """Two readers of one connection must agree on where each request ends: else one can be hidden in another."""
    read = read_head(data)
    if read is None or END in data:
        return
    message, payload = parsed(parser, data + END)

    assert (message.method, message.path) == ("POST", "/entries/batch" if read.batch else "/entries")
    assert message.version == (1, 1)
    assert message.headers.getall("Host") == [read.host]
    assert message.headers.getall("Content-Length", []) == ([] if read.length is None else [str(read.length)])
    assert message.chunked == (read.length is None)
    assert message.should_close == read.close
    assert message.headers.getall("Authorization", []) == ([] if read.authorization is None else [read.authorization])
    assert ("Expect" in message.headers) == read.expects
    assert not message.upgrade
    assert message.compression is None
    assert payload.is_eof() == (read.length == 0)
