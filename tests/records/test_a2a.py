"""A2A traceability: a trace is found wherever it may stand, and every step is named by the entries made from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from transparency.errors import MalformedError
from transparency.records import a2a
from transparency.records.format import A2A
from transparency.records.recognise import A2A_KEY
from transparency.records.vac_check import check_vac

FIXTURES = Path(__file__).parent.parent / "fixtures" / "records" / "a2a"
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "a2a-traceability"
NOW = "2026-05-01T00:00:00.000Z"
PROTO = (FIXTURES / "proto.json").read_bytes()
PYTHON = (FIXTURES / "python-status-event.json").read_bytes()
TASK = (FIXTURES / "task-with-text-and-artifact.json").read_bytes()

Document = dict[str, Any]


def converted(value: object) -> list[Document]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return [draft.finish(data, NOW) for draft in a2a.sessions(data, A2A)]


def walk(entries: list[Document]) -> Iterator[Document]:
    for entry in entries:
        yield entry
        yield from walk(entry.get("children", []))


def named(records: list[Document]) -> set[str]:
    return {json.dumps(entry["source-ref"]) for record in records for entry in walk(record["session"]["entries"])}


def document() -> Document:
    loaded: Document = json.loads(PROTO)
    return loaded


def found(value: object) -> list[tuple[str, str]]:
    return [(one.level, one.pointer) for one in a2a.check(json.dumps(value).encode(), A2A)]


@pytest.mark.parametrize("data", [PROTO, PYTHON, TASK], ids=["proto", "python", "task"])
def test_every_step_is_named_and_the_records_are_valid(data: bytes) -> None:
    records = converted(data)

    assert named(records) == {json.dumps(unit.source_ref()) for unit in a2a.units(data)}
    assert all(check_vac(record).is_valid("-00") for record in records)
    assert sum(record["source"]["native-units"] for record in records) == len(list(a2a.units(data)))


def test_a_unit_is_a_step_with_the_bytes_it_stands_in() -> None:
    outer, inner, second = a2a.units(PROTO)

    assert (outer.ref, second.ref) == ({"path": "/steps/0"}, {"path": "/steps/1"})
    assert inner.ref == {"path": "/steps/0/stepAction/agentInvocation/responseTrace/steps/0"}
    assert inner.raw in outer.raw
    assert outer.raw in PROTO


def test_a_call_to_an_agent_holds_the_calls_its_callee_made() -> None:
    (record,) = converted(PROTO)
    call = record["session"]["entries"][0]

    assert call["name"] == "a2a:tap"
    assert call["input"] == {"agent_url": "https://tap.example/a2a", "requests": {"litres": 1}}
    assert call["token-usage"] == {"total": 900}
    assert call["native"]["response-trace"] == {"traceId": "t-inner"}
    inner, inner_result = call["children"][:2]
    assert (inner["name"], inner["input"], inner["call-id"]) == ("open", {"valve": "cold"}, "i1")
    assert inner["token-usage"] == {"total": 120}
    assert inner["native"] == {
        "traceId": "t-inner",
        "callType": 2,
        "cost": "3",
        "additionalAttributes": {"floor": "2"},
        "latency-ms": "41",
    }
    assert inner_result["output"] is None
    assert inner_result["timestamp"] == "2026-03-01T10:00:00.141Z"


def test_the_trace_is_the_session_from_first_start_to_last_end() -> None:
    (record,) = converted(PROTO)

    assert record["session"]["session-id"] == "t-outer"
    assert record["session"]["session-start"] == "2026-03-01T10:00:00.000Z"
    assert record["session"]["session-end"] == "2026-03-01T10:00:02.000Z"
    assert record["session"]["agent-meta"] == {"model-id": "unknown", "model-provider": "unknown"}
    assert record["source"]["filled"] == ["tool-result.output"]


def test_a_step_stands_under_its_parent_where_that_comes_first() -> None:
    (record,) = converted(PROTO)
    call = record["session"]["entries"][0]

    assert [child["name"] for child in call["children"] if child["type"] == "tool-call"] == ["open", "boil"]
    assert call["children"][2]["native"]["parentStepId"] == "s1"


def test_a_parent_that_comes_later_is_only_named() -> None:
    value = document()
    value["steps"].reverse()

    (record,) = converted(value)

    assert record["session"]["entries"][0]["name"] == "boil"
    assert record["session"]["entries"][0]["native"]["parentStepId"] == "s1"


def test_call_and_response_of_the_python_code_are_paired_by_name() -> None:
    (record,) = converted(PYTHON)
    _, call, result, failed, failure = record["session"]["entries"]

    assert (call["type"], call["input"]) == ("tool-call", {"degrees": 100})
    assert (result["type"], result["output"]) == ("tool-result", {"boiled": True})
    assert result["call-id"] == call["call-id"] == "p2"
    assert result["native"]["paired"] == "by name"
    assert result["source-ref"] != call["source-ref"]
    assert failed["name"] == "pour"
    assert (failure["output"], failure["is-error"], failure["call-id"]) == ("no cup", True, "p4")


def test_a_response_without_a_call_is_a_result_of_its_own() -> None:
    step = {"step_id": "r", "call_type": "TOOL", "name": "boil", "parameters": {"response": 1}}
    (record,) = converted({"trace_id": "t", "steps": [step | {"step_type": "tool_response"}]})

    (entry,) = record["session"]["entries"]
    assert (entry["type"], entry["output"], entry["call-id"]) == ("tool-result", 1, "r")
    assert "paired" not in entry["native"]


def test_the_host_speaks_or_is_an_event() -> None:
    (record,) = converted(PYTHON)
    spoken = record["session"]["entries"][0]
    assert (spoken["type"], spoken["content"], spoken["actor"]) == ("assistant", "boil a litre", "agent")

    silent = {"step_id": "h", "call_type": "HOST", "name": "host", "step_type": "start"}
    (record,) = converted({"trace_id": "t", "steps": [silent]})
    (entry,) = record["session"]["entries"]
    assert (entry["event-type"], entry["data"]) == ("a2a/host/start", silent)


def test_cost_is_never_taken_for_money_or_tokens() -> None:
    (record,) = converted(PYTHON)

    assert record["session"]["entries"][1]["native"]["cost"] == 0.5
    assert "token-usage" not in record["session"]["entries"][1]


def test_what_stands_around_a_trace_is_kept_without_it() -> None:
    (record,) = converted(PYTHON)

    wrapper = record["native"]["a2a"]["wrapper"]
    assert wrapper["status"]["message"]["parts"][0]["text"] == "It boils."
    assert wrapper["metadata"] == {}


def test_traces_in_text_and_in_an_extra_artifact_are_found() -> None:
    text, data = converted(TASK)

    assert text["session"]["session-id"] == "t-text"
    (call, _) = text["session"]["entries"]
    assert call["name"] == "spülen"
    assert call["source-ref"]["path"] == "/result/artifacts/0/parts/0/text"
    assert call["source-ref"]["inside"] == "/steps/0"
    assert data["session"]["session-id"] == "t-data"
    assert data["session"]["entries"][0]["input"] is None
    assert "wrapper" not in data["native"]["a2a"]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda trace: trace,
        lambda trace: {"messageId": "m", "role": "agent", "parts": [], "metadata": {A2A_KEY: trace}},
        lambda trace: {
            "kind": "task",
            "artifacts": [{"artifactId": "a", "parts": [], "metadata": {A2A_KEY: trace}}],
        },
        lambda trace: {"kind": "message", "parts": [{"kind": "text", "text": json.dumps(trace)}]},
        lambda trace: {"artifacts": [{"parts": [{"data": trace}]}]},
    ],
    ids=["bare", "message", "artifact", "text", "data"],
)
def test_the_same_trace_gives_the_same_entries_wherever_it_stands(wrap: Callable[[Document], Document]) -> None:
    (record,) = converted(wrap(document()))
    (bare,) = converted(document())

    for entry in (*walk(record["session"]["entries"]), *walk(bare["session"]["entries"])):
        entry.pop("source-ref")
    assert record["session"] == bare["session"]


def test_a_trace_that_stands_there_twice_is_one_session() -> None:
    trace = document()

    (record,) = converted({"metadata": {A2A_KEY: trace}, "parts": [{"text": json.dumps(trace)}]})

    again = [entry for entry in walk(record["session"]["entries"]) if "duplicate-of" in entry.get("native", {})]
    assert [entry["native"]["duplicate-of"] for entry in again] == ["s1", "i1", "s2"]
    assert record["source"]["native-units"] == 6


@pytest.mark.parametrize("step", [None, 7, [], {}, {"call_type": "DANCE", "x": 1}, {"callType": 9}, {"call_type": []}])
def test_a_step_that_is_not_understood_is_kept_as_it_is(step: object) -> None:
    (record,) = converted({"trace_id": "t", "steps": [step]})

    (entry,) = record["session"]["entries"]
    assert entry["type"] == "system-event"
    assert entry["data"] == (step if isinstance(step, dict) else {"value": step})
    assert check_vac(record).is_valid("-00")


def test_nothing_of_a_step_is_lost() -> None:
    step = {
        "step_id": "a", "stepId": "b", "callType": "AGENT", "name": "flat", "requests": "also", "extra": {"k": None},
        "stepAction": {
            "agentInvocation": {"agentName": "n", "requests": {"q": 1}, "more": 2},
            "toolInvocation": {"toolName": "second"},
        },
    }  # fmt: skip
    (record,) = converted({"trace_id": "t", "steps": [step]})

    native = record["session"]["entries"][0]["native"]
    assert native == {
        "stepId": "b",
        "callType": "AGENT",
        "name": "flat",
        "requests": "also",
        "extra": {"k": None},
        "stepAction": {"agentInvocation": {"more": 2}, "toolInvocation": {"toolName": "second"}},
    }


def test_a_chain_of_parents_does_not_nest_without_end() -> None:
    steps = [
        {"step_id": str(n), "parent_step_id": str(n - 1), "call_type": "TOOL", "name": "t", "parameters": {}}
        for n in range(5000)
    ]
    (record,) = converted({"trace_id": "t", "steps": steps})

    depth, level = 0, record["session"]["entries"]
    while level:
        depth += 1
        level = [child for entry in level for child in entry.get("children", [])]
    assert depth <= 10
    assert len(named([record])) == 5000


def test_traces_nested_deeper_than_any_caller_are_refused() -> None:
    trace: Document = {"trace_id": "t", "steps": []}
    for _ in range(15):
        trace = {"trace_id": "t", "steps": [{"call_type": "AGENT", "name": "a", "response_trace": trace}]}

    with pytest.raises(MalformedError, match="nested"):
        list(a2a.units(json.dumps(trace).encode()))


def test_a_document_without_a_trace_is_refused() -> None:
    with pytest.raises(MalformedError, match="no ResponseTrace"):
        list(a2a.units(b'{"kind": "message", "parts": [{"text": "{\\"steps\\": 1}"}]}'))


def test_proto3_json_is_clean_in_either_spelling() -> None:
    assert found(document()) == []
    snake = {"trace_id": "t", "steps": [{"step_id": "s", "parent_step_id": None, "call_type": 1, "latency": 1.0}]}
    assert found(snake) == []


def changed(change: Callable[[Document], object]) -> Document:
    value = document()
    change(value["steps"][1])
    return value


@pytest.mark.parametrize(
    ("change", "member"),
    [
        (lambda step: step.update(stepId=1), "stepId"),
        (lambda step: step.update(stepId="s1"), "stepId"),
        (lambda step: step.update(step_id="x"), "step_id"),
        (lambda step: step.update(callType="DANCE"), "callType"),
        (lambda step: step.update(callType="AGENT"), "callType"),
        (lambda step: step.update(totalTokens="many"), "totalTokens"),
        (lambda step: step.update(totalTokens=True), "totalTokens"),
        (lambda step: step.update(latency=1.5), "latency"),
        (lambda step: step.update(latency=1 << 63), "latency"),
        (lambda step: step.update(cost=[]), "cost"),
        (lambda step: step.update(startTime="noon"), "startTime"),
        (lambda step: step.update(additionalAttributes={"a": 1}), "additionalAttributes/a"),
        (lambda step: step["stepAction"].update(agentInvocation={}), "stepAction"),
        (
            lambda step: step["stepAction"]["toolInvocation"].update(parameters=[]),
            "stepAction/toolInvocation/parameters",
        ),
    ],
)
def test_what_neither_proto_nor_python_allows_is_a_violation(change: Callable[[Document], object], member: str) -> None:
    assert ("violation", f"/steps/1/{member}") in found(changed(change))


@pytest.mark.parametrize(
    ("change", "member"),
    [
        (lambda step: step.update(callType="HOST"), "callType"),
        (lambda step: step.update(callType=7), "callType"),
        (lambda step: step.update(cost=0.5), "cost"),
        (lambda step: step.update(name="boil"), "name"),
        (lambda step: step.update(surprise=1), "surprise"),
        (lambda step: step.update(traceId="other"), "traceId"),
        (lambda step: step.update(parentStepId="nobody"), "parentStepId"),
        (lambda step: step.update(startTime="2026-03-01T10:00:01"), "startTime"),
        (lambda step: step.update(endTime="2026-03-01T09:00:00Z"), "endTime"),
    ],
)
def test_what_real_code_writes_is_a_warning(change: Callable[[Document], object], member: str) -> None:
    assert found(changed(change)) == [("warning", f"/steps/1/{member}")]


def test_the_python_dialect_has_warnings_only_and_pointers_into_the_wrapper() -> None:
    result = a2a.check(PYTHON, A2A)

    assert {one.level for one in result} == {"warning"}
    key = A2A_KEY.replace("/", "~1")
    assert f"/metadata/{key}/steps/0/call_type" in [one.pointer for one in result]


def test_pointers_into_a_text_name_the_text_first() -> None:
    result = a2a.check(TASK, A2A)

    assert "/result/artifacts/0/parts/0/text: /steps/0/name" in [one.pointer for one in result]


SAMPLE_FILES = sorted(SAMPLES.glob("*.json")) if SAMPLES.is_dir() else []


@pytest.mark.skipif(not SAMPLE_FILES, reason="../shared/samples/a2a-traceability is not here")
@pytest.mark.parametrize("path", SAMPLE_FILES, ids=lambda path: path.name)
def test_every_sample_checks_as_predicted_and_converts_completely(path: Path) -> None:
    data = path.read_bytes()

    records = converted(data)

    levels = {one.level for one in a2a.check(data, A2A)}
    assert levels == ({"warning"} if "generated" in path.name else set())
    assert all(check_vac(record).is_valid("-00") for record in records)
    assert named(records) == {json.dumps(unit.source_ref()) for unit in a2a.units(data)}
