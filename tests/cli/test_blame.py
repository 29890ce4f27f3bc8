"""``blame`` and ``attribution``: from a line in a real git repository to the receipt that proves who wrote it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, Run, Served
from tests.client.scripted import ISSUER_KEY, LOG_KEY, OTHER_KEY, receipt_for
from tests.records.repository import AGENT, BASE, Repository
from tests.records.sessions import MODEL, Claude
from transparency.cli.git import NOTES
from transparency.cose.keys import encode_key_set
from transparency.cose.sign1 import Sign1
from transparency.records.murmur3 import murmur3_hex
from transparency.statements.statement import Statement, sign_statement
from transparency.statements.transparent import attach_receipts

BEFORE = "import os\n\nprint(1)\n"
AFTER = "import os\n\ndef written_by_the_agent():\n    return 42\n\nprint(1)\n"
PATH = "src/app.py"
TRACE = "550e8400-e29b-41d4-a716-446655440000"


@pytest.fixture
def repository(folder: Path) -> Repository:
    made = Repository(folder / "repository")
    made.write(PATH, BEFORE, BASE)
    made.write(PATH, AFTER, AGENT)
    (folder / "log.keys").write_bytes(encode_key_set([LOG_KEY.public]))
    (folder / "issuer.pub.pem").write_bytes(ISSUER_KEY.public.to_pem())
    (folder / "other.pub.pem").write_bytes(OTHER_KEY.public.to_pem())
    (folder / "records").mkdir()
    return made


def session(repository: Repository) -> bytes:
    made = Claude()
    made.edit(PATH, BEFORE, repository.last_diff(PATH))
    made.shell("make format")
    return made.data()


def register(record: bytes, target: Path, content_type: str = "application/jsonl") -> str:
    """A transparent statement of a record, as a log gives it; its entry id."""
    sub = "s-1" if content_type == "application/jsonl" else TRACE
    statement = sign_statement(record, ISSUER_KEY, iss=ISS, sub=sub, content_type=content_type)
    target.write_bytes(attach_receipts(statement, [receipt_for(statement)]))
    return Statement.from_bytes(statement).entry_id


TRUST = ("--records", "records", "--log-key", "log.keys", "--issuer-key", "issuer.pub.pem")


def blame(run: Run, target: str, *words: str, expected: int) -> list[dict[str, Any]]:
    result = run("blame", target, *words, "--json")
    assert result.exit_code == expected, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["lines"]
    return found


def test_a_line_leads_to_its_model_its_record_and_its_receipt(run: Run, folder: Path, repository: Repository) -> None:
    entry = register(session(repository), folder / "records" / "s.t.cose")

    (line,) = blame(run, f"repository/{PATH}:3", *TRUST, expected=0)

    assert line["attributed"] is True
    assert line["contributor"] == {"type": "ai", "model-id": MODEL}
    assert line["revision"] == repository.git("rev-parse", "HEAD").strip()
    assert (line["range"]["start-line"], line["range"]["end-line"]) == (3, 5)
    assert (line["basis"], line["hash-checked"]) == ("content", True)
    assert (line["verdict"], line["entry-id"]) == ("verified", entry)
    shown = run("blame", f"repository/{PATH}:3", *TRUST).stdout
    assert f"ai {MODEL}, session s-1" in shown
    assert "Verified: a statement" in shown
    assert "records/s.t.cose" in shown


def test_a_line_nobody_recorded_is_said_to_be_not_attributed(run: Run, folder: Path, repository: Repository) -> None:
    register(session(repository), folder / "records" / "s.t.cose")

    (line,) = blame(run, f"repository/{PATH}:1", *TRUST, expected=2)

    assert line == {
        "line": 1,
        "revision": repository.git("rev-parse", "HEAD~1").strip(),
        "attributed": False,
        "reason": "no registered record holds it",
    }
    assert "not attributed" in run("blame", f"repository/{PATH}:1", *TRUST).stdout


def test_a_whole_file_is_told_in_stretches(run: Run, folder: Path, repository: Repository) -> None:
    register(session(repository), folder / "records" / "s.t.cose")

    lines = blame(run, f"repository/{PATH}", *TRUST, expected=2)
    assert [line["attributed"] for line in lines] == [False, False, True, True, True, False]
    shown = run("blame", f"repository/{PATH}", *TRUST).stdout
    assert [row.split()[0] for row in shown.splitlines() if row.startswith("repository")] == [
        f"repository/{PATH}:1-2", f"repository/{PATH}:3-5", f"repository/{PATH}:6",
    ]  # fmt: skip


def test_lines_that_moved_in_later_commits_are_followed_by_git(run: Run, folder: Path, repository: Repository) -> None:
    register(session(repository), folder / "records" / "s.t.cose")
    repository.write(PATH, "# a new head\n" + AFTER, BASE)

    (line,) = blame(run, f"repository/{PATH}:4", *TRUST, expected=0)

    assert line["contributor"]["model-id"] == MODEL
    assert line["range"]["start-line"] == 3


def test_lines_not_committed_yet_are_found_by_their_text(run: Run, folder: Path, repository: Repository) -> None:
    register(session(repository), folder / "records" / "s.t.cose")
    repository.git("reset", "-q", "HEAD~1")

    (line,) = blame(run, f"repository/{PATH}:4", *TRUST, expected=0)

    assert (line["revision"], line["attributed"]) == ("uncommitted", True)


def trace(revision: dict[str, str] | None, **found: Any) -> bytes:
    record: dict[str, Any] = {
        "version": "0.1.0",
        "id": TRACE,
        "timestamp": "2026-05-01T10:00:00Z",
        "files": [
            {
                "path": PATH,
                "conversations": [
                    {"contributor": {"type": "ai", "model_id": "p/traced"}, "ranges": [{**found}]},
                ],
            }
        ],
    }
    return json.dumps(record | ({"vcs": revision} if revision else {})).encode()


def test_an_agent_trace_without_a_hash_is_found_by_its_revision(run: Run, folder: Path, repository: Repository) -> None:
    """Seed 000 §6.5: revision, then file, then range."""
    commit = repository.git("rev-parse", "HEAD").strip()
    register(
        trace({"type": "git", "revision": commit}, start_line=3, end_line=4),
        folder / "records" / "t.cose",
        "application/vnd.agent-trace.record+json",
    )

    (line,) = blame(run, f"repository/{PATH}:3", *TRUST, expected=0)
    assert (line["contributor"]["model-id"], line["basis"], line["hash-checked"]) == ("p/traced", "revision", False)
    (line,) = blame(run, f"repository/{PATH}:5", *TRUST, expected=2)
    assert line["attributed"] is False


def test_a_murmur3_hash_that_disagrees_with_the_revision_is_not_taken(
    run: Run, folder: Path, repository: Repository
) -> None:
    commit = repository.git("rev-parse", "HEAD").strip()
    digest = murmur3_hex(b"other text")
    register(
        trace({"type": "git", "revision": commit}, start_line=3, end_line=4, content_hash=f"murmur3:{digest}"),
        folder / "records" / "t.cose",
        "application/vnd.agent-trace.record+json",
    )

    (line,) = blame(run, f"repository/{PATH}:3", *TRUST, expected=2)

    assert line["attributed"] is False


@pytest.mark.parametrize("link", ["note", "index"])
def test_notes_and_the_index_link_a_commit_with_a_statement(
    run: Run, folder: Path, repository: Repository, link: str
) -> None:
    kept = repository.folder / ".transparency"
    kept.mkdir()
    entry = register(trace(None, start_line=3, end_line=4), kept / "t.cose", "application/vnd.agent-trace.record+json")
    commit = repository.git("rev-parse", "HEAD").strip()
    if link == "note":
        repository.git("notes", "--ref", NOTES, "add", "-m", f"entry {entry}", commit)
    else:
        (kept / "index").write_text(f"# commit, entry\ngit:{commit[:12]} {entry}\n")

    (line,) = blame(run, f"repository/{PATH}:3", *TRUST[2:], expected=0)

    assert (line["basis"], line["entry-id"]) == ("revision", entry)


@pytest.mark.parametrize(
    ("vcs", "asked", "found"),
    [
        ({"type": "jj", "revision": "kkmpptxz"}, "jj:kkmpptxzrspxrzom", True),
        ({"type": "hg", "revision": "a1b2c3d4e5f6"}, "hg:a1b2c3d4e5f6", True),
        ({"type": "hg", "revision": "a1b2c3d4e5f6"}, "git:a1b2c3d4e5f6", False),
    ],
)
def test_revisions_of_jj_and_hg_are_asked_for_by_name(
    run: Run, folder: Path, repository: Repository, vcs: dict[str, str], asked: str, found: bool
) -> None:
    register(
        trace(vcs, start_line=3, end_line=4), folder / "records" / "t.cose", "application/vnd.agent-trace.record+json"
    )

    (line,) = blame(run, f"{PATH}:3", "--revision", asked, *TRUST, expected=0 if found else 2)

    assert line["attributed"] is found


def test_a_commit_made_by_jj_is_known_by_its_change_id(run: Run, folder: Path, repository: Repository) -> None:
    commit = repository.git("cat-file", "commit", "HEAD")
    head, _, message = commit.partition("\n\n")
    change = "kkmpptxzrspxrzommnulwmwkkqwworpl"
    raw = folder / "commit"
    raw.write_text(f"{head}\nchange-id {change}\n\n{message}")
    made = repository.git("hash-object", "-t", "commit", "-w", str(raw)).strip()
    repository.git("reset", "-q", "--hard", made)
    register(
        trace({"type": "jj", "revision": change[:8]}, start_line=3, end_line=4),
        folder / "records" / "t.cose",
        "application/vnd.agent-trace.record+json",
    )

    (line,) = blame(run, f"repository/{PATH}:3", *TRUST, expected=0)

    assert line["basis"] == "revision"


def test_without_keys_a_line_is_attributed_but_nothing_is_proven(
    run: Run, folder: Path, repository: Repository
) -> None:
    register(session(repository), folder / "records" / "s.t.cose")

    (line,) = blame(run, f"repository/{PATH}:3", "--records", "records", expected=2)

    assert line["verdict"] == "cannot-tell"


def test_a_record_that_was_changed_after_signing_proves_nothing(run: Run, folder: Path, repository: Repository) -> None:
    target = folder / "records" / "s.t.cose"
    register(session(repository), target)
    message = Sign1.from_bytes(target.read_bytes())
    assert message.payload is not None
    forged = message.with_payload(message.payload.replace(MODEL.encode(), b"model-other"))
    target.write_bytes(forged.to_bytes())

    (line,) = blame(run, f"repository/{PATH}:3", *TRUST, expected=1)

    assert line["verdict"] == "failed"


def test_a_forgery_beside_the_genuine_record_changes_nothing(run: Run, folder: Path, repository: Repository) -> None:
    genuine = session(repository)
    register(genuine, folder / "records" / "z.t.cose")
    statement = sign_statement(genuine.replace(MODEL.encode(), b"human-mind"), OTHER_KEY, iss=ISS, sub="s-1",
                               content_type="application/jsonl")  # fmt: skip
    (folder / "records" / "a.t.cose").write_bytes(attach_receipts(statement, [receipt_for(statement, OTHER_KEY)]))

    (line,) = blame(run, f"repository/{PATH}:3", *TRUST, expected=0)

    assert line["contributor"]["model-id"] == MODEL
    assert line["other-records"] == 1


@pytest.mark.parametrize("target", [f"repository/{PATH}:99", "repository/none.py:1", "repository/none.py"])
def test_what_git_does_not_know_is_said(run: Run, repository: Repository, target: str) -> None:
    result = run("blame", target, *TRUST)

    assert result.exit_code == 66
    assert "git knows nothing" in result.stderr


def test_a_folder_outside_any_repository_is_said(run: Run, folder: Path) -> None:
    (folder / "x.py").write_text("x\n")

    assert run("blame", "x.py:1", "--repo", folder).exit_code == 66


@pytest.mark.parametrize("words", [("x.py", "--revision", "git:HEAD"), ("x.py:1", "--revision", "HEAD"),
                                   ("x.py", "--revision", "git:0123456789")])  # fmt: skip
def test_a_revision_needs_its_system_and_a_line(run: Run, folder: Path, words: tuple[str, ...]) -> None:
    assert run("blame", *words).exit_code == 64


def test_a_repository_cannot_run_programs_through_its_settings(run: Run, folder: Path, repository: Repository) -> None:
    register(session(repository), folder / "records" / "s.t.cose")
    for name in ("core.fsmonitor", "diff.evil.textconv", "core.pager"):
        repository.git("config", name, f"touch {folder}/ran-{name.replace('.', '-')}; cat")
    (repository.folder / ".gitattributes").write_text("*.py diff=evil\n")

    blame(run, f"repository/{PATH}:3", *TRUST, expected=0)

    assert not list(folder.glob("ran-*"))


def test_from_a_served_log_to_the_line(good: Run, folder: Path, repository: Repository, served: Served) -> None:
    (folder / "records" / "session.jsonl").write_bytes(session(repository))
    good("keys", "--log", served.url, "--out", "served.keys")
    good("submit", "records/session.jsonl", "--log", served.url, "--key", served.key, "--iss", ISS)

    keys = ("--records", "records", "--log-key", "served.keys", "--issuer-key", str(served.public))
    shown = good("blame", f"repository/{PATH}:4", *keys).stdout

    assert f"ai {MODEL}" in shown
    assert 'is registered in the log "log.example/cli"' in shown


# attribution


def test_attribution_prints_lines_and_what_is_not_attributed(good: Run, folder: Path, repository: Repository) -> None:
    (folder / "s.jsonl").write_bytes(session(repository))

    shown = good("attribution", "s.jsonl").stdout

    assert f"3-5  ai {MODEL}" in shown
    assert "not attributed: Bash call-2: a command that may have written files" in shown


def test_attribution_reads_statements_and_says_that_it_does_not_verify(
    good: Run, folder: Path, repository: Repository
) -> None:
    register(session(repository), folder / "s.t.cose")

    result = good("attribution", "s.t.cose", "--json")
    found = json.loads(result.stdout)

    assert found["signed"] is True
    assert found["sessions"][0]["files"][0]["ranges"][0]["start-line"] == 3
    assert "transparency verify" in good("attribution", "s.t.cose").stderr


@pytest.mark.parametrize(
    ("text", "code", "outcome"),
    [
        (AFTER, 0, "match"),
        (AFTER.replace("\n", "\r\n"), 0, "match"),
        ("# head\n" + AFTER, 3, "moved"),
        (AFTER.replace("42", "43"), 1, "changed"),
        (None, 1, "missing"),
    ],
)
def test_a_working_tree_is_compared_line_by_line(
    run: Run, folder: Path, repository: Repository, text: str | None, code: int, outcome: str
) -> None:
    (folder / "s.jsonl").write_bytes(session(repository))
    target = repository.folder / PATH
    target.unlink()
    if text is not None:
        target.write_bytes(text.encode())

    result = run("attribution", "s.jsonl", "--verify", "repository", "--json")

    assert result.exit_code == code
    (found,) = json.loads(result.stdout)["sessions"][0]["files"][0]["ranges"]
    assert found["outcome"] == outcome
    assert run("attribution", "s.jsonl", "--verify", "repository").exit_code == code


@pytest.mark.parametrize("kind", ["file", "folder", "inside"])
def test_symbolic_links_are_not_followed(run: Run, folder: Path, repository: Repository, kind: str) -> None:
    (folder / "s.jsonl").write_bytes(session(repository))
    outside = folder / "outside"
    outside.mkdir()
    (outside / "app.py").write_text(AFTER)
    target = repository.folder / PATH
    target.unlink()
    if kind == "folder":
        target.parent.rmdir()
        target.parent.symlink_to(outside)
    else:
        target.symlink_to(outside / "app.py" if kind == "file" else "../other.py")

    result = run("attribution", "s.jsonl", "--verify", "repository", "--json")

    (found,) = json.loads(result.stdout)["sessions"][0]["files"][0]["ranges"]
    assert result.exit_code == 2
    assert (found["outcome"], found["detail"]) == ("unverifiable", "not opened: a symbolic link is not followed")


@pytest.mark.parametrize("path", ["../outside.py", "/etc/hostname", "src/../../outside.py", "~/x", "C:\\x", "a\0b"])
def test_paths_that_lead_out_are_shown_and_never_opened(
    run: Run, folder: Path, repository: Repository, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Claude()
    result: dict[str, Any] = {
        "type": "create",
        "filePath": path,
        "content": "x\n",
        "structuredPatch": [],
        "originalFile": None,
    }
    made.call("Write", {"file_path": path, "content": "x\n"}, result)
    (folder / "s.jsonl").write_bytes(made.data())
    opened: list[object] = []
    real = os.open

    def watched(*words: Any, **more: Any) -> int:
        opened.append(words[0])
        return real(*words, **more)

    monkeypatch.setattr(os, "open", watched)

    result_shown = run("attribution", "s.jsonl", "--verify", "repository", "--json")

    assert result_shown.exit_code == 2
    (file,) = json.loads(result_shown.stdout)["sessions"][0]["files"]
    assert file["path"] == path
    assert file["outside"] is True
    assert "leads out" in file["ranges"][0]["detail"]
    assert not [name for name in opened if isinstance(name, str) and ("outside" in name or "hostname" in name)]


def test_pipes_and_folders_in_the_place_of_a_file_do_not_keep_anyone_waiting(
    run: Run, folder: Path, repository: Repository
) -> None:
    (folder / "s.jsonl").write_bytes(session(repository))
    target = repository.folder / PATH
    target.unlink()
    os.mkfifo(target)

    result = run("attribution", "s.jsonl", "--verify", "repository", "--json")

    assert "no regular file" in result.stdout


def test_escape_sequences_in_paths_and_models_do_not_reach_the_terminal(good: Run, folder: Path) -> None:
    made = Claude()
    path = "a\x1b[2Jb\u202e.py"
    result: dict[str, Any] = {
        "type": "create",
        "filePath": path,
        "content": "x\n",
        "structuredPatch": [],
        "originalFile": None,
    }
    made.call("Write", {"file_path": path, "content": "x\n"}, result, model="m\x1b]0;x\x07")
    (folder / "s.jsonl").write_bytes(made.data())

    shown = good("attribution", "s.jsonl").stdout

    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_what_is_no_record_is_65(run: Run, folder: Path) -> None:
    (folder / "x.txt").write_text("hello")

    assert run("attribution", "x.txt").exit_code == 65
    assert run("attribution", "none.jsonl").exit_code == 66
    assert run("attribution", "x.txt", "--verify", "nowhere").exit_code == 66
