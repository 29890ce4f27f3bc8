"""Codex rollouts as they were, as they will be, and as they should not be: legacy, unknown kinds, broken lines."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.records.codex_sources import (
    SAMPLES,
    draft_of,
    entries_of,
    item,
    lines,
    read,
    record_of,
)
from transparency.errors import MalformedError
from transparency.records import codex
from transparency.records.convert import flat
from transparency.records.format import CODEX
from transparency.records.vac_check import is_valid


def test_bare_items_from_before_the_frame_are_read() -> None:
    record = record_of(read("legacy.jsonl"))
    session = record["session"]
    kinds = [(entry["type"], entry.get("event-type")) for entry in session["entries"]]

    assert session["session-id"] == "legacy-1"
    assert session["session-start"] == "2025-08-20T10:00:00.000Z"
    assert "session-end" not in session
    assert "environment" not in session
    assert record["vcs"] == {
        "type": "git",
        "revision": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "native": {"branch": None},
    }
    assert kinds == [
        ("system-event", "codex/session_meta"),
        ("system-event", "codex/state"),
        ("user", None),
        ("reasoning", None),
        ("tool-call", None),
        ("tool-result", None),
        ("assistant", None),
    ]
    assert session["entries"][3]["native"] == {"encrypted_content": None}
    assert session["entries"][5]["is-error"] is True
    assert codex.check(read("legacy.jsonl"), CODEX) == []


def test_unknown_kinds_are_kept_whole_and_warned_of_once() -> None:
    data = read("drift.jsonl")
    kept = [entry for entry in entries_of(data) if entry["type"] == "system-event"]

    assert [entry["event-type"] for entry in kept[1:]] == [
        "codex/moon_phase",
        "codex/telepathy",
        "codex/weather",
        "codex/weather",
        "codex/turn_context",
        "codex/warning",
        "codex/value",
    ]
    assert kept[2]["data"]["payload"] == {"type": "telepathy", "to": None}
    assert kept[6]["native"] == {"timestamp": "yesterday"}
    assert kept[7]["data"] == {"value": ["a", "list"]}
    assert {(found.level, found.pointer, found.message) for found in codex.check(data, CODEX)} == {
        ("warning", "line 2: /payload/type", "unknown event 'moon_phase': kept as an event"),
        ("warning", "line 3: /payload/type", "unknown response item 'telepathy': kept as an event"),
        ("warning", "line 4: /type", "unknown kind of line 'weather': kept as an event (2 times)"),
        ("warning", "line 6: /payload", "the payload of turn_context is not an object"),
        ("warning", "line 7: /timestamp", "a timestamp that is no time"),
        ("warning", "line 8: ", "a line that is not an object"),
    }


def test_a_known_rollout_gives_no_warning_and_a_fork_says_whose_history_it_holds() -> None:
    [warning] = codex.check(read("subagent.jsonl"), CODEX)

    assert codex.check(read("session.jsonl"), CODEX) == []
    assert warning.pointer == "line 2: /payload/id"


@pytest.mark.parametrize("kind", [None, 5, True, ["x"], {"x": 1}, ""])
def test_a_kind_that_is_no_text_is_unknown_not_an_error(kind: object) -> None:
    data = lines(
        {"timestamp": "2026-05-04T09:00:00.000Z", "type": kind, "payload": {"type": kind}},
        {"timestamp": kind, "type": "response_item", "payload": {"type": kind, "role": kind, "id": kind}},
        {"timestamp": kind, "type": "event_msg", "payload": {"type": kind}},
        {"timestamp": kind, "type": "event_msg", "payload": {"type": "item_completed", "item": {"type": kind}}},
        {"timestamp": kind, "type": "session_meta", "payload": {"id": kind, "git": kind, "source": kind, "cwd": kind}},
        {"timestamp": kind, "type": "turn_context", "payload": {"model": kind}},
        item(type="message", role="user", content=kind, id=kind),
        item(type="reasoning", summary=kind, content=[kind], encrypted_content=kind),
        item(type="function_call", name="f", arguments=kind, call_id=kind),
        item(type="function_call_output", output=kind, call_id=kind),
    )
    record = record_of(data)

    assert is_valid(record)
    assert len(record["session"]["entries"]) == 10
    assert codex.check(data, CODEX)


def test_a_broken_line_is_refused_with_its_place() -> None:
    with pytest.raises(MalformedError, match="line 2, column 9"):
        codex.sessions(b'{"id":"a","timestamp":"2026-05-04T09:00:00Z"}\n{"type":}\n', CODEX)


def test_a_rollout_without_a_session_id_gets_one_from_its_bytes() -> None:
    data = lines(item(type="message", role="user", content="hi"))

    assert draft_of(data).session_id == draft_of(data).session_id
    assert draft_of(data).session_id != draft_of(data + b"\n").session_id
    assert codex.sessions(b"\n", CODEX) == []


def test_in_a_real_rollout_the_tokens_of_all_responses_are_the_total_codex_states() -> None:
    path = SAMPLES / "xor-arvo-gpt-5-2-codex.jsonl"
    if not path.exists():
        pytest.skip("../shared/samples is not here")
    data = path.read_bytes()
    counted: Counter[str] = Counter()
    for entry in entries_of(data):
        counted.update(entry.get("token-usage", {}))
    stated = [
        unit.value["payload"]["info"]["total_token_usage"]
        for unit in codex.units(data)
        if unit.value["payload"].get("type") == "token_count" and unit.value["payload"]["info"]
    ][-1]

    assert counted["total"] == stated["total_tokens"]
    assert counted["input"] == stated["input_tokens"]
    assert counted["cached"] == stated["cached_input_tokens"]
    assert counted["reasoning"] == stated["reasoning_output_tokens"]


def test_real_rollouts_convert_with_every_line_named() -> None:
    paths = sorted(SAMPLES.glob("*.jsonl"))
    if not paths:
        pytest.skip("../shared/samples is not here")
    for path in paths:
        data = path.read_bytes()
        record = record_of(data)
        named = {entry["source-ref"]["sha-256"] for entry in flat(record["session"]["entries"])}
        assert named == {unit.source_ref()["sha-256"] for unit in codex.units(data)}, path.name
        assert is_valid(record), path.name
