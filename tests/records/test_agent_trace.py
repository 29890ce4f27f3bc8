"""Agent Trace: lines go to file-attribution, every range is named by an entry, the original is kept whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transparency.errors import MalformedError
from transparency.records import agent_trace
from transparency.records.extents import Extents
from transparency.records.format import AGENT_TRACE, AGENT_TRACE_JSONL
from transparency.records.vac_check import check_vac

FIXTURES = Path(__file__).parent.parent / "fixtures" / "records" / "agent-trace"
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "agent-trace"
NOW = "2026-05-01T00:00:00.000Z"
RECORD = (FIXTURES / "record.json").read_bytes()
LINES = (FIXTURES / "traces.jsonl").read_bytes()
FLAT = (FIXTURES / "flat.jsonl").read_bytes()

Document = dict[str, Any]


def converted(data: bytes) -> list[Document]:
    known = AGENT_TRACE_JSONL if b"\n{" in data.rstrip() else AGENT_TRACE
    return [draft.finish(data, NOW) for draft in agent_trace.sessions(data, known)]


def named(records: list[Document]) -> set[str]:
    return {json.dumps(entry["source-ref"]) for record in records for entry in record["session"]["entries"]}


def document() -> Document:
    loaded: Document = json.loads(RECORD)
    return loaded


def found(value: object) -> list[tuple[str, str]]:
    return [(one.level, one.pointer) for one in agent_trace.check(json.dumps(value).encode(), AGENT_TRACE)]


@pytest.mark.parametrize("data", [RECORD, LINES, FLAT], ids=["record", "lines", "flat"])
def test_every_range_is_named_and_the_records_are_valid(data: bytes) -> None:
    records = converted(data)

    assert named(records) == {json.dumps(unit.source_ref()) for unit in agent_trace.units(data)}
    assert all(check_vac(record).is_valid("-00") for record in records)
    assert sum(record["source"]["native-units"] for record in records) == len(list(agent_trace.units(data)))


def test_a_unit_is_a_range_with_the_bytes_it_stands_in() -> None:
    units = list(agent_trace.units(RECORD))

    assert [unit.ref["path"] for unit in units] == [
        "/files/0/conversations/0/ranges/0",
        "/files/0/conversations/0/ranges/1",
        "/files/1/conversations/0/ranges/0",
        "/files/1/conversations/0/ranges/1",
    ]
    assert units[1].raw == b'{"start_line": 12, "end_line": 12, "contributor": {"type": "human"}}'


def test_a_line_of_jsonl_is_in_the_reference() -> None:
    refs = [unit.ref for unit in agent_trace.units(LINES)]

    assert refs[0] == {"line": 1, "path": "/files/0/conversations/0/ranges/0"}
    assert refs[2] == {"line": 3}


def test_what_the_record_says_of_itself_stays_what_it_was() -> None:
    (record,) = converted(RECORD)

    assert record["id"] == "6f0c2f0e-52a1-4f5e-9f0c-1f6f0a7f3b21"
    assert record["created"] == "2026-03-01T12:00:00.000Z"
    assert record["recording-agent"] == {"name": "example-editor", "version": "1.4.0"}
    assert record["vcs"] == {"type": "git", "revision": "0123456789abcdef0123456789abcdef01234567"}
    assert record["native"]["agent-trace"] == document()


def test_the_session_is_made_up_and_says_so() -> None:
    (record,) = converted(RECORD)
    session = record["session"]

    assert session["synthetic"] is True
    assert session["session-id"] == "s-41"
    assert session["agent-meta"]["model-id"] == "acme/m-large"
    assert session["agent-meta"]["model-provider"] == "acme"
    assert session["agent-meta"]["models"] == ["acme/m-large", "other/m-small"]
    assert "session-start" not in session


def test_ranges_become_file_attribution() -> None:
    (record,) = converted(RECORD)
    kettle, tap = record["file-attribution"]["files"]

    assert kettle["conversations"] == [
        {
            "url": "https://example.org/c/1",
            "contributor": {"type": "ai", "model-id": "acme/m-large"},
            "ranges": [
                {"start-line": 3, "end-line": 9, "content-hash": "9f2e8a1b", "content-hash-alg": "murmur3"},
                {"start-line": 12, "end-line": 12, "contributor": {"type": "human"}},
            ],
            "related": [{"type": "session", "url": "https://example.org/s/1"}],
        }
    ]
    whole, cut = tap["conversations"][0]["ranges"]
    assert whole["content-hash-alg"] == "sha-256"
    assert (cut["content-hash"], cut["content-hash-alg"]) == ("e3b0c44298fc1c14", "sha256")


def test_a_hash_without_algorithm_does_not_pass_for_sha_256() -> None:
    value = document()
    value["files"][0]["conversations"][0]["ranges"][0]["content_hash"] = "9f2e8a1b"

    (record,) = converted(json.dumps(value).encode())

    made = record["file-attribution"]["files"][0]["conversations"][0]["ranges"][0]
    assert (made["content-hash"], made["content-hash-alg"]) == ("9f2e8a1b", "unknown")


def test_a_path_that_is_no_file_is_an_event_and_attributes_nothing() -> None:
    first = converted(LINES)[0]

    assert first["file-attribution"] == {"files": []}
    assert first["session"]["entries"][0]["event-type"] == "agent-trace/session-event"
    assert first["session"]["session-id"] == "s-1"


def test_a_tool_without_name_is_unknown_and_listed_as_filled() -> None:
    second = converted(LINES)[1]

    assert second["recording-agent"] == {"name": "unknown"}
    assert second["source"]["filled"] == ["recording-agent.name"]
    assert second["session"]["session-id"] == "22222222-2222-4222-8222-222222222222"


def test_a_line_that_is_no_trace_is_kept_whole() -> None:
    third = converted(LINES)[2]

    (entry,) = third["session"]["entries"]
    assert entry["event-type"] == "agent-trace/record"
    assert entry["data"] == json.loads(LINES.splitlines()[2])


def test_flat_lines_are_one_record_for_each_session() -> None:
    first, second = converted(FLAT)

    assert [record["session"]["session-id"] for record in (first, second)] == ["s-1", "s-2"]
    assert first["file-attribution"] == {
        "files": [
            {
                "path": "/home/a/x.py",
                "conversations": [
                    {
                        "ranges": [
                            {
                                "start-line": 4,
                                "end-line": 6,
                                "content-hash": "f761763ec88b9451bb3f26bcf38c0b62",
                                "content-hash-alg": "murmur3",
                            },
                            {"start-line": 9, "end-line": 9},
                        ]
                    }
                ],
            }
        ]
    }
    entry = first["session"]["entries"][0]
    assert entry["timestamp"] == "2026-05-16T20:45:23.658Z"
    assert entry["data"]["tool_use_id"] == "t1"
    assert first["id"] != second["id"]


@pytest.mark.parametrize(
    "wrong",
    [7, "x", None, [], {"start_line": 0, "end_line": 1}, {"start_line": True, "end_line": 1}, {"start_line": 1.0}],
)
def test_a_range_that_is_none_is_kept_but_attributes_nothing(wrong: object) -> None:
    value = document()
    value["files"] = [{"path": "a", "conversations": [{"ranges": [wrong]}]}]
    data = json.dumps(value).encode()

    (record,) = converted(data)

    assert record["file-attribution"] == {"files": []}
    assert named([record]) == {json.dumps(unit.source_ref()) for unit in agent_trace.units(data)}
    assert len(record["session"]["entries"]) == 1
    assert check_vac(record).is_valid("-00")


def test_the_fixture_follows_the_schema_but_for_a_cut_digest() -> None:
    assert found(document()) == [("warning", "/files/1/conversations/0/ranges/1/content_hash")]


def changed(change: Callable[[Document], object]) -> Document:
    value = document()
    del value["files"][1]
    change(value)
    return value


def conversation(root: Document) -> Document:
    made: Document = root["files"][0]["conversations"][0]
    return made


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (lambda root: root.pop("version"), "/version"),
        (lambda root: root.update(version=1), "/version"),
        (lambda root: root.pop("id"), "/id"),
        (lambda root: root.pop("timestamp"), "/timestamp"),
        (lambda root: root.pop("files"), "/files"),
        (lambda root: root.update(files={}), "/files"),
        (lambda root: root.update(metadata=[]), "/metadata"),
        (lambda root: root.update(tool="editor"), "/tool"),
        (lambda root: root["vcs"].pop("revision"), "/vcs/revision"),
        (lambda root: root["vcs"].update(type="cvs"), "/vcs/type"),
        (lambda root: root["files"].append(1), "/files/1"),
        (lambda root: root["files"][0].pop("path"), "/files/0/path"),
        (lambda root: conversation(root).pop("ranges"), "/files/0/conversations/0/ranges"),
        (lambda root: conversation(root).update(url=1), "/files/0/conversations/0/url"),
        (
            lambda root: conversation(root)["ranges"][0].update(start_line=0),
            "/files/0/conversations/0/ranges/0/start_line",
        ),
        (lambda root: conversation(root)["ranges"][0].pop("end_line"), "/files/0/conversations/0/ranges/0/end_line"),
        (
            lambda root: conversation(root)["contributor"].update(type="cat"),
            "/files/0/conversations/0/contributor/type",
        ),
        (
            lambda root: conversation(root)["contributor"].update(model_id="m/" * 126),
            "/files/0/conversations/0/contributor/model_id",
        ),
        (lambda root: conversation(root)["related"][0].pop("url"), "/files/0/conversations/0/related/0/url"),
    ],
)
def test_a_wrong_shape_is_a_violation(change: Callable[[Document], object], pointer: str) -> None:
    assert ("violation", pointer) in found(changed(change))


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (lambda root: root.update(version="1.0"), "/version"),
        (lambda root: root.update(id="trace-1"), "/id"),
        (lambda root: root.update(timestamp="2026-03-01 12:00"), "/timestamp"),
        (lambda root: root.update(metadata=None), "/metadata"),
        (lambda root: root.update(agent="x"), "/agent"),
        (lambda root: root["vcs"].update(revision="HEAD"), "/vcs/revision"),
        (lambda root: root["files"][0].update(path="../../etc/passwd"), "/files/0/path"),
        (lambda root: root["files"][0].update(path="/etc/passwd"), "/files/0/path"),
        (lambda root: root["files"][0].update(path="src\\a.py"), "/files/0/path"),
        (lambda root: root["files"][0].update(path=".shell-history"), "/files/0/path"),
        (lambda root: conversation(root).update(url="file://c:\\x"), "/files/0/conversations/0/url"),
        (lambda root: conversation(root).update(kind="chat"), "/files/0/conversations/0/kind"),
        (lambda root: conversation(root)["ranges"][0].update(end_line=1), "/files/0/conversations/0/ranges/0/end_line"),
        (
            lambda root: conversation(root)["ranges"][0].update(content_hash="9f"),
            "/files/0/conversations/0/ranges/0/content_hash",
        ),
        (
            lambda root: conversation(root)["contributor"].update(model_id="m-large"),
            "/files/0/conversations/0/contributor/model_id",
        ),
    ],
)
def test_what_real_tools_write_is_a_warning(change: Callable[[Document], object], pointer: str) -> None:
    assert found(changed(change)) == [("warning", pointer)]


def test_lower_case_times_are_rfc_3339_too() -> None:
    assert found(changed(lambda root: root.update(timestamp="2026-03-01t12:00:00z"))) == []


def test_pointers_into_jsonl_name_the_line() -> None:
    found_in_lines = agent_trace.check(LINES, AGENT_TRACE_JSONL)

    assert ("warning", "line 2: /files/0/path") in [(one.level, one.pointer) for one in found_in_lines]
    assert ("violation", "line 3: /files") in [(one.level, one.pointer) for one in found_in_lines]


def test_the_flat_dialect_is_warned_of_on_every_line() -> None:
    found_in_flat = agent_trace.check(FLAT, AGENT_TRACE_JSONL)

    assert {one.level for one in found_in_flat} == {"warning"}
    assert [one.pointer for one in found_in_flat if "dialect" in one.message] == ["line 1: ", "line 2: ", "line 3: "]


def test_a_broken_line_is_refused_with_its_number() -> None:
    data = LINES.splitlines()[0] + b'\n{"version": "0.1.0", "version": 1}\n'

    with pytest.raises(MalformedError, match="line 2, column"):
        list(agent_trace.units(data))


def test_a_broken_document_is_refused_where_it_breaks() -> None:
    with pytest.raises(MalformedError, match="line 2"):
        list(agent_trace.units(b'{\n"version": ]\n}'))


def test_extents_are_exact_whatever_the_strings_hold() -> None:
    data = '{"a{": [ {"x": "]}\\"["} , [] , "ü[" , 7 ], "b": {}}'.encode()
    value = json.loads(data)

    extents = Extents(data, value)

    assert extents.raw(value) == data
    assert [raw for _, raw, _ in extents.items(value["a{"])] == [b'{"x": "]}\\"["}', b"[]", '"ü["'.encode(), b"7"]
    assert extents.raw(value["b"]) == b"{}"


SAMPLE_FILES = sorted(path for path in SAMPLES.glob("*.json*") if "schema" not in path.name) if SAMPLES.is_dir() else []


@pytest.mark.skipif(not SAMPLE_FILES, reason="../shared/samples/agent-trace is not here")
@pytest.mark.parametrize("path", SAMPLE_FILES, ids=lambda path: path.name)
def test_every_sample_checks_as_predicted_and_converts_completely(path: Path) -> None:
    data = path.read_bytes()

    records = converted(data)

    levels = {one.level for one in agent_trace.check(data, AGENT_TRACE)}
    assert levels == ({"warning"} if path.suffix == ".jsonl" else set())
    assert all(check_vac(record).is_valid("-00") for record in records)
    assert named(records) == {json.dumps(unit.source_ref()) for unit in agent_trace.units(data)}
