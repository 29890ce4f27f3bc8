"""Strict JSON: what a lenient reader lets through is refused, with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.errors import MalformedError
from transparency.records import strict_json


def test_ordinary_json_reads_as_python_reads_it() -> None:
    text = '{"a": [1, -2.5e3, "é\\u00e9 \\ud83d\\ude00", true, null], "b": {"a": 0}}'

    assert strict_json.loads(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("data", "place", "what"),
    [
        (b'{"a": 1,\n "b": {"x": 1, "x": 2}}', "line 2, column 16", "twice"),
        (b'{"a": 1, "\\u0061": 2}', "line 1, column 10", "twice"),
        (b"[1,\n NaN]", "line 2, column 2", "NaN"),
        (b"[-Infinity]", "line 1, column 2", "-Infinity"),
        (b"[1e999]", "line 1, column 2", "too large"),
        (b"[" + b"9" * 5000 + b"]", "line 1, column 2", "too large"),
        (b'["\\ud800"]', "line 1, column 3", "surrogate"),
        (b'["\\ud800\\n"]', "line 1, column 3", "surrogate"),
        (b'["\\ud800x\\udc00"]', "line 1, column 3", "surrogate"),
        (b'["\\udc00"]', "line 1, column 3", "surrogate"),
        (b'["\xed\xa0\x80"]', "line 1, column 3", "UTF-8"),
        (b"\xef\xbb\xbf{}", "line 1, column 1", "byte order mark"),
        (b"{} {}", "line 1, column 4", "something follows"),
        (b'["a', "line 1, column 2", "a string that begins here has no end"),
        (b'{"a": 1,}', "line 1, column", ""),
        (b"['a']", "line 1, column 2", ""),
        (b'["\t"]', "line 1, column 3", "a control character inside a string"),
        (b"[01]", "line 1, column 3", ""),
        (b"", "line 1, column 1", ""),
    ],
)  # fmt: skip
def test_what_two_readers_could_read_differently_is_refused_with_its_place(data: bytes, place: str, what: str) -> None:
    with pytest.raises(MalformedError) as refused:
        strict_json.loads(data)

    assert place in str(refused.value)
    assert what in str(refused.value)


def test_objects_and_arrays_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "MAX_CONTAINERS", 10)

    assert strict_json.loads(b'[[], {}, "[[[[[[[[[[[{{{{\\"[["]') == [[], {}, '[[[[[[[[[[[{{{{"[[']
    with pytest.raises(MalformedError, match="more than 10 objects and arrays"):
        strict_json.loads(b"[" + b"[]," * 9 + b"{}]")


def test_an_escaped_backslash_before_a_surrogate_escape_is_only_text() -> None:
    assert strict_json.loads(b'["\\\\ud800"]') == ["\\ud800"]


def test_the_same_key_in_two_objects_is_no_duplicate() -> None:
    assert strict_json.loads(b'[{"a": "a", "b": {"a": "a"}}, {"a": 1}]') == [
        {"a": "a", "b": {"a": "a"}},
        {"a": 1},
    ]


@pytest.mark.parametrize("depth", [65, 1_000, 200_000])
def test_nesting_is_bounded_however_deep_it_is(depth: int) -> None:
    with pytest.raises(MalformedError, match=r"line 1, column 65: nested more than 64"):
        strict_json.loads(b"[" * depth + b"]" * depth)


def test_nesting_at_the_bound_is_read() -> None:
    assert strict_json.loads(b"[" * 64 + b"]" * 64) is not None


def test_a_text_larger_than_the_bound_is_not_read() -> None:
    with pytest.raises(MalformedError, match="11 bytes"):
        strict_json.loads(b'"too large"', max_size=10)


def test_an_error_does_not_repeat_the_payload() -> None:
    with pytest.raises(MalformedError) as refused:
        strict_json.loads(b'{"secret": 1, "secret": 2}')

    assert "secret" not in str(refused.value)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(_JSON, st.booleans())
def test_everything_python_writes_strictly_is_read_back(value: object, ascii_only: bool) -> None:
    assert strict_json.loads(json.dumps(value, ensure_ascii=ascii_only, allow_nan=False).encode()) == value


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_refused_and_nothing_else_happens(data: bytes) -> None:
    try:
        value = strict_json.loads(data)
    except MalformedError:
        return
    assert value == json.loads(data)


@settings(deadline=None)
@given(st.text(alphabet='{}[]:,"\\u0dcDC8 \n1-eN', max_size=40))
def test_nearly_json_is_read_or_refused_and_nothing_else_happens(text: str) -> None:
    try:
        value = strict_json.loads(text.encode())
    except MalformedError:
        return
    assert value == json.loads(text)
