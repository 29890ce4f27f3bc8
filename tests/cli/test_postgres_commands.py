"""A log in PostgreSQL on the command line: init, issuers, status, fsck, backup's word, migrate, serve."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.conftest import ISS, Run, running
from transparency.log.folder import Config, Folder
from transparency.log.mark import MarkValue
from transparency.log.mark_named import NamedMark
from transparency.log.mark_postgres import Place, PostgresMark
from transparency.log.postgres import PostgresStore
from transparency.testing.postgres import shared_server


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


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("postgresql://nobody-here@{at}", 77, 'role "nobody-here" does not exist'),
        ("postgresql://postgres@{host}/none-such", 77, 'database "none-such" does not exist'),
        ("postgresql://me:hush-hush@nowhere.invalid/log", 69, "its host is not known"),
        ("postgresql://me:hush-hush@127.0.0.1:99999/log", 69, "invalid port number"),
        ("postgresql:///log?host=/nowhere", 69, "at postgresql:///log?host=%2Fnowhere: No such file or directory"),
    ],
)
def test_why_there_is_no_connection_is_said_and_what_to_do(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, code: int, words: str
) -> None:
    monkeypatch.setenv("PGPASSWORD", "")
    host = f"127.0.0.1:{shared_server().port}"
    result = run("init", "--data", "log", "--db", url.format(at=f"{host}/postgres", host=host))

    assert result.exit_code == code
    assert words in result.stderr
    assert "URL" in result.stderr, "what to do about it"
    assert "hush-hush" not in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (folder / "log").exists()


def test_of_several_hosts_the_primary_is_asked_for(run: Run, folder: Path) -> None:
    result = run("init", "--data", "log", "--db", "postgresql://me@one.invalid,two.invalid/log")

    assert result.exit_code == 64
    assert "target_session_attrs=primary" in result.stderr


def test_a_node_that_never_leads_makes_no_log(run: Run, folder: Path) -> None:
    assert run("serve", "--data", "log", "--port", "0", "--never-lead").exit_code == 64
    assert list(folder.iterdir()) == []


def test_doctor_and_fsck_look_at_database_and_mark(good: Run, run: Run, folder: Path, postgres_url: str) -> None:
    """The mark in a database, too: fsck only reads it, so any will do."""
    good("init", "--data", "log", "--db", postgres_url)
    assert "answers, with 2 entries" in run("doctor", "--data", "log").stdout
    mark_db = shared_server().new_database()
    empty = run("log", "fsck", "--data", "log", "--watermark", mark_db)
    assert empty.exit_code == 1
    assert "no high-water mark of" in empty.stdout

    config = _config(folder / "log")
    with closing(PostgresStore.for_reading(postgres_url)) as store:
        tip = store.tip()
    place = Place(7, 1)
    PostgresMark.open(mark_db, config.origin, 1, place, MarkValue(tip.size, tip.root)).close()
    assert good("log", "fsck", "--data", "log", "--watermark", mark_db).exit_code == 0
    replace(config, watermark_db=mark_db).write(Folder(folder / "log").config)
    assert "has it, at size 2" in " ".join(run("doctor", "--data", "log").stdout.split())
    config.write(Folder(folder / "log").config)
    mark = PostgresMark.open(mark_db, config.origin, 1, place, None)
    mark.write(MarkValue(tip.size + 1, tip.root))
    mark.close()
    behind = run("log", "fsck", "--data", "log", "--watermark", mark_db)
    assert behind.exit_code == 1
    assert "an older copy was put back" in behind.stdout
    assert "two histories under one name" in " ".join(behind.stdout.split()), "to its end"

    replace(config, watermark_db=mark_db).write(Folder(folder / "log").config)
    looked = run("doctor", "--data", "log")
    assert looked.exit_code == 1
    assert "has 2 entries, but had 3 when it last ran" in " ".join(looked.stdout.split())
    assert "Put the newest copy back" in " ".join(looked.stdout.split())
    with closing(PostgresStore(postgres_url)) as store:
        store.name_mark(NamedMark(uuid4(), "postgresql://mark@elsewhere/mark"), store.tip().epoch)
    config.write(Folder(folder / "log").config)
    untold = run("doctor", "--data", "log")
    assert untold.exit_code == 1
    assert "--watermark postgresql://mark@elsewhere/mark" in " ".join(untold.stdout.split())
    replace(config, db="postgresql://postgres@127.0.0.1:1/log").write(Folder(folder / "log").config)
    away = run("doctor", "--data", "log")
    assert away.exit_code == 1
    assert "cannot be reached" in away.stdout
    shared_server().drop_database(mark_db)


@pytest.mark.parametrize(
    ("db", "code", "says"),
    [
        ("postgresql://postgres@127.0.0.1:1/log", 69, "cannot be reached"),
        ("postgresql://nobody-here@{host}/postgres", 77, 'role "nobody-here" does not exist'),
    ],
)
def test_an_export_of_a_database_that_does_not_answer_is_no_fork(
    good: Run, run: Run, folder: Path, db: str, code: int, says: str
) -> None:
    """Exit 1 is that of two histories (docs/export.md)."""
    good("init", "--data", "log")
    config = _config(folder / "log")
    replace(config, db=db.format(host=f"127.0.0.1:{shared_server().port}")).write(Folder(folder / "log").config)

    refused = run("log", "export", "www", "--data", "log")

    assert refused.exit_code == code
    assert says in refused.stderr
    assert "URL" in refused.stderr, "what to do about it"


@pytest.mark.parametrize("url", ["log.sqlite", "mysql://host/name", "postgresql://[::1/name"])
def test_a_db_that_is_no_url_of_postgresql_is_a_slip(run: Run, folder: Path, url: str) -> None:
    result = run("init", "--data", "log", "--db", url)

    assert result.exit_code == 64
    assert "postgresql://user@host/name" in result.stderr
    assert not (folder / "log").exists()


def test_a_server_that_is_not_there_leaves_nothing(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "")  # which the command sets for those it starts
    result = run("init", "--data", "log", "--db", "postgresql://user:hush-hush@127.0.0.1:1/name")

    assert result.exit_code == 69
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
