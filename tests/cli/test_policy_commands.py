"""``policy check``, ``diff``, ``explain`` and ``set``: an operator edits the policy by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served, serving, shell


@pytest.fixture
def log(good: Run, folder: Path) -> Path:
    """A log with one issuer, its policy in policy.toml, and a statement s.cose."""
    good("keygen", "--out", "issuer.pem")
    good("init", "--data", "log", "--origin", "log.example/p")
    good("issuer", "add", "--data", "log", "--iss", ISS, "--key", "issuer.pub.pem")
    Path("policy.toml").write_bytes(good("policy", "show", "--data", "log").stdout_bytes)
    Path("note.txt").write_text("hello\n")
    good("sign", "note.txt", "--key", "issuer.pem", "--iss", ISS, "--sub", "n", "--out", "s.cose")
    return folder / "log"


def edit(old: str, new: str, file: str = "policy.toml") -> None:
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new, 1))


def issuer_rule(member: str) -> None:
    edit(f'iss = "{ISS}"', f'iss = "{ISS}"\n{member}')


def line_of(words: str) -> int:
    return next(n for n, line in enumerate(Path("policy.toml").read_text().split("\n"), 1) if words in line)


def test_check_says_good_or_every_contradiction_with_its_line(good: Run, run: Run, log: Path) -> None:
    assert "issuers: 1" in good("policy", "check", "policy.toml").stdout
    issuer_rule('max-age = 0\nalgorithms = ["RS256"]')
    found = run("policy", "check", "policy.toml")
    as_json = json.loads(run("policy", "check", "policy.toml", "--json").stdout)

    assert found.exit_code == 1
    assert f"policy.toml:{line_of('max-age')}: " in found.stdout
    assert f"policy.toml:{line_of('RS256')}: " in found.stdout
    assert [problem["line"] for problem in as_json["problems"]] == [line_of("RS256"), line_of("max-age")]
    assert as_json["good"] is False


@pytest.mark.parametrize(
    ("member", "words"), [("max-age = ten", "not TOML"), ("max-aeg = 10", "max-aeg"), ("retention = 7", "not a string")]
)
def test_check_of_what_is_no_policy_is_65_with_its_line(run: Run, log: Path, member: str, words: str) -> None:
    issuer_rule(member)

    result = run("policy", "check", "policy.toml")

    assert result.exit_code == 65
    assert f"policy.toml:{line_of(member)}: " in result.stderr
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_diff_says_what_is_narrower_and_what_is_wider(run: Run, good: Run, log: Path) -> None:
    Path("old.toml").write_bytes(Path("policy.toml").read_bytes())
    same = good("policy", "diff", "old.toml", "policy.toml")
    issuer_rule("max-age = 60")
    edit("clock-skew = 300", "clock-skew = 600")
    differs = run("policy", "diff", "old.toml", "policy.toml")
    as_json = json.loads(run("policy", "diff", "old.toml", "policy.toml", "--json").stdout)

    assert "both allow the same" in same.stdout
    assert differs.exit_code == 1
    assert as_json["changes"] == [
        {"kind": "widened", "where": "accept.clock-skew", "what": "300 → 600"},
        {"kind": "narrowed", "where": f"issuer {ISS} max-age", "what": "no limit → 60"},
    ]


def test_explain_names_the_rule_that_refuses(run: Run, good: Run, log: Path) -> None:
    accepted = good("policy", "explain", "s.cose", "--data", log)
    issuer_rule('envelope = "required"')
    refused = run("policy", "explain", "s.cose", "--policy", "policy.toml")
    as_json = json.loads(run("policy", "explain", "s.cose", "--policy", "policy.toml", "--json").stdout)

    assert "accepted" in accepted.stdout
    assert "✓ signature" in accepted.stdout
    assert refused.exit_code == 1
    assert "refused by envelope" in refused.stdout
    assert as_json["refused-by"] == "envelope"
    assert [rule["rule"] for rule in as_json["rules"]] == [
        "issuer", "max-statement-size", "algorithms", "envelope", "key", "clock-skew", "signature",
    ]  # fmt: skip
    assert [rule["passed"] for rule in as_json["rules"]] == [True, True, True, False, True, True, True]


def test_explain_of_a_stranger_and_of_what_is_no_statement(run: Run, good: Run, log: Path) -> None:
    good("sign", "note.txt", "--key", "issuer.pem", "--iss", "https://x.example", "--sub", "n", "--out", "x.cose")

    stranger = run("policy", "explain", "x.cose", "--data", log)

    assert stranger.exit_code == 1
    assert "refused by issuer" in stranger.stdout
    assert run("policy", "explain", "note.txt", "--data", log).exit_code == 65
    assert run("policy", "explain", "nothing", "--data", log).exit_code == 66
    assert run("policy", "explain", "s.cose").exit_code == 64
    both = run("policy", "explain", "s.cose", "--data", log, "--policy", "policy.toml")
    assert (both.exit_code, "--data and --policy exclude each other" in both.stderr) == (64, True)


def test_an_edited_policy_becomes_the_next_generation(run: Run, good: Run, log: Path) -> None:
    issuer_rule("max-age = 60  # a comment is welcome")
    first = json.loads(good("policy", "set", "policy.toml", "--data", log, "--json").stdout)
    shown = good("policy", "show", "--data", log).stdout
    again = run("policy", "set", "policy.toml", "--data", log)
    Path("policy.toml").write_text(shown)
    unchanged = good("policy", "set", "policy.toml", "--data", log)

    assert first["generation"] == 3
    assert "max-age = 60\n" in shown
    assert "generation = 3\n" in shown
    assert again.exit_code == 65
    assert "made from generation 2, in force is 3" in again.stderr
    assert "nothing changed" in unchanged.stderr
    good("log", "fsck", "--data", log)


def test_a_policy_set_by_force_follows_whatever_is_in_force(good: Run, log: Path) -> None:
    good("keygen", "--out", "second.pem")
    good("issuer", "add", "--data", log, "--iss", "https://second.example", "--key", "second.pub.pem")
    good("policy", "set", "policy.toml", "--data", log, "--force")
    listed = json.loads(good("issuer", "list", "--data", log, "--json").stdout)

    assert listed["generation"] == 4
    assert [each["iss"] for each in listed["issuers"]] == [ISS]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('log = "log.example/p"', 'log = "log.example/q"', "for the log"),
        ("clock-skew = 300", "clock-skew = 90000", ":"),
    ],
)
def test_a_policy_that_is_not_this_logs_or_contradicts_itself_is_not_set(
    run: Run, log: Path, old: str, new: str, words: str
) -> None:
    edit(old, new)

    result = run("policy", "set", "policy.toml", "--data", log)

    assert result.exit_code == 65
    assert words in result.stderr


def test_a_server_takes_an_edited_policy_and_tells_the_client_why_it_refuses(tmp_path: Path) -> None:
    """API-8: rule and reason reach the client as problem details; no restart."""
    with serving(tmp_path, "--open") as served:
        _refused_with_its_reason(served, tmp_path)


def _refused_with_its_reason(served: Served, tmp_path: Path) -> None:
    shown = shell("policy", "show", "--data", served.data, cwd=tmp_path)
    text = shown.stdout.decode().replace(f'iss = "{ISS}"', f'iss = "{ISS}"\nrequired-claims = ["exp"]')
    (tmp_path / "policy.toml").write_text(text)
    (tmp_path / "note.txt").write_text("hello\n")
    explained = shell("policy", "set", "policy.toml", "--data", served.data, cwd=tmp_path)
    submitted = shell(
        "submit",
        "note.txt",
        "--key",
        served.key,
        "--iss",
        ISS,
        "--sub",
        "n",
        "--content-type",
        "text/plain",
        "--log",
        served.url,
        cwd=tmp_path,
    )

    assert explained.returncode == 0, explained.stderr
    assert submitted.returncode == 77
    assert b"required-claims: the CWT claims have no exp, which the policy requires of this issuer" in submitted.stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff\xfe\x00", "is not UTF-8 (byte 0)"), (b"a = " + b"[" * 100_000, "nested too deeply")],
)
@pytest.mark.usefixtures("folder")
def test_a_file_that_is_no_text_or_has_no_end_of_depth_is_named(run: Run, content: bytes, reason: str) -> None:
    Path("odd.toml").write_bytes(content)

    checked = run("policy", "check", "odd.toml")

    assert checked.exit_code == 65
    assert "odd.toml: the policy " in checked.stderr
    assert reason in checked.stderr


def test_of_two_keys_with_one_kid_the_second_is_named_by_its_line(run: Run, good: Run, log: Path) -> None:
    text = good("policy", "show", "--data", log).stdout
    first = text[text.index("[[issuer.key]]") :]
    Path("twice.toml").write_text(f"{text}\n{first}")

    checked = run("policy", "check", "twice.toml")

    line = text.count("\n") + 2
    assert checked.exit_code == 1
    assert f"twice.toml:{line}: " in checked.stdout
    assert "two keys with one kid" in checked.stdout
