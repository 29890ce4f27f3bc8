"""``transparency review`` and ``attest``: what people state, registered on a real log, and what reports make of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ISS, Run, Served, serving, shell
from tests.log.searching import session
from transparency.compliance.attestation import Attestation
from transparency.compliance.review import Review
from transparency.statements.statement import Statement


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A log with two sessions, kept as one.cose and two.cose."""
    folder = tmp_path_factory.mktemp("stated")
    with serving(folder, "--open") as log:
        for name in ("one", "two"):
            (folder / f"{name}.jsonl").write_bytes(session(name))
            words = ("submit", f"{name}.jsonl", "--log", log.url, "--key", "issuer.pem", "--iss", ISS)
            assert shell(*words, "--out", f"{name}.cose", cwd=folder).returncode == 0
        assert shell("keys", "--log", log.url, "--trust", "trust.toml", cwd=folder).returncode == 0
        yield log


@pytest.fixture
def who(filled: Served) -> tuple[str | Path, ...]:
    return ("--log", filled.url, "--key", filled.key, "--iss", ISS)


def log_report(good: Run, log: Served, *words: str) -> dict[str, Any]:
    report = json.loads(good("report", "--json", "--data", log.data, *words).stdout)
    assert isinstance(report, dict)
    return report


def finding(report: dict[str, Any], check: str) -> dict[str, Any]:
    return next(each for each in report["log"] if each["check"] == check)


def tally(report: dict[str, Any], check: str) -> dict[str, int]:
    counts = next(each for each in report["checks"] if each["id"] == check)["counts"]
    assert isinstance(counts, dict)
    return counts


def test_a_review_of_a_statement_file_is_registered_and_counted_with_its_reviewer(
    good: Run, run: Run, filled: Served, who: tuple[str | Path, ...], folder: Path
) -> None:
    one = filled.data.parent / "one.cose"
    said = json.loads(
        good(
            "review", one, "--verdict", "concern", "--note", "Line 1.\nLine 2.", "--reviewer", "Ada", *who, "--json"
        ).stdout
    )
    statement = Statement.from_bytes((folder / said["statement"]).read_bytes())
    review = Review.from_bytes(statement.payload)

    assert (review.entry, review.verdict, review.reviewer) == (
        Statement.from_bytes(one.read_bytes()).entry_id,
        "concern",
        "Ada",
    )
    trust = ("--trust", filled.data.parent / "trust.toml", "--issuer-key", filled.public)
    assert run("verify", said["statement"], *trust).exit_code in (0, 3)
    found = finding(log_report(good, filled), "L10")
    assert (found["counts"]["reviews"], found["counts"]["concerns"]) == (1, 1)
    assert found["counts"]["reviewers"] == f"Ada ({ISS})"


def test_what_is_not_on_the_log_cannot_be_reviewed(run: Run, who: tuple[str | Path, ...], folder: Path) -> None:
    ended = run("review", "A" * 43, "--verdict", "accepted", "--note", "Fine.", *who)

    assert ended.exit_code == 65
    assert "has no entry" in ended.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("review", "nothing", "--verdict", "accepted", "--note", "x"), 66),
        (("review", "A" * 43, "--verdict", "compliant", "--note", "x"), 64),
        (("review", "A" * 43, "--verdict", "accepted", "--note", "x" * 5_000), 64),
        (("attest", "clock-sync", "--checks", "R99.1", "--statement", "x", "--expires", "2999-01-01"), 64),
        (("attest", "clock-sync", "--statement", "x", "--expires", "2020-01-01"), 64),
        (("attest", "clock-sync", "--statement", "x", "--expires", "soon"), 64),
        (("attest", "Clock Sync", "--statement", "x", "--expires", "2999-01-01"), 64),
    ],
)
def test_what_cannot_be_stated_is_said_before_anything_is_registered(
    run: Run, who: tuple[str | Path, ...], folder: Path, words: tuple[str, ...], code: int
) -> None:
    ended = run(*words, *who)

    assert ended.exit_code == code
    assert len(ended.stderr.splitlines()) == 1
    assert list(folder.iterdir()) == []


def test_an_attestation_fills_what_no_data_shows_in_a_report_about_the_log_and_about_its_records(
    good: Run, filled: Served, who: tuple[str | Path, ...], folder: Path
) -> None:
    before = log_report(good, filled)
    said = json.loads(
        good("attest", "human-identity", "--checks", "R3.2,L3", "--statement", "One key, one employee.",
             "--expires", "2999-01-01", "--by", "Ops", *who, "--json").stdout
    )  # fmt: skip
    stated = Attestation.from_bytes(Statement.from_bytes((folder / said["statement"]).read_bytes()).payload)
    after = log_report(good, filled)

    assert stated.expires == 32_472_144_000
    assert (tally(before, "L3"), tally(after, "L3")) == ({"attest": 1}, {"attested": 1})
    (shown,) = after["attestations"]
    assert (shown["by"], shown["expires"]) == (f"Ops ({ISS})", "2999-01-01T00:00:00Z")
    assert shown["statement"] == "One key, one employee."

    one = filled.data.parent / "one.cose"
    trust = ("--trust", filled.data.parent / "trust.toml", "--issuer-key", filled.public)
    files = json.loads(good("report", "--json", one, said["statement"], *trust).stdout)
    alone = json.loads(good("report", "--json", one, *trust).stdout)
    assert (files["total"], alone["total"]) == (1, 1)
    filled_verdicts = {check["id"]: check["counts"].get("attested", 0) for check in files["checks"]}
    assert filled_verdicts["R3.2"] == tally(alone, "R3.2").get("attest", 0)
    assert [each["subject"] for each in files["attestations"]] == ["human-identity"]
    # Nobody vouches for who signed it: it fills nothing, and the report says so.
    untrusted = json.loads(good("report", "--json", one, said["statement"]).stdout)
    assert untrusted["attestations"] == []
    assert "fills nothing" in untrusted["unreadable"][0]["why"]


def test_an_attestation_of_one_issuer_or_period_says_nothing_of_the_whole(
    good: Run, filled: Served, who: tuple[str | Path, ...], folder: Path
) -> None:
    good("attest", "clock-sync", "--checks", "L12", "--statement", "NTP.", "--expires", "2999-01-01", "--scope-iss",
         "https://other.example", "--to", "2030-01-01", *who)  # fmt: skip

    report = log_report(good, filled)

    (scoped,) = [each for each in report["attestations"] if each["subject"] == "clock-sync"]
    assert scoped["scope"] == "what https://other.example registered before 2030-01-01T00:00:00Z"
    assert "attested" not in tally(report, "L12")
    assert "clock-sync" in {each["subject"] for each in report["attestations-needed"]}
