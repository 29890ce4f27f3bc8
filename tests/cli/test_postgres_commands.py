"""A log in PostgreSQL on the command line: init, issuers, status, fsck, backup's word, migrate, serve."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, running
from transparency.log.folder import Config, Folder


def _config(data: Path) -> Config:
    return Config.read(Folder(data.absolute()).config)


def test_a_log_in_postgresql_is_made_and_looked_after_with_the_same_commands(
    good: Run, run: Run, folder: Path, postgres_url: str
) -> None:
    good("keygen", "--out", "issuer.pem")
    good("init", "--data", "log", "--db", postgres_url)
    good("issuer", "add", "--data", "log", "--iss", ISS, "--key", "issuer.pub.pem")

    assert json.loads(good("log", "status", "--data", "log", "--json").stdout)["size"] == 3
    assert json.loads(good("log", "fsck", "--data", "log", "--json").stdout)["clean"]
    good("audit", "--data", "log", "--policy-key", _config(folder / "log").policy_key.hex())
    assert _config(folder / "log").db == postgres_url
    refused = run("log", "backup", "--data", "log", "--out", "copy")
    assert refused.exit_code == 1
    assert "pg_basebackup" in refused.stderr


def test_a_log_is_migrated_there_and_back(good: Run, run: Run, folder: Path, postgres_url: str) -> None:
    good("init", "--data", "log")

    answer = json.loads(good("log", "migrate", "--from", "log", "--to", "there", "--db", postgres_url, "--json").stdout)
    good("log", "migrate", "--from", "there", "--to", "back")

    assert answer == {"from": "log", "data": "there", "size": 2}
    assert json.loads(good("log", "fsck", "--data", "there", "--json").stdout)["clean"]
    assert json.loads(good("log", "fsck", "--data", "back", "--json").stdout)["clean"]
    again = run("log", "migrate", "--from", "log", "--to", "again", "--db", postgres_url)
    assert again.exit_code == 1
    assert "a log in this database already" in again.stderr
    assert run("log", "migrate", "--from", "log", "--to", "there").exit_code == 73
    assert run("log", "migrate", "--from", "nowhere", "--to", "new").exit_code == 66


@pytest.mark.parametrize("url", ["log.sqlite", "mysql://host/name", "postgresql://[::1/name"])
def test_a_db_that_is_no_url_of_postgresql_is_a_slip(run: Run, folder: Path, url: str) -> None:
    result = run("init", "--data", "log", "--db", url)

    assert result.exit_code == 64
    assert "postgresql://user@host/name" in result.stderr
    assert not (folder / "log").exists()


def test_a_server_that_is_not_there_leaves_nothing(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "")  # which the command sets for those it starts
    result = run("init", "--data", "log", "--db", "postgresql://user:hush-hush@127.0.0.1:1/name")

    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr
    assert "hush-hush" not in result.stderr
    assert list(folder.iterdir()) == []


def test_a_log_in_postgresql_is_served_and_its_password_is_nowhere_in_the_folder(
    good: Run, run: Run, folder: Path, postgres_url: str
) -> None:
    good("keygen", "--out", "issuer.pem")
    good("init", "--data", "log", "--db", postgres_url)
    good("issuer", "add", "--data", "log", "--iss", ISS, "--key", "issuer.pub.pem")
    (folder / "record.bin").write_bytes(b"a record")

    url = f"{postgres_url}&password=hush-hush"
    with running(folder, "serve", "--data", "log", "--db", url, "--port", "0", "--open") as (at, _):
        words = (
            "submit",
            "record.bin",
            "--content-type",
            "text/plain",
            "--sub",
            "urn:a",
            "--key",
            "issuer.pem",
            "--iss",
            ISS,
            "--log",
            at,
            "--json",
        )
        first = json.loads(good(*words).stdout)
        assert json.loads(good(*words).stdout)["index"] == first["index"] == 3

    assert json.loads(good("log", "status", "--data", "log", "--json").stdout)["size"] >= 4
    assert json.loads(good("log", "fsck", "--data", "log", "--json").stdout)["clean"]
    assert not [path for path in folder.rglob("*") if path.is_file() and b"hush-hush" in path.read_bytes()]
