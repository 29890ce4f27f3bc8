"""The forms of commands that scripts rely on, to the letter, each as a process of its own."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Served, environment, running, shell
from tests.patience import PATIENCE
from transparency.cose.keys import decode_key_set
from transparency.cose.sign1 import Sign1
from transparency.statements.receipt import Receipt
from transparency.statements.transparent import receipts_of

SESSION = "urn:uuid:0198f3c2-7d41-7c1e-9b52-6f0a8e2d4c11"
SAMPLE = Path(__file__).resolve().parents[2] / "transparency" / "cli" / "sample_session.json"


def ok(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    ended = shell(*words, cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_the_whole_round_in_the_fixed_forms(tmp_path: Path) -> None:
    (tmp_path / "session.json").write_bytes(SAMPLE.read_bytes())
    ok("init", "--data", "DIR", cwd=tmp_path)
    ok("keygen", "--alg", "ES256", "--out", "issuer.pem", cwd=tmp_path)
    ok("issuer", "add", "--data", "DIR", "--iss", ISS, "--key", "issuer.pub.pem", cwd=tmp_path)
    ok(
        "sign", "session.json", "--key", "issuer.pem", "--iss", ISS, "--sub", SESSION,
        "--content-type", "application/json", "--out", "s.cose", cwd=tmp_path,
    )  # fmt: skip

    with running(tmp_path, "serve", "--data", "DIR", "--host", "127.0.0.1", "--port", "0", "--open") as (url, _):
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", url)
        ok("submit", "s.cose", "--log", url, "--out", "t.cose", cwd=tmp_path)
        ok("keys", "--log", url, "--out", "KEYFILE", cwd=tmp_path)
    verified = ok("verify", "t.cose", "--log-key", "KEYFILE", "--issuer-key", "issuer.pub.pem", "--json", cwd=tmp_path)
    ok("log", "fsck", "--data", "DIR", cwd=tmp_path)

    assert json.loads(verified.stdout)["verdict"] == "verified"
    (receipt,) = receipts_of(Sign1.from_bytes((tmp_path / "t.cose").read_bytes()))
    assert Receipt.from_bytes(receipt).inclusion
    assert decode_key_set((tmp_path / "KEYFILE").read_bytes())


def test_a_detached_statement_goes_with_its_payload(served: Served, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_bytes(b"a detached note\n")
    ok(
        "sign", "note.txt", "--key", served.key, "--iss", ISS, "--sub", "note", "--content-type", "text/plain",
        "--out", "s.cose", "--detached", cwd=tmp_path,
    )  # fmt: skip
    ok("keys", "--log", served.url, "--out", "log.keys", cwd=tmp_path)

    ok("submit", "s.cose", "--log", served.url, "--payload", "note.txt", "--out", "t.cose", cwd=tmp_path)

    trusted = ("--log-key", "log.keys", "--issuer-key", served.public)
    assert ok("verify", "t.cose", *trusted, "--payload", "note.txt", cwd=tmp_path).returncode == 0
    assert ok("verify", "t.cose", *trusted, cwd=tmp_path).returncode == 0
    (tmp_path / "other.txt").write_bytes(b"another note\n")
    assert shell("verify", "t.cose", *trusted, "--payload", "other.txt", cwd=tmp_path).returncode == 1


def test_submit_takes_a_token(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_bytes(b"a note\n")
    ok("keygen", "--out", "issuer.pem", cwd=tmp_path)
    ok("init", "--data", "DIR", cwd=tmp_path)
    ok("issuer", "add", "--data", "DIR", "--iss", ISS, "--key", "issuer.pub.pem", cwd=tmp_path)
    ok("sign", "note.txt", "--key", "issuer.pem", "--iss", ISS, "--sub", "n", "--out", "s.cose", cwd=tmp_path)
    secret = ok("token", "create", "--data", "DIR", "--scope", "submit", cwd=tmp_path).stdout.decode().strip()

    with running(tmp_path, "serve", "--data", "DIR", "--host", "127.0.0.1", "--port", "0") as (url, errors):
        without = shell("submit", "s.cose", "--log", url, "--out", "t.cose", cwd=tmp_path)
        wrong = shell("submit", "s.cose", "--log", url, "--token", "tl_wrong", "--out", "t.cose", cwd=tmp_path)
        with_token = shell("submit", "s.cose", "--log", url, "--token", secret, "--out", "t.cose", cwd=tmp_path)

    assert (without.returncode, wrong.returncode, with_token.returncode) == (77, 77, 0)
    assert b"TRANSPARENCY_TOKEN" in without.stderr
    assert secret not in errors.read_text()


def test_serve_on_a_missing_folder_just_works_and_says_what_it_did(tmp_path: Path) -> None:
    with running(tmp_path, "serve", "--data", "new", "--host", "127.0.0.1", "--port", "0") as (url, errors):
        assert url.startswith("http://127.0.0.1:")
        said = errors.read_text()

    assert "made a new log in new" in said
    assert "issuer add --data new" in said
    assert "token create --data new" in said
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_serve_refuses_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"x")

    ended = shell("serve", "--data", "photos", "--port", "0", cwd=tmp_path)

    assert ended.returncode == 73
    assert sorted(path.name for path in (tmp_path / "photos").iterdir()) == ["cat.jpg"]


def test_serve_on_a_port_in_use_says_so(served: Served, tmp_path: Path) -> None:
    port = served.url.rpartition(":")[2]

    ended = shell("serve", "--data", "new", "--port", port, cwd=tmp_path)

    assert ended.returncode == 73
    assert b"in use" in ended.stderr
    assert ended.stdout == b""


def test_a_second_server_on_the_same_folder_is_refused(served: Served, tmp_path: Path) -> None:
    ended = shell("serve", "--data", served.data, "--port", "0", cwd=tmp_path)

    assert ended.returncode == 75
    assert b"in use" in ended.stderr


def test_the_issuer_list_changes_while_the_server_runs(served: Served, tmp_path: Path) -> None:
    ok("keygen", "--out", "second.pem", cwd=tmp_path)
    (tmp_path / "note.txt").write_bytes(b"by the second issuer\n")
    ok("sign", "note.txt", "--key", "second.pem", "--iss", "https://second.example", "--sub", "n", cwd=tmp_path)
    refused = shell("submit", "note.cose", "--log", served.url, cwd=tmp_path)

    ok(
        "issuer", "add", "--data", served.data, "--iss", "https://second.example", "--key", "second.pub.pem",
        cwd=tmp_path,
    )  # fmt: skip
    accepted = shell("submit", "note.cose", "--log", served.url, cwd=tmp_path)
    ok("issuer", "remove", "--data", served.data, "--iss", "https://second.example", cwd=tmp_path)
    again = shell("submit", "note.cose", "--log", served.url, "--force", cwd=tmp_path)

    assert refused.returncode == 77
    assert b"Rejected" in refused.stderr
    assert accepted.returncode == 0
    assert again.returncode == 0, "what was registered stays registered"


def test_keygen_never_overwrites_a_key(tmp_path: Path) -> None:
    ok("keygen", "--alg", "ES256", "--out", "issuer.pem", cwd=tmp_path)
    before = (tmp_path / "issuer.pem").read_bytes()

    again = shell("keygen", "--alg", "ES256", "--out", "issuer.pem", cwd=tmp_path)

    assert again.returncode == 73
    assert (tmp_path / "issuer.pem").read_bytes() == before
    assert stat.S_IMODE((tmp_path / "issuer.pem").stat().st_mode) == 0o600


def test_a_subject_that_is_not_the_session_of_the_record_is_a_warning(served: Served, tmp_path: Path) -> None:
    (tmp_path / "session.json").write_bytes(SAMPLE.read_bytes())
    words = ("--key", served.key, "--iss", ISS, "--sub", "urn:example:other", "--out", "s.cose")
    ok("sign", "session.json", *words, cwd=tmp_path)

    ended = shell("verify", "s.cose", "--issuer-key", served.public, "--statement-only", cwd=tmp_path)

    assert ended.returncode == 3


def test_a_pipe_that_closes_early_is_not_an_error_message(served: Served, tmp_path: Path) -> None:
    command = f"{sys.executable} -m transparency inspect --json {served.public} | true"

    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )

    assert ended.stderr == b""


@pytest.mark.parametrize("name", ["session.json", "-"])
def test_sign_reads_files_and_standard_input(served: Served, tmp_path: Path, name: str) -> None:
    (tmp_path / "session.json").write_bytes(SAMPLE.read_bytes())

    ended = shell(
        "sign", name, "--key", served.key, "--iss", ISS, "--out", "-", cwd=tmp_path, stdin=SAMPLE.read_bytes()
    )

    assert ended.returncode == 0
    assert Sign1.from_bytes(ended.stdout).payload == SAMPLE.read_bytes()
