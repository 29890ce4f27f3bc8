"""Keys and statements from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run
from transparency.cose import labels
from transparency.cose.algorithms import ALGORITHMS
from transparency.cose.keys import PrivateKey, read_public_keys
from transparency.statements.statement import Statement

SAMPLE = Path(__file__).resolve().parents[2] / "transparency" / "cli" / "sample_session.json"
SESSION = "urn:uuid:0198f3c2-7d41-7c1e-9b52-6f0a8e2d4c11"


@pytest.fixture
def key(good: Run, folder: Path) -> Path:
    good("keygen", "--out", "issuer.pem")
    return folder / "issuer.pem"


@pytest.mark.parametrize("alg", [each.name for each in ALGORITHMS.values()])
def test_a_key_of_every_algorithm_signs_what_its_public_part_verifies(good: Run, folder: Path, alg: str) -> None:
    good("keygen", "--alg", alg, "--out", "k.pem")
    (folder / "note.txt").write_text("hello")

    good("sign", "note.txt", "--key", "k.pem", "--iss", ISS, "--sub", "note")

    (public,) = read_public_keys((folder / "k.pub.pem").read_bytes())
    Statement.from_bytes((folder / "note.cose").read_bytes()).verify(public)


def test_one_key_signs_with_any_algorithm_of_its_type_and_no_other(good: Run, run: Run, folder: Path) -> None:
    good("keygen", "--alg", "PS256", "--out", "k.pem")
    (folder / "note.txt").write_text("hello")

    good("sign", "note.txt", "--key", "k.pem", "--alg", "PS512", "--iss", ISS, "--sub", "note")

    assert Statement.from_bytes((folder / "note.cose").read_bytes()).alg == -39
    for wrong in ("ES256", "PS257"):
        refused = run("sign", "note.txt", "--key", "k.pem", "--alg", wrong, "--iss", ISS, "--sub", "n", "--out", "x")
        assert refused.exit_code == 64
        assert f"--alg {wrong}" in refused.stderr


def test_a_key_is_written_with_its_public_part_beside_it_under_any_name(good: Run, folder: Path) -> None:
    good("keygen", "--out", "signing.key")

    assert sorted(path.name for path in folder.iterdir()) == ["signing.key", "signing.key.pub.pem"]


def test_a_passphrase_protects_the_key(good: Run, run: Run, folder: Path) -> None:
    (folder / "phrase").write_text("correct horse\n")
    (folder / "wrong").write_text("battery\n")
    (folder / "note.txt").write_text("hello")
    good("keygen", "--out", "k.pem", "--passphrase-file", "phrase")
    sign = ("sign", "note.txt", "--key", "k.pem", "--iss", ISS, "--sub", "n")

    assert b"ENCRYPTED" in (folder / "k.pem").read_bytes()
    assert run(*sign).exit_code == 65
    assert "--passphrase-file" in run(*sign).stderr
    assert run(*sign, "--passphrase-file", "wrong").exit_code == 65
    good(*sign, "--passphrase-file", "phrase")


def test_no_output_shows_private_material(good: Run, folder: Path) -> None:
    result = good("keygen", "--out", "k.pem")
    lines = (folder / "k.pem").read_text().splitlines()[1:-1]

    for shown in (result.output, good("inspect", "k.pem").output, good("inspect", "--json", "k.pem").output):
        assert not any(line in shown for line in lines)
        assert "PRIVATE KEY" not in shown


def test_a_private_key_is_not_printed(run: Run, folder: Path) -> None:
    assert run("keygen", "--out", "-").exit_code == 64


def test_the_public_part_alone_is_enough_to_refuse(good: Run, run: Run, folder: Path) -> None:
    (folder / "k.pub.pem").write_text("somebody else's")

    assert run("keygen", "--out", "k.pem").exit_code == 73
    assert not (folder / "k.pem").exists()
    good("keygen", "--out", "k.pem", "--force")


def test_a_vac_record_gets_trace_metadata_twice_and_its_session_as_subject(good: Run, key: Path, folder: Path) -> None:
    """Label 100 unprotected, its signed copy at -70100; defaults from the record."""
    (folder / "session.json").write_bytes(SAMPLE.read_bytes())

    good("sign", "session.json", "--key", key, "--iss", ISS)

    statement = Statement.from_bytes((folder / "session.cose").read_bytes())
    unsigned = statement.message.unprotected[labels.TRACE_METADATA]
    assert unsigned == statement.message.headers[labels.TRACE_METADATA_SIGNED]
    assert unsigned["session-id"] == statement.sub == SESSION
    assert statement.payload == SAMPLE.read_bytes()
    assert statement.content_type == "application/agent-conversation"


def test_what_the_flags_say_wins_over_what_the_record_says(good: Run, key: Path, folder: Path) -> None:
    (folder / "session.json").write_bytes(SAMPLE.read_bytes())

    good("sign", "session.json", "--key", key, "--iss", ISS, "--sub", "urn:x:y", "--content-type", "application/json")

    statement = Statement.from_bytes((folder / "session.cose").read_bytes())
    assert (statement.sub, statement.content_type) == ("urn:x:y", "application/json")


def test_signing_the_same_file_again_gives_the_same_statement(good: Run, key: Path, folder: Path) -> None:
    (folder / "session.json").write_bytes(SAMPLE.read_bytes())

    good("sign", "session.json", "--key", key, "--iss", ISS, "--out", "a.cose")
    good("sign", "session.json", "--key", key, "--iss", ISS, "--out", "b.cose")

    assert (folder / "a.cose").read_bytes() == (folder / "b.cose").read_bytes()


def test_a_record_without_times_gets_no_trace_metadata_and_is_told(good: Run, key: Path, folder: Path) -> None:
    record = json.loads(SAMPLE.read_bytes())
    del record["session"]["session-start"]
    for entry in record["session"]["entries"]:
        del entry["timestamp"]
    (folder / "session.json").write_text(json.dumps(record))

    result = good("sign", "session.json", "--key", key, "--iss", ISS)

    assert "timestamp-start" in result.stderr
    statement = Statement.from_bytes((folder / "session.cose").read_bytes())
    assert labels.TRACE_METADATA not in statement.message.unprotected
    assert labels.TRACE_METADATA_SIGNED not in statement.message.headers


def test_what_a_plain_file_is_about_must_be_said(run: Run, key: Path, folder: Path) -> None:
    (folder / "note.txt").write_text("hello")

    result = run("sign", "note.txt", "--key", key, "--iss", ISS)

    assert result.exit_code == 65
    assert "--sub" in result.stderr
    assert not (folder / "note.cose").exists()


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.json", b"[1]", "application/json"),
        ("a.jsonl", b"{}\n{}\n", "application/jsonl"),
        ("a.txt", b"x", "text/plain; charset=utf-8"),
        ("a", b"\x00", "application/octet-stream"),
        ("a", b'{"a":1}', "application/json"),
        ("a", b'{"a":1,"a":2}', "application/octet-stream"),
    ],
)
def test_the_content_type_is_guessed_only_where_it_is_plain(
    good: Run, key: Path, folder: Path, name: str, data: bytes, expected: str
) -> None:
    (folder / name).write_bytes(data)

    good("sign", name, "--key", key, "--iss", ISS, "--sub", "s", "--out", "s.cose")

    assert Statement.from_bytes((folder / "s.cose").read_bytes()).content_type == expected


def test_private_signs_the_digest_and_tells_nothing_of_the_session(good: Run, key: Path, folder: Path) -> None:
    (folder / "session.json").write_bytes(SAMPLE.read_bytes())

    good("sign", "session.json", "--key", key, "--iss", ISS, "--sub", "urn:x:1", "--private")

    data = (folder / "session.cose").read_bytes()
    statement = Statement.from_bytes(data)
    assert statement.envelope is not None
    assert len(statement.payload) == 32
    assert SESSION.encode() not in data


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--iss", "not a uri: at all"), 65),
        (("--iss", ""), 65),
        (("--iss", ISS, "--sub", "has colon: and space"), 65),
        (("--iss", ISS, "--content-type", "x" * 300), 65),
        (("--iss", ISS, "--detached", "--private"), 64),
        (("--iss", ISS, "--key", "missing.pem"), 66),
        (("--iss", ISS, "--key", "issuer.pub.pem"), 65),
        (("--iss", ISS, "--key", "session.json"), 65),
        (("--iss", ISS, "--out", "issuer.pem"), 73),
        (("--iss", ISS, "--out", "no/such/folder/s.cose"), 73),
    ],
    ids=str,
)
def test_what_cannot_be_signed_is_refused_with_its_code(
    run: Run, key: Path, folder: Path, words: tuple[str, ...], code: int
) -> None:
    (folder / "session.json").write_bytes(SAMPLE.read_bytes())
    before = key.read_bytes()

    result = run("sign", "session.json", "--key", "issuer.pem", *words)

    assert result.exit_code == code
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert key.read_bytes() == before


def test_a_key_that_others_can_read_is_warned_about(good: Run, key: Path, folder: Path) -> None:
    key.chmod(0o644)
    (folder / "note.txt").write_text("x")

    assert "chmod 600" in good("sign", "note.txt", "--key", key, "--iss", ISS, "--sub", "s").stderr


def test_the_loaded_key_is_the_written_one(key: Path, folder: Path) -> None:
    (public,) = read_public_keys((folder / "issuer.pub.pem").read_bytes())

    assert PrivateKey.from_pem(key.read_bytes()).public == public
