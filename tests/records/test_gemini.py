"""Gemini CLI sessions as canonical records: the document of old, the log of changes of now, and saved histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from transparency.errors import MalformedError
from transparency.records import gemini
from transparency.records.canonical import SessionDraft
from transparency.records.convert import flat
from transparency.records.format import GEMINI_JSON, GEMINI_JSONL, Format
from transparency.records.vac_check import is_valid

FIXTURES = Path(__file__).parent.parent / "fixtures/records/gemini"
SAMPLES = Path(__file__).parents[3] / "shared/samples/gemini-cli"
CREATED = "2026-06-01T00:00:00.000Z"

Entry = dict[str, Any]


def read(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def format_of(name: str) -> Format:
    return GEMINI_JSONL if name.endswith("l") else GEMINI_JSON


def draft_of(data: bytes, form: Format = GEMINI_JSONL) -> SessionDraft:
    [draft] = gemini.sessions(data, form)
    return draft


def record_of(data: bytes, form: Format = GEMINI_JSONL) -> dict[str, Any]:
    return draft_of(data, form).finish(data, CREATED)


def entries_of(data: bytes, form: Format = GEMINI_JSONL) -> list[Entry]:
    return draft_of(data, form).entries


def of_line(number: int, data: bytes | None = None) -> list[Entry]:
    entries = entries_of(read("session.jsonl") if data is None else data)
    return [entry for entry in entries if entry["source-ref"]["line"] == number]


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def user(message_id: str, content: object = "hi", **members: object) -> dict[str, object]:
    return {"id": message_id, "timestamp": "2026-04-29T21:00:01.000Z", "type": "user", "content": content, **members}


META = {"sessionId": "s", "projectHash": "p", "startTime": "2026-04-29T21:00:00.000Z"}


@pytest.mark.parametrize("name", ["session.jsonl", "session.json", "history.json", "subagent.jsonl"])
def test_every_unit_is_named_by_an_entry_and_the_record_is_valid(name: str) -> None:
    data = read(name)
    record = record_of(data, format_of(name))
    named = [entry["source-ref"] for entry in flat(record["session"]["entries"])]
    units = list(gemini.units(data))

    assert {json.dumps(ref) for ref in named} == {json.dumps(unit.source_ref()) for unit in units}
    assert record["source"]["native-units"] == len(units)
    assert is_valid(record)


def test_units_are_lines_of_a_log_and_messages_of_a_document_by_their_exact_bytes() -> None:
    document = read("session.json")
    units = list(gemini.units(document))

    assert [unit.ref for unit in units] == [{"index": 0}, {"index": 1}, {"index": 2}]
    assert all(unit.raw in document for unit in units)
    assert json.loads(units[0].raw)["content"] == "Grüß Gott"
    assert [unit.ref["line"] for unit in gemini.units(read("session.jsonl"))] == list(range(1, 20))


def test_the_session_is_what_its_lines_have_made_of_it() -> None:
    session = record_of(read("session.jsonl"))["session"]

    assert session["session-id"] == "5c1d7e0a-0000-4000-8000-00000000beef"
    assert session["session-start"] == "2026-04-29T21:00:00.000Z"
    assert session["session-end"] == "2026-04-29T21:00:13.000Z"
    assert session["agent-meta"] == {
        "model-id": "gemini-3-pro-preview",
        "model-provider": "google",
        "models": ["gemini-3-flash-preview", "gemini-3-pro-preview"],
        "cli-name": "gemini-cli",
    }
    assert "environment" not in session
    assert session["native"] == {
        "projectHash": "0" * 64,
        "kind": "main",
        "summary": "Lists files.",
        "directories": ["/home/ana/clock"],
    }


def test_a_list_of_parts_is_kept_as_it_is_and_unknown_members_go_under_native() -> None:
    [message] = of_line(2)

    assert (message["type"], message["actor"], message["id"]) == ("user", "human", "u1")
    assert message["content"] == [
        {"text": "Which files are here?"},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
    ]
    assert message["native"]["displayContent"] == "Which files are here?"


def test_of_a_message_written_three_times_the_last_is_the_message_and_the_others_are_kept_as_events() -> None:
    [first], [second], [last] = of_line(4), of_line(5), of_line(6)

    for earlier, by in ((first, 5), (second, 6)):
        assert (earlier["type"], earlier["event-type"]) == ("system-event", "gemini/superseded-message")
        assert earlier["native"] == {"superseded-by": {"line": by}}
        assert earlier["data"]["id"] == "g1"
        assert "children" not in earlier
    assert (last["type"], last["id"]) == ("assistant", "g1")
    assert [child["type"] for child in last["children"]] == ["reasoning", "tool-call", "tool-result"]


def test_thoughts_and_tool_calls_are_children_of_their_message() -> None:
    [message] = of_line(6)
    thought, call, result = message["children"]

    assert (thought["subject"], thought["content"]) == ("Looking", "I list the files.")
    assert thought["timestamp"] == "2026-04-29T21:00:01.900Z"
    assert (call["name"], call["input"], call["call-id"]) == ("run_shell_command", {"command": "ls"}, "ls-1")
    assert call["native"] == {"displayName": "Shell", "renderOutputAsMarkdown": False}
    assert result["output"][0]["functionResponse"]["response"] == {"output": "a.txt"}
    assert (result["call-id"], result["status"], result["is-error"]) == ("ls-1", "success", False)
    assert result["native"] == {"resultDisplay": "a.txt"}


def test_a_call_that_was_cancelled_or_failed_has_a_result_that_says_so() -> None:
    [message] = of_line(9)
    cancelled, failed = message["children"][1], message["children"][3]

    assert (cancelled["status"], cancelled["output"], cancelled.get("is-error")) == ("cancelled", None, None)
    assert (failed["status"], failed["output"], failed["is-error"]) == ("error", None, True)
    assert draft_of(read("session.jsonl")).filled == ["tool-result output (line 9)"]


def test_tokens_are_counted_once_however_often_the_message_was_written() -> None:
    entries = entries_of(read("session.jsonl"))
    used = {entry["id"]: entry["token-usage"] for entry in entries if "token-usage" in entry}

    # What was taken back had been used all the same.
    assert list(used) == ["g1", "g2", "g3"]
    assert used["g1"] == {"input": 100, "output": 10, "cached": 0, "reasoning": 5, "total": 115}
    assert of_line(6)[0]["native"]["tokens"] == {"tool": 3}


def test_a_rewind_keeps_what_it_took_back_and_marks_it() -> None:
    [taken_back], [answer], [rewind], [again] = of_line(8), of_line(9), of_line(10), of_line(14)

    assert (rewind["event-type"], rewind["native"]) == ("gemini/$rewindTo", {"rewound": ["u2", "g3"]})
    assert (taken_back["type"], taken_back["content"]) == ("user", "Delete it.")
    assert taken_back["native"]["rewound-by"] == answer["native"]["rewound-by"] == {"line": 10}
    assert (again["type"], again["content"]) == ("user", "Keep it.")
    assert "rewound-by" not in of_line(7)[0]["native"]


def test_a_rewind_to_nowhere_takes_back_all_as_the_tool_does() -> None:
    data = lines(META, user("a"), user("b"), {"$rewindTo": "z"})
    entries = entries_of(data)
    [warning] = gemini.check(data, GEMINI_JSONL)

    assert [entry["native"] for entry in entries[1:3]] == [{"rewound-by": {"line": 4}}] * 2
    assert entries[3]["native"] == {"rewound": ["a", "b"], "unknown-target": True}
    assert warning.pointer == "line 4: /$rewindTo"


def test_a_new_list_of_messages_adds_what_is_new_and_keeps_what_it_replaces() -> None:
    change, new = of_line(15)
    [kept], [replaced] = of_line(14), of_line(7)

    assert (change["event-type"], len(change["data"]["$set"]["messages"])) == ("gemini/$set", 2)
    assert (new["type"], new["id"], new["actor"]) == ("user", "s1", "unknown")
    assert kept["native"] == {"changed-by": {"line": 15}}
    assert replaced["native"]["replaced-by"] == {"line": 15}


def test_messages_that_only_ever_came_in_a_set_are_messages() -> None:
    message = user("a", content="typed")
    entries = entries_of(lines(META, {"$set": {"messages": [message]}}, {"$set": {"messages": [message, user("b")]}}))

    assert [(entry["type"], entry.get("id"), entry["actor"]) for entry in entries] == [
        ("system-event", None, "system"),
        ("system-event", None, "system"),
        ("user", "a", "human"),
        ("system-event", None, "system"),
        ("user", "b", "unknown"),
    ]


def test_notices_are_events_of_the_system_not_words_of_the_assistant() -> None:
    notices = [of_line(number)[0] for number in (11, 12, 13)]

    assert [entry["event-type"] for entry in notices] == ["gemini/info", "gemini/error", "gemini/warning"]
    assert {(entry["type"], entry["actor"]) for entry in notices} == {("system-event", "system")}
    assert notices[1]["data"]["content"] == "Quota."
    assert notices[1]["timestamp"] == "2026-04-29T21:00:08.000Z"


def test_unknown_kinds_are_kept_whole_and_warned_of() -> None:
    [dream], [shape] = of_line(17), of_line(18)

    assert (dream["event-type"], dream["data"]["content"]) == ("gemini/dream", "?")
    assert (shape["event-type"], shape["data"]) == ("gemini/unknown", {"shape": "none known"})
    assert [(found.level, found.pointer) for found in gemini.check(read("session.jsonl"), GEMINI_JSONL)] == [
        ("warning", "line 17: /type"),
        ("warning", "line 18: "),
    ]


def test_a_document_gives_the_same_entries_as_a_log() -> None:
    document = record_of(read("session.json"), GEMINI_JSON)["session"]
    asked, answered, warned = document["entries"]
    [logged] = of_line(6)

    assert (asked["type"], asked["actor"]) == ("user", "human")
    assert answered["native"].pop("extra", "gone") is None
    assert logged["native"].pop("replaced-by") == {"line": 15}
    without = {name: member for name, member in logged.items() if name not in ("source-ref", "children")}
    assert {name: answered[name] for name in without} == without
    assert [child["type"] for child in answered["children"]] == [child["type"] for child in logged["children"]]
    assert warned["event-type"] == "gemini/warning"
    assert document["session-end"] == "2026-04-29T21:01:00.000Z"
    assert document["native"]["summary"] == "Ünïcode ☃"
    assert gemini.check(read("session.json"), GEMINI_JSON) == []


def test_a_saved_history_of_roles_and_parts_is_read_with_its_calls() -> None:
    record = record_of(read("history.json"), GEMINI_JSON)
    asked, called, answered, said, odd = record["session"]["entries"]

    assert (asked["type"], asked["actor"], asked["timestamp"]) == ("user", "human", "2026-04-29T22:00:00.000Z")
    assert asked["native"] == {"ts": 1777500000}
    assert [(child["type"], child["name"], child["input"]) for child in called["children"]] == [
        ("tool-call", "clock", {"zone": "UTC"})
    ]
    assert (answered["type"], answered["actor"]) == ("user", "tool")
    assert answered["children"][0]["output"] == {"output": "noon"}
    assert (said["type"], said["native"]) == ("assistant", {"ts": "soon"})
    assert odd["event-type"] == "gemini/value"
    assert record["session"]["agent-meta"]["model-id"] == "gemini-1.5-pro"
    assert record["session"]["session-start"] == "2026-04-29T21:59:00.000Z"
    assert [found.pointer for found in gemini.check(read("history.json"), GEMINI_JSON)] == [
        "/sessionId",
        "/startTime",
        "/history/0/role",
        "/history/3/ts",
        "/history/4",
    ]


def test_calls_in_the_parts_are_not_told_twice() -> None:
    call = {"functionCall": {"id": "c", "name": "clock", "args": {}}}
    response = {"functionResponse": {"id": "c", "name": "clock", "response": {"output": "noon"}}}
    tool_call = {"id": "c", "name": "clock", "args": {}, "status": "success", "result": [response]}
    answer = {"id": "g", "timestamp": "2026-04-29T21:00:01.000Z", "type": "gemini", "content": [call]}
    entries = entries_of(lines(META, answer, {**answer, "toolCalls": [tool_call]}, user("u", [response])))

    told = [entry["type"] for entry in flat(entries) if entry.get("call-id") == "c"]
    assert told == ["tool-call", "tool-result"]
    assert entries[-1]["actor"] == "tool"


def test_the_prompt_of_a_subagent_is_not_human() -> None:
    assert entries_of(read("subagent.jsonl"))[1]["actor"] == "agent"


def test_lines_without_a_session_get_an_id_from_their_bytes_and_times_from_their_messages() -> None:
    data = lines(user("a"), user("b", timestamp="2026-04-29T21:00:02.000Z"))
    draft = draft_of(data)
    [warning] = gemini.check(data, GEMINI_JSONL)

    assert draft.session_id == draft_of(data).session_id != draft_of(data + b"\n").session_id
    assert (draft.start, draft.end) == ("2026-04-29T21:00:01.000Z", "2026-04-29T21:00:02.000Z")
    assert "derived from the bytes" in warning.message


def test_a_log_whose_first_line_has_an_empty_list_of_messages_is_still_a_log() -> None:
    data = lines({**META, "messages": []}, user("a"))

    assert [unit.ref for unit in gemini.units(data)] == [{"line": 1}, {"line": 2}]
    assert [entry["type"] for entry in entries_of(data)] == ["system-event", "user"]


@pytest.mark.parametrize("odd", [None, 5, True, ["x"], {"x": 1}, ""])
def test_members_of_the_wrong_type_are_kept_not_forced_into_the_schema(odd: object) -> None:
    answer = {"type": "gemini", "timestamp": odd, "content": odd, "model": odd, "tokens": odd}
    call = {"name": "f", "args": odd, "result": odd, "status": odd, "id": odd, "timestamp": odd}
    thought = {"subject": odd, "description": odd, "timestamp": odd}
    data = lines(
        {**META, "startTime": odd, "kind": odd},
        {**answer, "id": "g", "thoughts": [odd, thought], "toolCalls": [odd, call]},
        {**answer, "id": odd, "thoughts": odd, "toolCalls": odd, "tokens": {"input": odd, "total": -1}},
        {"id": odd, "type": odd},
        {"$set": odd},
        {"$rewindTo": odd},
        {"$set": {"messages": [odd, {"id": odd, "type": odd}]}},
        odd,
    )
    record = record_of(data)

    assert is_valid(record)
    assert {entry["source-ref"]["line"] for entry in record["session"]["entries"]} == set(range(1, 9))
    assert gemini.check(data, GEMINI_JSONL)


def test_a_broken_document_or_line_is_refused_with_its_place() -> None:
    with pytest.raises(MalformedError, match="line 3"):
        gemini.sessions(b'{\n "sessionId": "s",\n "messages": [{"id": }]\n}\n', GEMINI_JSON)
    with pytest.raises(MalformedError, match="line 2, column 8"):
        gemini.sessions(b'{"sessionId":"s","projectHash":"p"}\n{"id": }\n', GEMINI_JSONL)
    assert gemini.sessions(b"", GEMINI_JSONL) == []


def test_real_sessions_convert_with_every_unit_named() -> None:
    paths = sorted(SAMPLES.glob("*.json*"))
    if not paths:
        pytest.skip("../shared/samples is not here")
    for path in paths:
        data = path.read_bytes()
        record = record_of(data, format_of(path.name))
        named = {entry["source-ref"]["sha-256"] for entry in flat(record["session"]["entries"])}
        assert named == {unit.source_ref()["sha-256"] for unit in gemini.units(data)}, path.name
        assert is_valid(record), path.name
