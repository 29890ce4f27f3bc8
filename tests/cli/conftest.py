"""Running commands as people do, with nothing of the developer's own settings in the way."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.on_postgres import with_database
from tests.patience import PATIENCE
from transparency.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
ISS = "https://acme.example"

Run = Callable[..., Result]


def environment(home: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TRANSPARENCY_")}
    return {
        **clean,
        "XDG_CONFIG_HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
    }


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("TRANSPARENCY_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def run() -> Run:
    """Run a command in this process. Whatever happens, it must not show a traceback."""

    def invoke(*words: str | Path, stdin: bytes | None = None) -> Result:
        result = CliRunner().invoke(cli, [str(word) for word in words], input=stdin)
        assert "Traceback" not in result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return invoke


@pytest.fixture
def good(run: Run) -> Run:
    """Run a command that must succeed."""

    def invoke(*words: str | Path, stdin: bytes | None = None) -> Result:
        result = run(*words, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result

    return invoke


def shell(*words: str | Path, cwd: Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "transparency", *with_database(words, cwd)],
        cwd=cwd,
        env=environment(cwd / "no-config"),
        input=stdin if stdin is not None else b"",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert b"Traceback" not in ended.stderr
    return ended


@dataclass(frozen=True)
class Served:
    """A log that runs, and an issuer it accepts."""

    url: str
    data: Path
    key: Path
    public: Path
    first_line: str
    errors: Path


@contextlib.contextmanager
def serving(folder: Path, *flags: str) -> Iterator[Served]:
    """A real server process on a free port, over ``folder/log``, with one issuer."""
    for words in (
        ("keygen", "--alg", "ES256", "--out", "issuer.pem"),
        ("init", "--data", "log", "--origin", "log.example/cli"),
        ("issuer", "add", "--data", "log", "--iss", ISS, "--key", "issuer.pub.pem"),
    ):
        ended = shell(*words, cwd=folder)
        assert ended.returncode == 0, ended.stderr
    with running(folder, "serve", "--data", "log", "--host", "127.0.0.1", "--port", "0", *flags) as (line, errors):
        yield Served(line, folder / "log", folder / "issuer.pem", folder / "issuer.pub.pem", line, errors)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A log that publishes at once, for all tests of a module."""
    with serving(tmp_path_factory.mktemp("log"), "--open", "--checkpoint-interval", "0.05") as running:
        yield running


@contextlib.contextmanager
def running(folder: Path, *words: str, ends: int = 0) -> Iterator[tuple[str, Path]]:
    """A command that prints one line and goes on; ended with SIGTERM, which it must obey, with the exit *ends*."""
    errors = folder / "serve.err"
    with (
        errors.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-m", "transparency", *with_database(words, folder)],
            cwd=folder,
            env=environment(folder / "no-config"),
            stdout=subprocess.PIPE,
            stderr=file,
            stdin=subprocess.DEVNULL,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield process.stdout.readline().decode().rstrip("\n"), errors
        finally:
            process.terminate()
            try:
                code = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert code == ends, errors.read_text()
    assert "Traceback" not in errors.read_text()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One open log for all tests that only add to it."""
    with serving(tmp_path_factory.mktemp("served"), "--open") as log:
        yield log


@pytest.fixture
def submit(good: Run, served: Served) -> Callable[..., dict[str, Any]]:
    """Submit as the issuer of the log that is served; what it says as JSON."""

    def run(*words: str | Path) -> dict[str, Any]:
        result = good("submit", *words, "--key", served.key, "--iss", ISS, "--log", served.url, "--json")
        value: dict[str, Any] = json.loads(result.stdout)
        return value

    return run


@pytest.fixture
def verify(run: Run, good: Run, served: Served) -> Callable[..., int]:
    """Verify with the keys of that log and issuer; the exit code."""

    def verified(*words: str | Path) -> int:
        good("keys", "--log", served.url, "--out", "log.keys", "--force")
        return run("verify", *words, "--log-key", "log.keys", "--issuer-key", served.public).exit_code

    return verified
