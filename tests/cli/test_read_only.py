"""Looking at a log as another user: what can be read is read, what cannot is said, and nothing is written."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import transparency
from tests.cli.conftest import ISS, Run

# Another user may not be able to read where Python lies: what is imported late is imported now.
for module in (*(each.name for each in walk_packages(transparency.__path__, "transparency.")), "rich.progress"):
    import_module(module)
"localhost".encode("idna")

NOBODY = 65534


@contextlib.contextmanager
def another_user() -> Iterator[None]:
    """As somebody whom permissions hold. Whoever runs the tests as root becomes nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that others may enter (pytest's own are private)."""
    folder = Path(tempfile.mkdtemp(prefix="transparency-test-"))
    folder.chmod(0o755)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "no-config"))
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def snapshot(good: Run, place: Path) -> Path:
    """A log with an issuer, every file of it readable and none of it writable."""
    good("keygen", "--out", place / "issuer.pem")
    good("init", "--data", place / "log", "--origin", "log.example/ro")
    good("issuer", "add", "--data", place / "log", "--iss", ISS, "--key", place / "issuer.pub.pem")
    for path in place.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    place.chmod(0o555)
    return place / "log"


def listing(folder: Path) -> list[tuple[str, int]]:
    return sorted((path.name, path.stat().st_size) for path in folder.rglob("*"))


def test_a_snapshot_that_cannot_be_written_can_be_checked_and_looked_at(run: Run, snapshot: Path) -> None:
    before = listing(snapshot.parent)

    with another_user():
        fsck = run("log", "fsck", "--data", snapshot, "--json")
        status = run("log", "status", "--data", snapshot, "--json")
        issuers = run("issuer", "list", "--data", snapshot, "--json")
        policy = run("policy", "show", "--data", snapshot, "--json")

    assert [result.exit_code for result in (fsck, status, issuers, policy)] == [0, 0, 0, 0], fsck.output
    assert json.loads(fsck.stdout)["size"] == 3
    assert (json.loads(status.stdout)["origin"], json.loads(status.stdout)["size"]) == ("log.example/ro", 3)
    assert [each["iss"] for each in json.loads(issuers.stdout)["issuers"]] == [ISS]
    assert json.loads(policy.stdout)["generation"] == 2
    assert listing(snapshot.parent) == before


def test_a_snapshot_that_cannot_be_written_can_be_restored_elsewhere(run: Run, snapshot: Path) -> None:
    with another_user(), tempfile.TemporaryDirectory() as mine:
        result = run("log", "restore", "--from", snapshot, "--data", f"{mine}/new", "--new-origin", "log.example/new")

        assert result.exit_code == 0, result.output


def test_what_changes_a_snapshot_says_that_it_cannot(run: Run, snapshot: Path) -> None:
    with another_user():
        add = run("issuer", "remove", "--data", snapshot, "--iss", ISS)
        token = run("token", "create", "--data", snapshot)

    for result in (add, token):
        assert result.exit_code == 73, result.output
        assert str(snapshot) in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.sqlite_file
def test_a_snapshot_in_the_middle_of_a_write_is_to_be_copied(run: Run, good: Run, place: Path) -> None:
    good("init", "--data", place / "log")
    (place / "log" / "log.sqlite-wal").write_bytes(b"x" * 5000)
    for path in place.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)

    with another_user():
        result = run("log", "fsck", "--data", place / "log")

    assert result.exit_code == 1
    assert "copy the folder" in result.stderr


@pytest.mark.parametrize("words", [("log", "status"), ("log", "fsck"), ("serve", "--port", "0"), ("token", "list"),
                                   ("init",), ("log", "backup", "--out", "x")], ids=" ".join)  # fmt: skip
@pytest.mark.parametrize("closed", ["log", "."])
def test_another_users_folder_is_65_and_not_taken_for_none(
    run: Run, good: Run, place: Path, words: tuple[str, ...], closed: str
) -> None:
    good("init", "--data", place / "log")
    (place / closed).chmod(0o000)

    with another_user():
        result = run(*words, "--data", place / "log")

    assert result.exit_code == 65, result.output
    assert result.stderr.startswith("error: ")
    assert str(place / "log") in result.stderr
    assert result.stderr.count("\n") == 1


def test_another_users_key_file_or_settings_are_65(
    run: Run, good: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good("keygen", "--out", place / "issuer.pem")
    (place / "record.txt").write_text("x")
    if os.geteuid() != 0:
        (place / "issuer.pem").chmod(0o000)

    with another_user():
        sign = run("sign", place / "record.txt", "--key", place / "issuer.pem", "--iss", ISS, "--sub", "s")
        verify = run("verify", place / "record.txt", "--log-key", place / "issuer.pem")

    monkeypatch.setenv("XDG_CONFIG_HOME", str(place))
    (place / "transparency").mkdir(mode=0o700)
    (place / "transparency" / "config.toml").touch(mode=0o000)
    with another_user():
        settings = run("keys")

    assert settings.exit_code == 65
    assert [sign.exit_code, verify.exit_code] == [65, 65]
    assert "issuer.pem" in sign.stderr
    assert sign.stderr.count("\n") == 1
