"""``transparency incident`` and ``verify DIR``: evidence of an incident, from a real log, checked offline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.bundles import HOSTILE, copied, files_of, log_with_incident, trust
from tests.cli.conftest import ISS, Run, Served, shell
from transparency.cli import incident_sources
from transparency.cose.algorithms import algorithm
from transparency.cose.private_key import PrivateKey
from transparency.notes.vkey import COSIGNATURE, VerifierKey


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with log_with_incident(tmp_path_factory.mktemp("incident")) as log:
        yield log


@pytest.fixture(scope="module")
def bundle(incident: Served) -> Path:
    """Everything that happened on that day, with every kind of file that a bundle has."""
    folder = incident.data.parent
    ended = shell(
        "incident", "--log", incident.url, "--scan", "--from", "2026-03-05T00:00:00Z", "--out", "day", cwd=folder
    )
    assert ended.returncode == 0, ended.stderr
    return folder / "day"


def timeline(bundle: Path) -> dict[str, Any]:
    value = json.loads((bundle / "timeline.json").read_bytes())
    assert isinstance(value, dict)
    return value


def sessions(good: Run, log: Served, folder: Path, *words: str | Path) -> dict[str, int]:
    """What is found: how many events of each session."""
    good("incident", "--log", log.url, "--out", folder / "found", *words)
    counts: dict[str, int] = {}
    for event in timeline(folder / "found")["events"]:
        counts[event["session"]] = counts.get(event["session"], 0) + 1
    return counts


def test_a_bundle_verifies_offline_with_the_keys_that_the_user_trusts(run: Run, incident: Served, bundle: Path) -> None:
    ended = run("verify", bundle, *trust(incident), "--json")
    said = json.loads(ended.stdout)

    assert (ended.exit_code, said["verdict"]) == (0, "verified"), said["bundle"]
    kinds = {Path(name).suffix or name for name in files_of(bundle)}
    assert kinds == {".txt", ".html", ".json", ".cose", ".payload", ".tlog-proof", ".toml", ".cbor", "log/checkpoint"}
    assert said["without-record"] == 1
    assert [look["outcome"] for look in said["bundle"] if look["file"] == "timeline.json"] == ["passed"]


def test_the_keys_in_a_bundle_are_only_claimed(run: Run, bundle: Path) -> None:
    ended = run("verify", bundle)

    assert ended.exit_code == 2
    assert "verify with the keys in the bundle, which are only claimed" in ended.output
    assert "no log is trusted" in ended.stderr


def test_another_logs_keys_do_not_verify_it(run: Run, good: Run, bundle: Path, folder: Path) -> None:
    good("keygen", "--out", folder / "other.pem")

    assert run(
        "verify", bundle, "--log-key", folder / "other.pub.pem", "--issuer-key", folder / "other.pub.pem"
    ).exit_code in (1, 2)


def test_one_timeline_runs_across_records_in_the_order_of_its_times(bundle: Path) -> None:
    made = timeline(bundle)
    times = [event["time"] for event in made["events"]]

    assert times == sorted(times)
    assert {entry["record"] for entry in made["entries"]} == {"read", "not here"}
    failed = next(event for event in made["events"] if event["session"] == "hostile" and event["type"] == "tool-result")
    assert (failed["tool"], failed["result"], failed["actor"]) == ("Bash", "error", "tool")
    assert failed["pointer"].startswith("/session/entries/")
    assert {event["session"] for event in made["events"]} > {"hostile", "large"}
    assert {entry["format"] for entry in made["entries"]} > {"claude-jsonl", "codex-jsonl"}
    assert min(times) == "2026-03-05T08:00:00.000Z"


def test_what_was_not_available_is_named_with_its_reason(bundle: Path) -> None:
    said = json.loads((bundle / "incident.json").read_bytes())["not-available"]

    assert [each["what"].split()[:4] for each in said] == [["the", "record", "of", "entry"]]
    assert said[0]["why"] in (bundle / "README.txt").read_text()


def test_conditions_of_one_kind_are_alternatives_and_kinds_hold_together(
    good: Run, incident: Served, folder: Path
) -> None:
    for number, (words, found) in enumerate(
        [
            (("--tool", "Bash", "--text", "RM -RF"), {"hostile": 2, "large": 2}),
            (("--session", "hostile", "--session", "nobody"), {"hostile": 2}),
            (("--tool", "Bash", "--session", "large"), {"large": 2}),
            (("--text", "rm -rf", "--to", "2026-03-05T08:00:01Z", "--issuer", ISS), {"hostile": 1, "large": 1}),
        ]
    ):
        place = folder / str(number)
        place.mkdir()
        assert sessions(good, incident, place, *words) == found


def test_a_file_is_found_by_its_name_or_its_folder_in_any_format(good: Run, incident: Served, folder: Path) -> None:
    made = {}
    for number, words in enumerate([("--scan", "--tool", "Edit"), ("--tool", "Edit")]):
        (folder / str(number)).mkdir()
        made[number] = sessions(good, incident, folder / str(number), *words)
    path = next(event["paths"][0] for event in timeline(folder / "0" / "found")["events"] if event["paths"])
    (folder / "path").mkdir()

    assert made[0] == made[1]  # what the index names is what a scan finds
    assert sessions(good, incident, folder / "path", "--path", path)


def test_the_folder_gives_the_same_timeline_as_the_running_log(
    good: Run, run: Run, incident: Served, bundle: Path, folder: Path
) -> None:
    good("incident", "--data", incident.data, "--from", "2026-03-05T00:00:00Z", "--out", "beside")

    assert timeline(folder / "beside")["events"] == timeline(bundle)["events"]
    assert files_of(folder / "beside") == files_of(bundle)
    assert run("verify", folder / "beside", *trust(incident)).exit_code == 0


@pytest.mark.parametrize("way", ["--log", "--data"])
@pytest.mark.parametrize("wrong", ["changed", "too large"])
def test_a_record_that_cannot_be_taken_is_named_and_the_others_are_here(
    good: Run, incident: Served, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str, wrong: str
) -> None:
    beside = next(path for path in (incident.data / "artifacts").glob("[0-9a-f][0-9a-f]/*") if path.stat().st_size)
    before = beside.read_bytes()
    if wrong == "too large":
        monkeypatch.setattr(incident_sources, "MAX_RECORD", len(before) - 1)
    beside.chmod(0o600)
    try:
        beside.write_bytes(before if wrong == "too large" else before[:-1] + b"?")
        where = incident.url if way == "--log" else incident.data
        good("incident", way, where, "--scan", "--from", "2026-03-05T00:00:00Z", "--out", "found")
    finally:
        beside.write_bytes(before)
    told = json.loads((folder / "found" / "incident.json").read_bytes())["not-available"]
    said = [each["why"] for each in told if "the record of" in each["what"]]

    assert any(
        "more than" in why if wrong == "too large" else "another record" in why or "digest" in why for why in said
    )
    assert timeline(folder / "found")["events"]


def test_hostile_text_is_inert_in_every_file_for_people(bundle: Path) -> None:
    for name in ("README.txt", "index.html", "timeline.html"):
        text = (bundle / name).read_bytes().decode()
        assert "<script" not in text
        assert not set("\x1b\u202e") & set(text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in (bundle / "timeline.html").read_text()
    assert "default-src &#x27;none&#x27;" in (bundle / "timeline.html").read_text()
    assert HOSTILE in next(event["text"] for event in timeline(bundle)["events"] if event["result"] == "error")


def test_a_record_that_nobody_read_is_named_whatever_was_asked_for(good: Run, incident: Served, folder: Path) -> None:
    for number, words in enumerate([("--tool", "Edit"), ("--session", "hostile"), ("--text", "rm -rf"), ("--scan",)]):
        out = folder / str(number)
        ended = good("incident", "--log", incident.url, *words, "--out", out)
        [unread] = [entry for entry in timeline(out)["entries"] if entry["record"] == "not here"]
        name = f"the record of entry 9 {unread['entry']}"

        assert unread["subject"] == "private"
        assert [each["what"] for each in json.loads((out / "incident.json").read_bytes())["not-available"]] == [name]
        assert name in (out / "README.txt").read_text()
        assert f"not available: {name}" in " ".join(ended.stderr.split())


@pytest.mark.parametrize("way", ["index", "scan", "data"])
def test_nothing_found_says_what_was_looked_at_and_what_not_and_nothing_is_written(
    run: Run, incident: Served, folder: Path, way: str
) -> None:
    where = ("--data", incident.data) if way == "data" else ("--log", incident.url)
    words = ("incident", *where, "--tool", "NoSuchTool", *(["--scan"] if way == "scan" else []), "--out", folder / "no")
    ended, said = run(*words), json.loads(run(*words, "--json").stdout)

    assert ended.exit_code == 2
    text = " ".join(ended.stderr.split())
    assert f"nothing found; {said['looked-at']} of 10 entries were looked at" in text
    assert "1 could not be looked at, and may be about it; nothing was written" in text
    assert "not available: the record of entry 9 " in text
    # The log's own four statements and five records; by the index only what it cannot tell: its own statements.
    assert said["looked-at"] == {"index": 4, "scan": 9, "data": 5}[way]
    assert [each["what"].split()[4] for each in said["missing"]] == ["9"]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--from", "2030-01-01T00:00:00Z"), 2),
        (("--to", "2001-01-01T00:00:00Z"), 2),
        (("--session", "private"), 2),
        (("--from", "2026-03-06T00:00:00Z", "--to", "2026-03-05T00:00:00Z"), 64),
        (("--from", "2026-03-05T00:00:00Z", "--to", "2026-03-05T00:00:00Z"), 64),
    ],
)
def test_without_an_event_there_is_no_bundle(
    run: Run, incident: Served, folder: Path, words: tuple[str, ...], code: int
) -> None:
    assert run("incident", "--log", incident.url, *words, "--out", folder / "none").exit_code == code
    assert list(folder.iterdir()) == []


def test_the_clocks_of_an_incident_are_in_the_summary(good: Run, run: Run, incident: Served, folder: Path) -> None:
    good("incident", "--log", incident.url, "--session", "hostile", "--aware", "2026-03-05T10:00:00Z", "--out", "aware")
    text = (folder / "aware" / "README.txt").read_text()

    assert "2026-03-06T10:00:00Z" in text
    assert "2026-03-08T10:00:00Z" in text
    assert run("verify", folder / "aware", *trust(incident)).exit_code == 0


def test_a_folder_that_is_not_empty_is_left_as_it_is(run: Run, incident: Served, bundle: Path) -> None:
    before = files_of(bundle)

    assert run("incident", "--log", incident.url, "--out", bundle).exit_code == 73
    assert files_of(bundle) == before


def test_a_bundle_is_verified_by_itself(run: Run, bundle: Path, tmp_path: Path) -> None:
    again = copied(bundle, tmp_path / "again")

    assert run("verify", bundle, again).exit_code == 64
    assert run("verify", bundle, "--payload", again / "README.txt").exit_code == 64


def test_with_a_witness_policy_the_checkpoint_and_every_proof_are_checked_too(
    run: Run, incident: Served, bundle: Path, folder: Path
) -> None:
    vkeys = [f"log {line}" for line in (bundle / "log" / "vkeys.txt").read_text().splitlines()]
    key = PrivateKey.generate(algorithm("Ed25519").id).public
    witness = VerifierKey.of("witness.example/w", COSIGNATURE, key).text
    (folder / "none.policy").write_text("\n".join([*vkeys, "quorum none", ""]))
    (folder / "one.policy").write_text("\n".join([*vkeys, f"witness w {witness}", "quorum w", ""]))

    nobody = run("verify", bundle, *trust(incident), "--witness-policy", folder / "none.policy")
    somebody = run("verify", bundle, *trust(incident), "--witness-policy", folder / "one.policy")

    assert (nobody.exit_code, somebody.exit_code) == (0, 1)
    assert "log/checkpoint: no quorum of witnesses cosigned it; missing: w" in somebody.stdout
