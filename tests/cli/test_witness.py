"""``transparency witness``: from an empty folder to cosignatures, as an operator does it."""

from __future__ import annotations

import json
import sqlite3
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import Run, running, shell
from tests.cli.test_serving import write_certificate
from tests.notes.world import ORIGIN, log_signer, log_signers, witness
from tests.patience import PATIENCE
from tests.witness.served import cosignatures
from tests.witness.trees import request, tree_of
from transparency.cli import witness_logs
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.notes.checkpoint import origin_hash
from transparency.notes.vkey import COSIGNATURE, MLDSA, VerifierKey

NAME = "witness.example/w1"
TREE = tree_of(20)


@pytest.fixture
def made(folder: Path, good: Run) -> Path:
    good("witness", "init", "--dir", "w", "--name", NAME)
    return folder / "w"


def post(url: str, body: bytes) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"{url}/add-checkpoint", body, timeout=PATIENCE) as answer:  # noqa: S310 - our own
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_init_prints_the_verifier_keys_and_vkey_prints_them_again(folder: Path, good: Run) -> None:
    made = good("witness", "init", "--dir", "w", "--name", NAME)

    keys = [VerifierKey.parse(line) for line in made.stdout.splitlines()]
    assert [(key.name, key.kind) for key in keys] == [(NAME, COSIGNATURE), (NAME, MLDSA)]
    assert good("witness", "vkey", "--dir", "w").stdout == made.stdout
    assert good("witness", "init", "--dir", "x", "--name", NAME, "--json").stdout.startswith("{")


def test_a_witness_with_encrypted_keys_and_tls_is_served(folder: Path, run: Run, good: Run) -> None:
    """As `transparency serve` does both."""
    write_certificate(folder)
    (folder / "words").write_text("correct horse\n")
    made = good("witness", "init", "--dir", "w", "--name", NAME, "--encrypt-keys", "--passphrase-file", "words")
    assert all(b"ENCRYPTED" in path.read_bytes() for path in (folder / "w" / "keys").iterdir())
    assert good("witness", "vkey", "--dir", "w", "--passphrase-file", "words").stdout == made.stdout
    (folder / "wrong").write_text("battery staple\n")
    for given in ([], ["--passphrase-file", "wrong"]):
        refused = run("witness", "serve", "--dir", "w", "--port", "0", *given)
        assert (refused.exit_code, len(refused.stderr.splitlines())) == (65, 1)
        assert "passphrase" in refused.stderr

    words = ("--passphrase-file", "words", "--tls-cert", "tls.pem", "--tls-key", "tls.key")
    trusting = ssl.create_default_context(cafile=folder / "tls.pem")
    with running(folder, "witness", "serve", "--dir", "w", "--port", "0", *words) as (url, _):
        assert url.startswith("https://")
        with urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE, context=trusting) as answer:  # noqa: S310 - our own
            assert answer.status == 200


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--tls-cert", "tls.pem"), 64), (("--tls-cert", "tls.key", "--tls-key", "tls.key"), 65),
     (("--tls-cert", "no.pem", "--tls-key", "tls.key"), 66)],
)  # fmt: skip
def test_tls_files_that_cannot_be_used_are_said_before_anything_listens(
    folder: Path, made: Path, run: Run, words: tuple[str, ...], code: int
) -> None:
    write_certificate(folder)

    result = run("witness", "serve", "--dir", str(made), "--port", "0", *words)

    assert (result.exit_code, "--tls-cert" in result.stderr) == (code, True)


