"""Claude Code sessions: what each line becomes, and who is said to have written it (formats.md 7, 8)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from transparency.errors import MalformedError
from transparency.records import claude, convert, tree
from transparency.records.format import CLAUDE
from transparency.records.vac_check import check_vac

FIXTURES = Path(__file__).parent.parent / "fixtures" / "records" / "claude"
SESSION = (FIXTURES / "session.jsonl").read_bytes()
FOLDER = FIXTURES / "folder"
FILES = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}
SESSION_ID = "5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c"
CREATED = "2026-03-03T00:00:00.000Z"


def one(data: bytes = SESSION) -> dict[str, Any]:
    (record,) = convert.convert(data, created=CREATED)
    return record


def by_id(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["id"]: dict(entry) for entry in convert.flat(record["session"]["entries"]) if "id" in entry}


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def user(content: object, **members: object) -> dict[str, Any]:
    return {"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": content}, **members}


def assistant(message: dict[str, Any], **members: object) -> dict[str, Any]:
    return {"type": "assistant", "sessionId": "s", "message": message, **members}


def test_the_session_says_who_where_when_and_with_which_models() -> None:
    record = one()

    session = record["session"]
    assert session["session-id"] == SESSION_ID
    assert session["agent-meta"] == {
        "model-id": "claude-opus-4-6",
        "model-provider": "anthropic",
        "models": ["claude-opus-4-6", "claude-sonnet-4-6"],
        "cli-name": "claude-code",
        "cli-version": "2.1.80",
    }
    assert session["environment"] == {"working-dir": "/home/dev/shop", "vcs": {"type": "git", "branch": "main"}}
    assert (session["session-start"], session["session-end"]) == (
        "2026-03-02T10:00:01.000Z",
        "2026-03-02T10:00:24.000Z",
    )
    assert not check_vac(record).violations["-00"]


def test_every_line_is_named_by_an_entry_with_the_hash_of_its_bytes() -> None:
    record = one()

    named = {(entry["source-ref"]["line"], entry["source-ref"]["sha-256"]) for entry in record["session"]["entries"]}
    expected = {(n, hashlib.sha256(line).hexdigest()) for n, line in enumerate(SESSION.splitlines(), 1)}
    assert named == expected
    assert record["source"]["native-units"] == len(expected)
    assert record["source"]["lossless"] is True


def test_a_message_split_over_three_lines_counts_its_tokens_once_with_the_final_figures() -> None:
    entries = by_id(one())

    assert [("token-usage" in entries[name]) for name in ("a1", "a2", "a3")] == [False, False, True]
    assert entries["a3"]["token-usage"] == {"input": 5, "output": 40, "cached": 900}
    assert {entries[name]["native"]["message"]["id"] for name in ("a1", "a2", "a3")} == {"msg_1"}


def test_thinking_is_reasoning_with_its_signature_and_redacted_thinking_is_encrypted() -> None:
    entries = by_id(one())

    assert entries["a1"]["type"] == "reasoning"
    assert entries["a1"]["content"] == "The sum skips the last item."
    assert entries["a1"]["native"]["signature"] == "c2ln"
    hidden = entries["a4"]["children"][0]
    assert (hidden["type"], hidden["content"], hidden["encrypted"]) == ("reasoning", "", "RW5jcnlwdGVk")


def test_a_line_with_several_blocks_is_a_message_with_children_in_order() -> None:
    entry = by_id(one())["a4"]

    assert (entry["type"], entry["content"], entry["model-id"]) == (
        "assistant",
        "The slice is wrong.",
        "claude-sonnet-4-6",
    )
    assert [child["type"] for child in entry["children"]] == ["reasoning", "tool-call", "tool-call"]
    assert entry["native"]["content-blocks"] == ["redacted_thinking", "text", "tool_use", "server_tool_use"]
    assert entry["children"][2]["name"] == "web_search"


def test_calls_and_results_are_paired_and_the_tools_own_report_is_kept() -> None:
    entries = by_id(one())

    call, result = entries["a3"], entries["u2"]
    assert (call["type"], call["name"], call["call-id"], call["native"]["caller"]) == (
        "tool-call", "Read", "toolu_1", {"type": "direct"},
    )  # fmt: skip
    assert (result["type"], result["call-id"], result["is-error"], result["actor"]) == (
        "tool-result", "toolu_1", False, "tool",
    )  # fmt: skip
    assert result["native"]["toolUseResult"]["file"]["numLines"] == 2
    assert (entries["u3#1"]["call-id"], entries["u3#1"]["is-error"]) == ("srvtoolu_1", True)


def test_only_what_a_person_typed_is_human() -> None:
    actors = {name: entry["actor"] for name, entry in by_id(one()).items()}

    assert {name for name, actor in actors.items() if actor == "human"} == {"u1"}
    assert (actors["u4"], actors["u5"], actors["u6"], actors["a6"], actors["a7"]) == (
        "system", "system", "agent", "system", "agent",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("members", "actor"),
    [
        ({}, "human"),
        ({"isMeta": True}, "system"),
        ({"isSidechain": True}, "agent"),
        ({"origin": {"kind": "task-notification"}}, "system"),
        ({"origin": {"kind": "something-new"}}, "unknown"),
        ({"origin": {"kind": "human"}}, "human"),
        ({"toolUseResult": "x"}, "unknown"),
    ],
)
def test_the_actor_of_a_user_line_is_what_the_line_admits(members: dict[str, Any], actor: str) -> None:
    record = one(lines(user("hello", **members)))

    assert record["session"]["entries"][0]["actor"] == actor


@pytest.mark.parametrize("more", [{}, {"cache_control": {"type": "ephemeral"}}])
def test_what_the_tool_wrote_into_a_user_line_is_not_human_however_it_is_wrapped(more: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "<system-reminder>be brief</system-reminder>", **more}]

    (entry,) = one(lines(user(content)))["session"]["entries"]

    assert entry["actor"] == "system"


def test_words_beside_a_tool_result_are_not_taken_for_a_persons() -> None:
    content = [{"type": "tool_result", "tool_use_id": "t", "content": "no"}, {"type": "text", "text": "stop that"}]

    (entry,) = one(lines(user(content)))["session"]["entries"]

    assert (entry["type"], entry["content"], entry["actor"]) == ("user", "stop that", "unknown")
    assert entry["children"][0]["type"] == "tool-result"


def test_parents_resolve_and_other_lines_are_events_that_hold_them_whole() -> None:
    record = one()
    entries = by_id(record)

    assert all(entry["parent-id"] in entries for entry in entries.values() if "parent-id" in entry)
    kinds = [entry["event-type"] for entry in record["session"]["entries"] if entry["type"] == "system-event"]
    assert kinds == [
        "claude/summary", "claude/permission-mode", "claude/system", "claude/attachment", "claude/some-new-type",
    ]  # fmt: skip
    assert entries["s1"]["data"]["compactMetadata"] == {"trigger": "auto", "preTokens": 150000}
    assert entries["n1"]["data"]["payload"] == [1, None, {"x": None}]


def test_what_the_session_says_once_is_not_repeated_and_what_differs_is_kept() -> None:
    first = user("a", cwd="/one", version="1", gitBranch="")
    second = user("b", uuid="v", cwd="/two", version="1", gitBranch="", other=None)

    record = one(lines(first, second))

    entries = record["session"]["entries"]
    assert "native" not in entries[0]
    assert entries[1]["native"] == {"cwd": "/two", "other": None}
    assert record["session"]["environment"] == {"working-dir": "/one"}
    assert record["session"]["native"] == {"gitBranch": ""}


def test_a_synthetic_model_is_none_of_the_sessions_models() -> None:
    record = one()

    assert by_id(record)["a6"]["model-id"] == "<synthetic>"
    assert "<synthetic>" not in record["session"]["agent-meta"]["models"]


def test_a_sub_agents_work_is_linked_from_the_result_that_reports_it() -> None:
    record = one()

    assert by_id(record)["u7"]["child-session-id"] == "agent-a1b2c3"
    assert record["session"]["child-session-ids"] == ["agent-a1b2c3"]


def test_a_folder_gives_the_session_and_its_sub_agent_linked_both_ways() -> None:
    data = tree.pack(FILES)

    main, child = convert.convert(data, created=CREATED)

    assert (main["session"]["session-id"], main["session"]["child-session-ids"]) == (SESSION_ID, ["agent-a1b2c3"])
    assert (child["session"]["session-id"], child["session"]["parent-session-id"]) == ("agent-a1b2c3", SESSION_ID)
    assert child["session"]["agent-meta"]["model-id"] == "claude-haiku-4-5"
    assert [entry["actor"] for entry in child["session"]["entries"]] == ["agent", "agent", "tool", "agent", "system"]
    assert child["session"]["entries"][0]["source-ref"]["path"] == f"{SESSION_ID}/subagents/agent-a1b2c3.jsonl"
    assert child["session"]["entries"][-1]["data"] == {"agentType": "general-purpose", "spawnDepth": 1}
    assert convert.outline(data).session_ids == (SESSION_ID,)


def test_a_sub_agents_file_alone_still_names_its_parent() -> None:
    record = one(FILES[f"{SESSION_ID}/subagents/agent-a1b2c3.jsonl"])

    assert record["session"]["session-id"] == "agent-a1b2c3"
    assert record["session"]["parent-session-id"] == SESSION_ID


def test_a_second_session_in_a_file_is_a_second_record_and_a_warning() -> None:
    data = lines(user("a"), {"type": "summary", "leafUuid": "x"}, user("b", sessionId="t"))

    first, second = convert.convert(data, created=CREATED)

    assert [len(record["session"]["entries"]) for record in (first, second)] == [2, 1]
    assert first["id"] != second["id"]
    assert [finding.pointer for finding in convert.check(data)] == ["line 3: /sessionId"]


def test_without_a_session_id_one_is_derived_from_the_bytes() -> None:
    data = lines({"type": "summary", "summary": "x", "leafUuid": "y"})

    assert one(data)["session"]["session-id"] == one(data)["session"]["session-id"]
    assert one(data)["session"]["session-id"] != one(data + b"\n")["session"]["session-id"]


def test_blocks_written_as_lines_are_calls_and_results() -> None:
    data = lines(
        {"type": "tool_use", "sessionId": "s", "uuid": "t1", "id": "c1", "name": "bash", "input": {}, "extra": 1},
        {"type": "tool_result", "sessionId": "s", "uuid": "r1", "tool_use_id": "c1", "name": "bash", "output": "x"},
    )

    call, result = one(data)["session"]["entries"]

    assert (call["type"], call["call-id"], call["id"], call["native"]) == ("tool-call", "c1", "t1", {"extra": 1})
    assert (result["type"], result["output"], result["native"]) == ("tool-result", "x", {"name": "bash"})


@pytest.mark.parametrize(
    "line",
    [
        [1, 2],
        {"type": 5, "sessionId": "s"},
        user(None),
        user({"a": 1}, uuid=7, parentUuid=[], timestamp="yesterday"),
        user([1, None, {"type": "tool_use"}, {"type": 3}]),
        {"type": "user", "sessionId": "s", "message": "text"},
        assistant({"model": 4, "usage": [], "content": [{"type": "thinking"}]}),
        assistant({"usage": {"input_tokens": -1, "output_tokens": True}, "content": []}),
        user([{"type": "tool_result", "tool_use_id": None, "is_error": "yes"}]),
        assistant({"content": [{"type": "redacted_thinking", "data": 4}]}, costUSD="1"),
    ],
)
def test_members_of_the_wrong_type_are_kept_and_never_break_the_schema(line: object) -> None:
    data = lines({"type": "mode", "sessionId": "s"}, line)

    record = one(data)

    assert not check_vac(record).violations["-00"]
    kept = json.dumps(record["session"]["entries"][1])
    for word in ("yesterday", '"yes"', '"tool_use"'):
        assert (word in kept) == (word in json.dumps(line))


def test_missing_output_is_null_and_said_to_be_filled() -> None:
    record = one(lines(user([{"type": "tool_result", "tool_use_id": "t"}])))

    assert record["session"]["entries"][0]["output"] is None
    assert record["source"]["filled"] == ["tool-result output (line 1)"]


def test_a_session_that_ends_in_an_unanswered_call_is_unfinished() -> None:
    whole = SESSION.splitlines(keepends=True)

    assert convert.outline(SESSION).finished is True
    assert convert.outline(b"".join(whole[:6])).finished is False
    assert convert.outline(b"".join(whole[:14])).finished is False


def test_a_broken_line_is_refused_with_its_number() -> None:
    with pytest.raises(MalformedError, match="line 3, column"):
        claude.sessions(lines(user("a"), user("b")) + b'{"type": "user", "type": "user"}\n', CLAUDE)


def test_more_sessions_than_anyone_has_are_refused() -> None:
    data = lines(*({"type": "mode", "sessionId": str(number)} for number in range(claude.MAX_SESSIONS + 1)))

    with pytest.raises(MalformedError, match="sessions"):
        claude.sessions(data, CLAUDE)


def test_a_new_type_of_line_is_a_warning_once() -> None:
    findings = claude.check(SESSION + SESSION.splitlines(keepends=True)[16], CLAUDE)

    assert [(finding.level, finding.pointer) for finding in findings] == [("warning", "line 17: /type")]
    assert "2 times" in findings[0].message
