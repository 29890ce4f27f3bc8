"""``opencode export``: one document, whose messages are the units; and whatever either form may hold."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.records.opencode_sources import EXPORT, assert_every_unit_is_named, convert, sequence
from transparency.records import canonical_json, opencode
from transparency.records.format import OPENCODE, OPENCODE_EXPORT
from transparency.records.recognise import OPENCODE_PARTS
from transparency.records.vac_check import check_vac


def test_an_export_is_one_record_whose_units_are_its_messages() -> None:
    (record,) = convert(EXPORT, OPENCODE_EXPORT)

    assert record["session"]["session-id"] == "ses_export01"
    assert record["session"]["session-start"] == "2026-01-01T00:01:40.000Z"
    assert record["session"]["environment"] == {"working-dir": "/home/ada/garden"}
    assert record["session"]["native"]["info"]["title"] == "[redacted:title:ses_export01]"
    user, assistant = record["session"]["entries"]
    assert (user["id"], user["children"][0]["content"]) == ("msg_e1", "[redacted:text:prt_e1]")
    assert (assistant["parent-id"], assistant["token-usage"]) == ("msg_e1", {"input": 1, "output": 2, "cost": 0})
    # The bytes of the message as they stand in the file, with which its parts are named too.
    start = EXPORT.index(b'{\n      "info": {"id": "msg_e2"')
    raw = EXPORT[start : EXPORT.index(b"    },\n    {", start) + 5]
    assert assistant["source-ref"] == {"index": 0, "sha-256": hashlib.sha256(raw).hexdigest()}
    assert assistant["children"][0]["source-ref"] == assistant["source-ref"]
    assert record["source"]["native-units"] == 2
    assert_every_unit_is_named(EXPORT, [record])
    assert not check_vac(record).violations["-00"]


def test_an_export_keeps_what_it_does_not_know() -> None:
    data = json.dumps(
        {
            "info": {"id": "s"},
            "messages": [
                {"info": {"id": "m", "role": "user", "sessionID": "other"}, "parts": ["odd"], "rating": 5},
                "not a message",
            ],
            "exportedBy": "someone",
        }
    ).encode()

    (record,) = convert(data, OPENCODE_EXPORT)

    assert record["native"] == {"exportedBy": "someone"}
    message, odd = record["session"]["entries"]
    assert message["native"] == {"sessionID": "other"}
    assert [child["data"] for child in message["children"]] == [{"value": "odd"}, {"rating": 5}]
    assert odd["data"] == {"value": "not a message"}
    assert [each.pointer for each in opencode.check(data, OPENCODE_EXPORT)] == ["/messages/0/parts/0", "/messages/1"]


def test_a_message_with_very_many_parts_is_hashed_once() -> None:
    parts = [{"id": f"prt_{number:06}", "type": "text", "text": "x" * 40} for number in range(30_000)]
    data = json.dumps(
        {"info": {"id": "s"}, "messages": [{"info": {"id": "m", "role": "user"}, "parts": parts}]}
    ).encode()
    started = time.process_time()

    (record,) = convert(data, OPENCODE_EXPORT)

    # Hashing 2.5 MB for each of 30,000 parts would take minutes.
    assert time.process_time() - started < 20
    assert len(record["session"]["entries"][0]["children"]) == 30_000


NAMES = st.sampled_from([
    "id", "sessionID", "messageID", "role", "type", "text", "tool", "state", "status", "input", "output", "error",
    "time", "created", "start", "end", "updated", "tokens", "cost", "cache", "read", "metadata", "openai", "parentID",
    "model", "modelID", "reasoningEncryptedContent", "projectID", "directory", "worktree", "share", "url", "secret",
    "path", "cwd", "synthetic", "info", "parts", "messages",
])  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "s", "m", "user", "assistant", "tool", "text", "2026-01-01T00:00:00Z", "completed"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=10,
)  # fmt: skip
LIKELY = st.fixed_dictionaries(
    {"sessionID": st.sampled_from(["s", "t"]), "id": st.sampled_from(["a", "b", "m"])},
    optional={
        "role": st.sampled_from(["user", "assistant", "x"]),
        "type": st.sampled_from(sorted(OPENCODE_PARTS)),
        "messageID": st.sampled_from(["a", "b", "m"]),
        "state": ANYTHING, "time": ANYTHING, "tokens": ANYTHING, "metadata": ANYTHING, "tool": ANYTHING,
        "text": ANYTHING,
    },
)  # fmt: skip
PARTS = st.lists(LIKELY | ANYTHING, max_size=4)


@given(values=st.lists(LIKELY | ANYTHING, min_size=1, max_size=6))
@settings(max_examples=120, deadline=None)
def test_whatever_the_objects_hold_every_unit_is_named_and_the_records_are_valid(values: list[Any]) -> None:
    data = sequence(*values)

    records = convert(data, OPENCODE)

    assert_every_unit_is_named(data, records)
    for record in records:
        assert not check_vac(record).violations["-00"]
        canonical_json.dumps(record)
    opencode.check(data, OPENCODE)


@given(messages=st.lists(st.fixed_dictionaries({"info": LIKELY, "parts": PARTS}) | ANYTHING, max_size=4))
@settings(max_examples=60, deadline=None)
def test_whatever_an_export_holds_every_message_is_named_and_the_record_is_valid(messages: list[Any]) -> None:
    data = json.dumps({"info": {"id": "s"}, "messages": messages}).encode()

    records = convert(data, OPENCODE_EXPORT)

    assert_every_unit_is_named(data, records)
    assert not check_vac(records[0]).violations["-00"]
    opencode.check(data, OPENCODE_EXPORT)


@given(values=st.lists(LIKELY | ANYTHING, min_size=1, max_size=6))
@settings(max_examples=120, deadline=None)
def test_no_value_is_lost_wherever_it_stands(values: list[Any]) -> None:
    numbers = itertools.count()
    data = sequence(*(marked(value, numbers) for value in values))

    written = b"".join(canonical_json.dumps(record) for record in convert(data, OPENCODE))

    leaves = [f"<{number}>".encode() for number in range(next(numbers))]
    assert [leaf for leaf in leaves if leaf not in written] == []
    assert written.count(b"null") >= data.count(b"null")


def marked(value: Any, numbers: Iterator[int], name: str = "") -> Any:
    """The value with every "a" in it made unlike any other, but for ids and the secrets of shares."""
    if isinstance(value, dict):
        return {name: marked(member, numbers, name) for name, member in value.items() if name != "secret"}
    if isinstance(value, list):
        return [marked(item, numbers) for item in value]
    return f"<{next(numbers)}>" if value == "a" and name not in ("id", "sessionID", "messageID") else value