def test_a_witness_from_init_to_cosignatures_and_a_fork_that_is_refused(folder: Path, made: Path, good: Run) -> None:
    """W-2, W-4: as real processes; the log is added while the witness runs, and everything is there after a restart."""
    keys = [VerifierKey.parse(line) for line in good("witness", "vkey", "--dir", "w").stdout.splitlines()]
    with running(folder, "witness", "serve", "--dir", "w", "--port", "0") as (url, _):
        assert post(url, request(TREE, 0, 5))[0] == 404
        good("witness", "add-log", "--dir", "w", log_signer().vkey.text, "--url", "https://log.example")
        status, lines = post(url, request(TREE, 0, 5))
        assert status == 200
        assert len({each.time for each in cosignatures(lines, TREE.checkpoint(5).text, keys)}) == 1
        busy = shell("witness", "serve", "--dir", "w", "--port", "0", cwd=folder)
        assert (busy.returncode, b"in use by another process" in busy.stderr) == (75, True)
    with running(folder, "witness", "serve", "--dir", "w", "--port", "0") as (url, errors):
        assert post(url, request(TREE, 0)) == (409, b"5\n")
        assert post(url, request(tree_of(9, b"fork"), 5))[0] == 422
        assert post(url, request(TREE, 5))[0] == 200
        monitoring = f"{url}/{origin_hash(ORIGIN)}/checkpoint"
        with urllib.request.urlopen(monitoring, timeout=PATIENCE) as answer:  # noqa: S310 - our own
            assert answer.read().startswith(TREE.checkpoint().text)
    assert "everything that was cosigned is recorded" in errors.read_text()

    (row,) = json.loads(good("witness", "list", "--dir", "w", "--json").stdout)
    assert (row["origin"], row["size"], row["forks"], row["url"]) == (ORIGIN, 20, 1, "https://log.example")
    shown = good("witness", "list", "--dir", "w").stdout
    assert f"{ORIGIN}  size 20 at " in shown
    assert "forked: 1 kept as evidence" in shown
    good("witness", "evidence", "--dir", "w", "--out", "evidence")
    endings = ("claimed", "evidence", "recorded", "request")
    assert sorted(path.name for path in Path("evidence").iterdir()) == [f"0001.fork.{end}" for end in endings]
    convicted = good("verify", "evidence/0001.fork.evidence", "--log-vkey", log_signer().vkey.text)
    assert "Convicted of a fork" in convicted.stdout


def test_a_log_known_by_other_keys_is_refused_unless_they_are_to_be_replaced(made: Path, run: Run, good: Run) -> None:
    ed25519, ml_dsa = (signer.vkey.text for signer in log_signers())
    good("witness", "add-log", "--dir", "w", ed25519, "--per-minute", "60")
    again = good("witness", "add-log", "--dir", "w", ed25519, "--url", "https://log.example")
    refused = run("witness", "add-log", "--dir", "w", ed25519, ml_dsa)
    assert again.exit_code == 0
    assert (refused.exit_code, "known by other keys" in refused.stderr) == (77, True)

    good("witness", "add-log", "--dir", "w", ed25519, ml_dsa, "--replace-keys")
    (row,) = json.loads(good("witness", "list", "--dir", "w", "--json").stdout)
    assert (row["vkeys"], row["url"], row["per-minute"]) == ([ed25519, ml_dsa], "https://log.example", 60)


def test_a_log_off_the_list_is_still_known_by_what_was_cosigned(folder: Path, made: Path, run: Run, good: Run) -> None:
    good("witness", "add-log", "--dir", "w", log_signer().vkey.text)
    with running(folder, "witness", "serve", "--dir", "w", "--port", "0") as (url, _):
        assert post(url, request(TREE, 0, 5))[0] == 200
    (made / "logs.toml").write_text("")
    assert "(not on the list)" in good("witness", "list", "--dir", "w").stdout

    other = run("witness", "add-log", "--dir", "w", log_signers()[1].vkey.text)
    assert (other.exit_code, "known by other keys" in other.stderr) == (77, True)
    same = good("witness", "add-log", "--dir", "w", log_signer().vkey.text)
    assert "up to size 5, and goes on from there" in same.stderr


def test_forgetting_takes_a_loud_flag_and_stays_on_record(folder: Path, made: Path, run: Run, good: Run) -> None:
    good("witness", "add-log", "--dir", "w", log_signer().vkey.text)
    with running(folder, "witness", "serve", "--dir", "w", "--port", "0") as (url, _):
        assert post(url, request(TREE, 0, 5))[0] == 200
        busy = run("witness", "forget", "--dir", "w", ORIGIN, "--i-know-this-allows-a-split-view")
        assert busy.exit_code == 75

    meek = run("witness", "forget", "--dir", "w", ORIGIN)
    assert (meek.exit_code, "two histories" in meek.stderr) == (77, True)
    assert json.loads(good("witness", "list", "--dir", "w", "--json").stdout)[0]["size"] == 5
    loud = good("witness", "forget", "--dir", "w", ORIGIN, "--i-know-this-allows-a-split-view")
    assert "will cosign ANY tree" in loud.stderr
    (row,) = json.loads(good("witness", "list", "--dir", "w", "--json").stdout)
    assert (row["size"], row["forgotten"]) == (None, 1)
    assert run("witness", "forget", "--dir", "w", ORIGIN, "--i-know-this-allows-a-split-view").exit_code == 65


