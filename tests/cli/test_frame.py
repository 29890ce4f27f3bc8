"""The frame every command stands in: help, exit codes, one-line errors, never a traceback."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.conftest import Run, environment
from tests.cli.submitting import CLAUDE
from tests.patience import PATIENCE
from transparency import errors
from transparency.cli.errors import DEBUG_VARIABLE, CommandError, Failure, describe, one_line
from transparency.cli.exits import Exit
from transparency.cli.main import cli


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
        else:
            found.append(((*path, name), command))
    return found


ALL = commands()


def test_every_command_that_is_promised_is_there() -> None:
    names = {" ".join(path) for path, _ in ALL}

    assert names >= {
        "demo", "keygen", "sign", "submit", "verify", "inspect", "keys", "init", "serve", "issuer add", "issuer list",
        "issuer remove", "token create", "token list", "token revoke", "policy show", "log status", "log fsck",
        "log backup", "log restore", "log keys", "log rotate-key", "log compromise-key", "doctor",
    }  # fmt: skip


@pytest.mark.parametrize("path", [path for path, _ in ALL], ids=" ".join)
def test_every_help_explains_and_has_an_example_of_that_very_command(good: Run, path: tuple[str, ...]) -> None:
    text = " ".join(good(*path, "--help").output.split())

    assert re.search(rf"Examples?: transparency {' '.join(path)}\b", text)
    assert "Usage:" in text
    assert len(text) > 150


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_every_option_has_a_help_text_and_every_example_uses_options_that_exist(
    path: tuple[str, ...], command: click.Command
) -> None:
    options = {name for each in command.params for name in each.opts}
    words = (command.epilog or "").removeprefix("\b\nExample: transparency ").split()

    assert [each.name for each in command.params if isinstance(each, click.Option) and not each.help] == []
    assert [word for word in words if word.startswith("--") and word not in options] == []


def test_help_is_shown_without_a_command(good: Run) -> None:
    assert "Start with `transparency demo`" in good().output


def test_help_does_not_import_what_commands_need() -> None:
    program = (
        "import sys\nfrom transparency.cli.main import cli\n"
        "try: cli.main(['--help'])\nexcept SystemExit: pass\n"
        "print([name for name in ('aiohttp', 'cryptography', 'cbor2', 'sqlite3', 'rich') if name in sys.modules])"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True
    )

    assert ended.stdout.splitlines()[-1] == "[]"


def test_the_version_is_shown(good: Run) -> None:
    assert good("--version").output.startswith("transparency, version ")


@pytest.mark.parametrize(
    "words", [("submit", "--help"), ("show", str(CLAUDE)), ("check", str(CLAUDE)), ("verify", "-h")]
)
def test_what_needs_no_network_does_not_wait_for_aiohttp(tmp_path: Path, words: tuple[str, ...]) -> None:
    code = (
        "import sys; from transparency.cli.main import cli\n"
        f"try: cli.main({list(words)!r})\n"
        "except SystemExit: print('aiohttp' in sys.modules, 'rich.progress' in sys.modules, file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, timeout=PATIENCE, check=False
    )

    assert done.stderr.decode().split() == ["False", "False"]


@pytest.mark.parametrize(
    "words",
    [
        ("surf",), ("--nonsense",), ("keygen",), ("keygen", "--out"), ("keygen", "--alg", "ROT13", "--out", "x.pem"),
        ("sign", "x"), ("verify",), ("serve", "--data", "x", "--port", "99999"), ("token", "create", "--data"),
        ("log", "surf"), ("verify", "x", "--receipt-only", "--statement-only"), ("policy", "show"),
        ("keys", "--log", "not a url"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_wrong_command_line_is_64_and_one_line(run: Run, folder: Path, words: tuple[str, ...]) -> None:
    (folder / "x").write_bytes(b"\xd2x")

    result = run(*words)

    assert result.exit_code == 64
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_with_json_an_error_is_one_object_on_stderr(run: Run, folder: Path) -> None:
    result = run("inspect", "--json", "missing.cose")

    assert result.exit_code == 66
    assert json.loads(result.stderr) == {
        "error": "no_input", "message": "missing.cose: No such file or directory", "hint": "", "exit": 66,
    }  # fmt: skip


def test_a_file_name_that_looks_like_a_flag_does_not_turn_json_on(run: Run, folder: Path) -> None:
    result = run("inspect", "--", "--json")

    assert result.exit_code == 66
    assert result.stderr.startswith("error: ")


# --- what each error becomes ------------------------------------------------------------------------------------------

ERRORS: list[tuple[Exception, Exit]] = [
    (errors.SignatureInvalidError("x"), Exit.NEGATIVE),
    (errors.ProofError("x"), Exit.NEGATIVE),
    (errors.LogUnusableError("x"), Exit.NEGATIVE),
    (errors.MalformedError("x"), Exit.BAD_INPUT),
    (errors.NoteError("x"), Exit.BAD_INPUT),
    (errors.PayloadMissingError("x"), Exit.BAD_INPUT),
    (errors.UnsupportedAlgorithmError("x"), Exit.BAD_INPUT),
    (errors.NotFoundError("x"), Exit.BAD_INPUT),
    (errors.PassphraseError("x"), Exit.BAD_INPUT),
    (errors.SignerError("x"), Exit.BAD_INPUT),
    (errors.GoneError("x"), Exit.BAD_INPUT),
    (errors.CertificateError("x"), Exit.REFUSED),
    (errors.CertificateMissingError("x"), Exit.REFUSED),
    (errors.RefusedError("x"), Exit.REFUSED),
    (errors.OverloadedError("x"), Exit.TRY_LATER),
    (errors.NobodyLeadsError("nobody leads"), Exit.TRY_LATER),
    (errors.NotLeadingError("x"), Exit.TRY_LATER),
    (errors.MarkUnreachableError("the mark is away"), Exit.UNREACHABLE),
    (errors.DatabaseUnreachableError("x"), Exit.UNREACHABLE),
    (errors.DatabaseRefusedError("x"), Exit.REFUSED),
    (errors.JudgementStaleError("x"), Exit.TRY_LATER),
    (errors.FolderOwnedError("x"), Exit.TRY_LATER),
    (errors.RunningElsewhereError("x"), Exit.TRY_LATER),
    (errors.UnreachableError("x"), Exit.UNREACHABLE),
    (errors.RedirectedError("x"), Exit.UNREACHABLE),
    (errors.AnswerTooLargeError("x"), Exit.UNREACHABLE),
    (errors.StoreError("x"), Exit.INTERNAL),
    (errors.TipMovedError("x"), Exit.INTERNAL),
    (errors.WorkersError("x"), Exit.INTERNAL),
    (errors.ServiceRefusedError(429, "Too Many Requests", "", 5), Exit.TRY_LATER),
    (errors.ServiceRefusedError(503, "Overloaded", ""), Exit.TRY_LATER),
    (errors.ServiceRefusedError(401, "Unauthorized", ""), Exit.REFUSED),
    (errors.ServiceRefusedError(403, "Forbidden", ""), Exit.REFUSED),
    (errors.ServiceRefusedError(400, "Rejected", "no"), Exit.REFUSED),
    (errors.ServiceRefusedError(400, "Malformed request", ""), Exit.BAD_INPUT),
    (errors.ServiceRefusedError(404, "Not Found", ""), Exit.BAD_INPUT),
    (errors.ServiceRefusedError(413, "Too large", ""), Exit.BAD_INPUT),
    (errors.ServiceRefusedError(500, "Internal", ""), Exit.UNREACHABLE),
    (FileNotFoundError(2, "No such file", "x"), Exit.NO_INPUT),
    (IsADirectoryError(21, "Is a directory", "x"), Exit.NO_INPUT),
    (PermissionError(13, "Permission denied", "x"), Exit.CANNOT_WRITE),
    (OSError(28, "No space left", "x"), Exit.CANNOT_WRITE),
    (FileExistsError(17, "exists", "x"), Exit.CANNOT_WRITE),
    (sqlite3.DatabaseError("file is not a database"), Exit.NEGATIVE),
    (ModuleNotFoundError("No module", name="sqlite_utils"), Exit.INTERNAL),
    (CommandError(Exit.USAGE, "x"), Exit.USAGE),
    (ZeroDivisionError("secret detail"), Exit.INTERNAL),
    (RecursionError(), Exit.INTERNAL),
    (MemoryError(), Exit.INTERNAL),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda value: str(value)[:30])
def test_each_error_has_its_exit_code_and_one_line(error: Exception, code: Exit) -> None:
    failure = describe(error)

    assert failure.code is code
    assert "\n" not in failure.line()
    assert json.loads(failure.to_json())["exit"] == code


def test_every_error_of_the_package_is_known_here() -> None:
    def subclasses(kind: type[Exception]) -> list[type[Exception]]:
        return [kind, *(each for sub in kind.__subclasses__() for each in subclasses(sub))]

    seen = {type(error) for error, _ in ERRORS}
    ours = {kind for kind in subclasses(errors.TransparencyError) if kind.__module__ == "transparency.errors"}

    assert ours - seen == {errors.TransparencyError}


def test_an_unexpected_error_says_how_to_see_more_and_not_its_own_words(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transparency.cli.inspect

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a payload nobody may see")

    monkeypatch.setattr(transparency.cli.inspect, "read_input", broken)

    result = run("inspect", "x")

    assert result.exit_code == 70
    assert DEBUG_VARIABLE in result.stderr
    assert "payload nobody" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_interrupting_is_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import transparency.cli.inspect

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(transparency.cli.inspect, "read_input", interrupted)

    assert run("inspect", "x").exit_code == 130


def test_a_real_interrupt_leaves_no_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x")
    with subprocess.Popen(
        [sys.executable, "-m", "transparency", "inspect", "-"],
        stdin=reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment(tmp_path),
        # Whoever runs the tests in the background ignores interrupts, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one call, no lock
    ) as process:  # fmt: skip
        try:
            taken = bytearray(4)
            while fcntl.ioctl(reading, termios.FIONREAD, taken) == 0 and any(taken) and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    os.close(reading)
    os.close(writing)

    assert process.returncode == 130
    assert b"Traceback" not in said


def test_a_terminal_without_unicode_is_no_reason_to_fail(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "transparency", "keygen", "--out", "k.pem"],
        env={**environment(tmp_path), "PYTHONIOENCODING": "ascii:strict"},
        cwd=tmp_path, capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip

    assert ended.returncode == 0
    assert ended.stderr.isascii()


def test_a_reader_that_goes_away_is_not_an_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "transparency", "--help"],
        stdout=writing, stderr=subprocess.PIPE, env=environment(tmp_path), timeout=PATIENCE, check=False,
    )  # fmt: skip
    os.close(writing)

    assert ended.stderr == b""
    assert ended.returncode == 141


def test_other_peoples_words_stay_on_one_line_and_cannot_steer_the_terminal() -> None:
    failure = Failure(Exit.REFUSED, "refused", "a\nb\x1b[2J\u202ec\x00" + "x" * 10_000)

    assert "\n" not in failure.line()
    assert failure.line().isprintable()
    assert len(failure.line()) < 3000
    assert one_line("a\r\n\tb") == "a b"


@pytest.mark.parametrize(
    ("error", "fits"),
    [
        (errors.SignatureInvalidError("the log's receipt is signed with a key that is not pinned"), "operator"),
        (errors.SignatureInvalidError("the signature is not by this key"), "ask its sender"),
        (errors.ServiceRefusedError(400, "Rejected", "algorithm PS256 is not accepted by the policy"), "policy show"),
        (errors.ServiceRefusedError(400, "Rejected", "the issuer (iss) is not registered"), "issuer add"),
        (errors.ServiceRefusedError(400, "Rejected", "the signature is not by the key of this issuer"), "Sign the"),
        (errors.UnreachableError("http://x cannot be reached: ServerDisconnectedError"), "https://"),
        (errors.UnreachableError("http://x cannot be reached: no answer in time"), "doctor"),
        (errors.RunningElsewhereError("x"), "that folder"),
    ],
    ids=str,
)
def test_the_advice_fits_what_went_wrong(error: Exception, fits: str) -> None:
    assert fits in describe(error).hint
