"""``transparency audit``: one thumbprint, a copy of a folder or a URL, a verdict and an exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served
from tests.log.audited import flip
from transparency.log.folder import Config


@pytest.fixture
def log(good: Run, folder: Path) -> Path:
    good("keygen", "--out", "issuer.pem")
    good("init", "--data", "log", "--origin", "log.example/audited")
    good("issuer", "add", "--data", "log", "--iss", ISS, "--key", "issuer.pub.pem")
    return folder / "log"


def thumbprint(log: Path) -> str:
    return Config.read(log / "config.toml").policy_key.hex()


@pytest.mark.sqlite_file
def test_a_copy_of_the_folder_is_audited_without_keys_and_configuration(good: Run, log: Path, folder: Path) -> None:
    (folder / "copy").mkdir()
    shutil.copy(log / "log.sqlite", folder / "copy")

    shown = good("audit", "--data", "copy", "--policy-key", thumbprint(log))
    body = json.loads(good("audit", "--data", "copy", "--policy-key", thumbprint(log), "--json").stdout)

    assert "3 of 3 decisions reproduced" in shown.stdout
    assert body["verdict"] == "reproduced"
    assert body["entries"] == {"reproduced": 3}
    assert body["origin"] == "log.example/audited"
    assert body["findings"] == []


@pytest.mark.sqlite_file
def test_a_flipped_byte_is_named_and_exits_1(run: Run, log: Path) -> None:
    key = thumbprint(log)
    flip(log, 2)

    shown = run("audit", "--data", log, "--policy-key", key)
    body = json.loads(run("audit", "--data", log, "--policy-key", key, "--json").stdout)

    assert shown.exit_code == 1
    assert "entry 2" in shown.stdout
    assert body["verdict"] == "findings"
    assert body["findings"][0]["index"] == 2


def test_another_thumbprint_is_a_finding(run: Run, log: Path) -> None:
    result = run("audit", "--data", log, "--policy-key", "0" * 64)
    body = json.loads(run("audit", "--data", log, "--policy-key", "0" * 64, "--json").stdout)

    assert body["origin"] is None, "nothing that is trusted says which log this is"

    assert result.exit_code == 1
    assert {found["index"] for found in body["findings"]} == {0}
    assert "reproduced" not in body["entries"]
    assert "an unknown log: 0 of 3 decisions reproduced" in result.stdout
    assert "another policy key than the pinned one" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--policy-key", "0" * 63, "--data", "log"), 64, "64 lower-case hexadecimal digits"),
        (("--data", "log"), 64, "--policy-key"),
        (("--policy-key", "0" * 64, "--data", "log", "--log", "http://x"), 64, "--data and --log exclude each other"),
        (("--policy-key", "0" * 64), 64, "--data"),
        (("--policy-key", "0" * 64, "--data", "nowhere"), 66, "there is no log in nowhere"),
    ],
)
def test_what_is_asked_wrongly_is_said_in_one_line(
    run: Run, log: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    result = run("audit", *words)

    assert result.exit_code == code
    assert says in result.stderr
    assert result.stderr.strip().count("\n") == 0


def test_a_file_that_is_no_database_cannot_be_told(run: Run, log: Path, folder: Path) -> None:
    (folder / "copy").mkdir()
    (folder / "copy" / "log.sqlite").write_bytes(b"not a database at all" * 500)

    assert run("audit", "--data", "copy", "--policy-key", thumbprint(log)).exit_code == 2


def test_a_log_that_runs_is_audited_over_http_and_in_its_folder(good: Run, served: Served) -> None:
    key = thumbprint(served.data)
    record = served.data.parent / "note.txt"
    record.write_text("hello")
    good(
        "submit",
        record,
        "--key",
        served.key,
        "--iss",
        ISS,
        "--log",
        served.url,
        "--content-type",
        "text/plain",
        "--sub",
        "n",
    )
    good("log", "manifest", "--data", served.data)

    remote = json.loads(good("audit", "--log", served.url, "--policy-key", key, "--json").stdout)
    local = json.loads(good("audit", "--data", served.data, "--policy-key", key, "--json").stdout)

    assert remote == local
    assert remote["verdict"] == "reproduced"
    assert remote["manifests"] >= 1


def test_where_nothing_was_registered_there_is_nothing_to_say(good: Run, log: Path) -> None:
    answer = json.loads(good("log", "manifest", "--data", log, "--json").stdout)

    assert answer == {"entries": [], "covered": 0}
    assert "nothing was registered" in good("log", "manifest", "--data", log).stderr
