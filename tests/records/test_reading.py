"""A record that several passes read is parsed once, and none of them sees what another made of it."""

from __future__ import annotations

import pytest

from transparency.errors import MalformedError
from transparency.records import json_sequence, strict_json
from transparency.records.reading import MAX_KEPT, reading


def test_a_second_pass_gets_the_values_of_the_first() -> None:
    data = b'{"a": [1, 2]}'

    with reading(data) as read:
        first = strict_json.loads(data)
        read.again()
        second = strict_json.loads(bytes(bytearray(data)))

    assert second is first


def test_equal_bytes_in_one_pass_stay_two_values() -> None:
    line = b'{"a": []}'

    with reading(line * 2) as read:
        one, other = strict_json.loads(line), strict_json.loads(line)
        read.again()
        again = [strict_json.loads(line), strict_json.loads(line)]

    assert one is not other
    assert again[0] is one
    assert again[1] is other


def test_nothing_is_kept_outside_and_of_what_is_large() -> None:
    data = b"[1]"
    with reading(b"\x00" * (MAX_KEPT + 1)) as read:
        large = strict_json.loads(data)
        read.again()
        assert strict_json.loads(data) is not large

    assert strict_json.loads(data) is not strict_json.loads(data)


def test_what_was_refused_is_refused_again() -> None:
    data = b'{"a": 1, "a": 2}'

    with reading(data) as read:
        for _ in range(2):
            with pytest.raises(MalformedError, match="stands twice"):
                strict_json.loads(data)
            read.again()


def test_the_members_of_a_document_are_found_once_and_those_of_a_broken_one_each_time() -> None:
    data, broken = b'{"a": {"b": 1}, "c": [2]}', b'{"a": 1, "b": 2} 3'

    with reading(data):
        assert list(json_sequence.members(data)) == list(json_sequence.members(data))
        for _ in range(2):
            with pytest.raises(MalformedError, match="something follows"):
                list(json_sequence.members(broken))


@pytest.mark.parametrize("text", [b'{"a": "]', b'["\\"', b'{"a": "b\\\\", "c": [}', b'[{"x": "[[["', b'{"k": "v" "'])
def test_a_value_without_an_end_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedError):
        list(json_sequence.values(text))
