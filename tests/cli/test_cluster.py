"""``serve`` over one database from two folders: one leads, both take statements; and what is refused."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, Run, running, shell
from tests.log.clusters import database
from transparency.cli.exits import Exit
from transparency.log.folder import Config
from transparency.testing.postgres import PostgresServer


@pytest.fixture
def urls() -> Iterator[list[str]]:
    """A database for the log, and one in another server for its mark."""
    with ExitStack() as stack:
        elsewhere = PostgresServer.start()
        stack.callback(elsewhere.remove)
        yield [stack.enter_context(database()), elsewhere.new_database()]


def ready(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/readyz") as answer:  # noqa: S310 - our own server
        said: dict[str, Any] = json.loads(answer.read())
        return said


def test_two_folders_serve_one_log_and_one_of_them_leads(folder: Path, good: Run, urls: list[str]) -> None:
    db, mark = urls
    good("keygen", "--alg", "ES256", "--out", "issuer.pem")
    good("init", "--data", "one", "--db", db, "--origin", "log.example/two")
    good("issuer", "add", "--data", "one", "--iss", ISS, "--key", "issuer.pub.pem")
    shutil.copytree("one", "two")
    flags = ("--port", "0", "--open", "--watermark", mark)
    with ExitStack() as nodes:
        first, _ = nodes.enter_context(running(folder, "serve", "--data", "one", "--workers", "0", *flags))
        second, _ = nodes.enter_context(running(folder, "serve", "--data", "two", "--workers", "1", *flags))

        assert ready(first)["role"] == "leader"
        assert ready(second) == {**ready(first), "role": "front end"}
        assert Config.read(folder / "two" / "config.toml").watermark_db == mark

        Path("record.txt").write_text("what an agent did")
        words = ("--content-type", "text/plain", "--sub", "urn:a", "--key", "issuer.pem", "--iss", ISS, "--log", second)
        sent = shell("submit", "record.txt", *words, cwd=folder)
        assert sent.returncode == 0, sent.stderr

        elsewhere = shell("issuer", "remove", "--data", "two", "--iss", ISS, cwd=folder)
        assert elsewhere.returncode == Exit.TRY_LATER
        assert b"does not lead" in elsewhere.stderr
        assert b"Run it on the machine that leads" in elsewhere.stderr
        assert b"--log" not in elsewhere.stderr, "it has no such option"


@pytest.mark.sqlite_file
@pytest.mark.parametrize(
    "flags",
    [
        ("--accept-failover", "5:aa"),
        ("--never-lead",),
        ("--read-db", "postgresql://somewhere/log"),
        ("--watermark", "postgresql://somewhere/mark"),
    ],
)
def test_options_of_a_cluster_go_with_a_database(folder: Path, run: Run, good: Run, flags: tuple[str, ...]) -> None:
    good("init", "--data", folder / "log")

    assert run("serve", "--data", folder / "log", "--port", "0", *flags).exit_code == Exit.USAGE


def test_the_mark_is_not_kept_in_the_log_s_own_database(folder: Path, run: Run, good: Run, postgres_url: str) -> None:
    good("init", "--data", folder / "log", "--db", postgres_url)

    refused = run("serve", "--data", folder / "log", "--port", "0", "--watermark", postgres_url)

    assert refused.exit_code == Exit.NEGATIVE
    assert "another database server" in refused.output


def test_what_an_operator_accepts_has_one_form(folder: Path, run: Run, good: Run, postgres_url: str) -> None:
    good("init", "--data", folder / "log", "--db", postgres_url)

    for text in ("5", "05:" + "a" * 64, "5:" + "A" * 64, "5:" + "a" * 63, " 5:" + "a" * 64):
        assert run("serve", "--data", folder / "log", "--port", "0", "--accept-failover", text).exit_code == Exit.USAGE
