"""``transparency incident`` among records that cannot be read: one broken character hides no agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.bundles import hostile_session, padded, trust
from tests.cli.conftest import ISS, Run, Served, serving, shell
from tests.cli.filling import OWN, cover, fill, wait_for_index
from transparency.log.folder import Folder
from transparency.log.search import SearchIndex

# What an agent, or whoever wrote for it, does to its record so that no program reads it.
UNREADABLE = {
    "surrogate.jsonl": hostile_session().replace(b"rm -rf", b"rm -rf \\ud800"),
    "number.jsonl": hostile_session().replace(b'"version": "2.1.0"', b'"version": NaN'),
    "deep.jsonl": hostile_session().replace(b'"version": "2.1.0"', b'"version": ' + b"[" * 5_000 + b"]" * 5_000),
    "beside.jsonl": padded().replace(b"rm -rf", b"rm -rf \\ud800"),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The log's own entries, a record that can be read, and those that cannot: entries 5 to 8."""
    folder = tmp_path_factory.mktemp("broken")
    with serving(folder, "--open") as log:
        words = {name: ("--content-type", "application/jsonl", "--sub", name) for name in UNREADABLE}
        fill(log, {"good.jsonl": hostile_session(), **UNREADABLE}, words)
        assert shell("keys", "--log", log.url, "--trust", "trust.toml", cwd=folder).returncode == 0
        yield log


def unread(said: list[dict[str, Any]]) -> list[str]:
    return sorted(each["what"].split()[4] for each in said if each["why"].startswith("not readable: "))


# The index reads leniently, and is not asked again about what it could read: it names the tools of three of them.
@pytest.mark.parametrize(("way", "expected"), [("index", "7"), ("scan", "5678"), ("data", "5678")])
def test_nothing_found_among_records_that_nobody_could_read_names_them(
    run: Run, broken: Served, folder: Path, way: str, expected: str
) -> None:
    where = ("--data", broken.data) if way == "data" else ("--log", broken.url)
    words = ["incident", *where, "--tool", "NoSuchTool", *(["--scan"] if way == "scan" else []), "--out", "none"]
    ended, said = run(*words), json.loads(run(*words, "--json").stdout)

    assert ended.exit_code == 2
    assert f"{len(expected)} could not be looked at, and may be about it" in " ".join(ended.stderr.split())
    assert " ".join(ended.stderr.split()).count("not readable: ") == len(expected)
    assert unread(said["missing"]) == list(expected)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("words", [["--tool", "Bash"], ["--scan", "--text", "rm -rf"]])
def test_what_could_not_be_read_is_named_beside_what_was_found_and_is_in_the_bundle(
    good: Run, run: Run, broken: Served, folder: Path, words: list[str]
) -> None:
    said = json.loads(good("incident", "--log", broken.url, *words, "--out", "found", "--json").stdout)
    made = json.loads((folder / "found" / "timeline.json").read_bytes())
    readme = (folder / "found" / "README.txt").read_text()

    assert (said["events"], said["not-available"]) == (2, 4)
    assert unread(said["missing"]) == ["5", "6", "7", "8"]
    assert [entry["record"] for entry in made["entries"]] == ["read", *["not readable"] * 4]
    assert readme.count("not readable: ") == 4
    assert run("verify", folder / "found", *trust(broken)).exit_code == 0


def test_what_the_index_does_not_have_yet_is_named_until_it_has(good: Run, tmp_path: Path, folder: Path) -> None:
    """Be it a manifest of the log's own: what an entry is, nobody can tell who has not looked at it."""
    place = tmp_path / "served"
    place.mkdir()
    (folder / "new.jsonl").write_bytes(hostile_session().replace(b"hostile", b"new"))

    def asked(out: str) -> tuple[int, list[str]]:
        said = json.loads(good("incident", "--log", log.url, "--tool", "Bash", "--out", out, "--json").stdout)
        return said["events"], [each["why"] for each in said["missing"] if each["what"] == "the newest entries"]

    with serving(place, "--open") as log:
        fill(log, {"old.jsonl": hostile_session()})
        # While somebody else writes to the index, its worker cannot.
        with SearchIndex(Folder(log.data).search) as index, index._transaction():
            good("submit", "new.jsonl", "--log", log.url, "--key", log.key, "--iss", ISS)
            cover(log)
            before = asked("before")
        wait_for_index(log, OWN + 4)
        after = asked("after")

    assert before == (2, ["the log's index is 2 entries behind"])
    assert after == (4, [])
