"""Redaction of VAC records in CBOR: texts are rewritten where they stand, and not one byte of anything else."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.redacting import RECORDS, items, redacted
from transparency.errors import MalformedError
from transparency.records import vac_cbor
from transparency.records.detect import detect
from transparency.records.disclosure import read_header, strings_at
from transparency.records.json_text import follow, pointer
from transparency.records.pseudonym import pseudonym

RECORD: dict[str, Any] = json.loads((RECORDS / "vac" / "published.json").read_bytes())
KEY = b"0123456789abcdef"


def record(*entries: dict[str, Any]) -> dict[str, Any]:
    return RECORD | {"session": RECORD["session"] | {"entries": list(entries)}}


@pytest.mark.parametrize("tagged", [True, False])
def test_a_secret_is_replaced_by_its_mark_and_nothing_else_changes(*, tagged: bool) -> None:
    said = "write to jane@example.com \\ or to 4111 1111 1111 1111\n"
    made = record({"type": "user", "content": [said, {"jane@example.com": 1, "b": b"\n\n", "c": -1.5}], "x": {}})
    data = vac_cbor.dumps(made, tagged=tagged)

    result = redacted(data)

    expected = copy.deepcopy(made)
    marked = "write to [REDACTED:email:1] \\ or to [REDACTED:card-number:2]\n"
    expected["session"]["entries"][0]["content"][0] = marked
    assert result.data == vac_cbor.dumps(expected, tagged=tagged)
    assert detect(result.data).format is detect(data).format
    assert [item.original for item in items(result)] == ["jane@example.com", "4111 1111 1111 1111"]
    locations = [one.location for one in read_header(result.header)]
    assert [str(one) for one in locations] == [
        "1:9:/session/entries/0/content/0", "1:36:/session/entries/0/content/0",
    ]  # fmt: skip
    assert strings_at(result.data, locations, by_line=False) == {(1, locations[0].pointer): marked}


def test_the_order_of_keys_stays_and_a_key_that_is_no_text_has_its_json_name() -> None:
    # {"session": {"session-id": "s", "agent-meta": {5: "jane@example.com"}, "entries": []}, "a": 1}: not sorted
    data = bytes.fromhex("a2") + b"".join(
        (
            vac_cbor.dumps("session"), b"\xa3", vac_cbor.dumps("session-id"), vac_cbor.dumps("s"),
            vac_cbor.dumps("agent-meta"), b"\xa1\x05", vac_cbor.dumps("jane@example.com"),
            vac_cbor.dumps("entries"), b"\x80", vac_cbor.dumps("a"), b"\x01",
        )
    )  # fmt: skip

    result = redacted(data)

    assert result.data == data.replace(vac_cbor.dumps("jane@example.com"), vac_cbor.dumps("[REDACTED:email:1]"))
    assert items(result)[0].location == "1:0:/session/agent-meta/5"


def test_a_session_gets_its_pseudonym_in_cbor_too() -> None:
    made = record({"type": "user", "content": "of session-number-1"})
    made["session"]["session-id"] = "session-number-1"

    result = redacted(vac_cbor.dumps(made), (), pseudonym_key=KEY)

    name = pseudonym("session-number-1", KEY)
    session = vac_cbor.loads(result.data)["session"]
    assert (session["session-id"], session["entries"][0]["content"]) == (name, f"of {name}")


def test_nothing_is_left_out_of_cbor_and_that_is_said() -> None:
    with pytest.raises(MalformedError, match="give its JSON"):
        redacted(vac_cbor.dumps(RECORD), (), omit={"user"})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30) | st.binary(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(VALUES)
def test_every_text_of_a_record_is_found_where_its_path_leads(value: object) -> None:
    data = vac_cbor.dumps({"a": value}, tagged=True)

    found = [text for text in vac_cbor.texts(data) if not text.is_key]

    shown = vac_cbor.json_form(vac_cbor.loads(data)).value
    assert all(follow(shown, pointer(text.path)) == data[text.start : text.end].decode() for text in found)
    assert len(found) == _count({"a": value})


def _count(value: object) -> int:
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, str) + sum(_count(each) for each in held)
