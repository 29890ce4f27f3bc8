"""The log's own keys at the command line: choosing, encrypting, exchanging them, and calling one compromised."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, environment, running, shell
from tests.patience import PATIENCE
from transparency.cose.keys import is_encrypted
from transparency.cose.sign1 import Sign1
from transparency.statements.receipt import Receipt
from transparency.statements.transparent import receipts_of
from transparency.verifier import TrustStore

TEXT = ("--sub", "s", "--content-type", "text/plain")
WORD = "correct-horse-battery"


def ok(folder: Path, *words: str | Path, **more: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "transparency", *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL,
        env={**environment(folder / "no-config"), **more}, capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode()


def made(folder: Path, *flags: str) -> None:
    """A log in ``log``, an issuer it accepts, and something to register."""
    ok(folder, "keygen", "--out", "issuer.pem")
    ok(folder, "init", "--data", "log", *flags)
    ok(folder, "issuer", "add", "--data", "log", "--iss", ISS, "--key", "issuer.pub.pem")


def submitted(folder: Path, url: str, name: str) -> bytes:
    """The receipt of a new statement, which is kept in ``NAME.cose``."""
    (folder / f"{name}.txt").write_text(name)
    flags = ("--key", "issuer.pem", "--iss", ISS, *TEXT, "--log", url)
    ok(folder, "submit", f"{name}.txt", *flags, "--out", f"{name}.cose")
    (receipt,) = receipts_of(Sign1.from_bytes((folder / f"{name}.cose").read_bytes()))
    return receipt


@pytest.mark.parametrize("name", ["ES384", "Ed25519", "ML-DSA-65"])
def test_the_algorithm_of_receipts_is_chosen_at_init_and_kept_by_rotations(
    good: Run, run: Run, folder: Path, name: str
) -> None:
    good("init", "--data", "log", "--receipt-alg", name)
    good("log", "rotate-key", "--data", "log")
    keys = json.loads(good("log", "keys", "--data", "log", "--json").stdout)["keys"]

    receipts = [row for row in keys if row["role"] == "receipts"]
    assert [(row["alg"], row["state"]) for row in receipts] == [(name, "retired"), (name, "in use")]
    good("log", "rotate-key", "--data", "log", "--alg", "ES256")
    assert run("log", "rotate-key", "--data", "log", "--alg", "PS256").exit_code == 64
    good("log", "fsck", "--data", "log")


def test_every_role_can_be_exchanged(good: Run, run: Run, folder: Path) -> None:
    good("init", "--data", "log")
    for role in ("receipts", "checkpoints", "policy", "operations"):
        good("log", "rotate-key", "--data", "log", "--role", role)
    rows = json.loads(good("log", "keys", "--data", "log", "--json").stdout)["keys"]

    assert sum(row["state"] == "in use" for row in rows) == 5
    assert sum(row["state"] == "retired" for row in rows) == 5
    assert run("log", "rotate-key", "--data", "log", "--role", "operations", "--overlap", "9").exit_code == 64
    assert run("log", "rotate-key", "--data", "log", "--role", "checkpoints", "--alg", "ES256").exit_code == 64
    good("keygen", "--out", "i.pem")
    good("issuer", "add", "--data", "log", "--iss", ISS, "--key", "i.pub.pem")
    good("log", "fsck", "--data", "log")


def test_an_announced_key_takes_over_by_itself_although_the_server_was_killed_in_between(tmp_path: Path) -> None:
    made(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "transparency", "serve", "--data", "log", "--port", "0", "--open"], cwd=tmp_path,
        env=environment(tmp_path / "no-config"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as first:  # fmt: skip
        assert first.stdout is not None
        url = first.stdout.readline().decode().strip()
        old = Receipt.from_bytes(submitted(tmp_path, url, "a")).kid
        told = json.loads(ok(tmp_path, "log", "rotate-key", "--data", "log", "--overlap", "5", "--json"))
        os.kill(first.pid, signal.SIGKILL)
    with running(tmp_path, "serve", "--data", "log", "--port", "0", "--open") as (url, _):
        ok(tmp_path, "keys", "--log", url, "--out", "log.keys")
        kids: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE
        while not kids or (kids[-1] == old and time.monotonic() < deadline):
            kids.append(Receipt.from_bytes(submitted(tmp_path, url, f"b{len(kids)}")).kid)

    assert kids[-1] != old
    assert kids[-1] == bytes.fromhex(told["thumbprint"])
    trust = ("--log-key", "log.keys", "--issuer-key", "issuer.pub.pem")
    ok(tmp_path, "verify", "a.cose", *trust)
    ok(tmp_path, "verify", f"b{len(kids) - 1}.cose", *trust)
    ok(tmp_path, "log", "fsck", "--data", "log")


def test_a_receipt_under_a_compromised_key_needs_help_and_a_fetched_one_does_not(tmp_path: Path) -> None:
    """API-4 and design §8, as a relying party lives through it."""
    made(tmp_path)
    with running(tmp_path, "serve", "--data", "log", "--port", "0", "--open") as (url, _):
        old = Receipt.from_bytes(submitted(tmp_path, url, "a"))
        assert old.kid is not None
        told = ok(
            tmp_path, "log", "compromise-key", "--data", "log", "--kid", old.kid.hex()[:16], "--since",
            "2026-01-01T00:00:00Z", "--json",
        )  # fmt: skip
        assert json.loads(told)["replaced-by"]
        ok(tmp_path, "keys", "--log", url, "--trust", "trust.toml", "--out", "log.keys")
        with urllib.request.urlopen(f"{url}/consistency?from={old.tree_size}") as answer:  # noqa: S310 - our own server
            (tmp_path / "c.cose").write_bytes(answer.read())
        submitted(tmp_path, url, "b")
    trust = ("--trust", "trust.toml", "--issuer-key", "issuer.pub.pem")
    store = TrustStore.from_file(tmp_path / "trust.toml")

    assert [key.compromised_since is None for key in store.logs[0].keys] == [False, True]
    assert not store.logs[0].bare
    assert shell("verify", "a.cose", *trust, cwd=tmp_path).returncode == 1
    assert shell("verify", "a.cose", "--log-key", "log.keys", *trust[2:], cwd=tmp_path).returncode == 2
    ok(tmp_path, "verify", "a.cose", *trust, "--consistency", "c.cose")
    ok(tmp_path, "verify", "b.cose", *trust)
    assert shell("verify", "a.cose", *trust, "--consistency", "b.cose", cwd=tmp_path).returncode == 65


def test_a_key_that_does_not_exist_or_a_time_that_is_none_is_told(run: Run, good: Run, folder: Path) -> None:
    good("init", "--data", "log")
    told = ("log", "compromise-key", "--data", "log")

    assert run(*told, "--kid", "00", "--since", "yesterday").exit_code == 64
    assert run(*told, "--kid", "zz", "--since", "2026-01-01T00:00:00Z").exit_code == 65
    assert run(*told, "--kid", "", "--since", "2026-01-01T00:00:00Z").exit_code == 65
    rows = json.loads(good("log", "keys", "--data", "log", "--json").stdout)["keys"]
    kid = {row["role"]: row["kid"] for row in rows}
    assert run(*told, "--kid", kid["receipts"], "--since", "2999-01-01T00:00:00Z").exit_code == 64
    policy = run(*told, "--kid", kid["policy"], "--since", "2026-01-01T00:00:00Z")
    assert (policy.exit_code, "rotate-key --role policy" in policy.stderr) == (65, True)
    good("log", "rotate-key", "--data", "log", "--role", "policy")
    good(*told, "--kid", kid["policy"], "--since", "2026-01-01T00:00:00Z")
    listed = good("log", "keys", "--data", "log").stdout
    assert "compromised since 2026-01-01T00:00:00Z" in listed


# --- passphrases ---


def test_a_log_with_encrypted_keys_is_run_with_its_passphrase_wherever_that_comes_from(tmp_path: Path) -> None:
    (tmp_path / "word").write_text(f"{WORD}\n")
    (tmp_path / "wrong").write_text("incorrect\n")
    ok(tmp_path, "keygen", "--out", "issuer.pem")
    ok(tmp_path, "init", "--data", "log", "--encrypt-keys", "--passphrase-file", "word")
    assert all(is_encrypted(path.read_bytes()) for path in (tmp_path / "log" / "keys").glob("*.pem"))
    add = ("issuer", "add", "--data", "log", "--iss", ISS, "--key", "issuer.pub.pem")

    for wrong in ((), ("--passphrase-file", "wrong")):
        ended = shell(*add, *wrong, cwd=tmp_path)
        assert ended.returncode == 65
        assert ended.stderr.count(b"\n") == 1
        assert b"passphrase" in ended.stderr
        assert b"incorrect" not in ended.stderr
        assert shell("serve", "--data", "log", "--port", "0", *wrong, cwd=tmp_path).returncode == 65
    ok(tmp_path, *add, TRANSPARENCY_PASSPHRASE=WORD)
    ok(tmp_path, "log", "status", "--data", "log")
    with running(tmp_path, "serve", "--data", "log", "--port", "0", "--open", "--passphrase-file", "word") as (
        url,
        errors,
    ):
        ok(tmp_path, "log", "rotate-key", "--data", "log", "--passphrase-file", "word")
        submitted(tmp_path, url, "a")
        assert WORD not in errors.read_text()
    assert all(is_encrypted(path.read_bytes()) for path in (tmp_path / "log" / "keys").glob("*.pem"))
    ok(tmp_path, "log", "backup", "--data", "log", "--out", "copy", "--with-keys")
    ok(tmp_path, "log", "fsck", "--data", "log")
    (tmp_path / "log").rename(tmp_path / "gone")
    restore = ("log", "restore", "--from", "copy", "--data", "log")
    assert shell(*restore, cwd=tmp_path).returncode == 65
    ok(tmp_path, *restore, "--passphrase-file", "word")


def test_an_issuers_key_is_encrypted_and_read_back(
    good: Run, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.txt").write_text("a")
    sign = ("sign", "a.txt", "--key", "k.pem", "--iss", ISS, *TEXT, "--force")
    assert run("keygen", "--out", "k.pem", "--encrypt").exit_code == 64
    assert not Path("k.pem").exists()
    monkeypatch.setenv("TRANSPARENCY_PASSPHRASE", WORD)
    good("keygen", "--out", "k.pem", "--encrypt")
    good(*sign)
    good("keygen", "--out", "clear.pem")
    good("sign", "a.txt", "--key", "clear.pem", "--iss", ISS, *TEXT, "--force")
    monkeypatch.setenv("TRANSPARENCY_PASSPHRASE", "incorrect")
    wrong = run(*sign)
    monkeypatch.delenv("TRANSPARENCY_PASSPHRASE")
    missing = run(*sign)

    assert is_encrypted(Path("k.pem").read_bytes())
    assert not is_encrypted(Path("clear.pem").read_bytes()), "a variable alone encrypts nothing"
    assert (wrong.exit_code, missing.exit_code) == (65, 65)
    assert "TRANSPARENCY_PASSPHRASE" in missing.stderr
    assert "incorrect" not in wrong.stderr
