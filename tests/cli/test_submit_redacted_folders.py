"""``submit --redact`` of sessions that are folders: the pack is redacted, and what it keeps is never packed itself."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served
from tests.cli.submitting import RECORDS, Submit, Verify, statement_of
from transparency.cli.sessions import expand, latest
from transparency.cose import labels
from transparency.records import tree

CARD = "4111111111111111"
SESSION = "5b0d7a40-6f3e-4c1b-9a55-1d2e3f4a5b6c"


def claude(folder: Path) -> str:
    """A Claude session whose sub-agent was told a card number; its name."""
    shutil.copytree(RECORDS / "claude" / "folder", folder / "project")
    agent = folder / "project" / SESSION / "subagents" / "agent-a1b2c3.jsonl"
    lines = agent.read_text().splitlines(keepends=True)
    value = json.loads(lines[0])
    value["message"]["content"] = f"pay with {CARD}"
    agent.write_text(json.dumps(value) + "\n" + "".join(lines[1:]))
    return f"project/{SESSION}"


def opencode(folder: Path) -> str:
    """A storage tree of OpenCode with a card number in a part; its name."""
    files = {
        "session/p/ses_0192f0aa11114222.json": {"id": "ses_0192f0aa11114222", "version": "1", "time": {"created": 1}},
        "message/ses_0192f0aa11114222/msg_1.json": {
            "id": "msg_1", "sessionID": "ses_0192f0aa11114222", "role": "user", "time": {"created": 1767225600000},
        },
        "part/msg_1/prt_1.json": {"id": "prt_1", "messageID": "msg_1", "type": "text", "text": f"pay with {CARD}"},
    }  # fmt: skip
    for path, value in files.items():
        place = folder / "storage" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(value))
    return "storage"


@pytest.mark.parametrize("make", [claude, opencode])
@pytest.mark.parametrize("private", [(), ("--private",)], ids=["attached", "private"])
def test_a_session_that_is_a_folder_is_redacted_in_each_of_its_files(
    folder: Path, submit: Submit, verify: Verify, make: object, private: tuple[str, ...]
) -> None:
    name = make(folder)  # type: ignore[operator]

    answer = submit(name, "--redact", *private)

    assert answer["file"] == f"{name}.redacted.cose"
    statement = statement_of(answer["file"])
    record = Path(f"{name}.redacted.payload").read_bytes() if private else statement.payload
    assert CARD.encode() not in record
    original = {file.path: file.data for file in tree.unpack(expand([name])[0].read())}
    packed = {file.path: file.data for file in tree.unpack(record)}
    changed = {path for path in original if original[path] != packed[path]}
    assert original.keys() == packed.keys()
    assert len(changed) == 1
    assert [rule for rule, *_ in statement.message.headers[labels.REDACTIONS]] == ["card-number"]
    assert CARD in Path(f"{name}.redactions.json").read_text()
    assert verify(answer["file"]) == 0
    assert submit(name, "--redact", *private)["known"] is True


def test_a_disclosure_of_a_folder_verifies(folder: Path, submit: Submit, good: Run, verify: Verify) -> None:
    name = claude(folder)
    submit(name, "--redact")

    good("disclose", f"{name}.redactions.json", "--item", "1", "--out", "d.json")

    assert verify(f"{name}.redacted.cose", "--disclosure", "d.json") == 0


def test_a_folder_is_left_without_results_and_under_a_pseudonym(folder: Path, submit: Submit, verify: Verify) -> None:
    name = claude(folder)

    answer = submit(name, "--omit", "tool-result", "--pseudonymous", "key.bin", "--redact", "--convert")

    record = statement_of(f"{name}.redacted.cose").payload
    assert SESSION.encode() not in record
    assert b"[REDACTED:omit-tool-result:" in record
    assert verify(f"{name}.redacted.cose") == 0
    assert [verify(each["file"]) for each in answer["canonical"]] == [0, 0]


def test_what_is_kept_beside_a_folder_is_no_session_of_its_own(folder: Path, submit: Submit) -> None:
    name = claude(folder)
    before = expand(["project"])

    submit(name, "--redact", "--private", "--convert")

    assert expand(["project"]) == before


def test_what_was_taken_out_of_an_opencode_session_never_goes_into_the_next_pack(
    folder: Path, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest session's side file lies in the storage tree, which is packed whole by another command."""
    home = folder / "home"
    place = home / ".local" / "share" / "opencode"
    opencode(place)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    session = latest("opencode")
    whole = expand([str(place / "storage")])

    answer = submit("--latest", "opencode", "--redact", "--convert")

    assert CARD in (place / "storage/session/p/ses_0192f0aa11114222.redactions.json").read_text()
    assert answer["file"].endswith("ses_0192f0aa11114222.redacted.cose")
    assert latest("opencode") == session
    assert expand([str(place / "storage")]) == whole


def test_the_newest_session_is_never_one_that_redaction_wrote(
    folder: Path, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder / "claude" / "projects" / "p"
    place.mkdir(parents=True)
    shutil.copy(RECORDS / "claude" / "session.jsonl", place / "s.jsonl")
    os.utime(place / "s.jsonl", (1000, 1000))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder / "claude"))

    first, again = submit("--latest", "claude", "--redact"), submit("--latest", "claude", "--redact")

    assert first["session"] == again["session"] == str(place / "s.redacted.jsonl")
    assert again["known"] is True


@pytest.mark.parametrize("what", ["-", "unknown.jsonl"])
def test_what_cannot_be_redacted_leaves_no_key_behind(run: Run, folder: Path, served: Served, what: str) -> None:
    Path("unknown.jsonl").write_text("no record\n")
    words = ("--key", served.key, "--iss", ISS, "--log", served.url)

    result = run("submit", what, "--pseudonymous", "key.bin", *words, stdin=b'{"type":"user","sessionId":"s"}\n')

    assert result.exit_code == (64 if what == "-" else 65)
    assert not Path("key.bin").exists()


def test_what_is_no_record_is_passed_over_in_a_folder_with_redaction_too(folder: Path, submit: Submit) -> None:
    claude(folder)
    (folder / "project" / "README.md").write_text("# notes\n")

    body = submit("project", "--redact")

    assert body["counts"] | {"registered": 1, "skipped": 1, "failed": 0} == body["counts"]
