"""``transparency token``: limits on a token, given, listed and refused where they cannot be meant."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, serving, shell
from tests.patience import PATIENCE

ISS = "https://acme.example"


@pytest.fixture
def log(good: Run, folder: Path) -> Path:
    good("init", "--data", "log", "--watermark", "mark")
    return folder / "log"


def test_the_limits_of_a_token_are_listed(good: Run, log: Path) -> None:
    words = ("token", "create", "--data", log, "--scope", "submit", "--scope", "witness")
    limits = ("--iss", ISS, "--iss", "https://*.acme.example", "--rate", "60")
    made = json.loads(good(*words, *limits, "--json").stdout)
    (listed,) = json.loads(good("token", "list", "--data", log, "--json").stdout)
    shown = good("token", "list", "--data", log).stdout

    assert made["issuers"] == listed["issuers"] == ["https://*.acme.example", ISS]
    assert made["rate"] == listed["rate"] == 60
    assert listed["scopes"] == ["submit", "witness"]
    assert f"only for https://*.acme.example, for {ISS}, 60 requests a minute" in " ".join(shown.split())


@pytest.mark.parametrize(
    "words",
    [
        ("--scope", "read", "--iss", ISS),
        ("--scope", "submit", "--iss", "not a uri"),
        ("--scope", "submit", "--iss", "https://***"),
        ("--scope", "submit", "--iss", ""),
        ("--scope", "submit", "--rate", "0"),
        ("--scope", "submit", "--rate", "many"),
        ("--scope", "everything"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_a_usage_error(run: Run, log: Path, words: tuple[str, ...]) -> None:
    refused = run("token", "create", "--data", log, *words)

    assert refused.exit_code == 64, refused.output
    assert refused.stdout == ""


def test_a_token_that_is_revoked_is_refused_by_the_running_server_on_the_same_connection(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        made = json.loads(shell("token", "create", "--data", "log", "--scope", "read", "--json", cwd=tmp_path).stdout)
        connection = http.client.HTTPConnection("127.0.0.1", int(served.url.rpartition(":")[2]), timeout=PATIENCE)

        def read() -> tuple[int, bytes]:
            connection.request("GET", "/export/heads", headers={"Authorization": f"Bearer {made['secret']}"})
            answer = connection.getresponse()
            return answer.status, answer.read()

        before = read()
        socket = connection.sock
        revoked = shell("token", "revoke", "--data", "log", made["id"], cwd=tmp_path)
        after = read()

        assert revoked.returncode == 0
        assert before[0] == 200
        assert (after[0], b"The token was revoked at" in after[1]) == (401, True)
        assert connection.sock is socket, "it was the same connection"
        connection.close()
