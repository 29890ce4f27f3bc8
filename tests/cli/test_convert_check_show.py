"""Reading sessions: ``convert``, ``check`` and ``show``, on files that mean well and on files that do not."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, ROOT, Run, Served
from tests.cli.submitting import large
from tests.client.scripted import ISSUER_KEY
from transparency.cli import json_lines
from transparency.cli.timeline import Timeline
from transparency.cose import labels
from transparency.records.vac_check import check_vac
from transparency.statements.statement import sign_statement

RECORDS = ROOT / "tests" / "fixtures" / "records"
CLAUDE = RECORDS / "claude" / "session.jsonl"
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x1b[0m [bold red]✓ verified[/] \u202e reversed \x85\x9b31m\x7f over\rwritten"
# What a terminal obeys, or what turns or hides text: nothing of it may be printed, but for line breaks.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def statement_saying(metadata: dict[str, str]) -> bytes:
    """A detached statement with this as its signed trace-metadata."""
    headers: dict[int | str, Any] = {labels.TRACE_METADATA_SIGNED: metadata}
    return sign_statement(
        b"x", ISSUER_KEY, iss=ISS, sub="s", content_type="application/jsonl", headers=headers, detached=True
    )


def records_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# -- convert -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count"),
    [("claude/session.jsonl", 1), ("codex/session.jsonl", 1), ("gemini/session.json", 1), ("cursor/tool-use.jsonl", 1),
     ("opencode/sessions.concat.json", 2), ("agentlog/every-event.agentlog.json", 1), ("agent-trace/record.json", 1),
     ("a2a/proto.json", 1), ("session.vac.json", 1), ("vac/february.json", 1), ("claude/folder", 2)],
)  # fmt: skip
def test_convert_prints_one_canonical_record_a_line(good: Run, name: str, count: int) -> None:
    records = records_of(good("convert", RECORDS / name, "--json").stdout)

    assert len(records) == count
    for record in records:
        assert not check_vac(record).violations["-00"]


def test_a_record_that_is_canonical_is_written_byte_for_byte(good: Run, folder: Path) -> None:
    pretty = json.dumps(json.loads((RECORDS / "session.vac.json").read_bytes()), indent=2, ensure_ascii=False).encode()
    (folder / "v.json").write_bytes(pretty)

    good("convert", "v.json")
    printed = good("convert", "v.json", "--json").stdout

    assert (folder / "v.json.vac.json").read_bytes() == pretty
    assert printed.count("\n") == 1
    assert json.loads(printed) == json.loads(pretty)


def test_convert_writes_beside_the_session_and_says_what_is_missing(good: Run, run: Run, folder: Path) -> None:
    shutil.copy(RECORDS / "opencode" / "sessions.concat.json", folder / "o.json")

    told = good("convert", "o.json").stderr

    assert sorted(path.name for path in folder.iterdir()) == ["o.json", "o.json.vac-1.json", "o.json.vac-2.json"]
    assert "left out: share/secret (1)" in told
    assert run("convert", "o.json").exit_code == 73
    good("convert", "o.json", "--force")


def test_convert_goes_back_to_agentlog_and_says_what_is_lost(good: Run, folder: Path) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")

    result = good("convert", "s.jsonl", "--to", "agentlog")

    assert json.loads((folder / "s.jsonl.agentlog.json").read_bytes())["specVersion"] == "0.2.0"
    assert "warning:" in result.stderr


def test_convert_reads_standard_input(good: Run) -> None:
    (record,) = records_of(good("convert", "-", stdin=CLAUDE.read_bytes()).stdout)

    assert record["session"]["session-id"] == "5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04", "a ZIP archive"),
        (b"hello", "text that is not JSON"),
        (b'{"a": 1}', "unknown format"),
        (CLAUDE.read_bytes()[:-30], "line "),
        (b"\xd2\x84\x40", "a signed statement is not a record"),
    ],
    ids=["zip", "text", "json", "cut", "statement"],
)
@pytest.mark.parametrize("command", ["convert", "check", "show"])
def test_what_cannot_be_read_is_65_and_says_what_was_seen(
    run: Run, folder: Path, command: str, content: bytes, words: str
) -> None:
    (folder / "f").write_bytes(content)

    result = run(command, "f", *(["--json"] if command == "convert" else []))

    assert result.exit_code == 65
    assert words in result.stderr or (command == "show" and content.startswith(b"\xd2"))


@pytest.mark.parametrize("command", ["convert", "check", "show"])
def test_a_folder_of_several_sessions_is_a_question_back(run: Run, folder: Path, command: str) -> None:
    (folder / "all").mkdir()
    (folder / "none").mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        shutil.copy(CLAUDE, folder / "all" / name)

    several, empty, missing = run(command, "all"), run(command, "none"), run(command, "missing")

    assert (several.exit_code, empty.exit_code, missing.exit_code) == (65, 65, 66)
    assert "Name one of them" in several.stderr
    assert "Name a session's file" in empty.stderr


# -- check -------------------------------------------------------------------------------------------------------------


def test_check_is_0_for_a_clean_record(good: Run) -> None:
    assert "nothing to object to" in good("check", RECORDS / "session.vac.json").stdout


def test_check_is_3_for_warnings_only_and_names_the_place(run: Run) -> None:
    result = run("check", CLAUDE)

    assert result.exit_code == 3
    assert "some-new-type" in result.stdout
    assert "line " in result.stdout


def test_check_is_1_for_violations_with_json_pointers(run: Run, folder: Path) -> None:
    record = json.loads((RECORDS / "session.vac.json").read_bytes())
    record["session"]["entries"][0]["timestamp"] = "yesterday"
    (folder / "v.json").write_text(json.dumps(record))

    result = run("check", "v.json", "--json")

    body = json.loads(result.stdout)
    assert (result.exit_code, body["exit-code"], body["result"]) == (1, 1, "violations")
    assert any(each["pointer"] == "/session/entries/0/timestamp" for each in body["findings"])
    assert body["format"] == "ietf-vac-v3.0"
    assert "/session/entries/0/timestamp" in run("check", "v.json").stdout


def test_a_pointer_that_a_stranger_wrote_cannot_command_the_terminal(run: Run, folder: Path) -> None:
    record = json.loads((RECORDS / "agentlog" / "every-event.agentlog.json").read_bytes())
    record["events"][0]["type"] = HOSTILE
    record[HOSTILE] = 1
    (folder / "a.json").write_text(json.dumps(record))

    for words in (("check", "a.json"), ("check", "a.json", "--json")):
        result = run(*words)
        assert result.exit_code in (1, 3)
        assert not OBEYED.search(result.stdout)


def test_check_errors_are_json_when_asked(run: Run, folder: Path) -> None:
    (folder / "f").write_bytes(b"hello")

    assert json.loads(run("check", "f", "--json").stderr)["exit"] == 65


# -- show --------------------------------------------------------------------------------------------------------------


def test_show_tells_a_session_as_it_happened(good: Run) -> None:
    shown = good("show", CLAUDE).stdout

    assert "claude-code 2.1.80 · claude-opus-4-6, claude-sonnet-4-6 (anthropic)" in shown
    assert "20 in, 160 out, 3,600 cached" in shown
    order = ["▸ human", "Fix the total in cart.py", "… reasoning", "● assistant", "⚙ Read", "↳ result", "↳ error"]
    places = [shown.index(each) for each in order]
    assert places == sorted(places)
    assert "10:00:01" in shown
    assert "2026-03-02 UTC" in shown


@pytest.mark.parametrize("name", ["claude/session.jsonl", "codex/session.jsonl", "opencode/sessions.concat.json",
                                  "gemini/session.json", "cursor/tool-use.jsonl", "a2a/proto.json",
                                  "agentlog/every-event.agentlog.json", "agent-trace/record.json"])  # fmt: skip
def test_nothing_is_wider_than_the_terminal(good: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from rich.cells import cell_len

    monkeypatch.setenv("COLUMNS", "80")

    for words in ((), ("--full",)):
        lines = good("show", RECORDS / name, *words).stdout.splitlines()
        assert max(map(cell_len, lines)) <= 80


def test_show_counts_cost_and_names_child_sessions(good: Run) -> None:
    shown = good("show", RECORDS / "opencode" / "sessions.concat.json").stdout

    assert "cost 0.2500" in shown
    assert "session 2 of 2" in shown
    assert "parent    ses_mainWATERING" in shown


def hostile_session() -> bytes:
    lines = [
        {"type": "user", "uuid": "u1", "sessionId": HOSTILE, "cwd": HOSTILE, "version": HOSTILE,
         "timestamp": "2026-03-02T10:00:01.000Z", "message": {"role": "user", "content": HOSTILE}},
        {"type": "assistant", "uuid": "a1", "sessionId": HOSTILE, "timestamp": "2026-03-02T10:00:02.000Z",
         "message": {"id": "m", "role": "assistant", "model": HOSTILE, "content": [
             {"type": "text", "text": HOSTILE}, {"type": "thinking", "thinking": HOSTILE, "signature": HOSTILE},
             {"type": "tool_use", "id": HOSTILE, "name": HOSTILE, "input": {HOSTILE: HOSTILE, "b": [HOSTILE]}}]}},
        {"type": "user", "uuid": "u2", "sessionId": HOSTILE, "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": HOSTILE, "content": [{"type": "text", "text": HOSTILE}]}]}},
        {"type": HOSTILE, "uuid": "x", "sessionId": HOSTILE, "thing": {HOSTILE: HOSTILE}},
    ]  # fmt: skip
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


@pytest.mark.parametrize("words", [("show",), ("show", "--full"), ("check",), ("convert",)], ids=str)
def test_nothing_in_a_record_commands_the_terminal(run: Run, folder: Path, words: tuple[str, ...]) -> None:
    (folder / "h.jsonl").write_bytes(hostile_session())

    result = run(words[0], "h.jsonl", *words[1:])

    assert result.exit_code in (0, 3)
    assert not OBEYED.search(result.stdout)
    assert not OBEYED.search(result.stderr)
    if words[0] == "show":
        assert "[bold red]" in result.stdout  # rich's own markup is text here


@pytest.mark.parametrize("command", ["show", "convert"])
def test_json_on_a_terminal_is_plain_and_to_a_program_exact(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (folder / "h.jsonl").write_bytes(hostile_session())
    to_program = run(command, "h.jsonl", "--json").stdout

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        json_lines.write_line(to_program.encode())

    assert "\u202e" in to_program
    assert terminal.getvalue().isascii()
    assert not OBEYED.search(terminal.getvalue())
    assert json.loads(terminal.getvalue()) == json.loads(to_program)


@pytest.mark.parametrize(
    "session",
    [
        {},
        {"entries": 5, "agent-meta": [], "environment": "x", "child-session-ids": {}},
        {"entries": [1, None, [], {}, {"type": 7}, {"type": "user", "content": {"a": float("1e300")}}]},
        {"entries": [{"type": "tool-call"}, {"type": "tool-result", "children": [{"type": "x", "children": 3}]}]},
        {"entries": [{"type": "assistant", "token-usage": {"input": True, "cost": "9"}}, {"timestamp": 10**30}]},
        {"entries": [{"type": "user", "timestamp": 1767225600000, "content": "x" * 100_000}]},
        {"session-id": b"\x00\x01", "session-start": 1e400, "session-end": []},
    ],
)  # fmt: skip
def test_a_record_of_any_shape_is_shown_somehow(session: dict[str, Any]) -> None:
    for full in (False, True):
        lines = [line.plain for line in Timeline({"session": session}, full=full).lines()]
        assert lines
        assert not any(OBEYED.search(line) for line in lines)


def test_deep_nesting_is_shown_without_recursion() -> None:
    entry: dict[str, Any] = {"type": "user", "content": "deepest"}
    for _ in range(50_000):
        entry = {"type": "assistant", "children": [entry]}

    lines = [line.plain for line in Timeline({"session": {"entries": [entry]}}).lines()]

    assert lines[-1].endswith("deepest")


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    text = "\n".join(f"line {n}" for n in range(100))
    record = {"session": {"entries": [{"type": "tool-result", "output": text}]}}

    cut = [line.plain for line in Timeline(record).lines()]
    whole = [line.plain for line in Timeline(record, full=True).lines()]

    assert cut[-1].strip() == "⋮ 90 more lines (--full)"
    assert whole[-1].strip() == "line 99"


def test_many_events_of_one_kind_are_one_line_until_asked() -> None:
    record = {
        "session": {"entries": [{"type": "system-event", "event-type": "progress", "data": {"n": n}} for n in range(9)]}
    }

    assert any("9 times" in line.plain for line in Timeline(record).lines())
    assert sum("progress" in line.plain for line in Timeline(record, full=True).lines()) == 9


# -- show of statements ------------------------------------------------------------------------------------------------


@pytest.fixture
def grown(good: Run, folder: Path, served: Served) -> Path:
    """A session registered at three lengths."""
    lines = CLAUDE.read_bytes().splitlines(keepends=True)
    for length in (len(lines) - 4, len(lines) - 2, len(lines)):
        (folder / "s.jsonl").write_bytes(b"".join(lines[:length]))
        good("submit", "s.jsonl", "--key", served.key, "--iss", ISS, "--log", served.url)
    return folder / "s.jsonl.cose"


def test_a_statement_is_shown_with_the_chain_it_continues_and_the_word_that_nothing_is_verified(
    good: Run, grown: Path
) -> None:
    result = good("show", grown.name)

    assert "not verified" in result.stdout
    assert "nothing was verified" in result.stderr
    assert f"a statement by {ISS} about 5b0d7a40" in result.stdout
    first, second = (line for line in result.stdout.splitlines() if "supersedes" in line)
    assert "the earlier record is the first" in first
    assert "the earlier record is the first" in second


@pytest.mark.parametrize("content", [b"", b"\xd2", statement_saying({"content-hash": "g" * 64})])
def test_what_lies_beside_a_statement_cannot_keep_it_from_being_shown(good: Run, grown: Path, content: bytes) -> None:
    Path("s.jsonl.0.cose").write_bytes(content)

    assert good("show", grown.name).stdout.count("the earlier record is the first") == 2


def test_a_link_that_is_not_at_hand_is_said(good: Run, grown: Path) -> None:
    Path("s.jsonl.1.cose").unlink()

    assert "which was not given" in good("show", grown.name).stdout


def test_show_json_of_a_statement_is_the_canonical_record(good: Run, grown: Path) -> None:
    (record,) = records_of(good("show", grown.name, "--json").stdout)

    assert record["source"]["format"] == "claude-jsonl"


def test_the_record_of_an_envelope_is_found_named_or_fetched_and_never_another(
    good: Run, run: Run, folder: Path, served: Served
) -> None:
    (folder / "big.jsonl").write_bytes(large())
    good("submit", "big.jsonl", "--key", served.key, "--iss", ISS, "--log", served.url)
    assert "and number 1999" in good("show", "big.jsonl.cose").stdout

    Path("big.jsonl").rename("elsewhere")
    missing = run("show", "big.jsonl.cose")
    assert missing.exit_code == 66
    assert "--payload" in missing.stderr
    assert "and number 7" in good("show", "big.jsonl.cose", "--payload", "elsewhere").stdout
    assert "and number 7" in good("show", "big.jsonl.cose", "--fetch", "--log", served.url).stdout
    Path("big.jsonl").write_bytes(large(1))
    wrong = run("show", "big.jsonl.cose")
    assert wrong.exit_code == 65
    assert "not the record" in wrong.stderr


def test_what_cannot_be_read_is_said_once_and_leads_nowhere_else(run: Run, folder: Path) -> None:
    (folder / "half.jsonl").write_text('{"type":"user","sessionId":"s","parentUuid":null}\n{"type":\n')

    converted, checked = run("convert", "half.jsonl"), run("check", "half.jsonl")

    assert (converted.exit_code, checked.exit_code) == (65, 65)
    assert "line 2" in converted.stderr
    assert "transparency check" not in converted.stderr
