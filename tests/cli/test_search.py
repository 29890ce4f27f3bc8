"""``transparency search`` and ``log reindex``, against a real server with its real indexing process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, Run, Served, serving
from tests.cli.filling import fill, wait_for_index
from tests.log.searching import session
from transparency.cli.search import index_behind
from transparency.log.folder import Folder
from transparency.log.search import SearchIndex

SESSIONS = {
    "one.jsonl": session("s-1"),
    "two.jsonl": session("s-2", tool="Write", path="/home/a/docs/y.md"),
    # Above 64 KiB it goes as an envelope with its record uploaded beside it.
    "large.jsonl": session("s-3", model="m-3") + session("s-3", tool="Pad" + "x" * 1000) * 100,
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A log with its own entries and three sessions, indexed: entries 3, 5 and 6."""
    folder = tmp_path_factory.mktemp("search")
    with serving(folder, "--open") as log:
        fill(log, SESSIONS)
        yield log


def search(good: Run, log: Served, *words: str | Path) -> dict[str, Any]:
    answer = json.loads(good("search", "--log", log.url, "--json", *words).stdout)
    assert isinstance(answer, dict)
    return answer


def found(good: Run, log: Served, *words: str | Path) -> list[int]:
    return [entry["index"] for entry in search(good, log, *words)["entries"]]


def test_sessions_are_found_by_what_they_did(good: Run, filled: Served, folder: Path) -> None:
    record = folder / "copy.jsonl"
    record.write_bytes(SESSIONS["two.jsonl"])

    assert found(good, filled, "--session", "s-1") == [3]
    assert found(good, filled, "--path", "docs/*") == [5]
    assert found(good, filled, "--agent", "claude-code", "--tool", "Edit") == [6, 3]
    assert found(good, filled, "--model", "m-3") == [6]
    assert found(good, filled, "--issuer", ISS, "--oldest") == [3, 5, 6]
    assert found(good, filled, "--content", record) == [5]
    assert found(good, filled, "--content", hashlib.sha256(SESSIONS["large.jsonl"]).hexdigest()) == [6]
    assert found(good, filled, "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-02T00:00:00Z") == []
    entry = search(good, filled, "--session", "s-1")["entries"][0]["entry"]
    assert found(good, filled, "--sibling", entry) == [3]


def test_a_table_for_people(good: Run, filled: Served) -> None:
    result = good("search", "--log", filled.url, "--session", "s-2")

    header, row = result.stdout.splitlines()[:2]
    assert header.split() == ["index", "registered", "entry", "agent", "model", "issuer", "subject"]
    assert row.split()[0] == "5"
    assert ISS in row
    assert "claude-code/2.1.0" in row


def test_limit_and_all(good: Run, filled: Served) -> None:
    some = search(good, filled, "--limit", "2")
    all_of_them = search(good, filled, "--all")

    assert ([entry["index"] for entry in some["entries"]], some["more"]) == ([6, 5], True)
    assert ([entry["index"] for entry in all_of_them["entries"]], all_of_them["more"]) == ([6, 5, 4, 3, 2, 1, 0], False)
    assert "the first 2; --all gives the rest" in good("search", "--log", filled.url, "--limit", "2").stderr


def test_nothing_found_is_said(good: Run, filled: Served) -> None:
    result = good("search", "--log", filled.url, "--session", "none")

    assert result.stdout == ""
    assert "nothing found among 7 entries" in result.stderr


def test_proofs_are_transparent_statements_that_verify(good: Run, filled: Served, folder: Path) -> None:
    good("keys", "--log", filled.url, "--out", "log.keys")

    answer = search(good, filled, "--issuer", ISS, "--tool", "Write", "--proofs", folder / "proofs")

    (file,) = answer["files"]
    assert Path(file).name == f"5-{answer['entries'][0]['entry']}.cose"
    good("verify", file, "--log-key", "log.keys", "--issuer-key", filled.public)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--path", "src*"), "a folder as src/*"),
        (("--from", "yesterday"), "'from' is neither a time"),
        (("--sibling", "x"), "'sibling' is an entry id"),
        (("--sibling", "A" * 43), "There is no entry"),
    ],
)
def test_what_the_log_refuses_is_one_line(run: Run, filled: Served, words: tuple[str, ...], says: str) -> None:
    result = run("search", "--log", filled.url, *words)

    assert result.exit_code not in (0, 70)
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2


def test_the_index_made_anew_gives_the_same_answers_beside_a_running_server(good: Run, filled: Served) -> None:
    queries = [(), ("--session", "s-3"), ("--path", "src/*"), ("--agent", "anthropic", "--tool", "Write")]
    before = [search(good, filled, *words) for words in queries]

    result = good("log", "reindex", "--data", filled.data)
    wait_for_index(filled, 7)

    assert "7 entries" in result.stderr
    assert [search(good, filled, *words) for words in queries] == before
    assert "clean" in good("log", "fsck", "--data", filled.data).stdout


def test_fsck_finds_an_index_that_is_not_what_the_log_gives(run: Run, good: Run, filled: Served) -> None:
    with SearchIndex(Folder(filled.data).search) as index, index._transaction() as write:
        write("UPDATE entries SET facts = replace(facts, 's-1', 's-9') WHERE idx = 3")

    result = run("log", "fsck", "--data", filled.data)

    assert result.exit_code == 1
    assert "search index, entry 3: is not what the log gives" in result.stdout
    good("log", "reindex", "--data", filled.data)
    assert "clean" in good("log", "fsck", "--data", filled.data).stdout


def test_what_is_registered_later_is_found_without_a_restart(good: Run, filled: Served, folder: Path) -> None:
    (folder / "later.jsonl").write_bytes(session("s-later"))
    good("submit", "later.jsonl", "--log", filled.url, "--key", filled.key, "--iss", ISS)
    wait_for_index(filled, 8)

    assert found(good, filled, "--session", "s-later") == [7]


def test_one_entry_that_the_index_lacks_is_one_entry() -> None:
    assert index_behind(1) == "the log's index is 1 entry behind"
    assert index_behind(2) == "the log's index is 2 entries behind"
