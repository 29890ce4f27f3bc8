"""Text out of files, made safe for a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verifier.world import ISSUER, Log, bare
from transparency.cose import labels
from transparency.cose.sign1 import sign1
from transparency.display import iso_utc
from transparency.verifier import render_text, safe_text, verify


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://issuer.example/a?b=c", "https://issuer.example/a?b=c"),
        ("Zürich 東京 é", "Zürich 東京 é"),
        ("a\x1b[2Jb", "a\\u{001b}[2Jb"),
        ("a\nb\tc\r", "a\\u{000a}b\\u{0009}c\\u{000d}"),
        ("\x7f\x9b", "\\u{007f}\\u{009b}"),
        ("a\u202egpj.exe", "a\\u{202e}gpj.exe"),
        ("\u200b\u200f\u2066\ufeff\u2028", "\\u{200b}\\u{200f}\\u{2066}\\u{feff}\\u{2028}"),
        ("a\u00a0b", "a\\u{00a0}b"),
        ("\ud800", "\\u{d800}"),
        ("\\u{202e}", "\\\\u{202e}"),
        ("a\ufe01\u3164\u034fb\U000e0131", "a\\u{fe01}\\u{3164}\\u{034f}b\\u{e0131}"),
        ("❤\ufe0f\ufe0f a\ufe0f", "❤\ufe0f\\u{fe0f} a\\u{fe0f}"),
    ],
)
def test_what_is_not_plainly_visible_is_escaped(text: str, shown: str) -> None:
    assert safe_text(text) == shown


def test_a_long_text_is_cut() -> None:
    assert safe_text("a" * 300) == "a" * 200 + "…"
    assert safe_text("a" * 200) == "a" * 200


@settings(deadline=None)
@given(st.text(st.characters()))
def test_nothing_shown_controls_a_terminal(text: str) -> None:
    for character in safe_text(text):
        assert unicodedata.category(character)[0] in "LMNPS" or character == " "


@settings(deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_two_texts_never_look_the_same_when_shown(one: str, other: str) -> None:
    assert (safe_text(one) == safe_text(other)) == (one == other)


def test_hostile_names_reach_the_terminal_only_escaped() -> None:
    hostile = "evil\x1b]0;owned\x07\u202e"
    headers = {labels.KID: ISSUER.public.kid, labels.CWT_CLAIMS: {1: hostile, 2: hostile}}
    data = sign1(headers, b"x", ISSUER).to_bytes()
    log = Log(iss=hostile, origin=hostile)

    report = verify(log.register(data), bare())

    assert report.verdict == "verified"
    for text in (render_text(report), report.summary):
        assert "evil" in text
        assert not set("\x1b\x07\u202e") & set(text)


def test_times_are_iso_utc_and_nonsense_stays_a_number() -> None:
    assert iso_utc(0) == "1970-01-01T00:00:00Z"
    assert iso_utc(2**62) == f"{2**62} seconds after 1970"
