"""Codex rollouts as canonical records. The fixtures hold every kind of line that formats.md section 7 lists."""

from __future__ import annotations

import json

import pytest

from tests.records.codex_sources import (
    by_call,
    by_id,
    draft_of,
    entries_of,
    item,
    lines,
    read,
    record_of,
)
from transparency.records import codex
from transparency.records.convert import flat
from transparency.records.vac_check import is_valid


@pytest.mark.parametrize("name", ["session.jsonl", "legacy.jsonl", "drift.jsonl", "subagent.jsonl"])
def test_every_line_is_named_by_an_entry_and_the_record_is_valid(name: str) -> None:
    data = read(name)
    record = record_of(data)
    named = [entry["source-ref"] for entry in flat(record["session"]["entries"])]
    units = list(codex.units(data))

    assert {json.dumps(ref) for ref in named} == {json.dumps(unit.source_ref()) for unit in units}
    assert record["source"]["native-units"] == len(units)
    assert record["source"]["lossless"] is True
    assert is_valid(record)


def test_session_agent_and_environment_come_from_the_first_line_and_the_last_context() -> None:
    session = record_of(read("session.jsonl"))["session"]

    assert session["session-id"] == "0196a0b0-0000-7000-8000-00000000c0de"
    assert session["session-start"] == "2026-05-04T09:00:01.500Z"
    assert session["session-end"] == "2026-05-04T09:00:40.500Z"
    assert session["agent-meta"] == {
        "model-id": "gpt-5.6-sol",
        "model-provider": "openai",
        "models": ["gpt-5.6-luna", "gpt-5.6-sol"],
        "cli-name": "codex-cli",
        "cli-version": "0.146.0",
    }
    assert session["environment"] == {
        "working-dir": "/home/ana/clock",
        "vcs": {
            "type": "git",
            "revision": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            "branch": "main",
            "repository": "https://example.org/clock.git",
        },
    }


def test_every_entry_has_an_id_of_its_own_even_where_codex_repeats_one() -> None:
    entries = entries_of(read("session.jsonl"))

    assert len({entry["id"] for entry in entries}) == len(entries)
    assert entries[-1]["id"] == "line-40"
    assert entries[-1]["native"] == {"id": "msg_end", "line": {"ordinal": 39}}


def test_policies_are_kept_as_events_and_the_last_ones_with_the_session() -> None:
    data = read("session.jsonl")
    contexts = [entry["data"] for entry in entries_of(data) if entry.get("event-type") == "codex/turn_context"]

    assert [context["approval_policy"] for context in contexts] == ["on-request", "never"]
    assert record_of(data)["session"]["native"]["sandbox_policy"] == {"type": "danger-full-access"}


def test_the_developer_is_no_human_nor_is_what_codex_adds_in_the_users_name() -> None:
    developer = by_id("session.jsonl", "line-4")
    added = by_id("session.jsonl", "line-5")
    typed = by_id("session.jsonl", "msg_user")

    assert (developer["type"], developer["event-type"], developer["actor"]) == (
        "system-event",
        "system-prompt",
        "system",
    )
    assert developer["data"]["content"][0]["text"] == "Write only inside the workspace."
    assert (added["type"], added["actor"]) == ("user", "system")
    assert (typed["type"], typed["actor"]) == ("user", "human")
    assert typed["content"][1] == {"type": "input_image", "image_url": None}


def test_a_user_message_that_codex_never_showed_is_of_unknown_origin() -> None:
    user = {"type": "message", "role": "user"}
    data = lines(
        item(**user, content=[{"type": "input_text", "text": "typed"}]),
        item(**user, content=[{"type": "input_text", "text": "from elsewhere"}]),
        {
            "timestamp": "2026-05-04T09:00:00.000Z",
            "type": "event_msg",
            "payload": {"type": "user_message", "message": "typed"},
        },
    )

    assert [entry["actor"] for entry in entries_of(data)] == ["human", "unknown", "human"]


def test_the_prompt_of_a_subagent_is_not_human_and_the_parent_is_linked() -> None:
    record = record_of(read("subagent.jsonl"))
    prompt, shown = record["session"]["entries"][2:]

    assert record["session"]["session-id"] == "child"
    assert record["session"]["parent-session-id"] == "parent"
    assert record["session"]["environment"] == {"working-dir": "/w"}
    assert prompt["actor"] == shown["actor"] == "agent"
    assert by_id("session.jsonl", "line-35")["actor"] == "agent"


def test_events_that_repeat_an_item_stay_events_and_name_it() -> None:
    repeated = {
        entry["id"]: entry["native"]["duplicate-of"]
        for entry in entries_of(read("session.jsonl"))
        if "duplicate-of" in entry.get("native", {})
    }

    # The second token count repeats the first; the two thoughts are parts of one item, one before and one after it.
    assert repeated == {
        "line-7": "msg_user",
        "line-9": "rs_1",
        "line-11": "rs_1",
        "line-16": "line-13",
        "line-30": "msg_end",
    }
    assert all(by_id("session.jsonl", line)["type"] == "system-event" for line in repeated)


def test_a_file_cannot_say_of_an_item_that_it_repeats_another() -> None:
    [entry] = entries_of(lines(item(**{"type": "message", "role": "assistant", "content": "x", "duplicate-of": "y"})))

    assert entry["native"] == {"verbatim": {"duplicate-of": "y"}}


