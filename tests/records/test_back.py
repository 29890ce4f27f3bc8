"""Back from the canonical record: what came from a format returns to it unchanged, and what is lost is said."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from transparency.records import agent_trace, agentlog
from transparency.records.back import NotConvertibleError, to_agent_trace, to_agentlog
from transparency.records.canonical_json import dumps
from transparency.records.format import AGENT_TRACE, AGENTLOG

FIXTURES = Path(__file__).parent.parent / "fixtures" / "records"
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
NOW = "2026-05-01T00:00:00.000Z"

Document = dict[str, Any]


def session(**members: Any) -> Document:
    """A small record as another converter writes it."""
    made: Document = {
        "version": "3.0.0-draft",
        "id": "session-1",
        "created": NOW,
        "session": {
            "session-id": "s-1",
            "session-start": "2026-03-01T09:00:00.000Z",
            "session-end": "2026-03-01T09:05:00.000Z",
            "agent-meta": {"model-id": "m-large", "model-provider": "acme", "cli-name": "codex-cli"},
            "environment": {"working-dir": "/srv/kettle"},
            "entries": [
                {"type": "user", "id": "u", "content": "boil", "timestamp": "2026-03-01T09:00:01.000Z"},
                {"type": "reasoning", "content": "water first", "subject": "Plan"},
                {"type": "tool-call", "name": "fill", "input": {"litres": 1}, "call-id": "c1", "id": "t",
                 "timestamp": "2026-03-01T09:00:02.000Z",
                 "children": [{"type": "assistant", "content": "filling"}]},
                {"type": "tool-result", "call-id": "c1", "output": {"full": True}, "is-error": False},
                {"type": "tool-call", "name": "boil", "input": "now", "call-id": "c2"},
                {"type": "system-event", "event-type": "codex/turn_context", "data": {}},
                {"type": "assistant", "content": [{"type": "text", "text": "done"}, {"type": "image"}],
                 "token-usage": {"input": 5, "output": 2, "cached": 1}, "native": {"x": 1}},
            ],
        },
        "file-attribution": {
            "files": [
                {"path": "a.py", "conversations": [
                    {"contributor": {"type": "ai", "model-id": "m-large"},
                     "ranges": [{"start-line": 1, "end-line": 4, "content-hash": "ab" * 32}]}]}
            ]
        },
        "vcs": {"type": "git", "revision": "0" * 40, "branch": "main"},
        "recording-agent": {"name": "agent-transparency", "version": "1"},
    }  # fmt: skip
    return made | members


def test_an_agentlog_returns_as_it_was() -> None:
    data = (FIXTURES / "agentlog" / "every-event.agentlog.json").read_bytes()
    (draft,) = agentlog.sessions(data, AGENTLOG)

    back = to_agentlog(draft.finish(data, NOW))

    assert back.value == json.loads(data)
    assert back.lost == ()


def test_members_named_as_our_marks_return_with_their_names() -> None:
    event = {"type": "message", "id": "e", "timestamp": "2026-01-01T00:00:00.000Z", "role": "user", "content": "x"}
    document = {
        "specVersion": "0.2.0", "id": "s", "startTime": "2026-01-01T00:00:00.000Z", "status": "active",
        "agent": {"name": "a"}, "line": 1, "events": [{**event, "line": 5, "duplicate-of": "d", "verbatim": {"a": 1}}],
    }  # fmt: skip

    record = agentlog.sessions(dumps(document), AGENTLOG)[0].finish(b"", "2026-01-01T00:00:00.000Z")

    assert to_agentlog(record).value == document


def test_an_agent_trace_returns_as_it_was() -> None:
    data = (FIXTURES / "agent-trace" / "record.json").read_bytes()
    (draft,) = agent_trace.sessions(data, AGENT_TRACE)

    back = to_agent_trace(draft.finish(data, NOW))

    assert back.value == json.loads(data)
    assert back.lost == ()


def test_an_original_that_contradicts_the_record_is_not_believed() -> None:
    data = (FIXTURES / "agent-trace" / "record.json").read_bytes()
    record = agent_trace.sessions(data, AGENT_TRACE)[0].finish(data, NOW)
    record["native"] = copy.deepcopy(record["native"])
    record["native"]["agent-trace"]["files"][0]["path"] = "forged.py"

    back = to_agent_trace(record)

    assert [file["path"] for file in back.value["files"]] == ["src/kettle.py", "src/tap.py"]


def test_native_members_cannot_overrule_an_agentlog_event() -> None:
    data = (FIXTURES / "agentlog" / "every-event.agentlog.json").read_bytes()
    record = agentlog.sessions(data, AGENTLOG)[0].finish(data, NOW)
    record["session"]["entries"][0]["native"] |= {
        "content": "forged",
        "id": "forged",
        "timestamp": "2000-01-01T00:00:00Z",
    }
    record["native"]["agentlog"] |= {"id": "forged", "startTime": "2000-01-01T00:00:00Z"}

    back = to_agentlog(record)

    assert back.value["id"] == "3a1c77a0-9d1e-4b6c-8a57-0f6f3a1d2b10"
    assert back.value["startTime"] == "2026-04-02T08:00:00.000Z"
    event = back.value["events"][0]
    assert (event["id"], event["content"]) == ("e0", "Make it boil, süß")
    assert event["timestamp"] == "2026-04-02T08:00:00.000Z"


def test_a_session_becomes_an_agent_trace_of_its_files() -> None:
    back = to_agent_trace(session())

    assert agent_trace.check(dumps(back.value), AGENT_TRACE) == []
    assert back.value["files"] == [
        {
            "path": "a.py",
            "conversations": [
                {
                    "contributor": {"type": "ai", "model_id": "acme/m-large"},
                    "ranges": [{"start_line": 1, "end_line": 4, "content_hash": "sha256:" + "ab" * 32}],
                }
            ],
        }
    ]
    assert back.value["vcs"] == {"type": "git", "revision": "0" * 40}
    assert back.value["metadata"] == {"session_id": "s-1"}
    assert "the conversation: 7 entries" in back.lost
    assert "branch and repository" in back.lost
    assert "the record's id is no UUID; the trace has one made from it" in back.lost


def test_a_session_becomes_a_conformant_agentlog() -> None:
    back = to_agentlog(session())

    assert agentlog.check(dumps(back.value), AGENTLOG) == []
    assert back.value["project"] == {
        "name": "kettle",
        "workingDirectory": "/srv/kettle",
        "branch": "main",
        "commitSha": "0" * 40,
    }
    events = back.value["events"]
    assert [event["type"] for event in events] == ["message", "reasoning", "toolCall", "message", "toolCall", "message"]
    assert (events[1]["intent"], events[1]["rationale"]) == ("Plan", "water first")
    assert (events[2]["output"], events[2]["status"]) == ('{"full":true}', "success")
    assert events[3]["parentId"] == "t"
    assert events[5]["tokenUsage"] == {"inputTokens": 5, "outputTokens": 2, "cacheReadTokens": 1}


def test_what_an_agentlog_cannot_hold_is_listed() -> None:
    lost = to_agentlog(session()).lost

    assert set(lost) == {
        'status is not recorded; "completed" because session-end is given',
        "a timestamp is not recorded; the event has that of the one before (4 times)",
        "a value that is no text; it is there as its JSON",
        "an input that is no object; it is there as its member value",
        'a call without a result; its status is "cancelled"',
        "system-event codex/turn_context",
        "a part of a message that is no text",
        "native members of an entry",
        "file-attribution of 1 files",
    }


def test_a_record_without_attribution_is_no_agent_trace() -> None:
    record = session()
    del record["file-attribution"]

    with pytest.raises(NotConvertibleError, match="no file-attribution"):
        to_agent_trace(record)


def test_no_time_is_invented() -> None:
    record = session()
    del record["created"], record["session"]["session-start"], record["session"]["session-end"]
    record["session"]["entries"] = [{"type": "user", "content": "when?"}]

    with pytest.raises(NotConvertibleError, match="no time"):
        to_agent_trace(record)
    with pytest.raises(NotConvertibleError, match="nothing in the record has a time"):
        to_agentlog(record)


def test_a_made_up_session_is_no_agentlog() -> None:
    data = (FIXTURES / "agent-trace" / "record.json").read_bytes()
    record = agent_trace.sessions(data, AGENT_TRACE)[0].finish(data, NOW)

    with pytest.raises(NotConvertibleError, match="attribution, not a session"):
        to_agentlog(record)


def test_a_record_that_is_not_valid_is_refused_with_its_place() -> None:
    with pytest.raises(NotConvertibleError, match="/session/entries/0"):
        to_agentlog(session(session={**session()["session"], "entries": [{"type": "tool-call"}]}))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="../shared/samples is not here")
def test_every_agentlog_sample_returns_as_it_was() -> None:
    for path in sorted((SAMPLES / "agentlog").glob("*.json")):
        if "schema" in path.name:
            continue
        data = path.read_bytes()
        (draft,) = agentlog.sessions(data, AGENTLOG)

        assert to_agentlog(draft.finish(data, NOW)).value == json.loads(data), path.name


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="../shared/samples is not here")
def test_every_agent_trace_sample_returns_as_it_was() -> None:
    for path in sorted((SAMPLES / "agent-trace").glob("*.json*")):
        if "schema" in path.name or "dialect" in path.name:
            continue
        data = path.read_bytes()
        for draft in agent_trace.sessions(data, AGENT_TRACE):
            record = draft.finish(data, NOW)
            assert to_agent_trace(record).value == record["native"]["agent-trace"], path.name
