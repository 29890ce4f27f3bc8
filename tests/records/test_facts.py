"""Facts: what a record is found by. The converters, which read everything, are the oracle for the quick walks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.errors import MalformedError
from transparency.records import convert, tree, vac_cbor
from transparency.records import format as known
from transparency.records.detect import detect
from transparency.records.facts import _WALKS, NONE, RecordFacts, facts
from transparency.records.facts_gathering import MAX_CHARS, MAX_MODELS, MAX_PATHS, MAX_TOOLS

RECORDS = Path(__file__).parent.parent / "fixtures" / "records"
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
FOLDER = RECORDS / "claude" / "folder"
SMALL = 4 * 1024 * 1024


def fixture(name: str) -> bytes:
    return (RECORDS / name).read_bytes()


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.suffix in {".json", ".jsonl", ".cbor"})


def folder(root: Path) -> bytes:
    return tree.pack({path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.json*")})


EXPECTED = {
    "claude/session.jsonl": RecordFacts(
        "claude-jsonl",
        ("5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c",),
        "anthropic",
        "claude-code",
        "2.1.80",
        ("claude-opus-4-6", "claude-sonnet-4-6"),
        ("Read", "Edit", "web_search", "Task"),
        "/home/dev/shop",
        ("cart.py",),
        1772445601000,
        1772445624000,
    ),
    "codex/session.jsonl": RecordFacts(
        "codex-jsonl",
        ("0196a0b0-0000-7000-8000-00000000c0de",),
        "openai",
        "codex-cli",
        "0.146.0",
        ("gpt-5.6-luna", "gpt-5.6-sol"),
        ("exec_command", "apply_patch", "local_shell", "tool_search", "web_search", "image_generation"),
        "/home/ana/clock",
        ("a.txt",),
        1777885201500,
        1777885240500,
    ),
    "agentlog/every-event.agentlog.json": RecordFacts(
        "agentlog-0.2",
        ("3a1c77a0-9d1e-4b6c-8a57-0f6f3a1d2b10",),
        "acme",
        "Example Agent",
        None,
        ("m-large",),
        ("Grep", "Boil"),
        "/srv/kettle",
        ("heater.py",),
        1775116800000,
        1775117400000,
    ),
    "agent-trace/record.json": RecordFacts(
        "agent-trace-0.1",
        ("s-41",),
        "example-editor",
        "example-editor",
        "1.4.0",
        ("acme/m-large", "other/m-small"),
        (),
        None,
        ("src/kettle.py", "src/tap.py"),
        1772366400000,
        1772366400000,
    ),
    "agent-trace/flat.jsonl": RecordFacts(
        "agent-trace-0.1",
        ("s-1", "s-2"),
        None,
        None,
        None,
        (),
        ("Edit", "Write"),
        None,
        ("/home/a/x.py", "y.py"),
        1778964323658,
        1778964420000,
    ),
    "cursor/tool-use.jsonl": RecordFacts(
        "cursor-jsonl",
        ("31a47ebc-614c-5db0-a76f-77f92858a09f",),
        "anysphere",
        "cursor",
        None,
        (),
        ("Read", "Glob"),
        None,
        ("/home/ada/trees.txt",),
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_record_is_found_by_what_it_names(name: str) -> None:
    assert facts(fixture(name)) == EXPECTED[name]


def test_files_that_opencode_touched_and_read_are_paths() -> None:
    found = facts(fixture("opencode/sessions.concat.json"))

    assert found.sessions == ("ses_mainWATERING", "ses_child001")
    assert found.folder == "/home/ada/garden"
    assert "bed.py" in found.paths
    assert "/none" in found.paths


def test_a_packed_folder_gives_the_session_and_its_sub_agents() -> None:
    found = facts(folder(FOLDER))

    assert set(found.sessions) == {"5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c", "agent-a1b2c3"}


def test_an_a2a_trace_gives_the_traces_inside_it_too() -> None:
    found = facts(fixture("a2a/proto.json"))

    assert (found.sessions, found.tools) == (("t-outer", "t-inner"), ("boil", "open"))


def test_a_record_in_cbor_has_the_facts_of_the_same_record_in_json() -> None:
    data = fixture("vac/published.json")

    assert facts(vac_cbor.dumps(json.loads(data))) == facts(data)


def oracle(data: bytes) -> tuple[set[str], set[str], set[str]] | None:
    """Sessions, models and tools by whole conversion; None where there is none."""
    try:
        detected = detect(data)
        records = convert.convert(data, created="2026-01-01T00:00:00Z", detected=detected)
    except MalformedError:
        return None
    sessions = [record["session"] for record in records]
    metas = [session["agent-meta"] for session in sessions]
    models = {model for meta in metas for model in (meta["model-id"], *meta.get("models", ()))}
    entries = (entry for session in sessions for entry in convert.flat(session["entries"]))
    tools = {entry["name"] for entry in entries if entry["type"] == "tool-call"}
    return {session["session-id"] for session in sessions}, models - {"unknown"}, tools


# What converters make up where the record names nothing: an id from the bytes, a tool for an event that is none.
MADE_UP = {"7ee01746-151b-5253-b643-3418374c0a6a", "attribution-1", "a2a:tap", "file.edit", "terminal"}


def agrees(data: bytes, found: RecordFacts) -> None:
    expected = oracle(data)
    if expected is None:
        return
    sessions, models, tools = expected
    assert sessions - MADE_UP <= set(found.sessions)
    assert models <= set(found.models)
    assert tools - MADE_UP <= set(found.tools)


@pytest.mark.parametrize("path", files(RECORDS), ids=lambda path: path.relative_to(RECORDS).as_posix())
def test_the_quick_walk_finds_what_whole_conversion_finds(path: Path) -> None:
    data = path.read_bytes()

    agrees(data, facts(data))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="../shared/samples is not here")
@pytest.mark.parametrize("kind", ["claude-code", "codex-cli", "cursor", "gemini-cli", "opencode", "vac"])
def test_it_does_so_on_real_sessions(kind: str) -> None:
    chosen = [path for path in files(SAMPLES / kind) if path.stat().st_size < SMALL][:12]
    assert chosen

    for path in chosen:
        data = path.read_bytes()
        agrees(data, facts(data))


@pytest.mark.parametrize("data", [b"", b"{", b"\x00\xff", b"[]", b"not a record", b'{"a":1}', b"\xd2\x84", b"{}" * 3])
def test_what_is_no_record_has_no_facts_and_raises_nothing(data: bytes) -> None:
    assert facts(data) == NONE


def test_a_line_that_cannot_be_read_costs_no_other_line_its_facts() -> None:
    data = fixture("claude/session.jsonl")

    assert facts(data + b'{"type":"assistant","mess').tools == facts(data).tools


def claude(*blocks: object, **message: object) -> bytes:
    line = {"type": "assistant", "sessionId": "s", "message": {"content": list(blocks), **message}}
    return (json.dumps(line) + "\n").encode() * 2


def use(name: object, path: object) -> dict[str, object]:
    return {"type": "tool_use", "name": name, "input": {"file_path": path}}


def test_counts_are_bounded_and_what_was_left_out_is_said() -> None:
    many = [use(f"tool-{number}", f"file-{number}") for number in range(2000)]

    found = facts(claude(*many))

    assert (len(found.tools), len(found.paths), found.complete) == (MAX_TOOLS, MAX_PATHS, False)
    assert MAX_MODELS < MAX_TOOLS


def test_a_long_name_is_left_out_and_never_cut() -> None:
    found = facts(claude(use("x" * (MAX_CHARS + 1), "y" * MAX_CHARS)))

    assert (found.tools, found.paths, found.complete) == ((), ("y" * MAX_CHARS,), False)


def test_half_a_surrogate_pair_is_no_name() -> None:
    assert facts(claude(use("\ud800", "ok"))).tools == ()


@pytest.mark.parametrize("wrong", [1, None, [], {}, True, ""])
def test_members_of_the_wrong_type_are_passed_over(wrong: object) -> None:
    found = facts(claude(use(wrong, wrong), wrong, model=wrong))

    assert (found.models, found.tools, found.paths) == ((), (), ())


def test_deep_nesting_gives_no_facts_rather_than_an_error() -> None:
    deep = b'{"type":"user","sessionId":"s","message":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"

    assert facts(deep + deep).tools == ()


MEMBERS = [
    "type", "message", "content", "name", "input", "payload", "session", "steps", "trace_id", "files", "conversations",
    "info", "messages", "events", "agent", "specVersion", "version", "id", "sessionID", "model", "time", "toolCalls",
    "args", "session-id", "agent-meta", "entries", "text",
]  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=6),
    max_leaves=30,
)


@given(json_values, st.integers(1, 3))
def test_any_json_at_all_raises_nothing(value: object, times: int) -> None:
    found = facts((json.dumps(value) + "\n").encode() * times)

    assert isinstance(found, RecordFacts)


def test_every_format_has_a_walk() -> None:
    assert set(_WALKS) == set(known.FORMATS)
