"""Two ``submit`` at the same session, or folder, at once: both end well, and nothing is registered twice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, Run, Served, environment
from tests.cli.submitting import CLAUDE, Submit, large
from tests.cli.test_submit_many import log_size, make, words
from transparency.cli.registration import Registrar


@pytest.mark.parametrize("flags", [(), ("--redact",), ("--convert",), ("--pseudonymous", "key.bin")], ids=str)
@pytest.mark.parametrize("grown", [False, True], ids=["new", "grown"])
def test_who_comes_second_finds_what_the_first_wrote(
    folder: Path, submit: Submit, served: Served, monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...], grown: bool,
) -> None:  # fmt: skip
    """The other command runs whole between our reading of what is there and our writing."""
    lines = large(5).splitlines(keepends=True)
    lines[-1] = lines[-1].replace(b"and number", f"{flags} {grown} jane@example.com and number".encode())
    if grown:
        (folder / "s.jsonl").write_bytes(b"".join(lines[:-1]))
        submit("s.jsonl", *flags)
    (folder / "s.jsonl").write_bytes(b"".join(lines))
    before = log_size(served)
    sign = Registrar._sign
    others: list[dict[str, Any]] = []

    def meanwhile(self: Registrar, *args: Any) -> Any:
        if not others:
            others.append({})
            others[0] = submit("s.jsonl", *flags)
        return sign(self, *args)

    monkeypatch.setattr(Registrar, "_sign", meanwhile)
    ours = submit("s.jsonl", *flags)

    assert ours["known"] is True
    assert ours["entry-id"] == others[0]["entry-id"]
    assert log_size(served) - before == (2 if "--convert" in flags else 1)
    assert not list(folder.glob("*.replaced.*"))
    assert not list(folder.glob("s.*.redactions.json")) or grown


def test_two_commands_over_one_folder_both_end_well(folder: Path, served: Served) -> None:
    count = 60
    make(folder / "all", count, "at-once-")
    before = log_size(served)
    command = [sys.executable, "-m", "transparency", *map(str, words(served, "all", "--json"))]
    place = environment(folder / "no-config")

    both = [subprocess.Popen(command, cwd=folder, env=place, stdout=subprocess.PIPE) for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=120)[0]) for process in both]

    assert [process.returncode for process in both] == [0, 0]
    assert [answer["counts"]["failed"] for answer in answers] == [0, 0]
    assert log_size(served) - before == count
    assert len(list((folder / "all").iterdir())) == 2 * count


def test_an_empty_statement_file_is_left_alone_until_told_otherwise(
    run: Run, folder: Path, submit: Submit, served: Served
) -> None:
    shutil.copy(CLAUDE, folder / "s.jsonl")
    (folder / "s.jsonl.cose").touch()

    refused = run("submit", "s.jsonl", "--key", served.key, "--iss", ISS, "--log", served.url)

    assert refused.exit_code == 73
    assert submit("s.jsonl", "--force")["status"] == "registered"
    assert sorted(path.name for path in folder.iterdir()) == ["s.jsonl", "s.jsonl.cose"]


def test_a_session_that_became_shorter_is_not_said_to_have_grown(folder: Path, good: Run, served: Served) -> None:
    whole = large(5)
    (folder / "s.jsonl").write_bytes(whole)
    good(*words(served, "s.jsonl"))
    (folder / "s.jsonl").write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])

    told = good(*words(served, "s.jsonl")).stderr

    assert "SHORTER" in told
    assert "grown" not in told.replace("submit it again when it has grown", "")
