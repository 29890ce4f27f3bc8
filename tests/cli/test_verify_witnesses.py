"""``verify`` with witnesses, a state and evidence: what the options do and which exit codes they give."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run, environment
from tests.notes.world import log_signer
from tests.verifier.test_seen import forked, with_receipt
from tests.verifier.witnessing import checkpoint, policy, proof
from tests.verifier.world import ISS, ISSUER, LOG_ISS, LOG_KEY, ORIGIN, OTHER_LOG_KEY, Log, registered
from transparency.verifier.evidence import Evidence

TRUST = ("--trust", "trust.toml")
VKEY = log_signer().vkey.text


@pytest.fixture
def log(folder: Path) -> Log:
    """x.t.cose in a folder with trust and a policy, and the log it is from; DATA is its entry 5."""
    log, index = registered()
    (folder / "log.pem").write_bytes(LOG_KEY.public.to_pem())
    (folder / "issuer.pem").write_bytes(ISSUER.public.to_pem())
    (folder / "trust.toml").write_text(
        f'[[log]]\niss = "{LOG_ISS}"\norigin = "{ORIGIN}"\nkeys = ["log.pem"]\n'
        f'[[issuer]]\niss = "{ISS}"\nkeys = ["issuer.pem"]\n'
    )
    (folder / "witnesses.policy").write_bytes(policy().text)
    (folder / "x.t.cose").write_bytes(with_receipt(log, index))
    return log


ASKED = ("verify", "x.t.cose", *TRUST, "--witness-policy", "witnesses.policy")


def test_a_quorum_is_asked_for_and_the_proof_is_found_beside_the_file(run: Run, folder: Path, log: Log) -> None:
    without = run(*ASKED)
    assert (without.exit_code, "--proof" in without.stdout) == (2, True)

    (folder / "x.tlog-proof").write_bytes(proof(log, 5))

    result = run(*ASKED)
    assert result.exit_code == 0
    assert "enough witnesses have cosigned" in result.stdout


def test_the_proof_that_is_given_counts(run: Run, folder: Path, log: Log) -> None:
    (folder / "x.tlog-proof").write_bytes(proof(log, 5))
    (folder / "alone.tlog-proof").write_bytes(proof(log, 5, checkpoint(log, cosigned_by=())))

    result = run(*ASKED, "--proof", "alone.tlog-proof")

    assert (result.exit_code, "quorum is missing" in result.stdout) == (1, True)


def test_a_proof_is_never_taken_for_the_record(run: Run, folder: Path, log: Log) -> None:
    (folder / "x.tlog-proof").write_bytes(proof(log, 5))

    assert json.loads(run(*ASKED, "--json").stdout)["payload"] is None


@pytest.mark.parametrize(
    ("text", "why"),
    [("quorum none\n", "names no log"), ("quorum nobody\n", "line 1"), (f"log {VKEY}\n", "no quorum line")],
)
def test_a_policy_that_is_of_no_use_is_refused(run: Run, folder: Path, log: Log, text: str, why: str) -> None:
    (folder / "witnesses.policy").write_text(text)

    result = run(*ASKED)

    assert (result.exit_code, why in result.stderr) == (65, True)


def test_a_fork_is_noticed_by_whoever_remembers(run: Run, folder: Path, log: Log) -> None:
    seen = ("verify", "x.t.cose", *TRUST, "--state", "seen.json")
    assert run(*seen).exit_code == 0
    before = (folder / "seen.json").read_bytes()
    assert run(*seen).exit_code == 0

    (folder / "x.t.cose").write_bytes(with_receipt(forked(log, 5), 5))

    result = run(*seen)
    assert (result.exit_code, "fork" in result.stdout) == (1, True)
    assert (folder / "seen.json").read_bytes() == before


def test_a_log_that_grew_is_followed_with_a_consistency_receipt(run: Run, folder: Path, log: Log) -> None:
    seen = ("verify", "x.t.cose", *TRUST, "--state", "seen.json")
    run(*seen)
    log.add(b"\x01" * 32)
    (folder / "x.t.cose").write_bytes(with_receipt(log, 5))
    (folder / "c.cose").write_bytes(log.consistency(7, 8))

    without = run(*seen)
    assert (without.exit_code, "GET /consistency?from=7&to=8" in without.stdout) == (2, True)
    assert run(*seen, "--consistency", "c.cose").exit_code == 0
    assert run(*seen).exit_code == 0


def test_a_state_that_is_damaged_is_left_as_it_is(run: Run, folder: Path, log: Log) -> None:
    (folder / "seen.json").write_bytes(b"{}")

    result = run("verify", "x.t.cose", *TRUST, "--state", "seen.json")

    assert (result.exit_code, (folder / "seen.json").read_bytes()) == (65, b"{}")


def test_evidence_that_convicts_is_0_and_other_is_1(run: Run, folder: Path, log: Log) -> None:
    pair = (checkpoint(log).to_bytes(), checkpoint(forked(log, 5)).to_bytes())
    (folder / "a.evidence").write_bytes(Evidence("split-view", pair).to_bytes())
    (folder / "b.evidence").write_bytes(Evidence("frozen", pair[:1]).to_bytes())

    guilty = run("verify", "a.evidence", "--log-vkey", VKEY)
    innocent = run("verify", "b.evidence", "--log-vkey", VKEY)

    assert (guilty.exit_code, "Convicted of a fork" in guilty.stdout) == (0, True)
    assert (innocent.exit_code, "Convicts nobody" in innocent.stdout) == (1, True)
    assert run("verify", "a.evidence", "b.evidence", "--log-vkey", VKEY).exit_code == 1
    assert json.loads(run("verify", "a.evidence", "--log-vkey", VKEY, "--json").stdout)["convicts"] is True
    assert run("verify", "a.evidence", "--witness-policy", "witnesses.policy").exit_code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("a.evidence",), 64),
        (("a.evidence", "--log-vkey", "junk"), 64),
        (("a.evidence", "x.t.cose", "--log-vkey", VKEY), 64),
        (("x.t.cose", "--log-vkey", VKEY), 64),
        (("x.t.cose", "x.t.cose", "--proof", "p"), 64),
        (("missing.evidence", "--log-vkey", VKEY), 66),
        (("junk.evidence", "--log-vkey", VKEY), 65),
    ],
)
def test_slips_are_said_in_one_line(run: Run, folder: Path, log: Log, words: tuple[str, ...], code: int) -> None:
    pair = (checkpoint(log).to_bytes(), checkpoint(forked(log, 5)).to_bytes())
    (folder / "a.evidence").write_bytes(Evidence("split-view", pair).to_bytes())
    (folder / "junk.evidence").write_bytes(b"junk")

    result = run("verify", *words)

    assert (result.exit_code, len(result.stderr.splitlines())) == (code, 1)


def test_a_receipt_under_a_compromised_key_counts_with_witnesses_or_a_good_head_and_with_nothing_less(
    run: Run, folder: Path, log: Log
) -> None:
    """Design §8: a witnessed checkpoint, or a consistency path to a head of a good key."""
    (folder / "good.pem").write_bytes(OTHER_LOG_KEY.public.to_pem())
    text = (folder / "trust.toml").read_text()
    stolen = '{ file = "log.pem", compromised-since = 2020-01-01T00:00:00Z }, "good.pem"'
    (folder / "trust.toml").write_text(text.replace('"log.pem"', stolen))
    (folder / "alone.tlog-proof").write_bytes(proof(log, 5, checkpoint(log, cosigned_by=())))
    (folder / "cosigned.tlog-proof").write_bytes(proof(log, 5))
    size = len(log.entries)
    log.add(b"\x01" * 32)
    renewed = Log(OTHER_LOG_KEY, entries=log.entries)
    (folder / "same-key.cose").write_bytes(log.consistency(size, size + 1))
    (folder / "good-key.cose").write_bytes(renewed.consistency(size, size + 1))
    verify = ("verify", "x.t.cose", *TRUST)

    assert run(*verify).exit_code == 1
    assert run(*verify, "--consistency", "same-key.cose").exit_code == 1
    assert run(*ASKED, "--proof", "alone.tlog-proof").exit_code == 1
    assert run(*verify, "--consistency", "good-key.cose").exit_code == 0
    assert run(*ASKED, "--proof", "cosigned.tlog-proof").exit_code == 0


def test_evidence_is_known_by_what_is_in_it_under_any_name_in_a_folder_and_at_standard_input(
    run: Run, folder: Path, log: Log
) -> None:
    pair = (checkpoint(log).to_bytes(), checkpoint(forked(log, 5)).to_bytes())
    data = Evidence("split-view", pair).to_bytes()
    (folder / "renamed.json").write_bytes(data)
    (folder / "found").mkdir()
    (folder / "found" / "0001.fork.evidence").write_bytes(data)
    (folder / "found" / "0001.fork.request").write_bytes(b"x")

    for name in ("renamed.json", "found"):
        assert run("verify", name, "--log-vkey", VKEY).exit_code == 0
    with (folder / "renamed.json").open("rb") as stdin:
        piped = subprocess.run(
            [sys.executable, "-m", "transparency", "verify", "-", "--log-vkey", VKEY],
            stdin=stdin, capture_output=True, cwd=folder, env=environment(folder), check=False,
        )  # fmt: skip
    assert (piped.returncode, b"Convicted of a fork" in piped.stdout) == (0, True)
    shown = json.loads(run("inspect", "renamed.json", "--json").stdout)
    assert (shown["kind"], [each["log"] for each in shown["checkpoint"]]) == ("evidence against a log", [ORIGIN] * 2)
    (folder / "note").write_bytes(pair[0])
    assert json.loads(run("inspect", "note", "--json").stdout)["kind"] == "checkpoint"
    (folder / "proof").write_bytes(proof(log, 5))
    assert json.loads(run("inspect", "proof", "--json").stdout)["leaf-index"] == 5
