"""Slips of the hand: keys and tokens in the wrong place, names that cannot be, a disk that is not mounted."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, running, serving, shell
from transparency.cli.redaction import redacted
from transparency.cose.keys import PrivateKey
from transparency.log.folder import Config

SECRET = f"tl_0123456789ab_{secrets.token_urlsafe(32)}"


@pytest.fixture
def pem() -> str:
    return PrivateKey.generate(-7).to_pem().decode()


def body(pem: str) -> list[str]:
    """The lines of a PEM file that nobody may see."""
    return [line for line in pem.splitlines() if "-----" not in line]


@pytest.mark.parametrize(
    "words",
    [
        ("sign", "x", "--iss", ISS, "--key"), ("sign", "x", "--iss", ISS, "--sub", "s", "--key", "k", "--out"),
        ("verify",), ("verify", "x", "--log-key"), ("verify", "x", "--trust"), ("inspect",), ("keygen", "--out"),
        ("keygen", "--out", "new.pem", "--passphrase-file"), ("init", "--data"), ("serve", "--data"),
        ("issuer", "add", "--data", "log", "--iss", ISS, "--key"), ("token", "revoke", "--data", "log"),
        ("log", "backup", "--data", "log", "--out"), ("demo", "--keep"), ("submit",), ("surf",),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("json", [(), ("--json",)], ids=["text", "json"])
def test_a_key_in_place_of_a_name_is_refused_and_never_repeated(
    run: Run, folder: Path, pem: str, words: tuple[str, ...], json: tuple[str, ...]
) -> None:
    result = run(*words[:1], *json, *words[1:], pem)

    assert result.exit_code == 64
    assert [line for line in body(pem) if line in result.output] == []
    assert "key material" in result.stderr
    assert list(folder.iterdir()) == []


def test_a_key_in_the_environment_in_place_of_its_file_is_refused(
    run: Run, folder: Path, pem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSPARENCY_KEY", pem)

    result = run("sign", "x", "--iss", ISS)

    assert result.exit_code == 64
    assert "TRANSPARENCY_KEY is key material" in result.stderr
    assert [line for line in body(pem) if line in result.output] == []


@pytest.mark.parametrize(
    "words",
    [("token", "revoke", "--data", "log", SECRET), ("sign", SECRET, "--key", "k", "--iss", ISS), ("inspect", SECRET),
     ("keys", "--log", SECRET), ("keys", f"--log={SECRET}"), (SECRET,)],
    ids=lambda words: " ".join(words).replace(SECRET, "SECRET"),
)  # fmt: skip
def test_a_tokens_secret_in_place_of_a_name_is_refused_and_never_repeated(
    run: Run, folder: Path, words: tuple[str, ...]
) -> None:
    result = run(*words)

    assert result.exit_code == 64
    assert SECRET[16:] not in result.output
    assert "secret of a token" in result.stderr


def test_where_a_message_repeats_what_was_given_keys_and_tokens_are_left_out(pem: str) -> None:
    for text in (f"no such file: {pem}.", f"{pem!r} is wrong", pem[:90], f"x{SECRET}", f"no token {SECRET!r}; look"):
        shown = redacted(text)
        assert [line for line in body(pem) if line[:20] in shown] == []
        if SECRET in text and not text.startswith("x"):
            assert SECRET[10:] not in shown
            assert shown.endswith("look")
    assert redacted("the file total_of_2026_sessions.json") == "the file total_of_2026_sessions.json"


def test_a_name_without_end_does_not_hide_what_is_said_about_it(run: Run, folder: Path) -> None:
    result = run("inspect", "a\x1b[2J" + "b" * 5000)

    assert result.exit_code == 66
    assert "File name too long" in result.stderr
    assert "\\u{001b}" in result.stderr
    assert len(result.stderr) < 500


def test_a_group_without_a_command_shows_its_help(good: Run) -> None:
    for group in ("log", "issuer", "token", "policy"):
        shown = good(group).stdout.splitlines()
        assert shown[0].startswith(f"Usage: transparency {group}") or "Usage:" in shown[0]
        assert len(shown) > 5


def test_a_question_is_not_followed_by_a_full_stop(run: Run) -> None:
    assert "which log? Give --data" in run("policy", "show").stderr


def test_keygen_names_its_algorithms_as_they_are_written(good: Run) -> None:
    text = " ".join(good("keygen", "--help").stdout.split())

    assert "ES256, ES384, ES512, EdDSA" in text
    assert max(map(len, good("keygen", "--help").stdout.splitlines())) <= 100


# --- names and addresses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["a\nb", "a b", "a+b", "a\x00b", "a:b c", ""])
@pytest.mark.parametrize("command", ["init", "serve"])
def test_a_name_no_log_can_have_is_blamed_on_its_flag(run: Run, folder: Path, command: str, origin: str) -> None:
    result = run(command, "--data", "log", "--origin", origin)

    assert result.exit_code == 64
    assert "--origin" in result.stderr
    assert list(folder.iterdir()) == []


def test_an_iss_no_receipt_can_have_is_blamed_on_its_flag(run: Run, folder: Path) -> None:
    result = run("init", "--data", "log", "--iss", "not a: uri")

    assert result.exit_code == 64
    assert "--iss" in result.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--base-url", "junk"), ("--base-url", "ftp://log.example"), ("--base-url", "https://"),
        ("--base-url", "https://log.example/?a=b"), ("--base-url", "https://u:p@log.example"),
        ("--base-url", "https://log.example/a b"), ("--host", "256.1.1.1"), ("--host", "no such host"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_server_that_could_not_be_reached_is_refused_before_a_log_is_made(
    run: Run, folder: Path, flags: tuple[str, str]
) -> None:
    result = run("serve", "--data", "log", "--port", "0", *flags)

    assert result.exit_code == 64
    assert flags[0] in result.stderr
    assert flags[1].split()[0] in result.stderr
    assert list(folder.iterdir()) == []


def test_a_port_in_use_is_73_before_a_log_is_made(run: Run, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("serve", "--data", "log", "--port", str(taken.getsockname()[1]))

    assert result.exit_code == 73
    assert "in use" in result.stderr
    assert list(folder.iterdir()) == []


def test_an_access_log_that_cannot_be_written_is_73_and_said_first(run: Run, folder: Path) -> None:
    result = run("serve", "--data", "log", "--port", "0", "--access-log", "no/such/folder/log")

    assert result.exit_code == 73
    assert "--access-log no/such/folder/log" in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("flag", "other"), [("--origin", "log.example/b"), ("--iss", "https://b.example")])
def test_serving_a_log_under_another_name_is_refused(run: Run, good: Run, folder: Path, flag: str, other: str) -> None:
    good("init", "--data", "log", "--origin", "log.example/a", "--iss", "https://a.example")

    result = run("serve", "--data", "log", "--port", "0", flag, other)

    assert result.exit_code == 64
    assert other in result.stderr
    assert ("log.example/a" if flag == "--origin" else "https://a.example") in result.stderr


# --- marks ------------------------------------------------------------------------------------------------------------


def test_a_file_where_the_mark_is_to_be_is_told_by_what_it_is(run: Run, good: Run, folder: Path) -> None:
    good("init", "--data", "a", "--origin", "log.example/a", "--watermark", "a.mark")
    (folder / "notes.txt").write_text("mine")

    same = run("init", "--data", "b", "--origin", "log.example/a", "--watermark", "a.mark")
    other = run("init", "--data", "b", "--origin", "log.example/b", "--watermark", "a.mark")
    none = run("init", "--data", "b", "--watermark", "notes.txt")

    assert "with this origin" in same.stderr
    assert "--origin" in same.stderr
    assert "with another origin" in other.stderr
    assert "--watermark" in other.stderr
    assert "no high-water mark" in none.stderr
    assert [result.exit_code for result in (same, other, none)] == [1, 1, 1]
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("flags", [(), ("--watermark", "elsewhere.mark")], ids=["beside", "named"])
def test_a_log_whose_disk_is_not_mounted_is_not_replaced_by_a_new_one(
    run: Run, good: Run, folder: Path, flags: tuple[str, ...]
) -> None:
    good("init", "--data", "log", *flags)
    mark = Config.read(folder / "log" / "config.toml").watermark
    shutil.rmtree(folder / "log")

    refused = run("serve", "--data", "log", "--port", "0", *flags)

    assert refused.exit_code == 1
    assert mark.name in refused.stderr
    assert "Mount the disk" in refused.stderr
    assert not (folder / "log").exists()
    if not flags:
        anew = good("init", "--data", "log")
        assert "warning" in anew.stderr
        assert mark.name in anew.stderr


@pytest.mark.sqlite_file
def test_commands_on_a_copy_of_a_running_log_say_that_it_runs_elsewhere(tmp_path: Path) -> None:
    with serving(tmp_path, "--open") as served:
        # The search index is derived, and its journal may go while it is being copied.
        passing = shutil.ignore_patterns("admin.sock", "lock", "search.sqlite*", "*.tmp")
        shutil.copytree(served.data, tmp_path / "copy", ignore=passing)
        add = shell("issuer", "add", "--data", "copy", "--iss", ISS, "--key", "issuer.pub.pem", cwd=tmp_path)
        second = shell("serve", "--data", "copy", "--port", "0", cwd=tmp_path)

    for ended in (add, second):
        assert ended.returncode == 75
        assert b"running from another folder" in ended.stderr
        assert b"admin.sock" not in ended.stderr


def test_a_backup_that_is_not_there_is_not_advised_to_be_made_anew(run: Run, folder: Path) -> None:
    result = run("log", "restore", "--from", "nope", "--data", "log")

    assert result.exit_code == 66
    assert "transparency init" not in result.stderr
    assert "log backup" in result.stderr


# --- verifying --------------------------------------------------------------------------------------------------------


def test_an_empty_record_is_a_record(good: Run, run: Run, folder: Path) -> None:
    good("keygen", "--out", "issuer.pem")
    (folder / "empty").touch()
    words = ("--key", "issuer.pem", "--iss", ISS, "--sub", "s")
    good("sign", "empty", *words, "--out", "a.cose")
    good("sign", "empty", *words, "--detached", "--out", "b.cose")
    good("sign", "empty", *words, "--private", "--out", "c.cose")

    trust = ("--statement-only", "--issuer-key", "issuer.pub.pem")
    good("verify", "a.cose", *trust)
    good("verify", "b.cose", *trust, "--payload", "empty")
    good("verify", "c.cose", *trust, "--payload", "empty")
    (folder / "b.json").touch()
    good("verify", "b.cose", *trust)
    (folder / "other").write_text("x")
    assert run("verify", "b.cose", *trust, "--payload", "other").exit_code == 1


def test_two_key_files_after_one_flag_are_told_from_statements(good: Run, run: Run, folder: Path) -> None:
    good("keygen", "--out", "a.pem")
    good("keygen", "--out", "b.pem")

    result = run("verify", "--log-key", "a.pub.pem", "b.pub.pem")

    assert result.exit_code == 65
    assert "repeat --log-key" in result.stderr


# --- storage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("token", "list"), ("token", "create"), ("serve", "--port", "0")], ids=" ".join)
def test_a_damaged_token_store_is_named_and_is_no_bug(
    good: Run, run: Run, folder: Path, words: tuple[str, ...]
) -> None:
    good("init", "--data", "log")
    (folder / "log" / "access.sqlite").write_bytes(b"this is no database" * 500)

    result = run(*words, "--data", "log")

    assert result.exit_code == 1
    assert "access.sqlite: it is damaged" in result.stderr
    assert "bug" not in result.stderr
    good("log", "status", "--data", "log")  # and nothing holds the folder


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files cannot grow past *size* bytes: to a program the same as a disk that is full."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.sqlite_file
def test_a_disk_without_space_is_said_in_one_line(good: Run, run: Run, folder: Path) -> None:
    good("init", "--data", "log")
    good("token", "create", "--data", "log")

    with largest_file(0):
        create = run("token", "create", "--data", "log")
        backup = run("log", "backup", "--data", "log", "--out", "copy")

    for result, name in ((create, "access.sqlite"), (backup, "copy")):
        assert result.exit_code == 73
        assert name in result.stderr
        assert "bug" not in result.stderr
        assert result.stderr.count("\n") == 1
    assert not (folder / "copy").exists()


@pytest.mark.sqlite_file
@pytest.mark.parametrize("size", [0, 1000, 20_000, 60_000])
def test_a_log_that_does_not_fit_on_the_disk_is_73_and_is_not_made(run: Run, folder: Path, size: int) -> None:
    with largest_file(size):
        made = run("init", "--data", "log")
        served = run("serve", "--data", "log", "--port", "0")

    for result in (made, served):
        assert result.exit_code == 73, result.output
        assert "log" in result.stderr
        assert result.stderr.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_a_demo_without_room_says_so(run: Run, folder: Path) -> None:
    with largest_file(20_000):
        result = run("demo", "--keep", "demo")
    (folder / "file").touch()
    below = run("demo", "--keep", "file/demo")

    assert result.exit_code == 73
    assert "the log did not start: " in result.stderr
    assert below.exit_code in (66, 73)
    assert "bug" not in result.stderr + below.stderr


def test_a_busy_database_is_try_later(good: Run, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good("init", "--data", "log")
    good("token", "create", "--data", "log")
    blocker = sqlite3.connect(folder / "log" / "access.sqlite", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        result = run("token", "create", "--data", "log")
    finally:
        blocker.close()

    assert result.exit_code == 75
    assert "access.sqlite: another process is writing it" in result.stderr


def test_http_to_a_port_with_tls_says_so(tmp_path: Path) -> None:
    from tests.cli.test_serving import write_certificate

    write_certificate(tmp_path)
    words = ("serve", "--data", "log", "--port", "0", "--open", "--tls-cert", "tls.pem", "--tls-key", "tls.key")
    with running(tmp_path, *words) as (url, _):
        ended = shell("keys", "--log", url.replace("https:", "http:"), cwd=tmp_path)

    assert ended.returncode == 69
    assert b"https://" in ended.stderr


@pytest.mark.parametrize("words", [("serve", "--data", "log", "--workers"), ("search", "--limit")], ids=" ".join)
def test_a_word_in_place_of_a_number_is_told_that_a_number_is_wanted(run: Run, words: tuple[str, ...]) -> None:
    result = run(*words, "abc")

    assert result.exit_code == 64
    assert "'abc' is not a whole number" in result.stderr
