"""AgentLog: every event becomes an entry that names it, and the check follows the prose of seed 001."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transparency.errors import MalformedError
from transparency.records import agentlog
from transparency.records.format import AGENTLOG, AGENTLOG_01
from transparency.records.vac_check import check_vac

FIXTURE = Path(__file__).parent.parent / "fixtures" / "records" / "agentlog" / "every-event.agentlog.json"
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "agentlog"
NOW = "2026-05-01T00:00:00.000Z"

Document = dict[str, Any]


def document() -> Document:
    loaded: Document = json.loads(FIXTURE.read_bytes())
    return loaded


def converted(value: Document | bytes) -> Document:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    (draft,) = agentlog.sessions(data, AGENTLOG)
    return draft.finish(data, NOW)


def entries(record: Document, event_id: str) -> list[Document]:
    """The entries made from the event with this id of the fixture."""
    index = next(number for number, event in enumerate(document()["events"]) if event["id"] == event_id)
    return [entry for entry in record["session"]["entries"] if entry["source-ref"]["index"] == index]


def found(value: Document) -> list[tuple[str, str]]:
    return [(one.level, one.pointer) for one in agentlog.check(json.dumps(value).encode(), AGENTLOG)]


def test_a_unit_is_an_event_with_the_bytes_it_stands_in() -> None:
    data = FIXTURE.read_bytes()

    units = list(agentlog.units(data))

    assert [unit.ref for unit in units] == [{"index": number} for number in range(14)]
    assert units[1].raw.startswith(b'{"type": "message", "id": "e1"')
    assert units[1].raw.endswith(b'"Be brief."}')
    assert all(unit.raw in data and json.loads(unit.raw) == unit.value for unit in units)


def test_every_event_is_named_and_the_record_is_valid() -> None:
    data = FIXTURE.read_bytes()

    record = converted(data)

    named = {json.dumps(entry["source-ref"]) for entry in record["session"]["entries"]}
    assert named == {json.dumps(unit.source_ref()) for unit in agentlog.units(data)}
    assert check_vac(record).is_valid("-00")
    assert record["source"]["native-units"] == 14
    assert record["source"]["lossless"] is True
    assert record["source"]["raw-hash"] == hashlib.sha256(data).hexdigest()


def test_the_envelope_becomes_the_session() -> None:
    record = converted(FIXTURE.read_bytes())
    session = record["session"]

    assert session["session-id"] == "3a1c77a0-9d1e-4b6c-8a57-0f6f3a1d2b10"
    assert session["session-start"] == "2026-04-02T08:00:00.000Z"
    assert session["session-end"] == "2026-04-02T08:10:00.000Z"
    assert session["status"] == "completed"
    assert session["agent-meta"] == {"model-id": "m-large", "model-provider": "acme", "cli-name": "Example Agent"}
    assert session["environment"] == {
        "working-dir": "/srv/kettle",
        "vcs": {"type": "git", "revision": "0123abc", "branch": "main", "repository": "acme/kettle"},
    }
    assert session["child-session-ids"] == ["c-1"]
    assert record["actors"] == [{"id": "dev-7", "name": "Ada", "type": "human"}]
    assert record["native"]["agentlog"]["project"] == {"name": "kettle", "properties": {"acme:tier": 1}}
    assert record["native"]["agentlog"]["agent"] == {"version": None, "properties": {}}


def test_without_a_directory_the_revision_stands_at_the_record() -> None:
    value = document()
    del value["project"]["workingDirectory"]

    record = converted(value)

    assert "environment" not in record["session"]
    assert record["vcs"]["revision"] == "0123abc"


def test_messages_keep_role_tokens_and_what_has_no_place() -> None:
    record = converted(FIXTURE.read_bytes())

    (user,) = entries(record, "e0")
    assert (user["type"], user["content"], user["actor"]) == ("user", "Make it boil, süß", "human")
    assert user["native"] == {
        "timestamp": "2026-04-02T08:00:00Z",
        "parentId": None,
        "tokenUsage": None,
        "properties": {},
    }
    (system,) = entries(record, "e1")
    assert (system["event-type"], system["data"]) == ("system-message", {"content": "Be brief."})
    (assistant,) = entries(record, "e13")
    assert assistant["token-usage"] == {"input": 20, "output": 4, "cached": 8}
    assert assistant["native"] == {"tokenUsage": {"cacheWriteTokens": 3}}


def test_an_empty_user_message_and_one_of_a_delegated_session_are_not_called_human() -> None:
    value = document()
    value["events"][0]["content"] = ""
    assert entries(converted(value), "e0")[0]["actor"] == "unknown"

    value = document()
    value["relationships"]["parentSession"] = "p-1"
    record = converted(value)
    assert entries(record, "e0")[0]["actor"] == "unknown"
    assert record["session"]["parent-session-id"] == "p-1"


def test_commands_files_and_searches_are_calls_with_results() -> None:
    record = converted(FIXTURE.read_bytes())

    call, result = entries(record, "e5")
    assert (call["name"], call["input"]) == ("terminal", {"command": "make test", "cwd": "/srv/kettle"})
    assert call["native"] == {"type": "terminalCommand", "durationMs": 40, "stderr": None}
    assert (result["output"], result["is-error"]) == ({"stdout": "1 failed", "exitCode": 2}, True)
    assert result["call-id"] == call["call-id"] == "e5"
    call, result = entries(record, "e4")
    assert (call["name"], call["input"]) == ("file.edit", {"path": "heater.py"})
    assert result["output"]["afterHash"] == "bb"
    call, result = entries(record, "e3")
    assert (call["name"], call["input"], call["parent-id"]) == ("Grep", {"query": "heat"}, "e2")
    assert result["output"] == {"resultCount": 1, "topResults": ["heater.py:1"]}


def test_a_call_without_output_has_a_result_that_says_so() -> None:
    call, result = entries(converted(FIXTURE.read_bytes()), "e6")

    assert (call["name"], call["input"], call["native"]) == ("Boil", {"degrees": 100}, {"summary": "no water"})
    assert (result["output"], result["status"], result["is-error"]) == (None, "error", True)


def test_what_the_source_does_not_give_is_listed_as_filled() -> None:
    value = document()
    del value["events"][6]["output"], value["events"][6]["input"]

    record = converted(value)

    assert record["source"]["filled"] == ["tool-call.input", "tool-result.output"]
    assert check_vac(record).is_valid("-00")


def test_reasoning_is_readable_and_its_parts_are_kept() -> None:
    (entry,) = entries(converted(FIXTURE.read_bytes()), "e2")

    assert entry["content"] == "Find the heater\n\nIt is in heater.py"
    assert entry["native"] == {
        "intent": "Find the heater",
        "alternatives": ["ask"],
        "rationale": "It is in heater.py",
    }


@pytest.mark.parametrize(
    ("event_id", "kind", "actor"),
    [
        ("e7", "error", "system"),
        ("e8", "handoff", "agent"),
        ("e9", "approval", "human"),
        ("e10", "plan", "agent"),
        ("e11", "checkpoint", "system"),
        ("e12", "contextLoad", "agent"),
    ],
)
def test_other_events_are_kept_whole(event_id: str, kind: str, actor: str) -> None:
    (entry,) = entries(converted(FIXTURE.read_bytes()), event_id)

    native = next(event for event in document()["events"] if event["id"] == event_id)
    assert (entry["event-type"], entry["actor"], entry["id"]) == (f"agentlog/{kind}", actor, event_id)
    assert entry["data"] == {name: held for name, held in native.items() if name not in ("type", "id", "timestamp")}


@pytest.mark.parametrize(
    "event",
    [{"type": "dance", "id": "z", "steps": 3}, {"type": "toolCall", "id": "z"}, {"type": 7}, ["no", "event"], None],
)
def test_an_event_that_is_not_understood_is_kept_as_it_is(event: object) -> None:
    value = document()
    value["events"].append(event)

    record = converted(value)

    last = record["session"]["entries"][-1]
    assert last["type"] == "system-event"
    assert last["data"] == (event if isinstance(event, dict) else {"value": event})
    assert check_vac(record).is_valid("-00")


def test_a_document_without_id_is_named_after_its_bytes() -> None:
    value = document()
    del value["id"]

    first, second = converted(value), converted(value)

    assert first["session"]["session-id"] == second["session"]["session-id"]
    assert first == second


def test_the_fixture_is_conformant() -> None:
    assert found(document()) == []


def changed(change: Callable[[Document], object]) -> Document:
    value = document()
    change(value)
    return value


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (lambda root: root.update(specVersion="0.3.0"), "/specVersion"),
        (lambda root: root.pop("id"), "/id"),
        (lambda root: root.pop("events"), "/events"),
        (lambda root: root.update(events={}), "/events"),
        (lambda root: root.update(status="done"), "/status"),
        (lambda root: root.update(startTime="yesterday"), "/startTime"),
        (lambda root: root.update(properties=None), "/properties"),
        (lambda root: root["agent"].pop("name"), "/agent/name"),
        (lambda root: root["agent"].update(model=7), "/agent/model"),
        (lambda root: root["events"][0].update(role="robot"), "/events/0/role"),
        (lambda root: root["events"][0].update(content=["text"]), "/events/0/content"),
        (lambda root: root["events"][1].update(id="e0"), "/events/1/id"),
        (lambda root: root["events"][5].update(exitCode="2"), "/events/5/exitCode"),
        (lambda root: root["events"][5].update(exitCode=True), "/events/5/exitCode"),
        (lambda root: root["events"][6].update(input="100"), "/events/6/input"),
        (lambda root: root["events"][6].pop("status"), "/events/6/status"),
        (lambda root: root["events"][7].update(recovery="prayer"), "/events/7/recovery"),
        (lambda root: root["events"].insert(0, 5), "/events/0"),
        (lambda root: root["metrics"].pop("messageCount"), "/metrics/messageCount"),
        (lambda root: root["metrics"]["tokenUsage"].pop("inputTokens"), "/metrics/tokenUsage/inputTokens"),
        (lambda root: root["relationships"]["commits"].append({}), "/relationships/commits/1/sha"),
    ],
)
def test_what_the_prose_forbids_is_a_violation(change: Callable[[Document], object], pointer: str) -> None:
    assert ("violation", pointer) in found(changed(change))


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (lambda root: root.update(specVersion="0.1.0"), "/specVersion"),
        (lambda root: root.update(status="paused"), "/status"),
        (lambda root: root.update(classification="internal"), "/classification"),
        (lambda root: root.update(surprise=1), "/surprise"),
        (lambda root: root["events"][0].update(traceId="t"), "/events/0/traceId"),
        (lambda root: root["events"][7].update(recovery="workaround"), "/events/7/recovery"),
        (lambda root: root["events"][0].update({"type": "dance"}), "/events/0/type"),
        (lambda root: root["events"][3].update(parentId="nobody"), "/events/3/parentId"),
        (lambda root: root["events"][1].update(timestamp="2026-04-02T07:00:00Z"), "/events/1/timestamp"),
        (lambda root: root["events"][1].update(timestamp="2026-04-02T08:00:00"), "/events/1/timestamp"),
        (lambda root: root["relationships"].update(groupId="g"), "/relationships/groupId"),
    ],
)
def test_what_only_the_schema_knows_or_readers_tolerate_is_a_warning(
    change: Callable[[Document], object], pointer: str
) -> None:
    result = found(changed(change))

    assert ("warning", pointer) in result
    assert not [one for one in result if one[0] == "violation"]


@pytest.mark.parametrize(
    ("metric", "claimed", "figures"),
    [
        ("messageCount", 9, "says 9, the events hold 3"),
        ("toolCallCount", 9, "says 9, the events hold 1 or 4"),
        ("filesTouchedCount", 9, "says 9, the events hold 1"),
        ("durationMinutes", 9, "says 9, startTime and endTime are 10.0 apart"),
        ("tokenUsage", {"inputTokens": 21, "outputTokens": 4}, "says 21, the events add up to 20"),
        ("filesTouched", ["a", "b"], "names 2 files, the events 1; 0 are in both"),
    ],
)
def test_metrics_that_disagree_are_warned_of_with_both_figures(metric: str, claimed: object, figures: str) -> None:
    value = document()
    value["metrics"][metric] = claimed

    (one,) = agentlog.check(json.dumps(value).encode(), AGENTLOG)

    assert one.level == "warning"
    assert one.pointer.startswith(f"/metrics/{metric}")
    assert figures in one.message


def test_the_other_reading_of_tool_calls_is_no_disagreement() -> None:
    value = document()
    value["metrics"]["toolCallCount"] = 4

    assert found(value) == []


def test_a_key_that_stands_twice_is_refused_with_its_place() -> None:
    data = FIXTURE.read_bytes().replace(b'"id": "e1"', b'"id": "e1", "id": "e2"')

    with pytest.raises(MalformedError, match=r"line 1[0-9], column"):
        list(agentlog.units(data))


def test_a_million_wrong_events_give_a_bounded_answer() -> None:
    data = b'{"specVersion":"0.2.0","events":[' + b",".join([b"0"] * 100_000) + b"]}"

    assert len(agentlog.check(data, AGENTLOG)) == 1000


SAMPLE_FILES = sorted(path for path in SAMPLES.glob("*.json") if "schema" not in path.name) if SAMPLES.is_dir() else []


@pytest.mark.skipif(not SAMPLE_FILES, reason="../shared/samples/agentlog is not here")
@pytest.mark.parametrize("path", SAMPLE_FILES, ids=lambda path: path.name)
def test_every_sample_is_conformant_or_warned_of_and_converts_completely(path: Path) -> None:
    data = path.read_bytes()
    known = AGENTLOG_01 if "v0.1.0" in path.name else AGENTLOG

    record = converted(data)

    assert not [one for one in agentlog.check(data, known) if one.level == "violation"]
    assert check_vac(record).is_valid("-00")
    named = {json.dumps(entry["source-ref"]) for entry in record["session"]["entries"]}
    assert named == {json.dumps(unit.source_ref()) for unit in agentlog.units(data)}
