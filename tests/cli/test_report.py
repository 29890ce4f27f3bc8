"""``transparency report`` on files: statements, records, folders; a page, JSON, and the report signed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, Run, Served
from tests.cli.submitting import CLAUDE, RECORDS
from tests.client.scripted import ISSUER_KEY, LOG_KEY, OTHER_KEY, receipt_for
from transparency.client.signing import sign_record
from transparency.compliance.report import CONTENT_TYPE
from transparency.cose.keys import encode_key_set
from transparency.cose.sign1 import Sign1
from transparency.statements.statement import Statement
from transparency.statements.transparent import attach_receipts

TRUST = ("--log-key", "log.keys", "--issuer-key", "issuer.pub.pem")


@pytest.fixture
def keys(folder: Path) -> Path:
    """A session with its statement and receipt, and the keys that verify them."""
    (folder / "log.keys").write_bytes(encode_key_set([LOG_KEY.public]))
    (folder / "issuer.pub.pem").write_bytes(ISSUER_KEY.public.to_pem())
    (folder / "other.pub.pem").write_bytes(OTHER_KEY.public.to_pem())
    (folder / "t.cose").write_bytes(transparent(CLAUDE.read_bytes()))
    return folder


def transparent(record: bytes, *, private: bool = False) -> bytes:
    signed = sign_record(record, ISSUER_KEY, iss=ISS, content_type="application/jsonl", private=private)
    return attach_receipts(signed.statement, [receipt_for(signed.statement)])


def report(run: Run, *words: str | Path) -> dict[str, Any]:
    result = run("report", *words, "--json")
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def verdicts(made: dict[str, Any], record: int = 0) -> dict[str, str]:
    return {finding["check"]: finding["verdict"] for finding in made["records"][record]["findings"]}


def requirement(made: dict[str, Any], name: str) -> str:
    return str(next(each["status"] for each in made["requirements"] if each["id"] == name))


def test_a_registered_record_is_verified_and_checked(run: Run, keys: Path) -> None:
    made = report(run, "t.cose", *TRUST)

    assert made["records"][0]["verification"]["outcome"] == "verified"
    assert made["records"][0]["index"] == 1
    assert verdicts(made)["R7.1"] == "pass"
    assert verdicts(made)["R7.2"] == "pass"
    assert len(verdicts(made)) == 36


def test_without_trusted_keys_nothing_is_evidence_of_a_signature(run: Run, keys: Path) -> None:
    made = report(run, "t.cose")

    assert verdicts(made)["R7.1"] != "pass"
    assert verdicts(made)["R7.3"] != "pass"
    assert made["trust"]["logs trusted"].startswith("none")


def test_another_key_is_no_evidence_either(run: Run, keys: Path) -> None:
    made = report(run, "t.cose", "--log-key", "other.pub.pem", "--issuer-key", "other.pub.pem")

    assert verdicts(made)["R3.4"] == "fail"
    assert verdicts(made)["R7.1"] != "pass"
    assert verdicts(made)["R7.3"] == "fail"


def test_a_changed_record_fails_its_signature_and_its_hash(run: Run, keys: Path) -> None:
    changed = CLAUDE.read_bytes().replace(b'"type":"user"', b'"type":"uSer"', 1)
    assert changed != CLAUDE.read_bytes()
    (keys / "changed.cose").write_bytes(
        Sign1.from_bytes((keys / "t.cose").read_bytes()).with_payload(changed).to_bytes()
    )

    made = report(run, "changed.cose", *TRUST)

    assert made["records"][0]["verification"]["outcome"] == "failed"
    assert verdicts(made)["R7.1"] == "fail"


def test_an_unsigned_record_is_checked_and_misses_its_signature(run: Run, keys: Path) -> None:
    made = report(run, RECORDS / "session.vac.json", *TRUST)

    assert made["records"][0]["verification"]["outcome"] == "unsigned"
    assert verdicts(made)["R1.1"] == "pass"
    seven = next(each for each in made["requirements"] if each["id"] == "REQ-7")
    assert seven["checks"]["R7.1"] == "evidence missing"


def test_a_private_statement_without_its_record_is_not_available(run: Run, keys: Path) -> None:
    (keys / "private.t.cose").write_bytes(transparent(CLAUDE.read_bytes(), private=True))

    made = report(run, "private.t.cose", *TRUST)

    assert made["availability"] == {"hash-only": 1}
    assert verdicts(made)["R5.1"] == "n-a"
    assert requirement(made, "REQ-5") == "evidence missing"


def test_the_record_beside_a_private_statement_is_found(run: Run, keys: Path) -> None:
    (keys / "private.t.cose").write_bytes(transparent(CLAUDE.read_bytes(), private=True))
    shutil.copy(CLAUDE, keys / "private.jsonl")

    assert verdicts(report(run, "private.t.cose", *TRUST))["R5.1"] == "pass"


def test_another_record_beside_a_private_statement_is_not_taken_for_it(run: Run, keys: Path) -> None:
    (keys / "private.t.cose").write_bytes(transparent(CLAUDE.read_bytes(), private=True))
    shutil.copy(RECORDS / "codex" / "session.jsonl", keys / "private.jsonl")

    made = report(run, "private.t.cose", *TRUST)

    assert made["availability"] == {"mismatch": 1}
    assert made["records"][0]["verification"]["outcome"] == "failed"
    assert verdicts(made)["R5.1"] == "n-a"


def test_a_folder_is_all_its_statements_and_one_without_any_all_its_records(run: Run, keys: Path) -> None:
    (keys / "signed").mkdir()
    shutil.copy(keys / "t.cose", keys / "signed" / "a.t.cose")
    shutil.copy(keys / "t.cose", keys / "signed" / "b.t.cose")
    (keys / "plain").mkdir()
    shutil.copy(RECORDS / "session.vac.json", keys / "plain" / "one.json")

    assert report(run, "signed", *TRUST)["total"] == 2
    assert report(run, "plain")["outcomes"] == {"unsigned": 1}


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_reported(run: Run, keys: Path) -> None:
    made = report(run, "t.cose", "gone.cose", *TRUST)

    assert made["total"] == 1
    assert made["unreadable"] == [{"name": "gone.cose", "why": "gone.cose: No such file or directory"}]


@pytest.mark.parametrize(("words", "code"), [(("gone.cose",), 66), (("empty",), 66), (("gone.cose", "notes.md"), 2)])
def test_nothing_to_examine_is_2_and_no_file_at_all_66(
    run: Run, folder: Path, words: tuple[str, ...], code: int
) -> None:
    (folder / "empty").mkdir()
    (folder / "notes.md").write_text("# No record\n")
    result = run("report", *words)

    assert result.exit_code == code
    assert words[0] in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["notes.md", "issuer.pub.pem", "/dev/null"])
def test_a_file_that_is_no_record_is_no_session(run: Run, keys: Path, name: str) -> None:
    (keys / "notes.md").write_text("# No record\n")
    alone = run("report", name)
    made = report(run, "t.cose", name, *TRUST)

    assert alone.exit_code == 2
    assert f"nothing could be examined: {name}: not a record" in alone.stderr
    assert made["total"] == 1
    assert [each["name"] for each in made["unreadable"]] == [name]


def test_only_the_framework_that_was_asked_for(run: Run, keys: Path) -> None:
    made = report(run, "t.cose", *TRUST, "--framework", "eu-ai-act/biometric", "--framework", "pci-dss")

    assert [framework["id"] for framework in made["frameworks"]] == ["eu-ai-act/biometric", "pci-dss"]
    assert "12(3)(b)" in [clause["id"] for clause in made["frameworks"][0]["clauses"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("t.cose", "--framework", "gdpr"), "there is no framework"),
        ((), "about files, or --log, or --data"),
        (("t.cose", "--log", "https://log.example"), "about files, or --log, or --data"),
        (("t.cose", "--issuer", "https://x.example"), "--issuer can only be said of a log"),
        (("t.cose", "--sign", "issuer.pem", "--out", "r.json"), "--sign needs --iss"),
        (("t.cose", "--sign", "issuer.pem", "--iss", ISS), "--sign goes with --out"),
        (("t.cose", "--submit", "https://log.example"), "--submit goes with --sign"),
        (("--log", "https://log.example", "--from", "yesterday"), "--from yesterday is not a time"),
        (("--log", "https://log.example", "--from", "2027-02-30"), "--from 2027-02-30 is not a time"),
        (("--log", "https://log.example", "--from", "2027-01-02", "--to", "2027-01-01"), "--to is not after --from"),
    ],
)
def test_slips_are_64_and_one_line(run: Run, keys: Path, words: tuple[str, ...], said: str) -> None:
    result = run("report", *words)

    assert result.exit_code == 64
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_the_terminal_shows_requirements_clauses_and_what_is_short(run: Run, keys: Path) -> None:
    result = run("report", "t.cose", *TRUST, "--framework", "fedramp")

    assert result.exit_code == 0
    assert "REQ-11" in result.stdout
    assert "AU-10" in result.stdout
    assert "It is evidence, not a verdict of law." in result.stdout
    assert "compliant" not in result.stdout.lower()


def test_what_a_record_says_cannot_act_on_a_terminal_or_in_a_page(run: Run, keys: Path) -> None:
    hostile = json.loads((RECORDS / "session.vac.json").read_text(encoding="utf-8"))
    hostile["session"]["session-id"] = "<script>alert(1)</script>\x1b[2J\u202e[bold]"
    (keys / "hostile.json").write_text(json.dumps(hostile), encoding="utf-8")

    result = run("report", "hostile.json", "--html", "page.html")

    page = (keys / "page.html").read_text(encoding="utf-8")
    assert "\x1b" not in result.stdout
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page


def test_files_that_exist_are_left_as_they_are(run: Run, keys: Path) -> None:
    (keys / "page.html").write_text("mine", encoding="utf-8")

    assert run("report", "t.cose", *TRUST, "--html", "page.html").exit_code == 73
    assert (keys / "page.html").read_text(encoding="utf-8") == "mine"
    assert run("report", "t.cose", *TRUST, "--html", "page.html", "--force").exit_code == 0


def test_a_report_is_signed_as_the_file_that_it_is(run: Run, good: Run, keys: Path) -> None:
    good("keygen", "--out", "auditor.pem")

    good("report", "t.cose", *TRUST, "--out", "r.json", "--sign", "auditor.pem", "--iss", "https://auditor.example")

    statement = Statement.from_bytes((keys / "r.json.cose").read_bytes())
    assert statement.content_type == CONTENT_TYPE
    assert statement.payload == (keys / "r.json").read_bytes()
    assert run("verify", "r.json.cose", "--issuer-key", "auditor.pub.pem", "--statement-only").exit_code == 0


def test_a_report_is_registered_on_a_log(good: Run, run: Run, served: Served, keys: Path) -> None:
    good("keys", "--log", served.url, "--out", "served.keys")

    good("report", "t.cose", *TRUST, "--framework", "cra", "--out", "r.json", "--sign", served.key, "--iss", ISS,
         "--submit", served.url)  # fmt: skip

    assert run("verify", "r.json.cose", "--log-key", "served.keys", "--issuer-key", served.public).exit_code == 0
