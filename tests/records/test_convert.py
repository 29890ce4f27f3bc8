"""Conversion through one door: every format by our own fixtures, and the rules they share (formats.md 8.1)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.records.conversions import CREATED, assert_nothing_is_lost, assert_repeatable
from transparency.errors import MalformedError
from transparency.records import canonical_json, convert, strict_json, tree, vac_cbor
from transparency.records.detect import detect
from transparency.records.format import A2A, CODEX, FORMATS, Format
from transparency.records.strict_json import BOM
from transparency.records.trace_metadata import TraceMetadata, compare, describe, describe_or_reason
from transparency.records.vac_check import check_vac

RECORDS = Path(__file__).parent.parent / "fixtures" / "records"
NATIVE = sorted(
    path
    for folder in ("a2a", "agent-trace", "agentlog", "claude", "codex", "cursor", "gemini", "opencode")
    for path in (RECORDS / folder).glob("*.*")
)
CLAUDE = (RECORDS / "claude" / "session.jsonl").read_bytes()
VAC = (RECORDS / "session.vac.json").read_bytes()


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_fixture_is_what_its_folder_says_and_loses_nothing(path: Path) -> None:
    data = path.read_bytes()
    detected = detect(data)

    records = assert_nothing_is_lost(data, detected)

    assert detected.format.event_prefix == path.parent.name
    for record in records:
        source = record["source"]
        assert (source["raw-hash"], source["raw-size"]) == (hashlib.sha256(data).hexdigest(), len(data))
        assert (source["format"], source["media-type"]) == (detected.format.trace_format, detected.format.content_type)
        assert record["created"] == CREATED or detected.format.event_prefix == "agent-trace"


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_converting_twice_gives_the_same_bytes(path: Path) -> None:
    data = path.read_bytes()

    assert_repeatable(data, detect(data))


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_describe_writes_of_a_fixture_agrees_with_it_or_the_reason_is_said(path: Path) -> None:
    data = path.read_bytes()

    metadata, reason = describe_or_reason(data)

    if metadata is None:
        assert reason
    else:
        findings = compare(metadata.to_map(), data, where="label 100")
        assert {finding.level for finding in findings} == {"pass"}
        assert metadata.trace_format == detect(data).format.trace_format


def test_every_format_has_a_converter_or_is_the_canonical_one() -> None:
    assert set(FORMATS) == set(convert._LOADERS) | set(convert.VAC)


@pytest.mark.parametrize("data", [VAC, json.dumps(json.loads(VAC), indent=8).encode()], ids=["as it is", "reindented"])
def test_a_valid_record_converts_to_itself_byte_for_byte(data: bytes) -> None:
    assert list(convert.convert_to_bytes(data, created=CREATED)) == [data]
    assert convert.convert(data, created=CREATED) == [json.loads(data)]


def test_a_valid_record_in_cbor_converts_to_the_same_record() -> None:
    record = json.loads(VAC)

    assert convert.convert(vac_cbor.dumps(record, tagged=True), created=CREATED) == [record]
    assert convert.outline(vac_cbor.dumps(record)) == convert.outline(VAC)


def test_a_record_of_february_is_upgraded() -> None:
    data = (RECORDS / "vac" / "february.json").read_bytes()

    (record,) = convert.convert(data, created=CREATED)

    assert not check_vac(record).violations["-00"]
    assert record["source"]["raw-hash"] == hashlib.sha256(data).hexdigest()


def test_a_byte_order_mark_is_hashed_with_the_file_noted_and_not_read() -> None:
    data = BOM + CLAUDE

    (marked,) = convert.convert(data, created=CREATED)
    (plain,) = convert.convert(CLAUDE, created=CREATED)

    assert marked["source"]["byte-order-mark"] is True
    assert marked["source"]["raw-hash"] == hashlib.sha256(data).hexdigest()
    assert marked["session"] == plain["session"]
    assert "byte order mark" in convert.check(data)[0].message


def test_the_mark_before_a_19_feb_record_is_hashed_with_it_too() -> None:
    data = BOM + (RECORDS / "vac" / "february.json").read_bytes()

    (record,) = convert.convert(data, created=CREATED)

    assert record["source"]["raw-hash"] == hashlib.sha256(data).hexdigest()
    assert record["source"]["raw-size"] == len(data)
    assert record["source"]["byte-order-mark"] is True


def test_what_is_converted_can_be_read_again_or_is_refused() -> None:
    def session(depth: int) -> bytes:
        return json.dumps({"type": "new", "sessionId": "s", "held": json.loads("[" * depth + "]" * depth)}).encode()

    (readable,) = convert.convert_to_bytes(session(59), created=CREATED)

    assert len(convert.convert(readable, created=CREATED)) == 1
    strict_json.loads(session(63))  # the line itself is not too deep
    with pytest.raises(MalformedError, match="more than 64 deep"):
        convert.convert(session(63), created=CREATED)


def test_a_record_with_a_byte_order_mark_is_described_by_its_whole_bytes() -> None:
    metadata = describe(BOM + CLAUDE)

    assert metadata is not None
    assert metadata.content_hash == hashlib.sha256(BOM + CLAUDE).hexdigest()


def test_a_vac_record_with_anything_for_a_call_id_is_outlined_all_the_same() -> None:
    def finished(*entries: object) -> bool:
        record = json.loads(VAC)
        record["session"]["entries"] = entries
        return convert.outline(json.dumps(record).encode()).finished

    call = {"type": "tool-call", "name": "n", "input": None}

    assert not finished({**call, "call-id": {"a": 1}})
    assert finished({**call, "call-id": []}, {"type": "tool-result", "output": 1, "call-id": [1]})
    assert not finished(None, {**call, "call-id": "c"})  # what is no entry does not end the list


def test_a_signed_statement_is_not_converted_but_told_from_a_record() -> None:
    with pytest.raises(MalformedError, match="its payload"):
        convert.convert(b"\xd2\x84\x43\xa1\x01\x26\xa0\xf6\x40", created=CREATED)


def test_trace_metadata_of_a_session_is_written_from_its_lines() -> None:
    metadata = describe(CLAUDE)

    assert metadata is not None
    assert metadata.to_map() == {
        "session-id": "5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c",
        "agent-vendor": "anthropic",
        "trace-format": "claude-jsonl",
        "timestamp-start": "2026-03-02T10:00:01.000Z",
        "timestamp-end": "2026-03-02T10:00:24.000Z",
        "content-hash": hashlib.sha256(CLAUDE).hexdigest(),
        "content-hash-alg": "sha-256",
    }


@pytest.mark.parametrize(
    ("members", "level"),
    [
        ({"trace-format": "ietf-vac-v3.0"}, {"trace-format": "fail"}),
        ({"trace-format": "codex-jsonl"}, {"trace-format": "fail"}),
        ({"session-id": "another"}, {"session-id": "fail"}),
        ({"session-id": b"5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c"}, {}),
        ({"timestamp-start": "1999-01-01T00:00:00Z"}, {"timestamp-start": "fail"}),
        ({"timestamp-end": "2026-03-02T11:00:24+01:00"}, {}),
        ({"agent-vendor": "openai"}, {"agent-vendor": "warn"}),
        ({"content-hash": "00" * 32}, {"content-hash": "fail"}),
    ],
)
def test_a_header_over_a_native_session_is_compared_with_it(members: dict[str, Any], level: dict[str, str]) -> None:
    described = describe(CLAUDE)
    assert described is not None

    findings = compare(described.to_map() | members, CLAUDE, where="label 100")

    assert {finding.member: finding.level for finding in findings if finding.level != "pass"} == level


def test_a_session_that_is_not_strict_cannot_carry_what_a_header_says() -> None:
    broken = CLAUDE + b'{"type": "user", "type": "user"}\n'
    stated = TraceMetadata("s", "anthropic", "claude-jsonl", "2026-03-02T10:00:01Z").to_map()

    assert "line 20, column" in describe_or_reason(broken)[1]
    assert [f.level for f in compare(stated, broken, where="x") if f.member == "trace-format"] == ["fail"]


def test_several_sessions_in_one_file_get_no_trace_metadata() -> None:
    two = CLAUDE + CLAUDE.replace(b"5b0d7a40", b"6c1e8b51")

    metadata, reason = describe_or_reason(two)

    assert metadata is None
    assert "2 sessions" in reason
    assert len(convert.convert(two, created=CREATED)) == 2


def test_a_packed_session_is_described_by_its_main_session() -> None:
    folder = RECORDS / "claude" / "folder"
    data = tree.pack({path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.json*")})

    metadata = describe(data)

    assert metadata is not None
    assert metadata.session_id == "5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c"
    assert_nothing_is_lost(data, detect(data))
    assert_repeatable(data, detect(data))


@pytest.mark.parametrize(
    ("entries", "done"),
    [
        ([], True),
        ([{"type": "tool-call", "call-id": "a"}], False),
        ([{"type": "tool-call", "call-id": "a"}, {"type": "tool-result", "call-id": "a"}], True),
        ([{"type": "tool-call", "call-id": "a"}, {"type": "system-event"}], False),
        ([{"type": "tool-call", "call-id": "a"}, {"type": "user", "content": "never mind"}], True),
        ([{"type": "tool-call"}, {"type": "tool-result"}], True),
        ([{"type": "tool-call"}], False),
        ([{"type": "assistant", "content": "x", "children": [{"type": "tool-call", "call-id": "a"}]}], False),
        ([{"type": "tool-call", "call-id": "a"}, {"type": "tool-call", "call-id": "b"},
          {"type": "tool-result", "call-id": "b"}], False),
    ],
)  # fmt: skip
def test_a_session_is_finished_when_no_call_of_its_last_turn_waits(entries: list[dict[str, Any]], done: bool) -> None:
    assert convert.finished(entries) is done


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", "\ud800", {1j: 2}])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(MalformedError):
        canonical_json.dumps({"value": value})


def test_canonical_bytes_are_compact_and_in_the_order_built() -> None:
    assert canonical_json.dumps({"b": [1, 1.5, None], "a": "é\n"}) == '{"b":[1,1.5,null],"a":"é\\n"}'.encode()


@pytest.mark.parametrize(
    ("data", "format_"),
    [
        (b'{"timestamp":"t","type":"event_msg","payload":{}}\n' * 3, CODEX),
        (b'{"trace_id":"t","steps":[]}', A2A),
    ],
)
def test_the_least_record_of_a_format_converts(data: bytes, format_: Format) -> None:
    detected = detect(data)

    assert detected.format is format_
    assert_nothing_is_lost(data, detected)
