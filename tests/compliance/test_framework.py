"""Frameworks are data, read strictly: an error names the line and the clause."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path

import pytest

from transparency.compliance.framework import CHECK_IDS, REQUIREMENTS, load_frameworks, read_framework, select
from transparency.errors import MalformedError

GOOD = b"""id = "house"
title = "House rules"

[source]
document = "Our rules"
version = "3"
articles = "1, 2"

[[clause]]
id = "1"
title = "Log"
text = "We log."
checks = ["R1.1", "L4"]
verified = true
read = "the rules themselves"
retention-months = 6

[[clause]]
id = "2"
title = "Ask"
text = "We ask."
checks = []
attest = ["clock-sync"]
verified = false
"""


def test_a_framework_is_read_as_it_stands() -> None:
    framework = read_framework(GOOD)

    assert (framework.id, framework.document, framework.articles) == ("house", "Our rules", "1, 2")
    assert [clause.id for clause in framework.clauses] == ["1", "2"]
    assert framework.clauses[0].checks == ("R1.1", "L4")
    assert framework.clauses[0].retention_months == 6
    assert framework.clauses[1].attest == ("clock-sync",)


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        (
            b'checks = ["R1.1", "L4"]',
            b'checks = ["R1.1", "R1.9"]',
            13,
            'clause "1" names checks that there are not: R1.9',
        ),
        (b'checks = ["R1.1", "L4"]', b'checks = ["R1.1", "R1.1"]', 13, 'clause "1" names a check twice'),
        (b'checks = ["R1.1", "L4"]', b'checks = "R1.1"', 13, "is not a list of strings"),
        (b'attest = ["clock-sync"]\n', b"", 22, 'clause "2" is empty, and nothing is to be attested'),
        (b"verified = true", b'verified = "yes"', 14, "is neither true nor false"),
        (b"verified = true", b"verified = false", 14, "says what was read and is not verified"),
        (b'read = "the rules themselves"\n', b"", 14, "is verified without saying what was read"),
        (b"retention-months = 6", b"retention-months = 0", 16, 'of clause "1" is not from 1 to 1200'),
        (b'text = "We log."', b'text = " "', 12, "is empty"),
        (b'text = "We log."', b'text = "We log."\ncolour = "red"', 13, "members this version does not know: colour"),
        (b'id = "2"', b'id = "1"', 18, 'is a second clause "1"'),
        (b'id = "2"', b'id = "2"\nprofile = "x"', 20, "names a profile that there is not: x"),
        (b'id = "house"', b'id = "the house"', 1, "is not a name of letters, digits and hyphens"),
        (b'version = "3"\n', b"", 4, "framework.source.version is missing"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_clause(old: bytes, new: bytes, line: int, said: str) -> None:
    assert GOOD.count(old) == 1

    with pytest.raises(MalformedError) as caught:
        read_framework(GOOD.replace(old, new), "house.toml")

    assert str(caught.value).startswith(f"house.toml:{line}:")
    assert said in str(caught.value)


def test_a_framework_without_clauses_is_none() -> None:
    with pytest.raises(MalformedError, match="0 rows"):
        read_framework(GOOD.partition(b"[[clause]]")[0])


def test_a_profile_that_no_clause_has_is_a_slip() -> None:
    profile = b'[[profile]]\nid = "spare"\ntitle = "Spare"\ntext = "Nothing."\n\n[[clause]]'

    with pytest.raises(MalformedError, match="no clause for spare"):
        read_framework(GOOD.replace(b"[[clause]]", profile, 1))


def test_every_framework_that_the_draft_analyses_comes_with_the_package() -> None:
    found = {framework.id for framework in load_frameworks()}

    assert found == {
        "eu-ai-act", "cra", "nis2", "etsi-ts-104-223", "soc2", "fedramp", "pci-dss", "iso-42001", "ffiec",
        "bsi-ai-finance", "nist-ai-100-2",
    }  # fmt: skip


def test_an_installed_package_has_the_files_too() -> None:
    root = Path(__file__).parents[2]
    patterns = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"][
        "package-data"
    ]
    shipped = {path.stem for pattern in patterns["transparency"] for path in (root / "transparency").glob(pattern)}

    assert {framework.id for framework in load_frameworks()} <= shipped


def test_every_check_bears_on_some_clause() -> None:
    named = {check for framework in load_frameworks() for clause in framework.clauses for check in clause.checks}

    assert named == set(CHECK_IDS)


def test_there_are_thirty_six_record_checks_and_thirteen_log_checks() -> None:
    assert len([check for check in CHECK_IDS if check.startswith("R")]) == 36
    assert len([check for check in CHECK_IDS if check.startswith("L")]) == 13
    assert list(REQUIREMENTS) == list(range(1, 12))


def test_no_wording_of_ours_says_that_anyone_complies() -> None:
    folder = resources.files("transparency.compliance").joinpath("frameworks")
    for item in folder.iterdir():
        assert "complian" not in item.read_text(encoding="utf-8").lower(), item.name


def test_the_drafts_errors_are_not_copied() -> None:
    """formats.md 10.5: 10.3 is protection and 10.5 retention; 12(3)(a) is the period of use; AU-10, AU-11, 26(6)."""
    by_id = {framework.id: {clause.id: clause for clause in framework.clauses} for framework in load_frameworks()}

    assert "L5" in by_id["pci-dss"]["10.3"].checks
    assert by_id["pci-dss"]["10.5.1"].retention_months == 12
    assert by_id["eu-ai-act"]["12(3)(a)"].profile == "biometric"
    assert by_id["eu-ai-act"]["26(6)"].retention_months == 6
    assert {"AU-10", "AU-11"} <= set(by_id["fedramp"])


def test_a_profile_adds_its_clauses_only_when_it_is_asked_for() -> None:
    everything = load_frameworks()

    plain = select(everything, ["eu-ai-act"])[0]
    biometric = select(everything, ["eu-ai-act/biometric"])[0]

    assert "12(3)(d)" not in [clause.id for clause in plain.clauses]
    assert {"12(3)(a)", "12(3)(b)", "12(3)(c)", "12(3)(d)"} <= {clause.id for clause in biometric.clauses}
    assert biometric.id == "eu-ai-act/biometric"


@pytest.mark.parametrize("name", ["gdpr", "eu-ai-act/space", "eu-ai-act/"])
def test_a_framework_that_there_is_not_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(MalformedError, match="eu-ai-act"):
        select(load_frameworks(), [name])
