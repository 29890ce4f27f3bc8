"""Looking after a log: init, issuers, tokens, policy, status, fsck, backup, restore, key rotation, doctor."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served, running, shell
from transparency.errors import StoreError
from transparency.log.folder import Config, Folder
from transparency.log.mark import Mark, MarkValue
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Tip
from transparency.merkle.hashing import leaf_hash
from transparency.policy.document import Policy


@pytest.fixture
def log(good: Run, folder: Path) -> Path:
    good("keygen", "--out", "issuer.pem")
    good("init", "--data", "log", "--origin", "log.example/ops")
    return folder / "log"


def test_init_makes_a_log_and_prints_what_auditors_pin(good: Run, run: Run, folder: Path) -> None:
    result = good("init", "--data", "log", "--origin", "log.example/a", "--iss", "https://log.example")

    config = Config.read(folder / "log" / "config.toml")
    assert result.stdout.strip() == config.policy_key.hex()
    assert (config.origin, config.iss) == ("log.example/a", "https://log.example")
    assert config.watermark.exists()
    assert not config.watermark.is_relative_to(folder / "log")
    assert stat.S_IMODE((folder / "log").stat().st_mode) == 0o700
    assert run("init", "--data", "log").exit_code == 73


def test_init_does_not_touch_a_folder_with_something_in_it(run: Run, folder: Path) -> None:
    (folder / "mine.txt").write_text("x")

    assert run("init", "--data", folder).exit_code == 73
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_issuers_are_added_listed_and_removed(good: Run, run: Run, log: Path) -> None:
    good("keygen", "--out", "second.pem")
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "issuer.pub.pem")
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "second.pub.pem")
    listed = json.loads(good("issuer", "list", "--data", log, "--json").stdout)

    (issuer,) = listed["issuers"]
    assert issuer["iss"] == ISS
    assert len(issuer["keys"]) == 2
    assert listed["generation"] == 3

    good("issuer", "remove", "--data", log, "--iss", ISS, "--kid", issuer["keys"][0]["thumbprint"][:12])
    (left,) = json.loads(good("issuer", "list", "--data", log, "--json").stdout)["issuers"]
    assert left["keys"] == issuer["keys"][1:]
    good("issuer", "remove", "--data", log, "--iss", ISS)
    assert json.loads(good("issuer", "list", "--data", log, "--json").stdout)["issuers"] == []
    assert run("issuer", "remove", "--data", log, "--iss", ISS).exit_code == 65
    good("log", "fsck", "--data", log)


def test_adding_an_issuer_twice_changes_nothing(good: Run, log: Path) -> None:
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "issuer.pub.pem")
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "issuer.pub.pem")

    assert json.loads(good("issuer", "list", "--data", log, "--json").stdout)["generation"] == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("add", "--iss", ISS, "--key", "missing.pem"), 66),
        (("add", "--iss", ISS, "--key", "issuer.pem"), 65),
        (("add", "--iss", "bad uri: x", "--key", "issuer.pub.pem"), 64),
        (("add", "--iss", ISS), 64),
        (("remove", "--iss", ISS, "--kid", "zz"), 65),
    ],
    ids=str,
)
def test_what_cannot_be_an_issuer(run: Run, log: Path, words: tuple[str, ...], code: int) -> None:
    assert run("issuer", words[0], "--data", log, *words[1:]).exit_code == code


def test_the_policy_key_cannot_become_an_issuer(run: Run, good: Run, log: Path) -> None:
    policy = Policy.from_toml(good("policy", "show", "--data", log).stdout_bytes)
    Path("policy.pem").write_bytes(policy.policy_key.to_pem())

    result = run("issuer", "add", "--data", log, "--iss", ISS, "--key", "policy.pem")

    assert result.exit_code == 65
    assert "single-purpose" in result.stderr


@pytest.mark.parametrize(
    "words",
    [("issuer", "list"), ("token", "list"), ("policy", "show"), ("log", "status"), ("log", "fsck"),
     ("log", "backup", "--out", "x"), ("log", "rotate-key")],
    ids=" ".join,
)  # fmt: skip
def test_a_folder_without_a_log_is_66_and_stays_as_it_was(run: Run, folder: Path, words: tuple[str, ...]) -> None:
    result = run(*words, "--data", "nothing")

    assert result.exit_code == 66
    assert "transparency init" in result.stderr
    assert list(folder.iterdir()) == []


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(good: Run, run: Run, log: Path) -> None:
    created = json.loads(
        good("token", "create", "--data", log, "--scope", "submit", "--note", "ci", "--expires", "90d", "--json").stdout
    )
    listed = good("token", "list", "--data", log)

    assert re.fullmatch(r"tl_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", created["secret"])
    assert created["id"] in listed.stdout
    assert created["secret"][-20:] not in listed.stdout
    assert created["secret"].encode() not in (log / "access.sqlite").read_bytes()
    good("token", "revoke", "--data", log, created["id"])
    assert "revoked" in good("token", "list", "--data", log).stdout
    assert run("token", "revoke", "--data", log, "ffffffffffff").exit_code == 65


@pytest.mark.parametrize("expires", ["", "soon", "90", "-1d", "1_0d", "0d", "99999999y"])
def test_a_token_needs_a_time_that_is_one(run: Run, log: Path, expires: str) -> None:
    assert run("token", "create", "--data", log, "--expires", expires).exit_code == 64


def test_the_policy_is_printed_as_the_document_on_the_log(good: Run, log: Path, served: Served) -> None:
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "issuer.pub.pem")

    policy = Policy.from_toml(good("policy", "show", "--data", log).stdout_bytes)
    remote = Policy.from_toml(good("policy", "show", "--log", served.url).stdout_bytes)

    assert policy.issuer(ISS) is not None
    assert policy.log == "log.example/ops"
    assert remote.log == "log.example/cli"


def test_status_tells_size_and_generation_of_a_folder_and_of_a_running_server(
    good: Run, log: Path, served: Served
) -> None:
    alone = json.loads(good("log", "status", "--data", log, "--json").stdout)
    owned = json.loads(good("log", "status", "--data", served.data, "--json").stdout)

    assert (alone["origin"], alone["size"], alone["policy-generation"]) == ("log.example/ops", 2, 1)
    assert owned["origin"] == "log.example/cli"
    assert owned["size"] >= 3


@pytest.mark.sqlite_file
def test_fsck_is_0_when_clean_and_1_when_a_byte_is_wrong(good: Run, run: Run, log: Path) -> None:
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "issuer.pub.pem")
    good("log", "fsck", "--data", log)

    connection = sqlite3.connect(log / "log.sqlite")
    with connection:
        connection.execute("UPDATE entries SET statement = CAST(statement || x'00' AS BLOB) WHERE idx = 2")
    connection.close()
    result = run("log", "fsck", "--data", log)

    assert result.exit_code == 1
    assert "✗" in result.stdout
    assert json.loads(run("log", "fsck", "--data", log, "--json").stdout)["clean"] is False


def test_fsck_of_a_copy_without_its_mark_is_clean_and_says_that_it_may_be_old(good: Run, run: Run, log: Path) -> None:
    Config.read(log / "config.toml").watermark.unlink()

    asked = run("log", "fsck", "--data", log)
    result = good("log", "fsck", "--data", log, "--no-mark")

    assert asked.exit_code == 1
    assert "--no-mark" in asked.stderr
    assert "older copy" in result.stderr
    body = json.loads(good("log", "fsck", "--data", log, "--no-mark", "--json").stdout)
    assert (body["clean"], body["mark-checked"]) == (True, False)
    assert run("log", "fsck", "--data", log, "--no-mark", "--watermark", "x").exit_code == 64


@pytest.mark.sqlite_file
def test_a_backup_goes_back_at_the_mark_and_not_behind_it(good: Run, run: Run, log: Path) -> None:
    good("log", "backup", "--data", log, "--out", "old", "--with-keys")
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "issuer.pub.pem")
    good("log", "backup", "--data", log, "--out", "new", "--with-keys")
    assert run("log", "backup", "--data", log, "--out", "new").exit_code == 73

    log.rename("gone")
    behind = run("log", "restore", "--from", "old", "--data", "log")
    good("log", "restore", "--from", "new", "--data", "log")

    assert behind.exit_code == 1
    assert "older copy" in behind.stderr
    good("log", "fsck", "--data", "log")
    assert run("log", "restore", "--from", "new", "--data", "log").exit_code == 73
    assert run("log", "restore", "--from", "missing", "--data", "other").exit_code == 66


@pytest.mark.sqlite_file
def test_a_backup_without_its_mark_goes_back_with_a_new_one_and_says_what_that_means(
    good: Run, run: Run, log: Path
) -> None:
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "issuer.pub.pem")
    words = ("log", "restore", "--from", "copy", "--accept-missing-mark", "--data")
    good("log", "backup", "--data", log, "--out", "copy", "--with-keys")
    log.rename("gone")

    with_mark = good(*words, "first").output
    Config.read(Folder(Path("gone")).config).watermark.unlink()
    refused = run("log", "restore", "--from", "copy", "--data", "second")
    without = good(*words, "second").output

    assert "at or past the mark" in with_mark
    assert refused.exit_code == 1
    assert "at or past" not in without
    assert "with a new mark" in without
    assert "whether the log went on after this copy was taken, nothing tells" in without


@pytest.mark.sqlite_file
def test_a_log_that_was_never_opened_goes_back_without_its_mark_and_says_so(good: Run, log: Path) -> None:
    good("log", "backup", "--data", log, "--out", "copy", "--with-keys")
    Config.read(Folder(log).config).watermark.unlink()
    log.rename("gone")

    restored = good("log", "restore", "--from", "copy", "--data", "log").output

    assert "with a new mark" in restored
    assert "at or past" not in restored


@pytest.mark.sqlite_file
def test_a_backup_without_keys_says_that_they_are_missing(good: Run, run: Run, log: Path) -> None:
    good("log", "backup", "--data", log, "--out", "copy")
    log.rename("gone")

    result = run("log", "restore", "--from", "copy", "--data", "log")

    assert result.exit_code == 66
    assert "copy/keys" in result.stderr
    assert not log.exists()


@pytest.mark.sqlite_file
def test_an_old_backup_may_begin_a_new_log_with_the_same_issuers(good: Run, log: Path) -> None:
    good("issuer", "add", "--data", log, "--iss", ISS, "--key", "issuer.pub.pem")
    good("log", "backup", "--data", log, "--out", "copy")

    good("log", "restore", "--from", "copy", "--data", "second", "--new-origin", "log.example/second")
    good("log", "restore", "--from", "copy", "--data", "third", "--new-origin")

    issuers = json.loads(good("issuer", "list", "--data", "second", "--json").stdout)["issuers"]
    assert [issuer["iss"] for issuer in issuers] == [ISS]
    assert json.loads(good("log", "status", "--data", "second", "--json").stdout)["origin"] == "log.example/second"
    assert json.loads(good("log", "status", "--data", "third", "--json").stdout)["origin"] != "log.example/ops"


def test_rotating_the_receipt_key_keeps_old_receipts_good(tmp_path: Path) -> None:
    def ok(*words: str) -> None:
        ended = shell(*words, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr

    ok("keygen", "--out", "issuer.pem")
    ok("init", "--data", "log")
    ok("issuer", "add", "--data", "log", "--iss", ISS, "--key", "issuer.pub.pem")
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    with running(tmp_path, "serve", "--data", "log", "--port", "0", "--open") as (url, _):
        text = ("--sub", "s", "--content-type", "text/plain")
        submit = ("--key", "issuer.pem", "--iss", ISS, *text, "--log", url)
        ok("submit", "a.txt", *submit, "--out", "a.t.cose")
        ok("log", "rotate-key", "--data", "log")
        ok("submit", "b.txt", *submit, "--out", "b.t.cose")
        ok("keys", "--log", url, "--out", "log.keys")
    trust = ("--log-key", "log.keys", "--issuer-key", "issuer.pub.pem")

    ok("verify", "a.t.cose", *trust)
    ok("verify", "b.t.cose", *trust)
    ok("log", "fsck", "--data", "log")


# --- doctor ---------------------------------------------------------------------------------------------------------


def test_the_doctor_finds_a_healthy_machine_healthy(run: Run, log: Path, served: Served) -> None:
    result = run("doctor", "--data", log, "--log", served.url, "--key", "issuer.pem", "--json")

    levels = {finding["check"]: finding["level"] for finding in json.loads(result.stdout)}
    assert result.exit_code in (0, 3), result.stdout
    assert levels["log"] == levels["clock skew"] == levels["data folder"] == levels["private key"] == "ok"
    assert {"clock", "disk space", "disk sync", "high-water mark", "owner", "config file"} <= levels.keys()


@pytest.mark.parametrize(("size", "says"), [(7, "has 2 entries, but had 7 when it last ran"), (2, "root is another")])
def test_the_doctor_finds_a_log_that_is_not_the_one_of_its_mark(run: Run, log: Path, size: int, says: str) -> None:
    """It said that all was well of a log that nothing else would open."""
    config = Config.read(log / "config.toml")
    config.watermark.unlink()
    Mark.create(config.watermark, config.origin, MarkValue(size, bytes(32))).close()

    result = run("doctor", "--data", log)

    assert result.exit_code == 1
    told = " ".join(result.stdout.split())
    assert says in told
    assert "Put the newest copy back" in told


@pytest.mark.sqlite_file
@pytest.mark.sqlite_file
def test_the_doctor_finds_a_mark_that_is_not_the_one_the_log_writes(
    run: Run, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older copy of it in its place, while the log runs: it said that all was well."""
    monkeypatch.setattr("transparency.cli.doctor_checks._COMMIT_SECONDS", 0.0)
    config = Config.read(log / "config.toml")
    with contextlib.closing(SqliteStore.for_reading(log / "log.sqlite")) as store:
        (first,) = store.digests(0, 1)
    config.watermark.unlink()
    Mark.create(config.watermark, config.origin, MarkValue(1, leaf_hash(first))).close()

    result = run("doctor", "--data", log, "--json")

    (found,) = (one for one in json.loads(result.stdout) if one["check"] == "high-water mark")
    assert (found["level"], "is at size 1 and the log at 2" in found["detail"]) == ("warn", True)


