"""Where values come from: flags win over the environment, the environment over the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from transparency.cli.errors import CommandError
from transparency.cli.settings import config_path, read_config

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "xdg" / "transparency" / "config.toml"
    path.parent.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert config_path() == path
    return path


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One attempt: these logs do not exist."""
    from transparency.client import retry

    monkeypatch.setattr(retry.Backoff, "delay", lambda *_: 0.0)


def asked(result_stderr: str) -> str:
    return result_stderr.split(" cannot be reached", maxsplit=1)[0].removeprefix("error: ")


def test_the_file_is_used_where_nothing_else_is_said(run: Run, config: Path) -> None:
    config.write_text('log = "http://127.0.0.1:2"\n')

    assert asked(run("keys").stderr) == "http://127.0.0.1:2"


def test_the_environment_wins_over_the_file(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('log = "http://127.0.0.1:2"\n')
    monkeypatch.setenv("TRANSPARENCY_LOG", "http://127.0.0.1:3")

    assert asked(run("keys").stderr) == "http://127.0.0.1:3"


def test_the_flag_wins_over_both(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('log = "http://127.0.0.1:2"\n')
    monkeypatch.setenv("TRANSPARENCY_LOG", "http://127.0.0.1:3")

    assert asked(run("keys", "--log", "http://127.0.0.1:4").stderr) == "http://127.0.0.1:4"


def test_without_any_of_them_it_is_a_usage_error(run: Run) -> None:
    result = run("keys")

    assert result.exit_code == 64
    assert "--log" in result.stderr


def test_the_key_and_issuer_to_sign_with_may_come_from_the_environment(
    good: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good("keygen", "--out", "issuer.pem")
    (folder / "note.txt").write_text("hello")
    monkeypatch.setenv("TRANSPARENCY_KEY", "issuer.pem")
    monkeypatch.setenv("TRANSPARENCY_ISS", "https://acme.example")

    good("sign", "note.txt", "--sub", "note")

    assert (folder / "note.cose").exists()


def test_paths_in_the_file_are_relative_to_it_and_lists_are_lists(config: Path) -> None:
    config.write_text('key = "issuer.pem"\nlog_key = ["a.keys", "/b.keys"]\niss = "https://a.example"\n')

    assert read_config(config) == {
        "key": str(config.parent / "issuer.pem"),
        "log_key": [str(config.parent / "a.keys"), "/b.keys"],
        "iss": "https://a.example",
    }


@pytest.mark.parametrize(
    "text", ["log = ", "lgo = 'x'", "log = 5", "log = ['x']", "log = ''", "log_key = [1]", "[log]", "\x00"]
)
def test_a_file_that_is_wrong_is_said_to_be_wrong(run: Run, config: Path, text: str) -> None:
    config.write_text(text)

    result = run("keys")

    assert result.exit_code == 65
    assert "config.toml" in result.stderr.replace("\n", "")


def test_a_file_without_end_is_not_read(config: Path) -> None:
    config.write_bytes(b"#" * 100_000)

    with pytest.raises(CommandError, match="larger than"):
        read_config(config)


def test_a_misspelt_setting_names_those_that_exist(run: Run, config: Path) -> None:
    config.write_text('tokne = "secret-value"\n')

    result = run("keys", "--log", NOWHERE, "--token", "x")

    assert result.exit_code == 65
    assert "Known are" in result.stderr
    assert "secret-value" not in result.output
