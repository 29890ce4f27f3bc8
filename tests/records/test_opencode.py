"""OpenCode: one record for each session, in the order of time, and no object lost."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from tests.records.opencode_sources import (
    CONCATENATED,
    EXPORT,
    assert_every_unit_is_named,
    convert,
    flat,
    of_type,
    sequence,
)
from transparency.errors import MalformedError
from transparency.records import canonical_json, opencode, tree
from transparency.records.format import OPENCODE, OPENCODE_EXPORT
from transparency.records.vac_check import check_vac

SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples" / "opencode"


def test_a_file_of_two_sessions_gives_two_records_linked_to_each_other() -> None:
    main, child = convert(CONCATENATED)

    assert main["session"]["session-id"] == "ses_mainWATERING"
    assert main["session"]["child-session-ids"] == ["ses_child001"]
    assert child["session"]["parent-session-id"] == "ses_mainWATERING"
    assert main["id"] != child["id"]
    assert main["source"]["raw-hash"] == child["source"]["raw-hash"] == hashlib.sha256(CONCATENATED).hexdigest()
    assert_every_unit_is_named(CONCATENATED, [main, child])


def test_the_records_are_valid_vac_and_converting_twice_gives_the_same() -> None:
    first, again = convert(CONCATENATED), convert(CONCATENATED)

    assert [check_vac(record).violations["-00"] for record in first] == [(), ()]
    assert [canonical_json.dumps(record) for record in first] == [canonical_json.dumps(record) for record in again]


def test_the_session_says_when_where_and_with_what_it_ran() -> None:
    main, child = convert(CONCATENATED)

    assert main["session"]["session-start"] == "2026-01-01T00:00:00.500Z"
    assert main["session"]["session-end"] == "2026-01-01T00:00:09.000Z"
    assert main["session"]["agent-meta"] == {
        "model-id": "model-two",
        "model-provider": "provider-two",
        "models": ["model-one", "model-two"],
        "cli-name": "opencode",
        "cli-version": "1.2.3",
    }
    assert main["session"]["environment"] == {
        "working-dir": "/home/ada/garden",
        "vcs": {"type": "git"},
        "sandboxes": ["/tmp/bed-1"],  # noqa: S108 - a datum
    }
    # The project's entry is in the first record only; the other says where its facts are from.
    assert len(of_type(main, "opencode/project")) == 1
    assert child["session"]["environment"]["vcs"] == {"type": "git"}
    assert child["session"]["native"]["project"]["source-ref"]["index"] == 0


def test_messages_and_parts_stand_in_the_order_of_time_not_of_the_file() -> None:
    main, _ = convert(CONCATENATED)

    messages = [entry for entry in main["session"]["entries"] if entry["type"] in ("user", "assistant")]
    assert [entry["id"] for entry in messages] == ["msg_a1", "msg_a2"]
    assert [entry.get("parent-id") for entry in messages] == [None, "msg_a1"]
    assert [(entry["type"], entry.get("event-type") or entry.get("call-id")) for entry in messages[1]["children"]] == [
        ("system-event", "opencode/step-start"),
        ("reasoning", None),
        ("tool-call", "call_slow"),
        ("tool-call", "call_fails"),
        ("tool-result", "call_fails"),
        ("tool-result", "call_slow"),
        ("system-event", "opencode/step-finish"),
        ("system-event", "opencode/patch"),
    ]
    times = [entry["timestamp"] for entry in flat(messages) if "timestamp" in entry]
    assert times == sorted(times)


def test_every_parent_id_resolves_and_one_that_cannot_is_kept_under_native() -> None:
    data = sequence(
        {"id": "m2", "sessionID": "s", "role": "assistant", "parentID": "m1", "time": {"created": 1767225602000}},
        {"id": "m1", "sessionID": "s", "role": "user", "parentID": "gone", "time": {"created": 1767225601000}},
        {"id": "m3", "sessionID": "s", "role": "user", "parentID": None, "time": {"created": 1767225603000}},
    )

    (record,) = convert(data)

    first, second, third = record["session"]["entries"]
    assert (first["id"], first["native"]["parentID"]) == ("m1", "gone")
    assert "parent-id" not in first
    assert (second["id"], second["parent-id"]) == ("m2", "m1")
    assert third["native"]["parentID"] is None


def test_model_tokens_and_cost_stand_once_on_their_message() -> None:
    main, _ = convert(CONCATENATED)

    (message,) = (entry for entry in main["session"]["entries"] if entry.get("id") == "msg_a2")
    assert message["model-id"] == "model-two"
    assert message["token-usage"] == {"input": 10, "output": 5, "reasoning": 3, "cached": 7, "cost": 0.25}
    assert message["native"]["tokens"] == {"cache": {"write": 9}}
    assert "cost" not in message["native"]
    assert [entry["id"] for entry in flat(main["session"]["entries"]) if "token-usage" in entry] == ["msg_a2"]


def test_counts_that_are_no_uint_stay_under_native() -> None:
    tokens = {"input": -1, "output": 2.0, "reasoning": True, "cache": {"read": "3"}}
    data = sequence({"id": "m", "sessionID": "s", "role": "assistant", "tokens": tokens, "cost": {"usd": 1}})

    (record,) = convert(data)

    (entry,) = record["session"]["entries"]
    assert "token-usage" not in entry
    assert entry["native"]["tokens"] == tokens
    assert entry["native"]["cost"] == {"usd": 1}


def test_a_tool_part_is_a_call_and_its_result_and_an_error_says_so() -> None:
    main, _ = convert(CONCATENATED)

    calls = {entry["call-id"]: entry for entry in of_type(main, "tool-call")}
    results = {entry["call-id"]: entry for entry in of_type(main, "tool-result")}
    assert calls["call_slow"]["input"] == {"command": "sleep 1; date"}
    assert calls["call_slow"]["timestamp"] == "2026-01-01T00:00:02.400Z"
    assert calls["call_slow"]["native"] == {"timestamp": 1767225602400}
    good, bad = results["call_slow"], results["call_fails"]
    assert (good["output"], good["is-error"], good["status"]) == ("Thu Jan  1", False, "completed")
    assert good["timestamp"] == "2026-01-01T00:00:03.400Z"
    assert good["native"]["state"] == {"title": "date", "metadata": {"exit": 0, "truncated": False}}
    assert (bad["output"], bad["is-error"], bad["status"]) == ("no such file", True, "error")


def test_a_tool_that_has_not_answered_has_no_result() -> None:
    state = {"status": "running", "input": {}, "time": {"start": 1767225602000}, "title": "x"}
    data = sequence({"id": "p", "sessionID": "s", "messageID": "m", "type": "tool", "tool": "bash", "state": state})

    (record,) = convert(data)

    (call,) = record["session"]["entries"]
    assert (call["type"], call["call-id"]) == ("tool-call", "p")
    assert call["native"] == {
        "messageID": "m",
        "timestamp": 1767225602000,
        "state": {"status": "running", "title": "x"},
    }


def test_what_a_tool_part_lacks_is_filled_with_null_and_said() -> None:
    data = sequence(
        {
            "id": "p",
            "sessionID": "s",
            "messageID": "m",
            "type": "tool",
            "tool": "bash",
            "state": {"status": "completed"},
        }
    )

    (record,) = convert(data)

    call, result = record["session"]["entries"]
    assert call["input"] is None
    assert result["output"] is None
    assert record["source"]["filled"] == ["tool-call input (index 0)", "tool-result output (index 0)"]
    assert not check_vac(record).violations["-00"]


def test_encrypted_reasoning_is_moved_to_its_member() -> None:
    main, _ = convert(CONCATENATED)

    (reasoning,) = of_type(main, "reasoning")
    assert (reasoning["content"], reasoning["encrypted"]) == ("", "c2VhbGVk")
    assert reasoning["native"]["metadata"] == {"openai": {"itemId": "rs_1"}}


def test_the_secret_of_a_share_is_left_out_and_counted() -> None:
    records = convert(CONCATENATED)
    exported = convert(EXPORT, OPENCODE_EXPORT)

    assert b"the-holder-of-this" not in b"".join(canonical_json.dumps(record) for record in records)
    (share,) = of_type(records[0], "opencode/share")
    assert share["data"] == {"id": "WATERING", "url": "https://share.example/WATERING"}
    assert records[0]["source"]["dropped"] == [{"kind": "share/secret", "count": 1}]
    assert not records[0]["source"]["lossless"]
    assert b"never-copied" not in canonical_json.dumps(exported[0])
    assert exported[0]["source"]["dropped"] == [{"kind": "share/secret", "count": 1}]


def test_a_bare_array_is_a_wrapped_event_that_says_its_session_was_guessed() -> None:
    main, child = convert(CONCATENATED)

    (diffs,) = of_type(main, "opencode/diffs")
    (todos,) = of_type(child, "opencode/todos")
    assert diffs["data"]["value"][0]["after"] == "wet\n"
    assert todos["data"]["value"][0]["content"] == "pull the weeds"
    assert diffs["native"] == todos["native"] == {"session-assigned-by": "position"}


def test_only_what_a_person_wrote_is_called_human() -> None:
    user = {"sessionID": "s", "role": "user"}
    text = {"sessionID": "s", "type": "text", "text": "x"}
    data = sequence(
        {**user, "id": "m1"},
        {**text, "id": "prt_1", "messageID": "m1"},
        {**text, "id": "prt_2", "messageID": "m1", "synthetic": True},
        {**user, "id": "m2"},
        {**text, "id": "prt_3", "messageID": "m2", "synthetic": True},
        {**user, "id": "m3"},
    )

    (record,) = convert(data)
    _, child = convert(CONCATENATED)

    actors = {entry["id"]: entry["actor"] for entry in flat(record["session"]["entries"])}
    assert actors == {
        "m1": "human",
        "prt_1": "human",
        "prt_2": "system",
        "m2": "system",
        "prt_3": "system",
        "m3": "unknown",
    }
    assert {entry["actor"] for entry in of_type(child, "user")} == {"agent"}


def test_a_part_without_its_message_is_kept_and_keeps_the_messages_name() -> None:
    data = sequence({"id": "prt_1", "sessionID": "s", "messageID": "gone", "type": "text", "text": "who said this?"})

    (record,) = convert(data)

    (event,) = record["session"]["entries"]
    assert (event["event-type"], event["actor"]) == ("opencode/text", "unknown")
    assert event["data"] == {"messageID": "gone", "text": "who said this?"}


def test_a_second_object_of_one_id_is_an_event_that_names_the_first() -> None:
    message = {"id": "m", "sessionID": "s", "role": "user", "time": {"created": 1767225601000}}
    part = {"id": "prt_1", "sessionID": "s", "messageID": "m", "type": "text", "text": "x"}
    data = sequence(message, message, part, part, {"id": "s", "directory": "/d"}, {"id": "s", "directory": "/e"})

    (record,) = convert(data)

    ids = [entry["id"] for entry in flat(record["session"]["entries"]) if "id" in entry]
    assert sorted(ids) == ["m", "prt_1"]
    again = [entry for entry in flat(record["session"]["entries"]) if "duplicate-of" in entry.get("native", {})]
    assert [entry["event-type"] for entry in again] == ["opencode/text", "opencode/message", "opencode/session"]
    assert_every_unit_is_named(data, [record])


def test_objects_that_name_no_session_at_all_are_in_a_record_with_a_derived_id() -> None:
    data = sequence({"id": "p", "worktree": "/w"}, [1], 7, {"strange": None})

    (record,) = convert(data)

    assert record["session"]["session-id"][14] == "5"  # UUID version
    kinds = [entry["event-type"] for entry in record["session"]["entries"]]
    assert kinds == ["opencode/project", "opencode/array", "opencode/value", "opencode/object"]
    assert record["session"]["entries"][3]["data"] == {"strange": None}
    assert_every_unit_is_named(data, [record])


def test_a_packed_tree_finds_by_its_path_what_an_object_does_not_say() -> None:
    files = {
        "session/proj/ses_1.json": b'{"id": "ses_1", "projectID": "proj", "directory": "/a"}\n',
        "session/proj/ses_2.json": b'{"id": "ses_2", "projectID": "proj", "directory": "/b"}',
        "message/ses_1/msg_1.json": b'{"id": "msg_1", "sessionID": "ses_1", "role": "user"}',
        "message/ses_2/msg_2.json": b'{"id": "msg_2", "role": "user"}',
        "part/msg_1/prt_1.json": b'{"id": "prt_1", "type": "text", "text": "one"}',
        "part/msg_2/prt_2.json": b'{"id": "prt_2", "type": "text", "text": "two"}',
        "part/msg_2/prt_3.json": b"",
        "session_diff/ses_1.json": b"[]",
        "todo/ses_2.json": b"[]",
        "session_share/ses_1.json": b'{"id": "zzz", "secret": "s", "url": "u"}',
        "project/proj.json": b'{"id": "proj", "worktree": "/a", "vcs": "git"}',
        "migration": b"2",
    }
    data = tree.pack(files)

    one, two = convert(data)

    assert [entry["content"] for entry in of_type(one, "user") if "content" in entry] == ["one"]
    assert [entry["content"] for entry in of_type(two, "user") if "content" in entry] == ["two"]
    assert not any("session-assigned-by" in entry.get("native", {}) for entry in of_type(one, "opencode/diffs"))
    assert [len(of_type(one, f"opencode/{kind}")) for kind in ("diffs", "share", "todos")] == [1, 1, 0]
    assert len(of_type(two, "opencode/todos")) == 1
    # A file is named by its path and by the hash that any tool gives for it; an empty one is counted.
    session = of_type(one, "opencode/session")[0]["source-ref"]
    assert session["path"] == "session/proj/ses_1.json"
    assert session["sha-256"] == hashlib.sha256(files["session/proj/ses_1.json"]).hexdigest()
    assert {"kind": "empty-file", "count": 1} in one["source"]["dropped"] + two["source"]["dropped"]
    assert_every_unit_is_named(data, [one, two])


def test_a_broken_file_of_a_tree_is_named_by_its_path() -> None:
    with pytest.raises(MalformedError, match=r"todo/ses_1\.json: line 1, column 2"):
        convert(tree.pack({"message/ses_1/m.json": b"{}", "todo/ses_1.json": b"[}"}))


def test_reading_never_stops_silently_at_a_bad_byte() -> None:
    cut = CONCATENATED.replace(b'"role": "user"', b'"role": user', 1)

    with pytest.raises(MalformedError, match="line 105, column 11"):
        convert(cut)
    with pytest.raises(MalformedError, match="no JSON value"):
        convert(b" \n")


def test_unknown_kinds_are_warned_of_with_their_place() -> None:
    data = sequence(
        {"id": "p", "sessionID": "s", "messageID": "m", "type": "hologram"},
        {"id": "m", "sessionID": "s", "role": "oracle"},
        {"odd": 1},
    )

    (record,) = convert(data)

    assert opencode.check(CONCATENATED, OPENCODE) == []
    assert [each.pointer for each in opencode.check(data, OPENCODE)] == [
        "value 0: /type",
        "value 1: /role",
        "value 2: ",
    ]
    (oracle, _) = record["session"]["entries"]
    assert oracle["event-type"] == "opencode/oracle"
    assert oracle["children"][0]["event-type"] == "opencode/hologram"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample records are not beside this checkout")
def test_the_sample_of_two_merged_sessions_is_split_with_all_its_parents_resolved() -> None:
    data = (SAMPLES / "xor-arvo-claude-opus-4-5.concat.json").read_bytes()
    started = time.process_time()

    records = convert(data)

    assert time.process_time() - started < 5
    assert [record["source"]["native-units"] for record in records] == [61, 561]
    assert_every_unit_is_named(data, records)
    for record in records:
        assert not check_vac(record).violations["-00"]
        entries = list(flat(record["session"]["entries"]))
        ids = {entry["id"] for entry in entries if "id" in entry}
        parents = [entry["parent-id"] for entry in entries if "parent-id" in entry]
        assert parents
        assert set(parents) <= ids
        times = [entry["timestamp"] for entry in entries if "timestamp" in entry]
        assert times == sorted(times)
        assert len(of_type(record, "tool-call")) == len(of_type(record, "tool-result"))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample records are not beside this checkout")
def test_the_sample_tree_is_read_by_its_paths() -> None:
    root = SAMPLES / "agent-sessions-storage_v2"
    data = tree.pack({path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.json")})

    records = convert(data)

    assert [record["session"]["session-id"] for record in records] == ["s_stage0_large", "s_stage0_small"]
    assert "Found 2 files." in [entry.get("content") for entry in flat(records[1]["session"]["entries"])]
    assert_every_unit_is_named(data, records)
    assert all(not check_vac(record).violations["-00"] for record in records)
