"""Leaving out kinds of entries, and sessions under a pseudonym: declared as redactions are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.records.redacting import RECORDS, items, redacted
from tests.records.sessions import Claude
from transparency.errors import MalformedError
from transparency.records import convert
from transparency.records.detect import detect
from transparency.records.disclosure import read_header, strings_at
from transparency.records.omission import parse_kinds
from transparency.records.pseudonym import pseudonym
from transparency.records.redact import Redacted

KEY = b"k" * 32
SHARED = RECORDS.parents[2].parent / "shared" / "samples"
RECORDED = (
    "claude/session.jsonl",
    "codex/session.jsonl",
    "codex/legacy.jsonl",
    "gemini/session.json",
    "gemini/session.jsonl",
    "opencode/export.json",
    "opencode/sessions.concat.json",
    "cursor/tool-use.jsonl",
    "agentlog/every-event.agentlog.json",
    "vac/published.json",
    "vac/february.json",
)


def entry_types(data: bytes) -> set[str]:
    """The kinds of entries that say something: of a call that gave nothing there is a result without output."""
    records = convert.convert(data, created="2026-01-01T00:00:00Z")
    entries = [entry for record in records for entry in convert.flat(record["session"]["entries"])]
    return {entry["type"] for entry in entries if entry["type"] != "tool-result" or entry["output"] is not None}


def marks_are_in_place(result: Redacted) -> bool:
    redactions = [one for one in read_header(result.header) if one.rule != "pseudonym"]
    by_line = detect(result.data).format.content_type == "application/jsonl"
    texts = strings_at(result.data, [one.location for one in redactions], by_line=by_line)
    return all(
        texts[one.location.line, one.location.pointer].startswith(one.mark, one.location.start) for one in redactions
    )


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_left_out_is_no_longer_in_the_record_and_each_unit_is_declared(name: str) -> None:
    data = (RECORDS / name).read_bytes()

    result = redacted(data, (), omit={"reasoning", "tool-result"})

    assert not entry_types(result.data) & {"reasoning", "tool-result"}
    assert detect(result.data).format is detect(data).format
    assert result.data.count(b"\n") == data.count(b"\n")
    assert {item.rule for item in items(result)} <= {"omit-reasoning", "omit-tool-result"}
    assert all(item.original.encode() in data and item.original.encode() not in result.data for item in items(result))
    if result.header:
        assert marks_are_in_place(result)


def test_of_a_session_every_line_stays_a_line_and_links_stay() -> None:
    data = (RECORDS / "claude" / "session.jsonl").read_bytes()

    result = redacted(data, (), omit={"tool-result"})

    before, after = ([json.loads(line) for line in text.splitlines()] for text in (data, result.data))
    changed = [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert len(changed) == len(items(result)) > 0
    for number in changed:
        old, new = before[number], after[number]
        assert new["type"] == "omitted"
        assert (new["uuid"], new["parentUuid"], new["timestamp"]) == (old["uuid"], old["parentUuid"], old["timestamp"])
        assert new.keys().isdisjoint({"message", "toolUseResult"})


def claude_line(kind: str, *blocks: dict[str, Any], **members: object) -> bytes:
    message = {"role": kind, "content": list(blocks)}
    return json.dumps({"type": kind, "sessionId": "s", "uuid": "u", "message": message, **members}).encode() + b"\n"


THOUGHT = {"type": "thinking", "thinking": "gone", "signature": "gone"}
TEXT = {"type": "text", "text": "kept"}


def test_a_claude_line_loses_its_thought_and_keeps_its_answer() -> None:
    use = {"type": "tool_use", "id": "t1", "name": "kept", "input": {"a": ["kept"]}}
    data = claude_line("assistant", THOUGHT, TEXT, use, {**THOUGHT, "type": "redacted_thinking"})

    result = redacted(data, (), omit={"reasoning"})

    assert result.data.count(b"kept") == 3
    assert b"gone" not in result.data
    assert [item.location for item in items(result)] == [f"1:0:/message/content/{number}/omitted" for number in (0, 3)]
    assert json.loads(items(result)[0].original) == THOUGHT
    assert (entry_types(result.data), result.mixed) == ({"assistant", "tool-call"}, 0)
    assert marks_are_in_place(result)


def test_the_line_after_a_mixed_one_is_looked_at_too() -> None:
    data = claude_line("assistant", THOUGHT, TEXT) + claude_line("assistant", THOUGHT) + claude_line("user", TEXT)

    result = redacted(data, (), omit={"reasoning"})

    assert b"gone" not in result.data
    assert result.data.count(b"kept") == 2


def test_a_gemini_message_loses_its_thoughts_and_keeps_its_answer() -> None:
    data = (RECORDS / "gemini" / "session.json").read_bytes()

    result = redacted(data, (), omit={"reasoning"})

    before, after = json.loads(data)["messages"], json.loads(result.data)["messages"]
    assert [{**message, "thoughts": None} for message in after] == [{**message, "thoughts": None} for message in before]
    thoughts = [thought for message in after for thought in message.get("thoughts", ())]
    assert all(thought.keys() == {"type", "omitted", "timestamp"} for thought in thoughts)
    assert result.mixed == 0
    assert marks_are_in_place(result)


def test_an_exported_message_loses_its_tools_and_keeps_its_text() -> None:
    tool = {"type": "tool", "id": "prt_2", "tool": "bash", "state": {"status": "completed", "output": "gone"}}
    text = {"type": "text", "id": "prt_1", "text": "kept"}
    message = {"info": {"id": "msg_1", "role": "assistant"}, "parts": [text, tool, {"type": "step-finish"}]}
    data = json.dumps({"info": {"id": "ses_1"}, "messages": [message]}, indent=1).encode()

    result = redacted(data, (), omit={"tool-result"})

    (after,) = json.loads(result.data)["messages"]
    assert [part["type"] for part in after["parts"]] == ["text", "omitted", "step-finish"]
    assert (after["parts"][0], after["parts"][1]["id"]) == (text, "prt_2")
    assert b"gone" not in result.data
    assert marks_are_in_place(result)


@pytest.mark.parametrize(
    "data",
    [
        claude_line("user", {"type": "tool_result", "tool_use_id": "t", "content": "gone"}, TEXT, toolUseResult="gone"),
        claude_line("assistant", {"type": "server_tool_result", "content": "gone"}, TEXT, toolUseResult={"a": "gone"}),
    ],
)
def test_a_unit_that_says_a_thing_outside_its_blocks_too_is_left_out_whole_and_counted(data: bytes) -> None:
    result = redacted(data, (), omit={"tool-result"})

    assert b"gone" not in result.data
    assert (len(items(result)), result.mixed) == (1, 1)


def test_what_codex_says_twice_is_left_out_twice() -> None:
    data = (
        b'{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"0192f0aa-0000-7000-8000-000000000001",'
        b'"timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","cli_version":"1"}}\n'
        b'{"timestamp":"2026-01-01T00:00:01.000Z","type":"response_item","payload":{"type":"reasoning",'
        b'"summary":[{"type":"summary_text","text":"secret thought"}]}}\n'
        b'{"timestamp":"2026-01-01T00:00:01.000Z","type":"event_msg","payload":{"type":"agent_reasoning",'
        b'"text":"secret thought"}}\n'
    )

    result = redacted(data, (), omit={"reasoning"})

    assert b"secret thought" not in result.data
    assert len(items(result)) == 2


def test_entries_nested_in_a_vac_record_are_left_out_by_themselves() -> None:
    data = json.dumps({
        "version": "3.0.0-draft", "id": "r", "session": {
            "session-id": "s", "agent-meta": {"model-id": "m", "model-provider": "p"}, "entries": [
                {"type": "assistant", "content": "kept", "children": [{"type": "reasoning", "content": "gone"}]},
            ],
        },
    }, indent=1).encode()  # fmt: skip

    result = redacted(data, (), omit={"reasoning"})

    assert b"kept" in result.data
    assert b"gone" not in result.data
    assert json.loads(result.data)["session"]["entries"][0]["children"][0]["event-type"] == "omitted"
    assert marks_are_in_place(result)


def test_a_trace_inside_a_text_cannot_be_left_out_and_that_is_said() -> None:
    data = (RECORDS / "a2a" / "task-with-text-and-artifact.json").read_bytes()

    with pytest.raises(MalformedError, match="cannot be left out"):
        redacted(data, (), omit={"tool-call"})


def test_a_format_without_kinds_refuses() -> None:
    with pytest.raises(MalformedError, match="no entries of a kind"):
        redacted((RECORDS / "agent-trace" / "record.json").read_bytes(), (), omit={"user"})


def test_kinds_are_named_as_entries_are() -> None:
    assert parse_kinds("reasoning, tool-result") == {"reasoning", "tool-result"}
    for wrong in ("", ",", "thoughts", "reasoning,x"):
        with pytest.raises(MalformedError, match="cannot be left out; there are user, assistant"):
            parse_kinds(wrong)


def test_the_texts_of_an_edit_go_with_its_call_where_the_result_repeats_them() -> None:
    """Claude Code writes what was replaced by what into the line of the result too."""
    session = Claude()
    session.edit(
        "src/app.py", "before\n", "--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-before\n+the secret plan\n"
    )
    session.shell("make format")

    result = redacted(session.data(), (), omit={"assistant", "tool-call"})

    assert b"the secret plan" not in result.data
    assert b"make format" not in result.data
    assert [item.rule for item in items(result)] == ["omit-tool-call"] * 3
    assert b"stdout" in result.data


# --- pseudonyms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDED)
def test_a_session_id_is_replaced_everywhere_by_its_pseudonym(name: str) -> None:
    data = (RECORDS / name).read_bytes()
    before = [identity for identity in convert.outline(data).session_ids if str(identity).encode() in data]

    result = redacted(data, (), pseudonym_key=KEY)

    assert all(str(identity).encode() not in result.data for identity in before if len(identity) >= 12)
    assert [(item.rule, item.original) for item in items(result)] == [("pseudonym", identity) for identity in before]
    if before:
        assert convert.outline(result.data).session_ids == tuple(pseudonym(str(one), KEY) for one in before)


def test_a_pseudonym_is_the_same_each_time_and_another_under_another_key() -> None:
    identity = "7d1f3a52-2f0b-4a6e-8a55-9c1c0b7e4d10"

    assert pseudonym(identity, KEY) == pseudonym(identity, KEY) != pseudonym(identity, b"K" * 32)
    assert pseudonym(identity, KEY)[14] == "8"  # RFC 9562 §5.8
    assert pseudonym("ses_abc", KEY).startswith("ses_")
    with pytest.raises(MalformedError, match="fewer than 16 bytes"):
        pseudonym(identity, b"short")


def test_a_short_id_is_replaced_only_where_it_is_the_whole_string() -> None:
    data = b'{"type":"user","sessionId":"ab","message":{"content":"about ab"}}\n'

    result = redacted(data, (), pseudonym_key=KEY)

    assert result.data == data.replace(b'"ab"', b'"' + pseudonym("ab", KEY).encode() + b'"')


def test_an_id_in_a_key_and_in_a_longer_text_is_replaced_too() -> None:
    identity = "7d1f3a52-2f0b-4a6e-8a55-9c1c0b7e4d10"
    data = json.dumps({"type": "user", "sessionId": identity, "x": {identity: f"/p/{identity}.jsonl"}}).encode()

    result = redacted(data, (), pseudonym_key=KEY)

    assert result.data == data.replace(identity.encode(), pseudonym(identity, KEY).encode())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the samples are not here")
@pytest.mark.parametrize(
    "name",
    [
        "claude-code/xor-arvo-claude-opus-4-5.jsonl",
        "codex-cli/xor-arvo-gpt-5-2-codex.jsonl",
        "gemini-cli/xor-arvo-gemini-3-pro-preview.json",
        "opencode/xor-arvo-claude-opus-4-5.concat.json",
    ],
)
def test_of_real_sessions_nothing_named_is_left(name: str) -> None:
    data = (SHARED / name).read_bytes()

    result = redacted(data, (), omit={"reasoning", "tool-result"}, pseudonym_key=KEY)

    assert not entry_types(result.data) & {"reasoning", "tool-result"}
    assert marks_are_in_place(result)
    assert result.data.count(b"\n") == data.count(b"\n")


def test_a_uuid_is_replaced_in_all_its_spellings_and_declared_once() -> None:
    identity = "0192f0aa-1111-4222-8333-444455556666"
    plain = identity.replace("-", "")
    said = f"see /tmp/{plain}.log, {plain.upper()} and {identity.upper()}"
    line = {"type": "user", "sessionId": identity, "message": {"content": said}}

    result = redacted(json.dumps(line).encode() + b"\n", (), pseudonym_key=KEY)

    name = pseudonym(identity, KEY)
    short = name.replace("-", "")
    assert json.loads(result.data)["message"]["content"] == f"see /tmp/{short}.log, {short.upper()} and {name.upper()}"
    assert len(items(result)) == 1
