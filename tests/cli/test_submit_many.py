"""Folders, patterns and the newest session of an agent: found, submitted one after another, resumable."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, ROOT, Run, Served, environment
from transparency.cli.errors import CommandError
from transparency.cli.sessions import AGENTS, Source, expand, latest, one
from transparency.client.transport import Request, Transport
from transparency.cose.sign1 import Sign1
from transparency.log.folder import Folder
from transparency.log.store import Kind
from transparency.log.stores import open_for_reading
from transparency.records import tree
from transparency.records.detect import detect
from transparency.statements.statement import Statement
from transparency.statements.transparent import receipts_of

RECORDS = ROOT / "tests" / "fixtures" / "records"
CLAUDE = RECORDS / "claude" / "session.jsonl"
SESSION = "5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c"


def session(number: int) -> bytes:
    message = {"role": "user", "content": f"question {number}"}
    line = {"type": "user", "uuid": f"u{number}", "sessionId": f"many-{number}", "timestamp": "2026-03-02T10:00:00Z"}
    return json.dumps({**line, "message": message}).encode() + b"\n"


def make(folder: Path, count: int, prefix: str) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:04}.jsonl").write_bytes(session(number).replace(b"many-", prefix.encode()))


def words(served: Served, *more: str | Path) -> tuple[str | Path, ...]:
    return ("submit", *more, "--key", served.key, "--iss", ISS, "--log", served.url)


def log_size(served: Served) -> int:
    """How many statements were registered. What the log states about itself, at times of its own, does not count."""
    with contextlib.closing(open_for_reading(Folder(served.data.absolute()))) as store:
        return sum(row.kind is Kind.STATEMENT for row in store.entries(0, store.tip().size))


# -- many --------------------------------------------------------------------------------------------------------------


def test_a_folder_is_submitted_and_what_is_no_session_is_passed_over(good: Run, folder: Path, served: Served) -> None:
    make(folder / "all", 3, "folder-")
    (folder / "all" / "README.md").write_text("# notes")
    (folder / "all" / ".hidden.jsonl").write_bytes(session(99))
    (folder / "all" / "deeper").mkdir()
    shutil.copy(RECORDS / "codex" / "session.jsonl", folder / "all" / "deeper")

    first = json.loads(good(*words(served, "all", "--json")).stdout)
    again = json.loads(good(*words(served, "all", "--json")).stdout)

    assert first["counts"] == {"registered": 4, "known": 0, "pending": 0, "skipped": 1, "failed": 0}
    assert again["counts"] == {"registered": 0, "known": 4, "pending": 0, "skipped": 1, "failed": 0}
    entries = [row.get("entry-id") for row in first["files"]]
    assert entries == [row.get("entry-id") for row in again["files"]]
    assert not (folder / "all" / ".hidden.jsonl.cose").exists()


def test_lines_tell_what_became_of_each(good: Run, folder: Path, served: Served) -> None:
    make(folder / "all", 2, "lines-")
    (folder / "all" / "x.txt").write_text("x")

    result = good(*words(served, "all"))

    assert result.stdout.count("✓") == 2
    assert "text that is not JSON" in result.stdout
    assert "3 sessions: 2 registered, 1 skipped" in result.stderr


def test_a_pattern_is_resolved_and_a_broken_file_does_not_stop_the_others(
    run: Run, folder: Path, served: Served
) -> None:
    make(folder / "all", 3, "pattern-")
    (folder / "all" / "0001.jsonl").write_bytes(b'{"type":"user","sessionId":"x","parentUuid":null}\n{"type":')

    result = run(*words(served, "all/*.jsonl", "--json"))

    body = json.loads(result.stdout)
    assert result.exit_code == body["exit-code"] == 65
    assert [row["status"] for row in body["files"]] == ["registered", "failed", "registered"]
    again = json.loads(run(*words(served, "all/*", "--json")).stdout)
    assert len(again["files"]) == 3  # what was written beside them is not taken for sessions


def test_what_the_policy_refuses_is_told_of_each_and_leaves_nothing_behind(
    run: Run, folder: Path, served: Served
) -> None:
    make(folder / "all", 3, "refused-")

    result = run("submit", "all", "--key", served.key, "--iss", "https://nobody.example", "--log", served.url)

    assert result.exit_code == 77
    assert result.stdout.count("✗") == 3
    assert not list((folder / "all").glob("*.cose"))


def test_a_log_that_is_not_there_is_not_asked_for_every_file(
    run: Run, folder: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transparency.client import retry

    monkeypatch.setattr(retry.Backoff, "delay", lambda *_: 0.0)
    make(folder / "all", 3, "nowhere-")

    result = run("submit", "all", "--key", served.key, "--iss", ISS, "--log", "http://127.0.0.1:1")

    assert result.exit_code == 69
    assert [path.name for path in (folder / "all").glob("*.cose")] == ["0000.jsonl.cose"]


# Kills itself when it has so many receipts to keep: from outside, on a busy machine, it would be over before the kill.
KILLED = """
import os, signal, sys
from transparency.cli import registration
from transparency.cli.main import cli

