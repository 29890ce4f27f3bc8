"""The life of a certificate from the command line: registered root, submitted session, offline verification."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Served, serving, shell
from tests.cli.submitting import CLAUDE
from transparency.testing.pki import Authority, Holder

ACME = "https://certified.example"
NOW = int(time.time())
VALID: dict[str, Any] = {"begins": NOW - 86_400, "ends": NOW + 86_400}
ROOT = Authority.create("Acme Root", **VALID)
ISSUING = ROOT.authority("Acme Issuing", **VALID)
LEAF = ISSUING.leaf("agent", **VALID)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A log that registers a CA for an issuer, and none of its keys."""
    folder = tmp_path_factory.mktemp("certified")
    (folder / "ca.pem").write_bytes(ROOT.pem)
    with serving(folder, "--open") as served:
        added = shell(
            "issuer", "add", "--data", "log", "--iss", ACME, "--root", "ca.pem", "--subject", "CN=agent", cwd=folder
        )
        assert added.returncode == 0, added.stderr
        yield served


@pytest.fixture
def desk(folder: Path, good: Run, log: Served) -> Path:
    (folder / "session.jsonl").write_bytes(CLAUDE.read_bytes())
    (folder / "ca.pem").write_bytes(ROOT.pem)
    hold(folder, LEAF)
    good("keys", "--log", log.url, "--out", "log.keys")
    return folder


def hold(folder: Path, holder: Holder) -> None:
    (folder / "agent.pem").write_bytes(holder.key_pem)
    (folder / "agent.pem").chmod(0o600)
    (folder / "chain.pem").write_bytes(holder.chain_pem)


def submit(log: Served, *words: str) -> tuple[str, ...]:
    signing = ("--key", "agent.pem", "--cert", "chain.pem", "--iss", ACME)
    return ("submit", "session.jsonl", "--log", log.url, *signing, *words)


@pytest.mark.parametrize(
    "words",
    [(), ("--x5t",), ("--x5chain", "unprotected", "--x5t"), ("--x5chain", "unprotected")],
    ids=["x5chain", "x5chain+x5t", "x5t", "kid"],
)
def test_a_session_signed_with_a_certificate_is_registered_and_verifies(
    good: Run, run: Run, desk: Path, log: Served, words: tuple[str, ...]
) -> None:
    """SS-6, SS-7: each way to carry a chain, from signing to the report."""
    good(*submit(log, *words))

    report = json.loads(
        good("verify", "session.jsonl.cose", "--log-key", "log.keys", "--issuer-root", "ca.pem", "--json").stdout
    )
    (check,) = [item for item in report["checks"] if item["id"] == "issuer-certificate"]
    assert check["outcome"] == "passed"
    assert check["detail"].endswith("when the log had it (the receipt's time)")
    (desk / "trust.toml").write_text(f'[[issuer]]\niss = "{ACME}"\nroots = ["ca.pem"]\n', encoding="utf-8")
    good("verify", "session.jsonl.cose", "--log-key", "log.keys", "--trust", "trust.toml")
    (desk / "ca.pem").write_bytes(Authority.create("Acme Root", **VALID).pem)
    wrong = run("verify", "session.jsonl.cose", "--log-key", "log.keys", "--trust", "trust.toml")
    assert wrong.exit_code == 1
    assert "wrong root" in wrong.stdout


def test_what_is_submitted_again_is_registered_once(good: Run, desk: Path, log: Served) -> None:
    first = json.loads(good(*submit(log), "--json").stdout)
    before = (desk / "session.jsonl.cose").read_bytes()

    again = json.loads(good(*submit(log), "--json").stdout)

    assert again["entry-id"] == first["entry-id"]
    assert (desk / "session.jsonl.cose").read_bytes() == before


def test_the_log_says_why_it_refuses_a_certificate(run: Run, desk: Path, log: Served) -> None:
    """SS-7: the reason reaches the person who signs."""
    old: dict[str, Any] = {"begins": NOW - 7200, "ends": NOW - 3600}
    other = Authority.create("Acme Root", **VALID)
    cases = [
        (ISSUING.leaf("agent", **old), "has expired"),
        (other.leaf("agent", **VALID), "wrong root"),
        (ISSUING.leaf("somebody", **VALID), "subject CN must be 'agent'"),
        (Holder(LEAF.certificate, LEAF.key), "incomplete chain"),
    ]
    for holder, reason in cases:
        hold(desk, holder)

        refused = run(*submit(log))

        assert refused.exit_code != 0
        assert reason in refused.stderr
        assert not (desk / "session.jsonl.cose").exists()


@pytest.mark.usefixtures("desk")
def test_a_root_that_is_none_is_refused(run: Run, good: Run, log: Served) -> None:
    good(*submit(log))

    refused = run("verify", "session.jsonl.cose", "--log-key", "log.keys", "--issuer-root", "chain.pem")

    assert refused.exit_code == 65
    assert "is not a CA certificate" in refused.stderr
