"""``blame``: from a line in a real git repository to the receipt that proves who wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served
from tests.cli.lines import AFTER, PATH, TRUST, blame, make_repository, register, session, trace
from tests.client.scripted import OTHER_KEY, receipt_for
from tests.records.repository import BASE, Repository
from tests.records.sessions import MODEL
from transparency.cli.git import NOTES
from transparency.cose.sign1 import Sign1
from transparency.records.murmur3 import murmur3_hex
from transparency.statements.statement import sign_statement
from transparency.statements.transparent import attach_receipts


@pytest.fixture
def repository(folder: Path) -> Repository:
    return make_repository(folder)


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

    inside, missing = run("blame", "x.py:1", "--repo", folder), run("blame", "none/x.py:1")

    assert (inside.exit_code, missing.exit_code) == (66, 66)
    assert "is in no git repository" in inside.stderr
    assert "none is no folder" in missing.stderr


@pytest.mark.parametrize("target", [f"repository/{PATH}:0", f"repository/{PATH}:x", f"repository/{PATH}:", ":3",
                                    f"repository/{PATH}:1_0", f"repository/{PATH}:-1"])  # fmt: skip
def test_what_follows_the_colon_is_a_line(run: Run, repository: Repository, target: str) -> None:
    assert run("blame", target, *TRUST).exit_code == 64


def test_a_file_may_have_a_colon_in_its_name(run: Run, folder: Path, repository: Repository) -> None:
    (repository.folder / "odd:3").write_text("x\n")
    repository.git("add", "odd:3")
    repository.git("commit", "-q", "-m", "odd")

    for target in ("repository/odd:3", "repository/odd:3:1"):
        assert [line["line"] for line in blame(run, target, *TRUST, expected=2)] == [1]


@pytest.mark.parametrize("words", [("x.py", "--revision", "git:HEAD"), ("x.py:1", "--revision", "HEAD"),
                                   ("x.py", "--revision", "git:0123456789")])  # fmt: skip
def test_a_revision_needs_its_system_and_a_line(run: Run, folder: Path, words: tuple[str, ...]) -> None:
    assert run("blame", *words).exit_code == 64


@pytest.mark.parametrize("driver", ["e=v.il", "worse"])
def test_a_repository_cannot_run_programs_through_its_settings(
    run: Run, folder: Path, repository: Repository, driver: str
) -> None:
    register(session(repository), folder / "records" / "s.t.cose")
    for name in ("core.fsmonitor", "diff.evil.textconv", "core.pager", "filter.e=v.il.clean", "filter.worse.process"):
        repository.git("config", name, f"touch {folder}/ran-{name.replace('.', '-')}; cat")
    repository.git("config", "filter.e=v.il.required", "true")
    (repository.folder / ".gitattributes").write_text(f"*.py diff=evil filter={driver}\n")

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