def test_an_older_copy_is_refused_and_a_lost_mark_takes_a_loud_flag(folder: Path, made: Path, run: Run) -> None:
    (mark,) = folder.glob("w.*.mark")
    mark.unlink()
    lost = run("witness", "serve", "--dir", "w", "--port", "0")
    assert (lost.exit_code, "high-water mark" in lost.stderr) == (1, True)
    assert run("witness", "renew-mark", "--dir", "w").exit_code == 77
    renewed = run("witness", "renew-mark", "--dir", "w", "--i-know-this-state-is-the-newest")
    assert (renewed.exit_code, "nothing vouches" in renewed.stderr) == (0, True)
    with running(folder, "witness", "serve", "--dir", "w", "--port", "0") as (url, _):
        assert url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("init", "--dir", "w", "--name", "other"), 73, "not an empty folder"),
        (("init", "--dir", "y", "--name", "a name"), 64, "--name cannot be used"),
        (("init", "--dir", "y", "--name", "https://witness.example/w1"), 64, "without https://"),
        (("init", "--dir", "y", "--name", "x" * 256), 64, "more than 255 bytes"),
        (("vkey", "--dir", "nowhere"), 66, "there is no witness in nowhere"),
        (("serve", "--dir", "nowhere"), 66, "witness init --dir nowhere"),
        (("add-log", "--dir", "w", "nonsense"), 65, "VKEY"),
        (("add-log", "--dir", "w", witness().vkey.text), 65, "a witness' key, not a log's"),
        (("add-log", "--dir", "w", log_signer().vkey.text, log_signer(name="x.example").vkey.text), 65, "different"),
        (("add-log", "--dir", "w", log_signer().vkey.text, "--url", "log.example"), 64, "not a URL"),
        (("add-log", "--dir", "w"), 64, "VKEY"),
        (("serve", "--dir", "w", "--host", "256.1.1.1"), 64, "--host"),
    ],
)
def test_slips_are_one_line_that_says_what_to_do(
    made: Path, run: Run, words: tuple[str, ...], code: int, says: str
) -> None:
    ended = run("witness", *words)

    assert ended.exit_code == code
    assert says in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_list_with_a_slip_in_it_is_refused_at_the_start_with_its_place(made: Path, run: Run) -> None:
    (made / "logs.toml").write_text('[[log]]\nvkeys = ["x"]\nrate = 3\n')

    ended = run("witness", "serve", "--dir", "w", "--port", "0")

    assert ended.exit_code == 1
    assert "logs.toml" in ended.stderr


def test_what_a_start_would_refuse_is_said_by_list_and_vkey(folder: Path, made: Path, run: Run, good: Run) -> None:
    good("witness", "add-log", "--dir", "w", log_signer().vkey.text)
    with running(folder, "witness", "serve", "--dir", "w", "--port", "0") as (url, _):
        assert post(url, request(TREE, 0, 5))[0] == 200
        assert "warning" not in good("witness", "list", "--dir", "w").stderr
    with sqlite3.connect(made / "state.sqlite") as connection:
        connection.execute("DELETE FROM logs")
    connection.close()

    listed = good("witness", "list", "--dir", "w")
    assert f"the record of {ORIGIN} is gone" in " ".join(listed.stderr.split())
    started = run("witness", "serve", "--dir", "w", "--port", "0")
    assert (started.exit_code, f"the record of {ORIGIN} is gone" in started.stderr) == (1, True)
    good("witness", "init", "--dir", "x", "--name", NAME)
    (made / "keys" / "ed25519.pem").write_bytes((folder / "x" / "keys" / "ed25519.pem").read_bytes())
    other = run("witness", "vkey", "--dir", "w")
    assert (other.exit_code, "made with" in other.stderr) == (1, True)


def test_evidence_is_written_whole_or_not_at_all(
    folder: Path, made: Path, run: Run, good: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    good("witness", "add-log", "--dir", "w", log_signer().vkey.text)
    fork = tree_of(20, b"fork")
    with running(folder, "witness", "serve", "--dir", "w", "--port", "0") as (url, errors):
        assert post(url, request(TREE, 0, 5))[0] == 200
        assert post(url, request(fork, 5, 5))[0] == 422
    assert f"{ORIGIN} signed another history" in errors.read_text(), "and the operator hears of it"

    def full(*_: object, **__: object) -> None:
        raise CommandError(Exit.CANNOT_WRITE, "there is no space left")

    with monkeypatch.context() as patched:
        patched.setattr(witness_logs, "write_output", full)
        assert run("witness", "evidence", "--dir", "w", "--out", "found").exit_code == 73
    assert [path.name for path in folder.iterdir() if "found" in path.name] == []
    good("witness", "evidence", "--dir", "w", "--out", "found")
    assert len(list((folder / "found").glob("*.evidence"))) == 1
    assert run("witness", "evidence", "--dir", "w", "--out", "found").exit_code == 73
