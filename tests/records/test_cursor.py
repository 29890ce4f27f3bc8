"""Cursor transcripts: no ids, no times, no model, and none invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from transparency.errors import MalformedError
from transparency.records import cursor
from transparency.records.format import CURSOR
from transparency.records.vac_check import check_vac

FIXTURE = Path(__file__).parents[1] / "fixtures" / "records" / "cursor" / "tool-use.jsonl"
SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples" / "cursor"
CREATED = "2026-01-02T00:00:00.000Z"


def convert(data: bytes) -> dict[str, Any]:
    (draft,) = cursor.sessions(data, CURSOR)
    return draft.finish(data, CREATED)


def test_a_transcript_becomes_one_record_without_times_and_with_an_unknown_model() -> None:
    record = convert(FIXTURE.read_bytes())

    session = record["session"]
    assert session["agent-meta"] == {"model-id": "unknown", "model-provider": "unknown", "cli-name": "cursor"}
    assert "session-start" not in session
    assert "session-end" not in session
    assert not any("timestamp" in entry for entry in session["entries"])
    assert record["source"]["native-units"] == 3
    assert record["source"]["lossless"]
    assert not check_vac(record).violations["-00"]


def test_the_session_id_is_derived_from_the_bytes_alone() -> None:
    data = FIXTURE.read_bytes()

    first, again, other = convert(data), convert(data), convert(data + b"\n")

    assert first["session"]["session-id"] == again["session"]["session-id"]
    assert first["session"]["session-id"] != other["session"]["session-id"]
    assert first["session"]["session-id"][14] == "5"  # UUID version


def test_tool_uses_become_calls_without_results_under_their_message() -> None:
    entries = convert(FIXTURE.read_bytes())["session"]["entries"]

    user, assistant, last = entries
    assert (user["type"], user["actor"], user["id"]) == ("user", "human", "line-1")
    assert assistant["content"] == "Looking.\n\n[REDACTED]"
    assert [(call["type"], call["name"], call["input"]) for call in assistant["children"]] == [
        ("tool-call", "Read", {"path": "/home/ada/trees.txt"}),
        ("tool-call", "Glob", {"pattern": "*.txt"}),
    ]
    assert all("call-id" not in call for call in assistant["children"])
    assert last["content"] == [{"type": "text", "text": "Oak, "}, {"type": "text", "text": "ash, elm."}]


def test_members_nobody_knows_are_kept_under_native() -> None:
    line = {
        "role": "assistant",
        "message": {"content": [{"type": "tool_use", "name": "Shell", "id": "t1", "cached": None}], "mood": 1},
        "type": "x",
    }

    record = convert(json.dumps(line).encode())

    (entry,) = record["session"]["entries"]
    assert entry["native"] == {"type": "x", "message": {"mood": 1}}
    (call,) = entry["children"]
    assert (call["call-id"], call["input"], call["native"]) == ("t1", None, {"cached": None, "block": 0})
    assert record["source"]["filled"] == ["tool-call input (line 1)"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ({"role": "system", "message": {"content": "x"}}, "cursor/system"),
        ({"role": "user", "message": "x"}, "cursor/user"),
        ({"turn": 1}, "cursor/line"),
        ([1, 2], "cursor/line"),
        ({"role": ["user"], "message": {}}, "cursor/line"),
    ],
)
def test_a_line_of_another_kind_is_kept_whole_as_an_event_and_warned_of(line: object, kind: str) -> None:
    data = json.dumps(line).encode()

    record = convert(data)

    (entry,) = record["session"]["entries"]
    assert (entry["type"], entry["event-type"]) == ("system-event", kind)
    assert entry["data"] == (line if isinstance(line, dict) else {"value": line})
    assert [(each.level, each.pointer) for each in cursor.check(data, CURSOR)] == [("warning", "line 1: ")]
    assert not check_vac(record).violations["-00"]


def test_null_content_is_kept_as_null() -> None:
    record = convert(b'{"role":"assistant","message":{"content":null}}')

    assert record["session"]["entries"][0]["native"] == {"message": {"content": None}}


def test_an_empty_file_and_a_broken_line_are_refused() -> None:
    with pytest.raises(MalformedError, match="no line"):
        cursor.sessions(b"\n \n", CURSOR)
    with pytest.raises(MalformedError, match="line 2, column 9"):
        cursor.sessions(b'{"role":"user","message":{}}\n{"role":}', CURSOR)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample records are not beside this checkout")
def test_every_sample_converts_and_every_line_is_named() -> None:
    for path in sorted(SAMPLES.glob("*.jsonl")):
        data = path.read_bytes()
        record = convert(data)

        named = {entry["source-ref"]["line"] for entry in record["session"]["entries"]}
        assert named == {unit.ref["line"] for unit in cursor.units(data)}
        assert not check_vac(record).violations["-00"]
