"""``verify``: verdicts as exit codes, payloads found, folders, standard input."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.client.scripted import ISSUER_KEY, LOG_KEY, OTHER_KEY, STATEMENT, receipt_for
from transparency.client.many import WORTH_PROCESSES
from transparency.cose import labels
from transparency.cose.keys import encode_key_set
from transparency.cose.sign1 import Sign1
from transparency.statements.statement import sign_envelope, sign_statement
from transparency.statements.transparent import attach_receipts

ISS = "https://issuer.example"
TRANSPARENT = attach_receipts(STATEMENT, [receipt_for(STATEMENT)])
TRUST = ("--log-key", "log.keys", "--issuer-key", "issuer.pub.pem")


@pytest.fixture
def keys(folder: Path) -> Path:
    (folder / "log.keys").write_bytes(encode_key_set([LOG_KEY.public]))
    (folder / "issuer.pub.pem").write_bytes(ISSUER_KEY.public.to_pem())
    (folder / "other.pub.pem").write_bytes(OTHER_KEY.public.to_pem())
    (folder / "t.cose").write_bytes(TRANSPARENT)
    return folder


def test_what_is_genuine_is_0(run: Run, keys: Path) -> None:
    result = run("verify", "t.cose", *TRUST)

    assert result.exit_code == 0
    assert result.stdout.startswith("✓ Verified")


def test_the_json_report_says_the_same(run: Run, keys: Path) -> None:
    report = json.loads(run("verify", "t.cose", *TRUST, "--json").stdout)

    assert report["verdict"] == "verified"
    assert report["exit-code"] == 0
    assert report["file"] == "t.cose"


@pytest.mark.parametrize("flag", [("--log-key", "other.pub.pem", "--issuer-key", "issuer.pub.pem"),
                                  ("--log-key", "log.keys", "--issuer-key", "other.pub.pem")])  # fmt: skip
def test_another_key_does_not_verify(run: Run, keys: Path, flag: tuple[str, ...]) -> None:
    assert run("verify", "t.cose", *flag).exit_code in (1, 2)


def test_a_changed_payload_is_1(run: Run, keys: Path) -> None:
    changed = Sign1.from_bytes(TRANSPARENT).with_payload(b"hellO").to_bytes()
    (keys / "changed.cose").write_bytes(changed)

    result = run("verify", "changed.cose", *TRUST)

    assert result.exit_code == 1
    assert "✗" in result.stdout


def test_every_byte_counts(run: Run, keys: Path) -> None:
    for place in range(1, len(TRANSPARENT), 7):
        data = bytearray(TRANSPARENT)
        data[place] ^= 1
        (keys / "x.cose").write_bytes(data)
        assert run("verify", "x.cose", *TRUST).exit_code != 0, f"byte {place}"


def test_without_keys_nobody_can_tell(run: Run, keys: Path) -> None:
    result = run("verify", "t.cose")

    assert result.exit_code == 2
    assert "--log-key" in result.stderr


def test_a_statement_without_a_receipt_is_2_unless_that_was_the_question(run: Run, keys: Path) -> None:
    (keys / "s.cose").write_bytes(STATEMENT)

    assert run("verify", "s.cose", *TRUST).exit_code in (1, 2)
    assert run("verify", "s.cose", "--issuer-key", "issuer.pub.pem", "--statement-only").exit_code == 0


def test_the_receipt_alone_may_be_asked_for(run: Run, keys: Path) -> None:
    assert run("verify", "t.cose", "--log-key", "log.keys", "--receipt-only").exit_code == 0


def test_a_trust_file_names_logs_and_issuers(run: Run, keys: Path) -> None:
    (keys / "trust.toml").write_text(
        '[[log]]\niss = "https://log.example"\norigin = "log.example/test"\nkeys = ["log.keys"]\n'
        f'[[issuer]]\niss = "{ISS}"\nkeys = ["issuer.pub.pem"]\n'
    )
    (keys / "wrong.toml").write_text('[[log]]\norigin = "another.example"\nkeys = ["log.keys"]\n')
    (keys / "broken.toml").write_text("[[log]]\nkesy = []\n")

    assert run("verify", "t.cose", "--trust", "trust.toml").exit_code == 0
    assert run("verify", "t.cose", "--trust", "wrong.toml", "--issuer-key", "issuer.pub.pem").exit_code == 1
    assert run("verify", "t.cose", "--trust", "broken.toml").exit_code == 65
    assert run("verify", "t.cose", "--trust", "missing.toml").exit_code == 66


@pytest.mark.parametrize("name", ["note", "note.payload", "note.json", "note.txt", "note.csv"])
@pytest.mark.parametrize("statement", ["note.cose", "note.t.cose"])
def test_the_payload_beside_a_detached_statement_is_found(run: Run, keys: Path, name: str, statement: str) -> None:
    detached = sign_statement(b"the note", ISSUER_KEY, iss=ISS, sub="s", content_type=None, detached=True)
    (keys / statement).write_bytes(attach_receipts(detached, [receipt_for(detached, payload=b"the note")]))
    assert run("verify", statement, *TRUST).exit_code == 2

    (keys / name).write_bytes(b"the note")
    result = run("verify", statement, *TRUST)

    assert result.exit_code == 0
    assert f"record: {name}" in result.stdout
    (keys / name).write_bytes(b"another note")
    assert run("verify", statement, *TRUST).exit_code == 1


def test_a_file_beside_an_attached_statement_does_not_disturb(run: Run, keys: Path) -> None:
    (keys / "t.json").write_bytes(b"a session that has grown since")

    assert run("verify", "t.cose", *TRUST).exit_code == 0


def test_the_record_of_an_envelope_is_found_too(run: Run, keys: Path) -> None:
    record = b"a private record"
    envelope = sign_envelope(hashlib.sha256(record).digest(), ISSUER_KEY, iss=ISS, sub="s")
    (keys / "e.cose").write_bytes(attach_receipts(envelope, [receipt_for(envelope)]))

    assert run("verify", "e.cose", *TRUST).exit_code == 2
    assert run("verify", "e.cose", *TRUST, "--receipt-only").exit_code == 0
    (keys / "e.bin").write_bytes(record)
    assert run("verify", "e.cose", *TRUST).exit_code == 0
    (keys / "other").write_bytes(b"something else")
    assert run("verify", "e.cose", *TRUST, "--payload", "other").exit_code == 1


def test_standard_input_is_read(run: Run, keys: Path) -> None:
    assert run("verify", "-", *TRUST, stdin=TRANSPARENT).exit_code == 0


def test_a_folder_is_verified_whole_and_the_worst_verdict_counts(run: Run, keys: Path) -> None:
    (keys / "many" / "deep").mkdir(parents=True)
    for number in range(5):
        data = sign_statement(f"{number}".encode(), ISSUER_KEY, iss=ISS, sub="s", content_type=None)
        (keys / "many" / f"{number}.t.cose").write_bytes(attach_receipts(data, [receipt_for(data)]))
        (keys / "many" / f"{number}.cose").write_bytes(data)
    clean = run("verify", "many", *TRUST)
    (keys / "many" / "deep" / "bad.cose").write_bytes(Sign1.from_bytes(TRANSPARENT).with_payload(b"x").to_bytes())
    spoiled = run("verify", "many", *TRUST)
    report = json.loads(run("verify", "many", *TRUST, "--json").stdout)

    assert clean.exit_code == 0
    assert clean.stdout.count("✓") == 5
    assert spoiled.exit_code == 1
    assert "✗ many/deep/bad.cose" in spoiled.stdout
    assert report["counts"]["verified"] == 5
    assert len(report["files"]) == 6


def test_one_file_that_cannot_be_read_does_not_hide_the_others(run: Run, keys: Path) -> None:
    (keys / "junk.cose").write_bytes(b"junk")

    result = run("verify", "junk.cose", "t.cose", "missing.cose", *TRUST)
    report = json.loads(run("verify", "junk.cose", "t.cose", "missing.cose", *TRUST, "--json").stdout)

    assert result.exit_code == 65
    assert "✓ t.cose" in result.stdout
    assert report["counts"]["unreadable"] == 2


def test_quiet_is_one_line(run: Run, keys: Path) -> None:
    assert run("verify", "t.cose", *TRUST, "--quiet").stdout.count("\n") == 1


def test_an_empty_folder_is_66(run: Run, keys: Path) -> None:
    (keys / "empty").mkdir()

    assert run("verify", "empty", *TRUST).exit_code == 66


@pytest.mark.parametrize(
    ("data", "code"), [(b"", 65), (b"hello", 65), (b"{}", 65), (b"\xd2\x84", 1), (b"\xd2" + b"\x81" * 999, 1)]
)
def test_what_is_no_statement_at_all(run: Run, keys: Path, data: bytes, code: int) -> None:
    (keys / "x.cose").write_bytes(data)

    assert run("verify", "x.cose", *TRUST).exit_code == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("missing.cose", *TRUST), 66),
        (("t.cose", "--log-key", "missing.keys"), 66),
        (("t.cose", "--log-key", "t.cose"), 65),
        (("t.cose", *TRUST, "--payload", "missing"), 66),
        (("t.cose", "t.cose", *TRUST, "--payload", "log.keys"), 64),
    ],
    ids=str,
)
def test_wrong_files_have_their_codes(run: Run, keys: Path, words: tuple[str, ...], code: int) -> None:
    assert run("verify", *words).exit_code == code


def test_a_private_key_in_place_of_a_public_one_is_not_used(run: Run, keys: Path) -> None:
    (keys / "issuer.pem").write_bytes(ISSUER_KEY.to_pem())

    result = run("verify", "t.cose", "--issuer-key", "issuer.pem")

    assert result.exit_code == 65
    assert "pub.pem" in result.stderr


def test_a_huge_file_is_refused_quickly(run: Run, keys: Path) -> None:
    with (keys / "huge.cose").open("wb") as file:
        file.truncate(1 << 40)

    assert run("verify", "huge.cose", *TRUST).exit_code == 65


def test_an_unsigned_label_100_that_lies_is_1(run: Run, keys: Path) -> None:
    sample = Path(__file__).resolve().parents[2] / "transparency" / "cli" / "sample_session.json"
    (keys / "session.json").write_bytes(sample.read_bytes())
    (keys / "issuer.pem").write_bytes(ISSUER_KEY.to_pem())
    run("sign", "session.json", "--key", "issuer.pem", "--iss", ISS, "--out", "s.cose")
    message = Sign1.from_bytes((keys / "s.cose").read_bytes())
    hint = message.unprotected[labels.TRACE_METADATA]
    lie = message.with_unprotected({labels.TRACE_METADATA: {**hint, "session-id": "someone-else"}})
    (keys / "lie.cose").write_bytes(lie.to_bytes())

    assert run("verify", "s.cose", "--issuer-key", "issuer.pub.pem", "--statement-only").exit_code == 0
    assert run("verify", "lie.cose", "--issuer-key", "issuer.pub.pem", "--statement-only").exit_code == 1


def test_a_large_folder_is_verified_by_several_processes_with_the_same_outcome(run: Run, keys: Path) -> None:
    (keys / "many").mkdir()
    for number in range(WORTH_PROCESSES + 1):
        (keys / "many" / f"{number:04}.cose").write_bytes(TRANSPARENT)
    (keys / "many" / "0007.cose").write_bytes(Sign1.from_bytes(TRANSPARENT).with_payload(b"x").to_bytes())
    (keys / "many" / "0300.cose").write_bytes(b"junk")

    result = run("verify", "many", *TRUST)
    report = json.loads(run("verify", "many", *TRUST, "--json").stdout)

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert len(lines) == WORTH_PROCESSES + 2
    assert [line[0] for line in lines[6:9]] == ["✓", "✗", "✓"]
    assert report["counts"] == {
        "verified": WORTH_PROCESSES,
        "failed": 1,
        "cannot-tell": 0,
        "warnings": 0,
        "unreadable": 1,
    }
    assert [row["file"] for row in report["files"]] == sorted(row["file"] for row in report["files"])
    assert {len(row["claims"]) for row in report["files"] if row.get("verdict") == "verified"} == {
        len(report["files"][0]["claims"])
    }
