"""``issuer compromise`` of a key that its issuer names by certificates, and of one that has a kid of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, serving, shell
from tests.cli.test_certificates_served import ACME, ISSUING, LEAF, ROOT, VALID, hold
from transparency.policy.document import Issuer, Policy
from transparency.testing.pki import Holder

SINCE = ("--since", "2026-01-01T00:00:00Z", "--json")
WAYS = (("--x5t",), ("--x5chain", "unprotected", "--x5t"), ("--x5chain", "unprotected"))


def submit(folder: Path, url: str, sub: str, *words: str) -> Any:
    signing = ("--key", "agent.pem", "--iss", ACME, "--content-type", "text/plain", "--sub", sub)
    return shell("submit", "note.txt", "--log", url, *signing, "--out", f"{sub}.cose", *words, cwd=folder)


def put(folder: Path, holder: Holder) -> None:
    hold(folder, holder)
    (folder / "leaf.pem").write_bytes(holder.pem)
    (folder / "note.txt").write_text("hello\n")


def test_every_entry_by_a_certificates_key_is_listed_and_it_signs_nothing_more(tmp_path: Path) -> None:
    """Whatever named the key: a signed chain, an x5t or a thumbprint with the chain beside it."""
    (tmp_path / "ca.pem").write_bytes(ROOT.pem)
    with serving(tmp_path, "--open") as served:
        added = shell("issuer", "add", "--data", "log", "--iss", ACME, "--root", "ca.pem", cwd=tmp_path)
        put(tmp_path, ISSUING.leaf("another", **VALID))
        submitted = [submit(tmp_path, served.url, "other", "--cert", "chain.pem")]
        put(tmp_path, LEAF)
        submitted += [
            submit(tmp_path, served.url, f"s{number}", "--cert", "chain.pem", *words)
            for number, words in enumerate(WAYS)
        ]
        said = ("issuer", "compromise", "--data", "log", "--iss", ACME)
        listed = shell(*said, "--cert", "leaf.pem", *SINCE, cwd=tmp_path)
        again = shell(*said, "--kid", LEAF.signer.public.thumbprint.hex(), *SINCE, cwd=tmp_path)
        refused = [
            submit(tmp_path, served.url, f"late{number}", "--cert", "chain.pem", *words)
            for number, words in enumerate(WAYS)
        ]

    assert [each.returncode for each in (added, *submitted)] == [0] * 5
    report = json.loads(listed.stdout)
    assert [each["sub"] for each in report["affected"]] == ["s0", "s1", "s2"]
    assert report["count"] == 3
    assert json.loads(again.stdout) == report
    assert [each.returncode for each in refused] == [77] * 3
    assert all(b"key: the key is compromised since" in each.stderr for each in refused)


def test_the_key_is_named_in_one_way_and_belongs_to_an_issuer(good: Run, run: Run, folder: Path) -> None:
    good("init", "--data", "log", "--origin", "log.example/i")
    (folder / "ca.pem").write_bytes(ROOT.pem)
    (folder / "leaf.pem").write_bytes(LEAF.pem)
    good("keygen", "--out", "issuer.pem")
    said = ("issuer", "compromise", "--data", "log", "--iss", ACME, *SINCE)

    assert run(*said).exit_code == 64
    assert run(*said, "--kid", "abcd", "--cert", "leaf.pem").exit_code == 64
    stranger = run(*said, "--cert", "leaf.pem")
    good("issuer", "add", "--data", "log", "--iss", ACME, "--root", "ca.pem")
    authority = run(*said, "--cert", "ca.pem")
    good(*said, "--key", "issuer.pub.pem")

    assert (stranger.exit_code, authority.exit_code) == (65, 65)
    assert "is no issuer here" in stranger.stderr
    assert "ca.pem: " in authority.stderr
    assert "CA certificate" in authority.stderr


@pytest.mark.parametrize("named", [0, 1])
def test_a_key_that_stands_there_under_two_kids_is_compromised_under_both(named: int) -> None:
    key = LEAF.signer.public
    keys = (key.with_kid(b"one"), key.with_kid(b"two"))
    policy = Policy("log.example", 1, "", ROOT.signer.public, issuers=(Issuer(ACME, keys),))

    (issuer,) = policy.with_compromise(ACME, keys[named], 7, previous="x").issuers

    assert [issuer.validity_of(each.kid).compromised_since for each in keys] == [7, 7]