@pytest.mark.sqlite_file
def test_the_doctor_finds_a_database_that_cannot_be_read(run: Run, log: Path) -> None:
    (log / "log.sqlite").write_bytes(b"no database" * 1000)

    result = run("doctor", "--data", log)

    assert result.exit_code == 1
    assert "cannot be opened as a log database" in " ".join(result.stdout.split())


def test_the_doctor_finds_what_is_wrong(run: Run, log: Path) -> None:
    next((log / "keys").glob("receipts-*.pem")).chmod(0o644)
    Path("issuer.pem").chmod(0o640)

    result = run("doctor", "--data", log, "--log", "http://127.0.0.1:1", "--key", "issuer.pem")

    assert result.exit_code == 1
    failed = [line for line in result.stdout.splitlines() if line.startswith("fail")]
    assert [line.split()[1] for line in failed] == ["private", "signing", "log"]
    assert "chmod 600" in failed[0]


@pytest.mark.parametrize(("days", "level"), [(300, "ok"), (5, "warn"), (-1, "fail")])
def test_the_doctor_reads_when_a_certificate_ends(run: Run, folder: Path, days: int, level: str) -> None:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "log.example")])
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=30)).not_valid_after(now + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    Path("cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    findings = json.loads(run("doctor", "--tls-cert", "cert.pem", "--json").stdout)

    assert [finding["level"] for finding in findings if finding["check"] == "TLS certificate"] == [level]


def test_a_start_on_a_full_disk_names_the_file(run: Run, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_store: SqliteStore) -> Tip:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise StoreError("the store could not commit: database or disk is full") from error

    monkeypatch.setattr(SqliteStore, "take_over", full)
    failed = run("serve", "--data", log, "--port", "0", "--open")

    assert failed.exit_code == 73
    assert f"{log / 'log.sqlite'}: No space left on device" in failed.stderr