left, when, write = int(sys.argv[1]), sys.argv[2], registration.write_output

def write_and_die(*words, **options):
    global left
    left -= 1
    if left or when == "after":
        write(*words, **options)
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

registration.write_output = write_and_die
cli.main(sys.argv[3:])
"""


def test_killed_twice_in_the_middle_every_session_is_one_entry(good: Run, folder: Path, served: Served) -> None:
    """The folder of issue 3, smaller: SIGKILL while it runs, twice; then to the end."""
    count = 120
    make(folder / "all", count, "killed-")
    before = log_size(served)
    for goal, when in ((count // 4, "before"), (count // 2, "after")):
        command = [sys.executable, "-c", KILLED, str(count // 4), when, *map(str, words(served, "all", "--json"))]
        ended = subprocess.run(
            command, cwd=folder, env=environment(folder / "no-config"), capture_output=True, check=False
        )
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert goal <= len(list((folder / "all").glob("*.cose"))) < count

    body = json.loads(good(*words(served, "all", "--json")).stdout)

    assert body["counts"]["registered"] + body["counts"]["known"] == count
    assert body["counts"]["known"] > 0
    assert len({row["entry-id"] for row in body["files"]}) == count
    assert log_size(served) - before == count


def test_many_sessions_are_a_few_exchanges_and_an_older_log_is_asked_one_by_one(
    good: Run, folder: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = Transport.stream

    def counting(self: Transport, request: Request, body: Any) -> Any:
        asked.append(request.url.path)
        older = replace(request, url=request.url.parent / "none") if asked.count("/entries/batch") > 6 else request
        return real(self, older, body)

    monkeypatch.setattr(Transport, "stream", counting)
    make(folder / "all", 100, "batched-")
    make(folder / "more", 5, "older-")

    body = json.loads(good(*words(served, "all", "--json")).stdout)
    batches = asked.count("/entries/batch")
    older = json.loads(good(*words(served, "more", "--json")).stdout)

    assert asked.count("/entries/batch") > batches, "the older log is asked for a batch, and has none"
    assert body["counts"]["registered"] == 100
    assert batches == 6  # 2, 4, 8, 16, 32, 37: the first goes by itself
    assert older["counts"]["registered"] == 5
    kept = [Sign1.from_bytes(path.read_bytes()) for path in (folder / "all").glob("*.cose")]
    assert [len(receipts_of(message)) for message in kept] == [1] * 100


# -- what is found -----------------------------------------------------------------------------------------------------


def test_our_own_files_keys_and_side_files_are_no_sessions(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.jsonl.cose", "a.jsonl.1.cose", "a.jsonl.vac.json", "a.jsonl.vac.json.cose", "k.pem",
                 "a.jsonl.redactions.json", "log.keys", "b.payload", "real.vac.json"):  # fmt: skip
        (tmp_path / name).write_bytes(b"{}")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")

    assert [Path(source.name).name for source in expand([str(tmp_path)])] == ["a.jsonl", "real.vac.json"]


def test_a_project_folder_gives_each_claude_session_with_its_sub_agents(tmp_path: Path) -> None:
    shutil.copytree(RECORDS / "claude" / "folder", tmp_path / "project")
    (tmp_path / "project" / "other.jsonl").write_bytes(session(1))

    packed, plain = expand([str(tmp_path / "project")])

    assert Path(packed.name).name == SESSION
    assert packed.packed
    assert not plain.packed
    assert detect(packed.read()).note == "a session with the files of its sub-agents"
    assert one(packed.name).read() == packed.read()


def test_a_session_twice_on_the_command_line_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(session(1))

    assert len(expand([str(tmp_path / "a.jsonl"), str(tmp_path), f"{tmp_path}/*.jsonl"])) == 1


# -- the newest --------------------------------------------------------------------------------------------------------


PLACES = {
    "claude": (".claude/projects/-home-me/aaa.jsonl", ".claude/projects/-home-me/bbb.jsonl"),
    "codex": (".codex/sessions/2026/01/01/rollout-1.jsonl", ".codex/sessions/2025/12/31/rollout-0.jsonl"),
    "gemini": (".gemini/tmp/abc/chats/session-1.json", ".gemini/tmp/def/chats/session-2.jsonl"),
    "cursor": (".cursor/projects/p/agent-transcripts/x/x.jsonl", ".cursor/projects/p/agent-transcripts/y.jsonl"),
}


@pytest.mark.parametrize("agent", PLACES)
@pytest.mark.parametrize("newest", [0, 1])
def test_the_newest_session_of_an_agent_is_found_in_its_usual_place(tmp_path: Path, agent: str, newest: int) -> None:
    for place, name in enumerate(PLACES[agent]):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
        os.utime(path, (1000, 2000 if place == newest else 1000))

    assert latest(agent, home=tmp_path, environment={}).name == str(tmp_path / PLACES[agent][newest])


def test_agents_told_to_live_elsewhere_are_found_there(tmp_path: Path) -> None:
    path = tmp_path / "claude" / "projects" / "p" / "a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{}")
    (path.parent / "agent-sub.jsonl").write_bytes(b"{}")
    elsewhere = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}

    assert latest("claude", home=tmp_path, environment=elsewhere).name == str(path)


def opencode(home: Path) -> dict[str, bytes]:
    """Two sessions in a storage tree; the files of the newer."""
    storage = home / ".local" / "share" / "opencode" / "storage"
    files: dict[str, dict[str, Any]] = {}
    for name in ("old", "new"):
        files |= {
            f"session/p/ses_{name}.json": {"id": f"ses_{name}", "version": "1", "time": {"created": 1767225600000}},
            f"message/ses_{name}/msg_{name}.json": {"id": f"msg_{name}", "sessionID": f"ses_{name}", "role": "user"},
            f"part/msg_{name}/prt_{name}.json": {"id": f"prt_{name}", "type": "text", "text": name},
        }
    for path, value in files.items():
        (storage / path).parent.mkdir(parents=True, exist_ok=True)
        (storage / path).write_text(json.dumps(value))
    os.utime(storage / "session/p/ses_old.json", (1000, 1000))
    return {path: (storage / path).read_bytes() for path in files if "new" in path}


def test_the_newest_session_of_opencode_is_packed_from_its_files_alone(tmp_path: Path) -> None:
    files = opencode(tmp_path)

    source = latest("opencode", home=tmp_path, environment={})

    assert source.read() == tree.pack(files)
    assert source.statement.endswith("storage/session/p/ses_new.cose")


@pytest.mark.parametrize("agent", AGENTS)
def test_no_session_is_said_with_the_place_looked_at(tmp_path: Path, agent: str) -> None:
    with pytest.raises(CommandError, match=str(tmp_path)):
        latest(agent, home=tmp_path, environment={})


def test_the_newest_session_is_submitted_with_one_short_command(
    good: Run, folder: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    place = folder / ".claude" / "projects" / "p"
    place.mkdir(parents=True)
    shutil.copy(CLAUDE, place / "s.jsonl")

    good(*words(served, "--latest", "claude"))

    assert Statement.from_bytes((place / "s.jsonl.cose").read_bytes()).payload == CLAUDE.read_bytes()


def test_a_source_too_large_in_all_its_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transparency.cli import sessions

    monkeypatch.setattr(sessions, "MAX_INPUT", 5)
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b").write_bytes(b"456")

    with pytest.raises(CommandError, match="in all its files"):
        Source("x", tmp_path, (tmp_path / "a", tmp_path / "b")).read()