def test_the_same_words_said_twice_are_two_items_and_two_repeats() -> None:
    said = item(type="message", role="assistant", content=[{"type": "output_text", "text": "Done."}])
    shown = {
        "timestamp": "2026-05-04T09:00:00.000Z",
        "type": "event_msg",
        "payload": {"type": "agent_message", "message": "Done."},
    }
    entries = entries_of(lines(said, shown, shown, said))

    assert [entry["native"]["duplicate-of"] for entry in entries[1:3]] == ["line-1", "line-4"]


def test_tokens_are_counted_once_on_the_response_that_used_them() -> None:
    used = {entry["id"]: entry["token-usage"] for entry in entries_of(read("session.jsonl")) if "token-usage" in entry}

    assert used == {
        "fc_1": {"input": 1000, "output": 50, "cached": 200, "reasoning": 30, "total": 1050},
        "msg_end": {"input": 1200, "output": 40, "cached": 900, "reasoning": 0, "total": 1240},
    }


def test_tokens_that_no_response_used_stay_with_their_event_and_odd_numbers_are_not_counted() -> None:
    usage = {"input_tokens": 7, "output_tokens": -1, "cached_input_tokens": True, "total_tokens": 7.0}
    event = {"type": "token_count", "info": {"last_token_usage": usage}}
    [entry] = entries_of(lines({"timestamp": None, "type": "event_msg", "payload": event}))

    assert entry["token-usage"] == {"input": 7}
    assert entry["data"]["info"]["last_token_usage"] == usage


def test_arguments_become_the_input_when_they_are_json_and_stay_text_when_not() -> None:
    good, _ = by_call("session.jsonl", "call_ls")
    bad, _ = by_call("session.jsonl", "call_bad")
    patch, _ = by_call("session.jsonl", "call_patch")

    assert good["input"] == {"cmd": "ls", "limit": 10}
    assert "arguments" not in good.get("native", {})
    assert bad["input"] == bad["native"]["arguments"] == '{"cmd": ls}'
    assert patch["input"].startswith("*** Begin Patch\n")
    assert patch["model-id"] == "gpt-5.6-luna"


@pytest.mark.parametrize("arguments", ['{"a":1,"a":2}', "NaN", "[" * 60 + "]" * 60, '"\\ud800"', ""])
def test_arguments_that_two_readers_could_read_differently_are_left_as_they_are(arguments: str) -> None:
    [call] = entries_of(lines(item(type="function_call", name="f", arguments=arguments, call_id="c")))

    assert call["input"] == call["native"]["arguments"] == arguments


def test_each_kind_of_tool_call_and_result_is_mapped() -> None:
    entries = entries_of(read("session.jsonl"))
    calls = [(entry["name"], entry.get("call-id")) for entry in entries if entry["type"] == "tool-call"]
    results = {entry["call-id"]: entry.get("is-error") for entry in entries if entry["type"] == "tool-result"}

    assert calls == [
        ("exec_command", "call_ls"),
        ("exec_command", "call_bad"),
        ("apply_patch", "call_patch"),
        ("local_shell", "call_shell"),
        ("tool_search", "call_search"),
        ("web_search", "ws_1"),
        ("image_generation", "ig_1"),
    ]
    # By the end event; by the harness's own head, not by what the command printed; by event; by success; not said.
    assert results == {
        "call_ls": True,
        "call_bad": False,
        "call_patch": False,
        "call_shell": True,
        "call_search": None,
        "ig_1": None,
    }


def test_an_image_is_a_call_and_a_result_of_one_line() -> None:
    call, result = by_call("session.jsonl", "ig_1")

    assert (call["input"], result["output"], result["status"]) == ("a clock", "iVBOR", "completed")
    assert call["source-ref"] == result["source-ref"]


def test_a_call_without_a_name_is_kept_as_an_event_and_a_missing_input_is_filled_and_said() -> None:
    data = lines(
        item(type="function_call", arguments="{}", call_id="a"),
        item(type="function_call", name="f", call_id="b"),
        item(type="function_call_output", call_id="b", output=None),
    )
    nameless, call, result = entries_of(data)

    assert (nameless["type"], nameless["event-type"]) == ("system-event", "codex/function_call")
    assert call["input"] is None
    assert result["output"] is None
    assert draft_of(data).filled == ["tool-call input (line 2)"]
    assert is_valid(record_of(data))


def test_reasoning_keeps_its_summary_and_what_is_encrypted() -> None:
    reasoning = by_id("session.jsonl", "rs_1")

    assert reasoning["content"] == "**Looking around**\n\n**Listing**"
    assert reasoning["encrypted"] == "gAAAAAB-sealed"
    assert reasoning["native"] == {"content": None}


def test_reasoning_without_a_summary_shows_its_text_and_what_is_no_plain_text_stays_structured() -> None:
    raw, structured = entries_of(
        lines(
            item(type="reasoning", summary=[], content=[{"type": "reasoning_text", "text": "hm"}]),
            item(type="reasoning", summary=[{"type": "summary_text", "text": "hm", "score": 1}]),
        )
    )

    assert raw["content"] == "hm"
    assert structured["content"] == [{"type": "summary_text", "text": "hm", "score": 1}]
