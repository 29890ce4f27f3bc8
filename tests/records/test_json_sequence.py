"""Several JSON values in sequence: exact bytes of each, and an error with its place instead of an early end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.errors import MalformedError
from transparency.records import json_sequence
from transparency.records.json_sequence import Extent

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_values_are_given_with_the_bytes_they_stand_in() -> None:
    data = '{"ä": "}"}\n\n[1, "]\\""] 7 "x"{}'.encode()

    found = list(json_sequence.values(data))

    assert [each.value for each in found] == [{"ä": "}"}, [1, ']"'], 7, "x", {}]
    assert [each.raw for each in found] == ['{"ä": "}"}'.encode(), b'[1, "]\\""]', b"7", b'"x"', b"{}"]
    assert all(data[each.extent.start : each.extent.end] == each.raw for each in found)


def test_nothing_but_white_space_holds_no_value() -> None:
    assert list(json_sequence.values(b" \r\n\t")) == []


@pytest.mark.parametrize(
    ("data", "place", "what"),
    [
        (b'{"a": 1}\n{"b": 2},\n{"c": 3}', "line 2, column 9", "expected a value"),
        (b'{"a": 1}\n{"a": 2, "a": 3}', "line 2, column 10", "twice"),
        (b'{"a": 1}\n{"a":\n NaN}', "line 3, column 2", "NaN"),
        (b'{"a": 1}\n\x00{"a": 1}', "line 2, column 1", ""),
        (b'{"a": 1} {"a" 1}', "line 1, column 15", "delimiter"),
        ('{"ä": 1} {"a" 1}'.encode(), "line 1, column 15", "delimiter"),
        (b'{"a": 1}\n{"a": "\xff"}', "line 2, column 8", "UTF-8"),
        (b'{"a": 1}\n{"a": 1', "line 2, column 8", ""),
        (b'{"a": 1}\n{"a": "1', "line 2, column 7", ""),
        (b'{"a": 1}\n[1, 2}\n{}', "line 2, column 6", ""),
        (b'{"a": 1}\n]', "line 2, column 1", "expected a value"),
        (b'{"a": 1}\n"abc', "line 2, column 1", "without an end"),
        (b'{"a": 1}\nnul', "line 2, column 1", ""),
        (b"\xef\xbb\xbf{}", "line 1, column 1", "byte order mark"),
        (b'{"a": 1}\n' + b"[" * 70 + b"]" * 70, "line 2, column 65", "64 deep"),
        (b'{"a": 1}\n' + b"[" * 200_000, "line 2, column", ""),
    ],
)
def test_the_first_bad_byte_is_named_by_line_and_column_of_the_whole_data(data: bytes, place: str, what: str) -> None:
    with pytest.raises(MalformedError) as error:
        list(json_sequence.values(data))

    assert str(error.value).startswith(place)
    assert what in str(error.value)


def test_more_values_than_allowed_are_refused_where_they_begin() -> None:
    with pytest.raises(MalformedError, match="line 1, column 7: more than 3 JSON values"):
        list(json_sequence.values(b"1 2 3 4", max_values=3))


def test_a_value_larger_than_allowed_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(MalformedError, match=r"line 2, column 1: .*12 bytes"):
        list(json_sequence.values(b'1\n"0123456789"', max_size=5))
    with pytest.raises(MalformedError, match=r"line 2, column 1: .*no end"):
        list(json_sequence.values(b'1\n["0123456789"', max_size=5))


def test_members_and_items_of_a_large_value_are_found_without_parsing_it() -> None:
    data = b' {"info": {"id": 1} , "list" : [ {"n": 0},"]", 2 ], "end":null} '

    places = dict(json_sequence.members(data))

    assert {name: data[at.start : at.end] for name, at in places.items()} == {
        "info": b'{"id": 1}',
        "list": b'[ {"n": 0},"]", 2 ]',
        "end": b"null",
    }
    items = [data[at.start : at.end] for at in json_sequence.items(data, places["list"])]
    assert items == [b'{"n": 0}', b'"]"', b"2"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[1]", "line 1, column 1: expected {"),
        (b'{"a": 1} {}', "line 1, column 10: something follows"),
        (b'{"a": 1, "a": 2}', "line 1, column 10: this key stands twice"),
        (b'{"a": 1, "\\u0061": 2}', "line 1, column 10: this key stands twice"),
        (b'{"a": 1 "b": 2}', "line 1, column 9: expected ','"),
        (b'{"a" 1}', "line 1, column 6: expected ':'"),
        (b'{"a": 1,}', "line 1, column 9: expected a key"),
        (b"{1: 1}", "line 1, column 2: expected a key"),
        (b'{"a": }', "line 1, column 7: expected a value"),
        (b'{"a": 1', "line 1, column 8: expected ','"),
        (b"", "line 1, column 1: expected {"),
    ],
)
def test_an_object_whose_punctuation_is_wrong_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(MalformedError) as error:
        list(json_sequence.members(data))

    assert str(error.value).startswith(message)


@pytest.mark.parametrize("data", [b"[1 2]", b"[1,]", b"[,1]", b"[1", b"[1} ", b"[1] 2"])
def test_an_array_whose_punctuation_is_wrong_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        list(json_sequence.items(data))


def test_an_error_inside_a_member_is_placed_in_the_whole_data() -> None:
    data = b'{\n "a": 1,\n "b": [01]}'
    places = dict(json_sequence.members(data))

    with pytest.raises(MalformedError, match="line 3, column 9"):
        json_sequence.read(data, places["b"])


def test_a_string_full_of_escapes_costs_linear_time() -> None:
    data = b'["' + b'\\"' * 500_000 + b'"]'

    (found,) = json_sequence.values(data)

    assert found.extent == Extent(0, len(data))


@given(values=st.lists(JSON, max_size=5), ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))
def test_what_json_writes_in_sequence_is_read_back(values: list[Any], ascii_only: bool, indent: int | None) -> None:
    texts = [json.dumps(value, ensure_ascii=ascii_only, indent=indent) for value in values]
    data = "\n".join(texts).encode("utf-8", "surrogatepass")

    found = list(json_sequence.values(data))

    assert [each.value for each in found] == values
    assert [each.raw.decode() for each in found] == texts


@given(data=st.lists(st.sampled_from(list('{}[]",: \n1a\\')), max_size=14).map("".join))
@settings(max_examples=400)
def test_any_text_is_read_wholly_or_refused_as_python_would(data: str) -> None:
    try:
        found = [each.value for each in json_sequence.values(data.encode())]
    except MalformedError:
        found = None

    assert found == _by_python(data)


def _by_python(text: str) -> list[Any] | None:
    """The same by the standard library; its scalars may touch, ours may not touch another scalar."""
    decoder, position, found = json.JSONDecoder(object_pairs_hook=_no_twice), 0, []
    while text[position:].strip(" \t\r\n"):
        position += len(text[position:]) - len(text[position:].lstrip(" \t\r\n"))
        try:
            value, end = decoder.raw_decode(text, position)
        except ValueError:
            return None
        if text[position] not in '{["' and text[end : end + 1] not in ("", *' \t\r\n{}[]",:'):
            return None
        found.append(value)
        position = end
    return found


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError
    return dict(pairs)
