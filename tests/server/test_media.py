"""Media types and what a client accepts, read as RFC 9110 writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.server.media import MediaType, choose

OFFERS = ("application/cose", "application/scitt-receipt+cose")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, OFFERS[0]),
        ("", OFFERS[0]),
        ("*/*", OFFERS[0]),
        ("application/*;q=0.5, application/scitt-receipt+cose", OFFERS[1]),
        ("application/cose;q=0", None),
        ("application/cose;q=0, */*;q=0.1", OFFERS[1]),
        ("text/html, application/xhtml+xml, */*;q=0.8", OFFERS[0]),
        ("APPLICATION/SCITT-RECEIPT+COSE", OFFERS[1]),
        ("application/cose;q=2", None),
        ("application/cose;q=-1", None),
        ("application/cose;q=0.1234", None),
        (";;;, application/cose", OFFERS[0]),
        ('application/x;a="b,c", application/scitt-receipt+cose', OFFERS[1]),
        ("text/html", None),
        ("cose", None),
    ],
)
def test_the_offer_a_client_prefers_is_chosen(accept: str | None, chosen: str | None) -> None:
    assert choose(accept, OFFERS) == chosen


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("application/cose", "application/cose", {}),
        ('Application/COSE ; Cose-Type="cose-sign1"', "application/cose", {"cose-type": "cose-sign1"}),
        (r'a/b;c="d\"e"', "a/b", {"c": 'd"e'}),
        ("a/b;", "a/b", {}),
    ],
)
def test_a_media_type_is_read_with_its_parameters(text: str, name: str, parameters: dict[str, str]) -> None:
    assert MediaType.parse(text) == MediaType(name, parameters)


@pytest.mark.parametrize(
    "text", ["", "a", "a/", "/b", "a/b c", "a/b, c/d", "a/b;c=d;C=e", "a/b;c", 'a/b;c="d', "a/b;c=é"]
)
def test_what_is_not_one_media_type_is_none(text: str) -> None:
    assert MediaType.parse(text) is None


@given(st.text(max_size=200))
def test_no_header_makes_the_reader_fail(text: str) -> None:
    assert choose(text, OFFERS) in (*OFFERS, None)
    MediaType.parse(text)
